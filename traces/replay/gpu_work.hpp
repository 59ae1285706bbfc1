#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "models/replay_program.hpp"
#include "traces/classify.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// One piece of GPU work with the call that launched it.
struct GpuWork {
  ReplayWork work{};
  std::uint32_t record = 0;  ///< index into the trace's kernels, copies or memsets
  Span span;
  StreamId stream{};
  NameId name{};  ///< of kernels
  KernelClass kernel_class{};
  std::uint64_t bytes = 0;
  CopyKind copy{};
  HostMemory memory{};
  std::uint32_t call = LaunchIndex::kNone;
  std::uint32_t before =
      LaunchIndex::kNone;  ///< the work it follows in its stream, index into GpuWorks::all
};

/// All GPU work of a trace, in order of begin.
struct GpuWorks {
  GpuWorks(const Trace& trace, const KernelNames& names);

  std::vector<GpuWork> all;
  std::uint64_t overlapping = 0;

  static constexpr std::uint32_t kNone = LaunchIndex::kNone;
  /// When the host reached the launch, or the work's begin when the launch is not recorded.
  [[nodiscard]] std::int64_t launch_ns(const Trace& trace, std::uint32_t work) const {
    const GpuWork& w = all[work];
    return w.call == kNone ? w.span.begin_ns : trace.calls.span[w.call].begin_ns;
  }
  /// The last work launched before `at_ns` into a stream; the first one launched at or after it; by
  /// a thread the last one before and the first after. kNone: there is none.
  [[nodiscard]] std::uint32_t last_in_stream(StreamId stream, std::int64_t at_ns) const;
  [[nodiscard]] std::uint32_t first_in_stream(StreamId stream, std::int64_t at_ns) const;
  [[nodiscard]] std::uint32_t last_by_thread(ThreadId thread, std::int64_t at_ns) const;
  [[nodiscard]] std::uint32_t first_by_thread(ThreadId thread, std::int64_t at_ns) const;
  /// Index into `all` of the copy or other work of this call, or kNone.
  [[nodiscard]] std::uint32_t of_call(std::uint32_t call) const { return by_call_[call]; }

 private:
  void chain_streams(std::size_t num_streams);

  /// (launch time, work), sorted.
  using Launches = std::vector<std::pair<std::int64_t, std::uint32_t>>;
  static std::uint32_t last_before(const Launches& launches, std::int64_t at_ns);
  static std::uint32_t first_from(const Launches& launches, std::int64_t at_ns);
  std::vector<Launches> by_stream_, by_thread_;
  std::vector<std::uint32_t> by_call_;
};

}  // namespace tracecast::traces
