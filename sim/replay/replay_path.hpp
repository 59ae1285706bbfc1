#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/replay_program.hpp"
#include "sim/replay/replay.hpp"

namespace tracecast {

/// What a stretch of the critical path is.
enum class PathKind : std::uint8_t {
  Kernel,
  Copy,
  Memset,
  Call,        ///< of the runtime or driver
  HostWork,    ///< between calls
  Input,       ///< loading data
  Launch,      ///< from the host's launch to the begin of the work
  StreamGap,   ///< from the end of work to the begin of the next in its stream, or of one that
               ///< awaited its event
  WaitReturn,  ///< from the end of GPU work to the return of the host's call that awaited it or
               ///< room
};
[[nodiscard]] std::string_view to_string(PathKind kind);

struct PathShare {
  PathKind kind{};
  KernelClass kernel_class{};  ///< of kernels
  std::uint64_t count = 0;
  engine::Picoseconds time{};
  double share = 0;  ///< of the path
};
/// Kernels or calls of one name.
struct PathItem {
  std::uint32_t name = 0;  ///< index into ReplayProgram::names
  PathKind kind{};
  std::uint64_t count = 0;
  engine::Picoseconds time{};
  double share = 0;
};

/// The chain of work in which each piece began because the one before it had ended: what must
/// become shorter for the whole to become shorter. Every moment of it is in exactly one share.
struct CriticalPath {
  engine::Picoseconds length{};
  std::vector<PathShare> shares;             ///< longest first
  std::vector<PathItem> items;               ///< kernels, copies and calls by name, longest first
  std::vector<engine::Picoseconds> by_rank;  ///< of work on each
};

/// Walks back from the last end of a step or of GPU work that follows a step's begin (recordings
/// without steps: from the last GPU work, or the last task where there is none) to the moment when
/// the last rank begins its first step (to the beginning). What hosts do after the last GPU work
/// and step is no part of it. `first_track_of_rank`: ReplayRank::first_track of each. `run`: as
/// replay() gives it.
[[nodiscard]] CriticalPath critical_path(const ReplayProgram& program, const ReplayRun& run,
                                         std::vector<std::uint32_t> first_track_of_rank = {0});

}  // namespace tracecast
