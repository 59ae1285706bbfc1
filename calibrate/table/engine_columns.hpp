#pragma once
#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/table/measurement.hpp"

namespace tracecast {

/// Columns of times in tables of inference engines (data/modern), by GemmEngine.
inline constexpr std::array<std::string_view, kGemmEngineCount> kEngineColumns = {
    "trtllm_us", "sglang_us", "vllm_us"};
[[nodiscard]] constexpr std::string_view time_column_of(GemmEngine engine) {
  return kEngineColumns[static_cast<std::size_t>(engine)];
}

/// A kind of table that a Reader reads, made of a MeasurementContext.
template <class Reader>
[[nodiscard]] MeasurementTable table_read_by(std::string_view name,
                                             std::vector<std::string_view> required) {
  return {
      .name = name, .required = std::move(required), .make = [](const MeasurementContext& context) {
        return std::unique_ptr<MeasurementReader>(std::make_unique<Reader>(context));
      }};
}

}  // namespace tracecast
