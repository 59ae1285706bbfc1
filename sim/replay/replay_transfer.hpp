#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/recorded_work.hpp"
#include "models/replay_program.hpp"
#include "sim/step/interval.hpp"

namespace tracecast {

/// Work of a kind before and after it moved to another GPU.
struct MovedTime {
  std::string_view name;
  double recorded_s = 0, predicted_s = 0;
};

/// A recording's GPU work on another GPU: what became of it.
struct MovedWork {
  std::string from, to;            ///< ids
  std::vector<MovedTime> ways;     ///< of kernels that take time: how their time was found
  std::vector<MovedTime> classes;  ///< the same by kernel class
  MovedTime kernels, copies;       ///< copies: memsets too
  std::vector<ErrorShare> errors;  ///< of every kernel
};

struct MoveOptions {
  /// fp32 code runs as TF32 where the other GPU has it and the recorded one had not: convolutions,
  /// GEMMs.
  bool tf32_convolutions = true;
  bool tf32_gemms = false;
  double host_speed = 0;  ///< relative to the recorded host; 0: the host's work stays
};

/// Gives the GPU work of `program`, a recording rebuilt, its durations on another GPU
/// (sim/cost/transfer.hpp). `records`: of each task of GPU work its kernel or copy in `recorded`.
[[nodiscard]] MovedWork move_to(ReplayProgram& program, std::span<const std::uint32_t> records,
                                const RecordedWork& recorded, const GpuSpec& from,
                                const GpuSpec& to, const CostProfile& profile,
                                const MoveOptions& options = {});

/// Standard deviation of ln(measured / predicted) of a replay on another GPU that lasts `span_s`
/// and keeps the GPU busy for `busy_s`: kernels as step_log_sd, what is left is the host's.
[[nodiscard]] double moved_log_sd(const MovedWork& moved, double span_s, double busy_s);

}  // namespace tracecast
