#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "traces/kernel_names/kernel_names.hpp"
#include "traces/summary.hpp"
#include "traces/tally.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// Work of one name in two recordings.
struct Change {
  std::string name;
  KernelClass kernel_class{};  ///< of classes and kernels
  Tally a, b;
  [[nodiscard]] std::int64_t difference_ns() const { return b.ns - a.ns; }
  [[nodiscard]] bool appeared() const { return a.count == 0; }
  [[nodiscard]] bool vanished() const { return b.count == 0; }
};

/// What two recordings spend their time on, side by side. Each list: everything that occurs in one
/// of them, by absolute difference of time, the largest first; equals by name.
struct Diff {
  Summary a, b;  ///< all ranks of each together
  std::vector<Change> classes;
  std::vector<Change> algorithms;  ///< of convolutions
  std::vector<Change> kernels;     ///< by short name and class; copies and memsets by their kind
  std::vector<Change> operators;   ///< GPU time by the operator that launched it; "" = not recorded
  std::vector<Change> calls;       ///< of the runtime and driver, by name
  std::vector<Change> idle;        ///< of the first rank's GPU, by cause
};

/// Compares two recordings of any formats, all ranks of each together. Both have one trace at
/// least, as read_recording gives them. Pure.
[[nodiscard]] Diff diff(const Recording& a, const Recording& b, const KernelNames& names);

}  // namespace tracecast::traces
