#include "traces/replay/launch_queue.hpp"

#include <algorithm>
#include <map>

namespace tracecast::traces {
namespace {

constexpr std::uint32_t kNone = GpuWorks::kNone;

/// Launches that begin with no more than this part of the queue free show its depth: 1 / 32.
constexpr std::uint32_t kSlotsOfDriver = 32;

class QueueFinder {
 public:
  QueueFinder(const Trace& trace, const GpuWorks& works, const HostThreads& host)
      : trace_(trace), works_(works), host_(host) {}

  std::vector<LaunchQueue> find(std::uint32_t most) {
    order_launches();
    std::vector<LaunchQueue> queues;
    for (auto& [device, launches] : by_device_) {
      LaunchQueue queue{0, std::move(launches)};
      const std::vector<std::uint32_t> before = count_before(queue.launches);
      queue.depth = depth_of(before, most);
      find_room(queue, before);
      queues.push_back(std::move(queue));
    }
    const std::vector<std::int64_t> own = usual_by_name(queues);
    for (LaunchQueue& queue : queues) take_own_time(queue, own);
    return queues;
  }

 private:
  [[nodiscard]] const Span& span(const QueuedLaunch& launch) const {
    return trace_.calls.span[launch.call];
  }
  [[nodiscard]] std::int64_t end_ns(const QueuedLaunch& launch) const {
    return works_.all[launch.work].span.end_ns();
  }

  /// One launch per call that launched something; a graph of many kernels is one.
  void order_launches() {
    std::vector<std::uint32_t> last(trace_.calls.size(), kNone);  // by outer call: its last work
    for (std::uint32_t i = 0; i < works_.all.size(); ++i) {
      if (works_.all[i].call == kNone) continue;
      std::uint32_t& work = last[host_.outer[works_.all[i].call]];
      if (work == kNone || works_.all[i].span.end_ns() > works_.all[work].span.end_ns()) work = i;
    }
    for (std::uint32_t call = 0; call < last.size(); ++call) {
      if (last[call] == kNone) continue;
      const StreamId stream = works_.all[last[call]].stream;
      by_device_[trace_.streams[stream.index].device].push_back({call, last[call], {}, 0});
    }
    for (auto& [device, launches] : by_device_) {
      std::sort(launches.begin(), launches.end(),
                [this](const QueuedLaunch& a, const QueuedLaunch& b) {
                  return std::pair(span(a).begin_ns, a.call) < std::pair(span(b).begin_ns, b.call);
                });
    }
  }

  /// By launch: how many before it have not ended when its call begins.
  [[nodiscard]] std::vector<std::uint32_t> count_before(
      const std::vector<QueuedLaunch>& launches) const {
    std::vector<std::int64_t> ends;
    for (const QueuedLaunch& launch : launches) ends.push_back(end_ns(launch));
    std::sort(ends.begin(), ends.end());
    std::vector<std::uint32_t> before;
    std::size_t ended = 0;
    for (std::size_t i = 0; i < launches.size(); ++i) {
      while (ended < i && ends[ended] <= span(launches[i]).begin_ns) ++ended;
      before.push_back(static_cast<std::uint32_t>(i - ended));
    }
    return before;
  }

  /// The number of launches before them that most of those have that have nearly `most`.
  static std::uint32_t depth_of(const std::vector<std::uint32_t>& before, std::uint32_t most) {
    std::map<std::uint32_t, std::uint32_t> count;  // launches by what is before them
    for (const std::uint32_t number : before) {
      if (number + most / kSlotsOfDriver >= most) ++count[number];
    }
    std::pair<std::uint32_t, std::uint32_t> usual(0,
                                                  most);  // (launches, depth); of equals the deeper
    for (const auto& [depth, number] : count) usual = std::max(usual, std::pair(number, depth));
    return std::max(usual.second, 1U);
  }

  /// Work that ends during or after the call of a launch that found room is no reason: streams
  /// overtake each other.
  void find_room(LaunchQueue& queue, const std::vector<std::uint32_t>& before) const {
    for (std::uint32_t i = queue.depth; i < queue.launches.size(); ++i) {
      QueuedLaunch& launch = queue.launches[i];
      const std::int64_t room_ns = end_ns(queue.launches[i - queue.depth]);
      const bool is_blocked = room_ns > span(launch).begin_ns;
      if (is_blocked && (before[i] < queue.depth || room_ns > span(launch).end_ns())) continue;
      launch.room = i - queue.depth;
      if (is_blocked) launch.blocked_ns = room_ns - span(launch).begin_ns;
    }
  }

  /// By name of call: the median of those that were not blocked, else the least of all.
  [[nodiscard]] std::vector<std::int64_t> usual_by_name(
      const std::vector<LaunchQueue>& queues) const {
    std::vector<std::vector<std::int64_t>> free(trace_.names.size()), blocked(trace_.names.size());
    for (const LaunchQueue& queue : queues) {
      for (const QueuedLaunch& launch : queue.launches) {
        auto& list = launch.blocked_ns > 0 ? blocked : free;
        list[trace_.calls.name[launch.call].index].push_back(span(launch).duration_ns);
      }
    }
    std::vector<std::int64_t> usual(trace_.names.size(), 0);
    for (std::size_t name = 0; name < usual.size(); ++name) {
      if (!free[name].empty()) {
        const auto middle = free[name].begin() + static_cast<std::ptrdiff_t>(free[name].size() / 2);
        std::nth_element(free[name].begin(), middle, free[name].end());
        usual[name] = *middle;
      } else if (!blocked[name].empty()) {
        usual[name] = *std::min_element(blocked[name].begin(), blocked[name].end());
      }
    }
    return usual;
  }

  /// A blocked call goes on so late that its own time is left.
  void take_own_time(LaunchQueue& queue, const std::vector<std::int64_t>& own) const {
    for (QueuedLaunch& launch : queue.launches) {
      if (launch.blocked_ns == 0) continue;
      const std::int64_t latest =
          span(launch).duration_ns - own[trace_.calls.name[launch.call].index];
      launch.blocked_ns = std::max(launch.blocked_ns, latest);
    }
  }

  const Trace& trace_;
  const GpuWorks& works_;
  const HostThreads& host_;
  std::map<std::int64_t, std::vector<QueuedLaunch>> by_device_;
};

}  // namespace

std::vector<LaunchQueue> find_launch_queues(const Trace& trace, const GpuWorks& works,
                                            const HostThreads& host, std::uint32_t most) {
  return QueueFinder(trace, works, host).find(most);
}

}  // namespace tracecast::traces
