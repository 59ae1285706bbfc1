// Properties of schedules over random graphs with many ties, zero durations and lags.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/engine/task_graph.hpp"

namespace tracecast::engine {
namespace {

constexpr std::size_t kNoResource = SIZE_MAX;

struct Resource {
  Discipline discipline{};
  std::uint32_t capacity = 1;
};
struct Task {
  std::size_t resource = kNoResource;
  std::int64_t duration = 0;
};
struct Edge {
  std::uint32_t before = 0, after = 0;
  std::int64_t lag = 0;
};
/// A graph in plain numbers. Edges lead to higher indices, so it has no cycle.
struct TaskPlan {
  std::vector<Resource> resources;
  std::vector<Task> tasks;
  std::vector<Edge> edges;
};

TaskPlan random_task_plan(Random& random) {
  TaskPlan plan;
  const std::uint64_t num_resources = random.below(5), num_tasks = 1 + random.below(60);
  const std::uint64_t longest = random.below(3) == 0 ? 1000 : 4;  // short ones tie often
  const std::uint64_t lag_share = random.below(3);                // no lags, some, most
  for (std::uint64_t i = 0; i < num_resources; ++i) {
    const bool ready_order = random.below(2) == 0;
    plan.resources.push_back({ready_order ? Discipline::ReadyOrder : Discipline::ProgramOrder,
                              ready_order ? static_cast<std::uint32_t>(1 + random.below(3)) : 1});
  }
  for (std::uint64_t i = 0; i < num_tasks; ++i) {
    const std::uint64_t resource = random.below(num_resources + 1);
    plan.tasks.push_back({resource == num_resources ? kNoResource : resource,
                          static_cast<std::int64_t>(random.below(longest))});
    for (std::uint64_t j = random.below(4); i > 0 && j > 0; --j) {
      plan.edges.push_back(
          {static_cast<std::uint32_t>(random.below(i)), static_cast<std::uint32_t>(i),
           static_cast<std::int64_t>(random.below(3) < lag_share ? random.below(longest) : 0)});
    }
  }
  return plan;
}

/// `position[t]`: the index at which task t is added.
TaskGraph build(const TaskPlan& plan, const std::vector<std::uint32_t>& position) {
  TaskGraph graph;
  for (const Resource& resource : plan.resources) {
    graph.add_resource(resource.discipline, resource.capacity);
  }
  std::vector<std::size_t> at(plan.tasks.size());
  for (std::size_t i = 0; i < position.size(); ++i) at[position[i]] = i;
  for (const std::size_t i : at) {
    const Task& task = plan.tasks[i];
    if (task.resource == kNoResource) {
      graph.add_task(Picoseconds(task.duration));
    } else {
      graph.add_task(ResourceId{static_cast<std::uint32_t>(task.resource)},
                     Picoseconds(task.duration));
    }
  }
  for (const Edge& edge : plan.edges) {
    graph.add_dependency(TaskId{position[edge.before]}, TaskId{position[edge.after]},
                         Picoseconds(edge.lag));
  }
  return graph;
}

std::vector<std::uint32_t> in_order(const TaskPlan& plan) {
  std::vector<std::uint32_t> position(plan.tasks.size());
  std::iota(position.begin(), position.end(), 0u);
  return position;
}

/// The rules of TaskGraph carried out word by word, looking at every task at every moment. Returns
/// the starts.
std::vector<std::int64_t> start_by_the_rules(const TaskPlan& plan) {
  const std::size_t count = plan.tasks.size();
  std::vector<std::optional<std::int64_t>> start(count), end(count);
  std::vector<bool> ready(count, false), ended(count, false);
  std::vector<std::deque<std::size_t>> waiting(plan.resources.size());
  std::vector<std::uint32_t> room;
  for (const Resource& resource : plan.resources) room.push_back(resource.capacity);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t resource = plan.tasks[i].resource;
    if (resource != kNoResource &&
        plan.resources[resource].discipline == Discipline::ProgramOrder) {
      waiting[resource].push_back(i);
    }
  }
  const auto allowed_at = [&](std::size_t task) -> std::optional<std::int64_t> {
    std::int64_t when = 0;
    for (const Edge& edge : plan.edges) {
      if (edge.after != task) continue;
      if (!ended[edge.before]) return std::nullopt;
      when = std::max(when, *end[edge.before] + edge.lag);
    }
    return when;
  };
  for (std::int64_t now = 0;;) {
    for (bool changed = true; changed;) {  // a round
      std::vector<std::size_t> newly_ready;
      for (bool settled = false; !settled;) {
        settled = true;
        for (std::size_t i = 0; i < count; ++i) {
          const Task& task = plan.tasks[i];
          if (end[i] && !ended[i] && *end[i] <= now) {
            ended[i] = true;
            settled = false;
            if (task.resource != kNoResource) ++room[task.resource];
          }
          if (!ready[i] && allowed_at(i) && *allowed_at(i) <= now) {
            ready[i] = true;
            settled = false;
            if (task.resource == kNoResource) {
              start[i] = now;
              end[i] = now + task.duration;
            } else if (plan.resources[task.resource].discipline == Discipline::ReadyOrder) {
              newly_ready.push_back(i);
            }
          }
        }
      }
      std::sort(newly_ready.begin(), newly_ready.end());
      for (const std::size_t i : newly_ready) waiting[plan.tasks[i].resource].push_back(i);
      changed = false;
      for (std::size_t r = 0; r < waiting.size(); ++r) {
        while (room[r] > 0 && !waiting[r].empty() && ready[waiting[r].front()]) {
          const std::size_t i = waiting[r].front();
          waiting[r].pop_front();
          --room[r];
          start[i] = now;
          end[i] = now + plan.tasks[i].duration;
          changed = true;
        }
      }
    }
    std::optional<std::int64_t> next;
    for (std::size_t i = 0; i < count; ++i) {
      const std::optional<std::int64_t> when =
          end[i] && !ended[i] ? end[i] : (ready[i] ? std::nullopt : allowed_at(i));
      if (when && (!next || *when < *next)) next = when;
    }
    if (!next) break;
    now = *next;
  }
  std::vector<std::int64_t> starts;
  for (const std::optional<std::int64_t>& time : start) starts.push_back(time.value());
  return starts;
}

void check_schedule(const TaskPlan& plan, const Schedule& schedule) {
  const std::size_t count = plan.tasks.size();
  const auto start = [&](std::size_t i) { return schedule.start[i].count(); };
  const auto end = [&](std::size_t i) { return schedule.end[i].count(); };
  const auto ready = [&](std::size_t i) { return schedule.ready[i].count(); };
  REQUIRE(schedule.start.size() == count);
  bool holds = true;

  // Every task runs once, for its duration, when its dependencies allow it.
  std::vector<std::int64_t> allowed(count, 0), path(count, 0);
  std::int64_t serial = 0, longest_path = 0;
  for (const Edge& edge : plan.edges) {
    allowed[edge.after] = std::max(allowed[edge.after], end(edge.before) + edge.lag);
    serial += edge.lag;
  }
  for (std::size_t i = 0; i < count; ++i) {
    holds = holds && ready(i) == allowed[i] && start(i) >= ready(i);
    holds = holds && end(i) - start(i) == plan.tasks[i].duration;
    holds = holds && (plan.tasks[i].resource != kNoResource || start(i) == ready(i));
    serial += plan.tasks[i].duration;
  }
  CHECK_MESSAGE(holds, "dependencies and durations are kept");

  // critical path <= makespan <= one after the other
  for (std::size_t i = 0; i < count; ++i) {  // edges lead upwards: path[i] is final when we come
    path[i] += plan.tasks[i].duration;
    longest_path = std::max(longest_path, path[i]);
    for (const Edge& edge : plan.edges) {
      if (edge.before == i) path[edge.after] = std::max(path[edge.after], path[i] + edge.lag);
    }
  }
  CHECK(schedule.makespan.count() >= longest_path);
  CHECK(schedule.makespan.count() <= serial);

  for (std::size_t r = 0; r < plan.resources.size(); ++r) {
    const Resource& resource = plan.resources[r];
    std::vector<std::size_t> on;
    std::int64_t busy = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (plan.tasks[i].resource != r) continue;
      on.push_back(i);
      busy += plan.tasks[i].duration;
    }
    CHECK(schedule.busy[r].count() == busy);
    CHECK(schedule.makespan.count() * resource.capacity >= busy);
    bool fits = true, fair = true;
    for (const std::size_t i : on) {
      std::uint32_t running = 0;  // when i starts, i included
      for (const std::size_t j : on) {
        running += start(j) <= start(i) && start(i) < end(j);
        fair = fair && (resource.discipline == Discipline::ReadyOrder
                            ? ready(i) >= ready(j) || start(i) <= start(j)
                            : i >= j || end(i) <= start(j));
      }
      fits = fits && running <= resource.capacity;
    }
    CHECK_MESSAGE(fits, "no more tasks at a time than the capacity");
    CHECK_MESSAGE(fair, "served in ready order, or in program order");
  }

