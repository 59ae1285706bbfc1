#pragma once
#include <string>
#include <vector>

#include "models/replay_program.hpp"
#include "models/timeline.hpp"
#include "sim/engine/task_graph.hpp"

namespace tracecast {

struct ReplayOptions {
  bool without_input = false;  ///< loading of data takes no time
};

/// A replayed recording: when everything ran, and what follows from it.
struct ReplayRun {
  engine::Schedule schedule;               ///< by task of the program
  std::vector<engine::Picoseconds> steps;  ///< by step of the program
  engine::Picoseconds kernel_busy{};       ///< at least one kernel running
};

/// Runs the program on the engine: every task as soon as what it waits for allows. Durations of GPU
/// work are the recording's, so nothing else contends for the GPU. Throws InputError when the
/// recording contradicts itself (work that waits for itself) or is longer than the clock counts
/// (106 days).
[[nodiscard]] ReplayRun replay(const ReplayProgram& program, const ReplayOptions& options = {});

/// How long at least one kernel runs on tracks [first, end).
[[nodiscard]] engine::Picoseconds kernel_busy(const ReplayProgram& program,
                                              const engine::Schedule& schedule,
                                              std::uint32_t first_track, std::uint32_t end_track);

/// Likewise of each rank, in one go: its tracks begin at the one given, in ascending order.
[[nodiscard]] std::vector<engine::Picoseconds> kernel_busy_by_rank(
    const ReplayProgram& program, const engine::Schedule& schedule,
    const std::vector<std::uint32_t>& first_tracks);

/// When everything ran, for trace viewers: streams and host threads as recorded, arrows from calls
/// to what they launched, steps and loading as marks on the thread they belong to. `gpu`: name of
/// the devices.
[[nodiscard]] Timeline timeline_of(const ReplayProgram& program, const ReplayRun& run,
                                   const std::string& gpu);

}  // namespace tracecast
