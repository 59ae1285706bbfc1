#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/engine/task_graph.hpp"

namespace tracecast::engine {

/// Dependencies by `after`: those of task t are [first[t], first[t + 1]) of `order`; `order` empty:
/// they lie so already.
struct TaskGraph::Incoming {
  std::vector<std::uint32_t> first, order;
};

TaskGraph::Incoming TaskGraph::sort_by_after() const {
  Incoming sorted;
  sorted.first.assign(num_tasks() + 1, 0);
  for (const std::uint32_t after : after_) ++sorted.first[after + 1];
  std::partial_sum(sorted.first.begin(), sorted.first.end(), sorted.first.begin());
  if (std::is_sorted(after_.begin(), after_.end())) return sorted;
  std::vector<std::uint32_t> next = sorted.first;
  sorted.order.resize(after_.size());
  for (std::uint32_t i = 0; i < after_.size(); ++i) sorted.order[next[after_[i]]++] = i;
  return sorted;
}

Schedule TaskGraph::run_in_order() const {
  /// A resource that has served all tasks before the one at hand.
  struct Served {
    Picoseconds until{};
    std::uint32_t freed_by = kNone;  ///< of the tasks that ended at `until`, the first
    Picoseconds busy{};
  };
  std::vector<Served> resources(resources_.size());
  const Incoming incoming = sort_by_after();
  const std::size_t count = num_tasks();
  Schedule schedule;
  schedule.ready.resize(count);
  schedule.start.resize(count);
  schedule.end.resize(count);
  schedule.released_by.resize(count);
  for (std::uint32_t task = 0; task < count; ++task) {
    Picoseconds ready{};
    std::uint32_t by = kNone;
    for (std::uint32_t i = incoming.first[task]; i < incoming.first[task + 1]; ++i) {
      const std::uint32_t d = incoming.order.empty() ? i : incoming.order[i];
      const std::uint32_t before = before_[d];
      const Picoseconds when = lag_.empty() ? schedule.end[before] : schedule.end[before] + lag_[d];
      if (when > ready || (when == ready && before < by)) {
        ready = when;
        by = before;
      }
    }
    Picoseconds start = ready;
    if (resource_[task] != kNoResource) {
      Served& resource = resources[resource_[task]];
      if (resource.until > ready) {
        start = resource.until;
        by = resource.freed_by;
      }
      const Picoseconds end = start + duration_[task];
      if (end > resource.until || resource.freed_by == kNone) resource.freed_by = task;
      resource.until = end;
      resource.busy += duration_[task];
    }
    schedule.ready[task] = ready;
    schedule.start[task] = start;
    schedule.end[task] = start + duration_[task];
    schedule.released_by[task] = by;
    schedule.makespan = std::max(schedule.makespan, schedule.end[task]);
  }
  schedule.carried.resize(num_links());
  for (const Served& resource : resources) schedule.busy.push_back(resource.busy);
  return schedule;
}

}  // namespace tracecast::engine
