#include "sim/engine/task_graph.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

namespace tracecast::engine {
namespace {

constexpr std::size_t kMostIndices = UINT32_MAX;

/// FNV-1a over 64-bit words.
std::uint64_t hash_of(std::span<const LinkUse> uses, std::optional<BytesPerSecond> rate_cap) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3; };
  add(rate_cap ? std::bit_cast<std::uint64_t>(rate_cap->in_si()) : 0);
  for (const LinkUse& use : uses) {
    add(use.link.index);
    add(std::bit_cast<std::uint64_t>(use.weight));
  }
  return hash;
}

/// "3 -> 7 -> 3", long ones cut in the middle.
std::string in_words(const std::vector<TaskId>& cycle) {
  constexpr std::size_t kMostShown = 8;
  std::string text = "tasks ";
  for (std::size_t i = 0; i < std::min(cycle.size(), kMostShown); ++i) {
    text += std::to_string(cycle[i].index) + " -> ";
  }
  if (cycle.size() > kMostShown) {
    text += "... (" + std::to_string(cycle.size() - kMostShown) + " more) -> ";
  }
  return text + std::to_string(cycle.front().index) + " wait for each other";
}

}  // namespace

CycleError::CycleError(std::vector<TaskId> cycle)
    : InputError("task graph", in_words(cycle), "no task that waits for itself"),
      cycle_(std::move(cycle)) {}

std::optional<Release> Schedule::find_release(TaskId task) const {
  const std::uint32_t by = released_by[task.index];
  if (by == kNobody) return std::nullopt;
  const bool waited = start[task.index] > ready[task.index];
  return Release{waited ? Cause::Resource : Cause::Dependency, TaskId{by}};
}

std::vector<TaskId> Schedule::critical_path() const {
  std::vector<TaskId> path;
  if (end.empty()) return path;
  const auto last = std::max_element(end.begin(), end.end()) - end.begin();
  for (auto task = static_cast<std::uint32_t>(last); task != kNobody; task = released_by[task]) {
    path.push_back(TaskId{task});
  }
  return path;
}

void TaskGraph::reserve(std::size_t num_tasks, std::size_t num_dependencies) {
  duration_.reserve(num_tasks);
  resource_.reserve(num_tasks);
  before_.reserve(num_dependencies);
  after_.reserve(num_dependencies);
}

ResourceId TaskGraph::add_resource(Discipline discipline, std::uint32_t capacity) {
  TRACECAST_CHECK(capacity > 0, "a resource serves somebody");
  TRACECAST_CHECK(discipline == Discipline::ReadyOrder || capacity == 1,
                  "program order is kept one task at a time");
  TRACECAST_CHECK(resources_.size() < kMostIndices, "resource ids have 32 bits");
  resources_.push_back({capacity, discipline});
  in_order_ = in_order_ && discipline == Discipline::ProgramOrder;
  return ResourceId{static_cast<std::uint32_t>(resources_.size() - 1)};
}

TaskId TaskGraph::add(std::uint32_t resource, Picoseconds duration) {
  TRACECAST_CHECK(duration_.size() < kMostIndices, "task ids have 32 bits");
  count_time(duration);
  duration_.push_back(duration);
  resource_.push_back(resource);
  return TaskId{static_cast<std::uint32_t>(duration_.size() - 1)};
}

LinkId TaskGraph::add_link(BytesPerSecond capacity) {
  TRACECAST_CHECK(capacity.in_si() > 0 && is_finite(capacity), "a link carries something");
  TRACECAST_CHECK(capacity_.size() < kMostIndices, "link ids have 32 bits");
  capacity_.push_back(capacity);
  return LinkId{static_cast<std::uint32_t>(capacity_.size() - 1)};
}

TaskId TaskGraph::add_transfer(std::optional<ResourceId> resource, std::span<const LinkUse> uses,
                               Bytes bytes, Seconds latency,
                               std::optional<BytesPerSecond> rate_cap) {
  TRACECAST_CHECK(!resource || resource->index < resources_.size(), "a task's resource exists");
  TRACECAST_CHECK(bytes.in_bytes() >= 0 && is_finite(bytes), "a transfer has a number of bytes");
  TRACECAST_CHECK(!rate_cap || (rate_cap->in_si() > 0 && is_finite(*rate_cap)),
                  "a rate cap lets something through");
  for (const LinkUse& use : uses) {
    TRACECAST_CHECK(use.link.index < capacity_.size(), "a transfer's links exist");
    TRACECAST_CHECK(use.weight > 0 && std::isfinite(use.weight), "a weight is positive");
  }
  const TaskId task = add(resource ? resource->index : kNoResource, to_ticks<Picoseconds>(latency));
  if (bytes > Bytes() && (!uses.empty() || rate_cap)) {
    transfers_.push_back({task.index, route_of(uses, rate_cap), bytes});
  }
  return task;
}

/// Transfers that take the same links at the same weights and cap share a route.
std::uint32_t TaskGraph::route_of(std::span<const LinkUse> uses,
                                  std::optional<BytesPerSecond> rate_cap) {
  const auto index = static_cast<std::uint32_t>(routes_.size());
  const auto [found, is_new] = route_by_hash_.try_emplace(hash_of(uses, rate_cap), index);
  Route route{static_cast<std::uint32_t>(uses_.size()), static_cast<std::uint32_t>(uses.size()),
              rate_cap};
  if (!is_new) {
    for (std::uint32_t i = found->second; i != kNone; i = routes_[i].next) {
      if (routes_[i].rate_cap == rate_cap && std::ranges::equal(this->uses(routes_[i]), uses)) {
        return i;
      }
    }
    route.next = std::exchange(found->second, index);
  }
  TRACECAST_CHECK(uses_.size() + uses.size() < kMostIndices, "link uses are counted in 32 bits");
  uses_.insert(uses_.end(), uses.begin(), uses.end());
  routes_.push_back(route);
  return index;
}

void TaskGraph::add_dependency(TaskId before, TaskId after, Picoseconds lag) {
  TRACECAST_CHECK(before.index < num_tasks() && after.index < num_tasks(),
                  "a dependency joins tasks that exist");
  TRACECAST_CHECK(before_.size() < kMostIndices, "dependencies are counted in 32 bits");
  count_time(lag);
  if (lag_.empty() && lag > Picoseconds{}) lag_.resize(before_.size());
  if (!lag_.empty() || lag > Picoseconds{}) lag_.push_back(lag);
  in_order_ = in_order_ && before.index < after.index;
  before_.push_back(before.index);
  after_.push_back(after.index);
}

void TaskGraph::count_time(Picoseconds duration) {
  TRACECAST_CHECK(duration >= Picoseconds{}, "a duration is not negative");
  if (duration > Picoseconds::most() - total_) {
    fail_too_long(total_.in_seconds() + duration.in_seconds(), Picoseconds::most().in_seconds());
  }
  total_ += duration;
}

}  // namespace tracecast::engine
