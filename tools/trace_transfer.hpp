#pragma once
#include <array>
#include <string>
#include <vector>

#include "hwspecs/gpu_loader.hpp"
#include "models/replay_program.hpp"
#include "sim/cluster/interval.hpp"
#include "sim/cost/transfer.hpp"
#include "traces/replay/program.hpp"
#include "traces/trace.hpp"

namespace tracecast {

/// Work of a kind before and after it moved to another GPU.
struct MovedTime {
  double recorded_s = 0, predicted_s = 0;
};

/// A recording's GPU work on another GPU: what became of it.
struct MovedWork {
  std::string from, to;                                   ///< ids
  std::array<MovedTime, cost::kTransferWayCount> ways{};  ///< kernels
  std::array<MovedTime, kKernelClassCount> classes{};     ///< kernels
  MovedTime kernels, copies;                              ///< copies: memsets too
  std::vector<ErrorShare> errors;                         ///< of every kernel
};

/// The spec of the GPU that a trace was recorded on: by its name without the maker's words, else by compute capability and
/// number of SMs, then the nearest memory, then the highest power limit. `note` says so when it is not the name.
/// Throws InputError with --from when nothing is recorded that tells it.
[[nodiscard]] const GpuSpec& recorded_gpu(const traces::Trace& trace, const GpuCatalog& gpus,
                                          std::string& note);

/// Gives the GPU work of a rebuilt recording its durations on another GPU (sim/cost/transfer.hpp). `host_speed` > 0:
/// host work between calls takes 1 / host_speed of its time.
[[nodiscard]] MovedWork move_to(traces::ReplayBuild& build, const traces::Trace& trace,
                                const traces::KernelNames& names, const GpuSpec& from,
                                const GpuSpec& to, const CostProfile& profile,
                                const cost::TransferOptions& options, double host_speed);

/// Standard deviation of ln(measured / predicted) of a replay on another GPU that lasts `span_s` and keeps the GPU busy
/// for `busy_s`: kernels as step_log_sd, what is left is the host's.
[[nodiscard]] double moved_log_sd(const MovedWork& moved, double span_s, double busy_s);

}  // namespace tracecast
