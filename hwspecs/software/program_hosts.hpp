#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"

namespace tracecast {

/// Host time of one step with its probability.
struct LikelyTime {
  Seconds time{};
  double weight = 0;  ///< all of a distribution sum to 1
  friend bool operator==(const LikelyTime&, const LikelyTime&) = default;
};

/// What a training program does on the host in each step beside its framework's work, while the GPU
/// waits: reading data, hooks, logging, results read back. A distribution of the time; empty:
/// nothing.
struct AddedHost {
  std::vector<LikelyTime> times;  ///< ascending
  friend bool operator==(const AddedHost&, const AddedHost&) = default;

  [[nodiscard]] bool any() const { return !times.empty(); }
  /// The least time that is not exceeded with this probability.
  [[nodiscard]] Seconds quantile(double probability) const;
  [[nodiscard]] Seconds median() const { return quantile(0.5); }
};

/// What programs that are known add, learned from published runs.
struct ProgramHosts {
  struct Program {
    std::string name;
    Seconds added{};
    bool infers = false;
  };
  std::vector<Program> programs;
  std::string data;  ///< what it was learned from
  double bandwidth = 0.7, known_log_sd = 0.5;

  /// Whether a program of this name is there. Case does not matter.
  [[nodiscard]] bool knows(std::string_view name) const;
  /// Of the named program: log-normal around what it added elsewhere. Of one that is not there: any
  /// of the others is as likely, each with a log-normal kernel; `without` is left out of them.
  [[nodiscard]] AddedHost added_by(std::string_view name, bool infers,
                                   std::string_view without = {}) const;
};

/// Reads text format (hwspecs/proto/program_hosts.proto); `where` names it in errors. Throws
/// InputError.
[[nodiscard]] ProgramHosts parse_program_hosts(std::string_view text, std::string_view where);

}  // namespace tracecast
