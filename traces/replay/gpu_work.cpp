#include "traces/replay/gpu_work.hpp"

#include <algorithm>

namespace tracecast::traces {
namespace {

/// Times of older recordings are whole microseconds: neighbours may seem to overlap by one.
constexpr std::int64_t kRoundingNs = 1000;

}  // namespace

GpuWorks::GpuWorks(const Trace& trace, const KernelNames& names) {
  const LaunchIndex launches(trace);
  const std::vector<KernelNameInfo> infos = classify_kernels(trace, names, launches);
  all.reserve(trace.kernels.size() + trace.copies.size() + trace.memsets.size());
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    all.push_back({.work = ReplayWork::Kernel,
                   .record = static_cast<std::uint32_t>(i),
                   .span = trace.kernels.span[i],
                   .stream = trace.kernels.stream[i],
                   .name = trace.kernels.name[i],
                   .kernel_class = infos[i].kernel_class,
                   .call = launches.call_of(trace.kernels.correlation[i])});
  }
  for (std::size_t i = 0; i < trace.copies.size(); ++i) {
    all.push_back({.work = ReplayWork::Copy,
                   .record = static_cast<std::uint32_t>(i),
                   .span = trace.copies.span[i],
                   .stream = trace.copies.stream[i],
                   .bytes = trace.copies.bytes[i],
                   .copy = trace.copies.kind[i],
                   .memory = trace.copies.memory[i],
                   .call = launches.call_of(trace.copies.correlation[i])});
  }
  for (std::size_t i = 0; i < trace.memsets.size(); ++i) {
    all.push_back({.work = ReplayWork::Memset,
                   .record = static_cast<std::uint32_t>(i),
                   .span = trace.memsets.span[i],
                   .stream = trace.memsets.stream[i],
                   .bytes = trace.memsets.bytes[i],
                   .call = launches.call_of(trace.memsets.correlation[i])});
  }
  std::stable_sort(all.begin(), all.end(), [](const GpuWork& a, const GpuWork& b) {
    return a.span.begin_ns < b.span.begin_ns;
  });
  chain_streams(trace.streams.size());

  by_call_.assign(trace.calls.size(), kNone);
  by_stream_.resize(trace.streams.size());
  by_thread_.resize(trace.threads.size());
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    const std::int64_t launch = launch_ns(trace, i);
    by_stream_[all[i].stream.index].emplace_back(launch, i);
    if (all[i].call == kNone) continue;
    by_call_[all[i].call] = i;
    by_thread_[trace.calls.thread[all[i].call].index].emplace_back(launch, i);
  }
  for (Launches& list : by_stream_) std::sort(list.begin(), list.end());
  for (Launches& list : by_thread_) std::sort(list.begin(), list.end());
}

/// Trims rounding and finds what each piece of work follows: the last work of its stream to end
/// before it begins.
void GpuWorks::chain_streams(std::size_t num_streams) {
  std::vector<std::uint32_t> last(num_streams, kNone);   // by stream: the last to end
  std::vector<std::uint32_t> ended(num_streams, kNone);  // what `last` follows
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    GpuWork& work = all[i];
    std::uint32_t& previous = last[work.stream.index];
    if (previous == kNone) {
      previous = i;
      continue;
    }
    const std::int64_t free_ns = all[previous].span.end_ns();
    const std::int64_t end_ns = work.span.end_ns();
    if (work.span.begin_ns < free_ns && free_ns - work.span.begin_ns <= kRoundingNs) {
      work.span = {free_ns, std::max<std::int64_t>(end_ns - free_ns, 0)};
    }
    if (work.span.begin_ns >= free_ns) {
      work.before = previous;
      ended[work.stream.index] = previous;
      previous = i;
    } else {
      ++overlapping;
      work.before = ended[work.stream.index];
      if (work.before != kNone && all[work.before].span.end_ns() > work.span.begin_ns)
        work.before = kNone;
      if (end_ns > free_ns) previous = i;
    }
  }
}

std::uint32_t GpuWorks::last_before(const Launches& launches, std::int64_t at_ns) {
  const auto at =
      std::lower_bound(launches.begin(), launches.end(), std::pair(at_ns, std::uint32_t{0}));
  return at == launches.begin() ? kNone : std::prev(at)->second;
}
std::uint32_t GpuWorks::first_from(const Launches& launches, std::int64_t at_ns) {
  const auto at =
      std::lower_bound(launches.begin(), launches.end(), std::pair(at_ns, std::uint32_t{0}));
  return at == launches.end() ? kNone : at->second;
}
std::uint32_t GpuWorks::last_in_stream(StreamId stream, std::int64_t at_ns) const {
  return last_before(by_stream_[stream.index], at_ns);
}
std::uint32_t GpuWorks::first_in_stream(StreamId stream, std::int64_t at_ns) const {
  return first_from(by_stream_[stream.index], at_ns);
}
std::uint32_t GpuWorks::last_by_thread(ThreadId thread, std::int64_t at_ns) const {
  return last_before(by_thread_[thread.index], at_ns);
}
std::uint32_t GpuWorks::first_by_thread(ThreadId thread, std::int64_t at_ns) const {
  return first_from(by_thread_[thread.index], at_ns);
}

}  // namespace tracecast::traces
