#pragma once
#include "models/timeline.hpp"
#include "traces/kernel_names/kernel_names.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// A recording as a viewer shows it: all ranks side by side by their clocks, time from the first
/// begin on. GPUs are numbered through; a stream of several ranks names its rank. Kernels with
/// their class, operators, calls, marks, and an arrow from each call to what it launched. Throws
/// InputError when it lasts more than 100 days.
[[nodiscard]] Timeline recorded_timeline(const Recording& recording, const KernelNames& names);

}  // namespace tracecast::traces
