#include "hwspecs/gpu_sharing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/gpu_sharing.pb.h"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

/// Reads the values of one rule, each with its source.
GpuSharing read_rule(const proto::GpuSharing& message, const proto::GpuSharing::Rule& rule,
                     std::string_view where) {
  GpuSharing sharing;
  sharing.before_date = rule.before_date();
  for (const auto& s : message.source()) sharing.sources.push_back({s.key(), s.title(), s.where()});
  const auto read = [&](const char* field, bool present, const proto::GpuSharing::Number& n,
                        double low, double high) {
    if (!present) throw InputError(where, fmt::format("no {}", field), "every value of a rule");
    if (!(n.value() >= low && n.value() <= high)) {
      throw InputError(where, fmt::format("{} = {}", field, n.value()),
                       fmt::format("a value from {} to {}", low, high));
    }
    const bool known = std::any_of(sharing.sources.begin(), sharing.sources.end(),
                                   [&](const SpecSource& s) { return s.key == n.source(); });
    if (!known) {
      throw InputError(where, fmt::format("{}: source \"{}\"", field, n.source()),
                       "the key of a source in the same file");
    }
    sharing.values.push_back({field, fmt::format("{}", n.value()), n.source()});
    return Seconds(n.value() * 1e-6);
  };
  sharing.time_slice =
      read("time_slice_us", rule.has_time_slice_us(), rule.time_slice_us(), 1, 1e6);
  sharing.context_switch =
      read("context_switch_us", rule.has_context_switch_us(), rule.context_switch_us(), 0, 1e5);
  sharing.idle_hold = read("idle_hold_us", rule.has_idle_hold_us(), rule.idle_hold_us(), 0, 1e6);
  return sharing;
}

}  // namespace

std::vector<GpuSharing> parse_gpu_sharing(std::string_view text, std::string_view where) {
  proto::GpuSharing message;
  parse_textproto(text, where, message);
  std::vector<GpuSharing> rules;
  for (const auto& rule : message.rule()) {
    if (!rules.empty() &&
        (rules.back().before_date.empty() ||
         (!rule.before_date().empty() && rule.before_date() <= rules.back().before_date))) {
      throw InputError(where, "rule before " + rule.before_date(), "ascending dates");
    }
    rules.push_back(read_rule(message, rule, where));
  }
  if (rules.empty() || !rules.back().before_date.empty()) {
    throw InputError(where, "no rule of today", "a last rule without before_date");
  }
  return rules;
}

}  // namespace tracecast
