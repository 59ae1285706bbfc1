#pragma once
#include <optional>
#include <vector>

#include "models/ranks_program.hpp"
#include "sim/replay/replay.hpp"

namespace tracecast {

/// The steps of one rank in a round like all that follow.
struct SteadySteps {
  /// From mark to mark where the host keeps pace; else each from the last GPU work of the step
  /// before to its own last.
  std::vector<engine::Picoseconds> steps;
  engine::Picoseconds kernel_busy{};  ///< at least one kernel running, in all of them together
  /// The median step, and no less than what the steps' kernels take on average.
  [[nodiscard]] engine::Picoseconds step() const;
};
struct SteadyRun {
  std::vector<SteadySteps> ranks;
  int rounds = 0;         ///< that were run
  bool is_steady = true;  ///< the last two of them took equally long
};

/// The recorded steps done so many times in a row: tasks of later rounds behind those of the
/// program, whose other tasks are done once. Launches of all rounds share their context's launch
/// queue.
[[nodiscard]] ReplayProgram repeat_steps(const ReplayProgram& program, int rounds);

/// Does the recorded steps again and again until two rounds take equally long, to 0.1 %, and
/// returns the last. A recording is short: on another GPU its host may be through before the GPU
/// has finished the first step, and what a host gains on the GPU in a step adds up until the launch
/// queue is full. 3 rounds at least, 24 or some millions of tasks at most. What is compared is when
/// the last GPU work of steps ends, or their marks when there is none in one. Nothing when no steps
/// are marked, or ranks have different numbers of them. Throws InputError as replay() does.
[[nodiscard]] std::optional<SteadyRun> run_until_steady(const RanksProgram& job,
                                                        const ReplayOptions& options = {});
/// The same for a program of one rank.
[[nodiscard]] std::optional<SteadyRun> run_until_steady(const ReplayProgram& program,
                                                        const ReplayOptions& options = {});

}  // namespace tracecast