  // Nobody waits without a reason that ended at the moment of the start.
  bool explained = true;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::optional<Release> release = schedule.find_release(TaskId{i});
    if (!release) {
      explained = explained && start(i) == 0;
    } else if (release->cause == Cause::Resource) {
      explained = explained && end(release->task.index) == start(i) && start(i) > ready(i) &&
                  plan.tasks[release->task.index].resource == plan.tasks[i].resource;
    } else {
      explained = explained && end(release->task.index) <= start(i) && start(i) == ready(i) &&
                  std::any_of(plan.edges.begin(), plan.edges.end(), [&](const Edge& edge) {
                    return edge.before == release->task.index && edge.after == i &&
                           end(edge.before) + edge.lag == start(i);
                  });
    }
  }
  CHECK_MESSAGE(explained, "every start is explained");

  std::int64_t along = 0, later_start = schedule.makespan.count();
  for (const TaskId task : schedule.critical_path()) {
    along += later_start - end(task.index) + plan.tasks[task.index].duration;
    later_start = start(task.index);
  }
  CHECK(along == schedule.makespan.count());
  CHECK(later_start == 0);
}

TEST_SUITE_BEGIN("sim/engine/task_graph properties");

TEST_CASE("schedules of random graphs keep every rule and follow the rules' own simulation") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const TaskPlan plan = random_task_plan(random);
    const Schedule schedule = build(plan, in_order(plan)).run();
    check_schedule(plan, schedule);
    const std::vector<std::int64_t> expected = start_by_the_rules(plan);
    bool same = true;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      same = same && schedule.start[i].count() == expected[i];
    }
    CHECK(same);
  }
}

