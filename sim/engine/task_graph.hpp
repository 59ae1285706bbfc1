#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/ids.hpp"
#include "sim/base/units.hpp"
#include "sim/engine/fluid_links.hpp"
#include "sim/engine/time.hpp"

namespace tracecast::engine {

using TaskId = Id<struct TaskTag>;
using ResourceId = Id<struct ResourceTag>;

/// Whom a resource serves next.
enum class Discipline : std::uint8_t {
  /// The task that became ready first; of those ready together, the lower index. A link, a pool of
  /// cores.
  ReadyOrder,
  /// The tasks in the order they were added to it: one that is ready waits for all before it, even
  /// if they are not. A CUDA stream, a host thread.
  ProgramOrder,
};

/// Why a task started when it did and not before.
enum class Cause : std::uint8_t {
  Dependency,  ///< the task named ended (and its lag passed) at the moment of the start
  Resource,    ///< it was ready earlier; the task named ended and made room on its resource
};

struct Release {
  Cause cause{};
  TaskId task{};
};

/// When everything ran. Vectors are indexed by task or by resource.
struct Schedule {
  std::vector<Picoseconds> ready;  ///< all dependencies done, lags passed
  std::vector<Picoseconds> start, end;
  std::vector<Picoseconds> busy;  ///< per resource: the sum of the durations it served
  std::vector<Bytes> carried;     ///< per link: the sum of weight * bytes of its transfers
  Picoseconds makespan{};         ///< the last end; zero when there is no task

  /// What the start of a task waited for, the last of them; nothing when it waited for nothing.
  /// It waited for its resource if it started after it was ready, else for the dependency that was
  /// satisfied last. Among equals the one of lowest index.
  [[nodiscard]] std::optional<Release> find_release(TaskId task) const;

  /// From the last task to end (lowest index at equal times) to one that waited for nothing, each
  /// released by the next. Their durations, and the lags between them, sum to the makespan: the lag
  /// before a task is its start minus the end of the next one in the list. Empty without tasks.
  [[nodiscard]] std::vector<TaskId> critical_path() const;

  /// Behind find_release: the index of the task that did, or kNobody.
  static constexpr std::uint32_t kNobody = UINT32_MAX;
  std::vector<std::uint32_t> released_by;
};

/// Tasks wait for each other, or for themselves. Program order counts as waiting.
class CycleError : public InputError {
 public:
  /// `cycle`: each task waits for the next, the last for the first.
  explicit CycleError(std::vector<TaskId> cycle);
  [[nodiscard]] const std::vector<TaskId>& cycle() const { return cycle_; }

 private:
  std::vector<TaskId> cycle_;
};

/// Tasks with durations, transfers over shared links, what they wait for, and the resources they
/// share: run() says when each runs.
///
/// A task is ready when all its dependencies have ended and their lags passed. It starts as soon as
/// it is ready and its resource, if it has one, has room and serves it next; it is never
/// interrupted. At one moment all tasks that end do so, everything they release becomes ready, and
/// only then are resources given out. Tasks of zero duration end where they start: those on no
/// resource as part of what released them; those on a resource after all resources have been given
/// out once, and what they release then queues behind, as a further round of the same moment.
///
/// A transfer is a task whose duration follows from the others: it waits its latency, holding no
/// bandwidth, and then sends its bytes as a fluid at the max-min fair rate (see FluidLinks). Its
/// resource, if it has one, is held from its start to its end.
///
/// The schedule depends on the tasks, the edges and, on each resource, the relative order in which
/// its tasks were added; not on the order of edges or on how tasks of different resources
/// interleave. Only which of several equal causes is named goes by index. Integer time: the same on
/// every machine.
class TaskGraph {
 public:
  /// Room for so many, to save reallocations. Optional.
  void reserve(std::size_t num_tasks, std::size_t num_dependencies);

