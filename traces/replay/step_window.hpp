#pragma once
#include <cstdint>
#include <vector>

#include "models/replay_program.hpp"
#include "traces/replay/host_threads.hpp"

namespace tracecast::traces {

/// From the begin of the first recorded step to the end of the last: what is done again when steps
/// go on.
class StepWindow {
 public:
  static constexpr std::uint32_t kNoStep = ReplayRound::kNoStep;

  explicit StepWindow(const HostThreads& host);

  /// The step that a moment is in, of several threads' steps numbered thread by thread; between two
  /// steps the later one.
  [[nodiscard]] std::uint32_t step_at(std::int64_t at_ns) const;
  /// A thread's way from its last event in the window, over the end of it, to its first one in the
  /// next round. Between rounds lies what lies between two recorded steps (the median).
  [[nodiscard]] std::int64_t wrap_ns(std::int64_t last_end_ns, std::int64_t first_begin_ns) const;

 private:
  struct Step {
    std::int64_t begin_ns = 0, end_ns = 0;
    std::uint32_t index = 0;
  };
  std::vector<Step> steps_;  ///< in order of begin
  std::int64_t gap_ns_ = 0;
};

}  // namespace tracecast::traces
