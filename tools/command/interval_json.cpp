#include "tools/command/interval_json.hpp"

#include <nlohmann/json.hpp>

namespace tracecast {

nlohmann::ordered_json interval_json(const Interval& interval) {
  return {{"value", interval.value}, {"low", interval.low}, {"high", interval.high}};
}

nlohmann::ordered_json range_json(const Range& range) {
  return {{"min", range.min}, {"avg", range.avg}, {"max", range.max}};
}

}  // namespace tracecast