  /// `capacity` tasks at a time; 1 in ProgramOrder.
  ResourceId add_resource(Discipline discipline, std::uint32_t capacity = 1);
  /// A task on no resource: a delay, or, at zero duration, a point where dependencies join.
  /// Both throw InputError when all durations and lags together exceed the clock.
  TaskId add_task(Picoseconds duration) { return add(kNoResource, duration); }
  TaskId add_task(ResourceId resource, Picoseconds duration) {
    TRACECAST_CHECK(resource.index < resources_.size(), "a task's resource exists");
    return add(resource.index, duration);
  }
  /// A link for transfers; capacity positive and finite.
  LinkId add_link(BytesPerSecond capacity);
  /// A transfer of `bytes` >= 0 over `uses`, each use taking weight times the rate from its link,
  /// at `rate_cap` or less. Without bytes, or with neither a link nor a cap, it takes its latency
  /// alone. N transfers alike in everything and started together may be written as one with N times
  /// the weights. Throws InputError when latencies, durations and lags exceed the clock.
  TaskId add_transfer(std::optional<ResourceId> resource, std::span<const LinkUse> uses,
                      Bytes bytes, Seconds latency,
                      std::optional<BytesPerSecond> rate_cap = std::nullopt);
  /// `after` is ready no earlier than `lag` after `before` ends. Both tasks exist; either may have
  /// been added first. Throws InputError when all durations and lags exceed the clock.
  void add_dependency(TaskId before, TaskId after, Picoseconds lag = {});

  [[nodiscard]] std::size_t num_tasks() const { return duration_.size(); }
  [[nodiscard]] std::size_t num_dependencies() const { return before_.size(); }
  [[nodiscard]] std::size_t num_resources() const { return resources_.size(); }
  [[nodiscard]] std::size_t num_links() const { return capacity_.size(); }

  /// Runs every task once, from time zero: O((tasks + dependencies) log(ready at the same moment))
  /// without transfers; one pass without events where every resource keeps program order and every
  /// dependency leads to a task added later. The graph is unchanged and can be added to and run
  /// again. Throws CycleError, and InputError when a transfer is so slow that the clock cannot
  /// count to its end.
  [[nodiscard]] Schedule run() const;

 private:
  class Run;
  struct Incoming;
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::uint32_t kNoResource = kNone;
  struct Resource {
    std::uint32_t capacity = 1;
    Discipline discipline{};
  };

  struct Transfer {
    std::uint32_t task = 0, route = 0;
    Bytes bytes;
  };
  /// What transfers have in common; each stands here once.
  struct Route {
    std::uint32_t first_use = 0, num_uses = 0;
    std::optional<BytesPerSecond> rate_cap;
    std::uint32_t next = UINT32_MAX;  ///< another one with the same hash
  };

  TaskId add(std::uint32_t resource, Picoseconds duration);
  void count_time(Picoseconds duration);
  /// Whether a task's start follows from tasks of lower index alone.
  [[nodiscard]] bool is_in_order() const { return in_order_ && transfers_.empty(); }
  [[nodiscard]] Incoming sort_by_after() const;
  [[nodiscard]] Schedule run_in_order() const;
  std::uint32_t route_of(std::span<const LinkUse> uses, std::optional<BytesPerSecond> rate_cap);
  [[nodiscard]] std::span<const LinkUse> uses(const Route& route) const {
    return {uses_.data() + route.first_use, route.num_uses};
  }

  bool in_order_ = true;  ///< resources in program order, dependencies forward
  std::vector<Resource> resources_;
  std::vector<Picoseconds> duration_;          ///< by task; of a transfer, its latency
  std::vector<std::uint32_t> resource_;        ///< by task
  std::vector<std::uint32_t> before_, after_;  ///< by dependency
  std::vector<Picoseconds> lag_;               ///< by dependency; empty while all are zero
  Picoseconds total_{};  ///< all durations and lags: without transfers no task can end later
  std::vector<BytesPerSecond> capacity_;  ///< by link
  std::vector<Transfer> transfers_;       ///< in the order of their tasks
  std::vector<Route> routes_;
  std::vector<LinkUse> uses_;  ///< of all routes
  std::unordered_map<std::uint64_t, std::uint32_t> route_by_hash_;
};

}  // namespace tracecast::engine