TEST_CASE("program order told in one pass is what events make of it") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    TaskPlan plan = random_task_plan(random);
    for (Resource& resource : plan.resources) resource = {Discipline::ProgramOrder, 1};
    if (seed % 2 == 0) {  // as builders add them: what a task waits for, right after the task
      std::stable_sort(plan.edges.begin(), plan.edges.end(),
                       [](const Edge& a, const Edge& b) { return a.after < b.after; });
    } else {
      std::reverse(plan.edges.begin(), plan.edges.end());
    }
    TaskGraph graph = build(plan, in_order(plan));
    const Schedule reported = graph.run();
    graph.add_resource(Discipline::ReadyOrder);  // nobody uses it; it wants events
    Schedule expected = graph.run();
    expected.busy.pop_back();
    CHECK(reported.ready == expected.ready);
    CHECK(reported.start == expected.start);
    CHECK(reported.end == expected.end);
    CHECK(reported.released_by == expected.released_by);
    CHECK(reported.busy == expected.busy);
    CHECK(reported.makespan == expected.makespan);
  }
}

TEST_CASE("adding independent tasks and dependencies in another order changes nothing") {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    TaskPlan plan = random_task_plan(random);
    const Schedule expected = build(plan, in_order(plan)).run();

    // Shuffle everything, then put the tasks of each resource back into their own order: those
    // compete by index, all others are independent inserts.
    std::vector<std::uint32_t> position = in_order(plan);
    for (std::size_t i = position.size(); i > 1; --i) {
      std::swap(position[i - 1], position[random.below(i)]);
    }
    for (std::size_t r = 0; r < plan.resources.size(); ++r) {
      std::vector<std::size_t> on;
      for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
        if (plan.tasks[i].resource == r) on.push_back(i);
      }
      std::vector<std::uint32_t> places;
      for (const std::size_t i : on) places.push_back(position[i]);
      std::sort(places.begin(), places.end());
      for (std::size_t i = 0; i < on.size(); ++i) position[on[i]] = places[i];
    }
    for (std::size_t i = plan.edges.size(); i > 1; --i) {
      std::swap(plan.edges[i - 1], plan.edges[random.below(i)]);
    }
    const Schedule permuted = build(plan, position).run();
    bool same = expected.makespan == permuted.makespan && expected.busy == permuted.busy;
    for (std::size_t i = 0; i < position.size(); ++i) {
      same = same && expected.start[i] == permuted.start[position[i]] &&
             expected.ready[i] == permuted.ready[position[i]];
    }
    CHECK(same);
  }
}

TEST_CASE("in program order alone, less work never makes a step longer") {
  // Not so in ready order: Graham, "Bounds on multiprocessing timing anomalies", 1969.
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    TaskPlan plan = random_task_plan(random);
    for (Resource& resource : plan.resources) resource = {Discipline::ProgramOrder, 1};
    const Schedule before = build(plan, in_order(plan)).run();
    Task& shortened = plan.tasks[random.below(plan.tasks.size())];
    shortened.duration /= 2;
    const Schedule after = build(plan, in_order(plan)).run();
    bool later = false;
    for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
      later = later || after.end[i] > before.end[i];
    }
    CHECK(!later);
  }
}

TEST_CASE("a back edge in a random graph is found out") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    TaskPlan plan = random_task_plan(random);
    if (plan.edges.empty()) continue;
    Edge back = plan.edges[random.below(plan.edges.size())];
    std::swap(back.before, back.after);
    plan.edges.push_back(back);
    bool found = false;
    try {
      (void)build(plan, in_order(plan)).run();
    } catch (const CycleError& error) {
      // Each waits for the next: a dependency, or a place behind it in program order.
      found = true;
      const std::vector<TaskId>& cycle = error.cycle();
      for (std::size_t i = 0; i < cycle.size(); ++i) {
        const std::uint32_t waits = cycle[i].index, other = cycle[(i + 1) % cycle.size()].index;
        const std::size_t resource = plan.tasks[waits].resource;
        const bool in_program = resource != kNoResource && resource == plan.tasks[other].resource &&
                                other < waits &&
                                plan.resources[resource].discipline == Discipline::ProgramOrder;
        found = found && (in_program ||
                          std::any_of(plan.edges.begin(), plan.edges.end(), [&](const Edge& edge) {
                            return edge.before == other && edge.after == waits;
                          }));
      }
    }
    CHECK(found);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::engine
