#include "hwspecs/software/program_hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/program_hosts.pb.h"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

/// Times that distributions are kept at: 0, then equal steps of the logarithm.
constexpr int kTimes = 72;
constexpr double kLeastMs = 0.05, kMostMs = 5000;
/// Nothing is added: less than this is no time that a run shows.
constexpr double kNothingMs = 0.1;

double time_at(int i) {
  return kLeastMs * std::pow(kMostMs / kLeastMs, static_cast<double>(i) / (kTimes - 1));
}

/// Adds `weight` around `ms`, log-normal.
void add_kernel(double ms, double log_sd, double weight, std::vector<double>& at) {
  if (ms < kNothingMs) {
    at.front() += weight;
    return;
  }
  std::vector<double> share(kTimes);
  double sum = 0;
  for (int i = 0; i < kTimes; ++i) {
    const double z = std::log(time_at(i) / ms) / log_sd;
    sum += share[static_cast<std::size_t>(i)] = std::exp(-0.5 * z * z);
  }
  for (int i = 0; i < kTimes; ++i) {
    at[static_cast<std::size_t>(i) + 1] += weight * share[static_cast<std::size_t>(i)] / sum;
  }
}

}  // namespace

Seconds AddedHost::quantile(double probability) const {
  double below = 0;
  for (const LikelyTime& one : times) {
    below += one.weight;
    if (below >= probability) return one.time;
  }
  return times.empty() ? Seconds() : times.back().time;
}

bool ProgramHosts::knows(std::string_view name) const {
  return std::any_of(programs.begin(), programs.end(), [&](const Program& program) {
    return to_lower(program.name) == to_lower(name);
  });
}

AddedHost ProgramHosts::added_by(std::string_view name, bool infers,
                                 std::string_view without) const {
  const bool is_known = knows(name);
  std::vector<const Program*> like;
  for (const Program& program : programs) {
    const bool is_it = to_lower(program.name) == to_lower(name);
    const bool is_out = to_lower(program.name) == to_lower(without);
    if (is_known ? is_it : program.infers == infers && !is_out) like.push_back(&program);
  }
  AddedHost added;
  if (like.empty()) return added;
  std::vector<double> weights(kTimes + 1);
  for (const Program* program : like) {
    add_kernel(program->added.in_ms(), is_known ? known_log_sd : bandwidth,
               1.0 / static_cast<double>(like.size()), weights);
  }
  for (int i = 0; i <= kTimes; ++i) {
    const double weight = weights[static_cast<std::size_t>(i)];
    if (weight <= 0) continue;
    added.times.push_back({i == 0 ? Seconds() : Seconds(time_at(i - 1) * 1e-3), weight});
  }
  return added;
}

ProgramHosts parse_program_hosts(std::string_view text, std::string_view where) {
  proto::ProgramHosts message;
  parse_textproto(text, where, message);
  ProgramHosts hosts;
  hosts.data = message.data();
  if (hosts.data.empty()) throw InputError(where, "no data", "what the times were learned from");
  const auto within = [&](const char* field, double value, double low, double high) {
    if (value >= low && value <= high) return value;
    throw InputError(where, fmt::format("{} = {}", field, value),
                     fmt::format("a value from {} to {}", low, high));
  };
  hosts.bandwidth = within("bandwidth", message.bandwidth(), 0.01, 3);
  hosts.known_log_sd = within("known_log_sd", message.known_log_sd(), 0.01, 3);
  for (const auto& program : message.program()) {
    if (program.name().empty()) throw InputError(where, "a program without a name", "its name");
    hosts.programs.push_back(
        {.name = program.name(),
         .added = Seconds(within("added_ms", program.added_ms(), 0, 1e5) * 1e-3),
         .infers = program.infers()});
  }
  if (hosts.programs.empty()) throw InputError(where, "no program", "programs that are known");
  return hosts;
}

}  // namespace tracecast
