#include "sim/engine/task_graph.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <string>
#include <vector>

namespace tracecast::engine {
namespace {

using Indices = std::vector<std::uint32_t>;

Picoseconds ps(std::int64_t count) { return Picoseconds(count); }

std::vector<std::int64_t> counts(const std::vector<Picoseconds>& times) {
  std::vector<std::int64_t> counts;
  for (const Picoseconds time : times) counts.push_back(time.count());
  return counts;
}

Indices indices(const std::vector<TaskId>& tasks) {
  Indices indices;
  for (const TaskId task : tasks) indices.push_back(task.index);
  return indices;
}

using Counts = std::vector<std::int64_t>;

TEST_SUITE_BEGIN("sim/engine/task_graph");

TEST_CASE("a graph without tasks takes no time") {
  TaskGraph graph;
  graph.add_resource(Discipline::ReadyOrder);
  const Schedule schedule = graph.run();
  CHECK(schedule.makespan == ps(0));
  CHECK(schedule.critical_path().empty());
  CHECK(counts(schedule.busy) == Counts{0});
}

TEST_CASE("tasks on no resource wait for their dependencies alone") {
  // a(3) and b(5) start at 0; c(2) after both: 5 to 7.
  TaskGraph graph;
  const TaskId a = graph.add_task(ps(3)), b = graph.add_task(ps(5)), c = graph.add_task(ps(2));
  graph.add_dependency(a, c);
  graph.add_dependency(b, c);
  const Schedule schedule = graph.run();
  CHECK(counts(schedule.start) == Counts{0, 0, 5});
  CHECK(counts(schedule.end) == Counts{3, 5, 7});
  CHECK(schedule.makespan == ps(7));
  CHECK(indices(schedule.critical_path()) == Indices{2, 1});
  CHECK(!schedule.find_release(a).has_value());
  REQUIRE(schedule.find_release(c).has_value());
  CHECK(schedule.find_release(c)->cause == Cause::Dependency);
  CHECK(schedule.find_release(c)->task == b);
}

TEST_CASE("a resource serves in the order of becoming ready, by index at equal times") {
  // x is added first but ready at 4 only. y and z are ready at 0: y (lower index) 0 to 3, z 3 to 6,
  // x, ready at 4, 6 to 7.
  TaskGraph graph;
  const ResourceId link = graph.add_resource(Discipline::ReadyOrder);
  const TaskId delay = graph.add_task(ps(4)), x = graph.add_task(link, ps(1));
  const TaskId y = graph.add_task(link, ps(3)), z = graph.add_task(link, ps(3));
  graph.add_dependency(delay, x);
  const Schedule schedule = graph.run();
  CHECK(counts(schedule.start) == Counts{0, 6, 0, 3});
  CHECK(counts(schedule.ready) == Counts{0, 4, 0, 0});
  CHECK(counts(schedule.busy) == Counts{7});
  CHECK(indices(schedule.critical_path()) == Indices{x.index, z.index, y.index});
  CHECK(schedule.find_release(x)->cause == Cause::Resource);
  CHECK(schedule.find_release(x)->task == z);
}

TEST_CASE("a stream keeps program order even when a later kernel is ready earlier") {
  // The same graph as above, in program order: y waits for x.
  TaskGraph graph;
  const ResourceId stream = graph.add_resource(Discipline::ProgramOrder);
  const TaskId delay = graph.add_task(ps(4)), x = graph.add_task(stream, ps(1));
  const TaskId y = graph.add_task(stream, ps(3)), z = graph.add_task(stream, ps(3));
  graph.add_dependency(delay, x);
  const Schedule schedule = graph.run();
  CHECK(counts(schedule.start) == Counts{0, 4, 5, 8});
  CHECK(schedule.makespan == ps(11));
  CHECK(indices(schedule.critical_path()) == Indices{z.index, y.index, x.index, delay.index});
}

TEST_CASE("a host that launches slower than the GPU runs decides the time, and the reverse") {
  // n launches of h on a host thread; kernel i of k follows launch i on a stream.
  //   k <= h: the last kernel starts when the last launch ends: n h + k.
  //   k >= h: the stream never waits after the first launch: h + n k.
  struct Row {
    const char* what;
    std::int64_t launch, kernel, makespan;
    Cause last;
  };
  const Row rows[] = {
      {"launch-bound", 5, 2, 10 * 5 + 2, Cause::Dependency},
      {"kernel-bound", 5, 8, 5 + 10 * 8, Cause::Resource},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    TaskGraph graph;
    const ResourceId host = graph.add_resource(Discipline::ProgramOrder);
    const ResourceId stream = graph.add_resource(Discipline::ProgramOrder);
    TaskId kernel;
    for (int i = 0; i < 10; ++i) {
      const TaskId launch = graph.add_task(host, ps(row.launch));
      kernel = graph.add_task(stream, ps(row.kernel));
      graph.add_dependency(launch, kernel);
    }
    const Schedule schedule = graph.run();
    CHECK(schedule.makespan == ps(row.makespan));
    CHECK(counts(schedule.busy) == Counts{10 * row.launch, 10 * row.kernel});
    CHECK(schedule.find_release(kernel)->cause == row.last);
  }
}

TEST_CASE("a resource of capacity two runs two tasks at a time") {
  // 4, 3, 2, 2: at 0 the first two; the third at 3 to 5, the fourth at 4 to 6.
  TaskGraph graph;
  const ResourceId pool = graph.add_resource(Discipline::ReadyOrder, 2);
  for (const int duration : {4, 3, 2, 2}) graph.add_task(pool, ps(duration));
  const Schedule schedule = graph.run();
  CHECK(counts(schedule.start) == Counts{0, 0, 3, 4});
  CHECK(counts(schedule.busy) == Counts{11});
  CHECK(schedule.find_release(TaskId{2})->task == TaskId{1});
  CHECK(schedule.find_release(TaskId{3})->task == TaskId{0});
}

TEST_CASE("the lag of a dependency passes on no resource") {
  // a 0 to 2 on the link; c follows after 10: 12 to 13. b takes the link meanwhile, 2 to 7.
  TaskGraph graph;
  const ResourceId link = graph.add_resource(Discipline::ReadyOrder);
  const TaskId a = graph.add_task(link, ps(2)), c = graph.add_task(link, ps(1));
  graph.add_task(link, ps(5));
  const TaskId join = graph.add_task(ps(0));
  graph.add_dependency(a, c, ps(10));
  graph.add_dependency(c, join);  // no lag
  const Schedule schedule = graph.run();
  CHECK(counts(schedule.start) == Counts{0, 12, 2, 13});
  CHECK(counts(schedule.ready) == Counts{0, 12, 0, 13});
  CHECK(indices(schedule.critical_path()) == Indices{c.index, a.index});  // the join ends at 13 too
}

TEST_CASE("the longest of several lags counts, on a resource and on none") {
  TaskGraph graph;
  const ResourceId link = graph.add_resource(Discipline::ProgramOrder);
  const TaskId a = graph.add_task(ps(1)), b = graph.add_task(ps(2));
  const TaskId free = graph.add_task(ps(4)), bound = graph.add_task(link, ps(4));
  for (const TaskId task : {free, bound}) {
    graph.add_dependency(a, task, ps(9));  // 1 + 9 = 10, though b ends last: 2 + 3 = 5
    graph.add_dependency(b, task, ps(3));
  }
  const Schedule schedule = graph.run();
  CHECK(counts(schedule.start) == Counts{0, 0, 10, 10});
  CHECK(counts(schedule.end) == Counts{1, 2, 14, 14});
  CHECK(schedule.find_release(free)->task == a);
  CHECK(schedule.find_release(bound)->task == a);
}

TEST_CASE("everything of one moment ends before anything of that moment starts") {
  // At 5 the link is free and slow(index 0) and quick(index 3) become ready, released by two delays
  // that end together: the lower index goes first, whichever delay the engine sees first.
  TaskGraph graph;
  const ResourceId link = graph.add_resource(Discipline::ReadyOrder);
  const TaskId slow = graph.add_task(link, ps(7));
  const TaskId delay1 = graph.add_task(ps(5)), delay2 = graph.add_task(ps(5));
  const TaskId quick = graph.add_task(link, ps(1));
  graph.add_dependency(delay1, quick);
  graph.add_dependency(delay2, slow);
  const Schedule schedule = graph.run();
  CHECK(schedule.start[slow.index] == ps(5));
  CHECK(schedule.start[quick.index] == ps(12));
}

TEST_CASE("a chain of joins takes no time and no turn") {
  // work is released through three joins at the moment rival is released directly; both are ready
  // at 2, so the lower index runs first.
  TaskGraph graph;
  const ResourceId link = graph.add_resource(Discipline::ReadyOrder);
  const TaskId work = graph.add_task(link, ps(1)), rival = graph.add_task(link, ps(1));
  const TaskId delay = graph.add_task(ps(2));
  TaskId last = delay;
  for (int i = 0; i < 3; ++i) {
    const TaskId join = graph.add_task(ps(0));
    graph.add_dependency(last, join);
    last = join;
  }
  graph.add_dependency(delay, rival);
  graph.add_dependency(last, work);
  const Schedule schedule = graph.run();
  CHECK(schedule.start[work.index] == ps(2));
  CHECK(schedule.start[rival.index] == ps(3));
  CHECK(indices(schedule.critical_path()).size() == 6);  // rival, work, 3 joins, delay
}

TEST_CASE("tasks of zero duration on a resource take a turn and no time") {
  TaskGraph graph;
  const ResourceId stream = graph.add_resource(Discipline::ProgramOrder);
  const ResourceId link = graph.add_resource(Discipline::ReadyOrder);
  for (const ResourceId resource : {stream, link}) {
    graph.add_task(resource, ps(4));
    graph.add_task(resource, ps(0));
    graph.add_task(resource, ps(0));
    graph.add_task(resource, ps(1));
  }
  const Schedule schedule = graph.run();
  CHECK(counts(schedule.start) == Counts{0, 4, 4, 4, 0, 4, 4, 4});
  CHECK(counts(schedule.end) == Counts{4, 4, 4, 5, 4, 4, 4, 5});
}

TEST_CASE("the same dependency twice is the same dependency") {
  TaskGraph graph;
  const TaskId a = graph.add_task(ps(1)), b = graph.add_task(ps(1));
  graph.add_dependency(a, b);
  graph.add_dependency(a, b, ps(2));
  graph.add_dependency(a, b);
  CHECK(graph.run().start[b.index] == ps(3));
}

TEST_CASE("a graph may be run again, and grow in between") {
  TaskGraph graph;
  const TaskId a = graph.add_task(ps(1));
  CHECK(graph.run().makespan == ps(1));
  CHECK(graph.run().makespan == ps(1));
  graph.add_dependency(a, graph.add_task(ps(2)));
  CHECK(graph.run().makespan == ps(3));
}

std::string cycle_of(const TaskGraph& graph, Indices* cycle) {
  try {
    (void)graph.run();
  } catch (const CycleError& error) {
    *cycle = indices(error.cycle());
    return error.what();
  }
  return "no cycle";
}

TEST_CASE("a cycle is named, not waited for") {
  Indices cycle;
  SUBCASE("of three, with tasks before and behind it") {
    TaskGraph graph;
    for (int i = 0; i < 5; ++i) graph.add_task(ps(1));
    graph.add_dependency(TaskId{0}, TaskId{1});
    graph.add_dependency(TaskId{1}, TaskId{2});
    graph.add_dependency(TaskId{2}, TaskId{3});
    graph.add_dependency(TaskId{3}, TaskId{1});
    graph.add_dependency(TaskId{3}, TaskId{4});
    const std::string message = cycle_of(graph, &cycle);
    CAPTURE(message);
    CHECK(cycle == Indices{1, 3, 2});  // 1 waits for 3, 3 for 2, 2 for 1
    CHECK(message.find("1 -> 3 -> 2 -> 1") != std::string::npos);
  }
  SUBCASE("of one") {
    TaskGraph graph;
    const TaskId task = graph.add_task(ps(1));
    graph.add_dependency(task, task);
    cycle_of(graph, &cycle);
    CHECK(cycle == Indices{0});
  }
  SUBCASE("through program order: the first kernel of a stream waits for the third") {
    TaskGraph graph;
    const ResourceId stream = graph.add_resource(Discipline::ProgramOrder);
    for (int i = 0; i < 3; ++i) graph.add_task(stream, ps(1));
    graph.add_dependency(TaskId{2}, TaskId{0});
    cycle_of(graph, &cycle);
    std::sort(cycle.begin(), cycle.end());
    CHECK(cycle == Indices{0, 1, 2});
  }
  SUBCASE("through two streams that wait for each other's later kernels") {
    TaskGraph graph;
    const ResourceId s = graph.add_resource(Discipline::ProgramOrder);
    const ResourceId t = graph.add_resource(Discipline::ProgramOrder);
    const TaskId s0 = graph.add_task(s, ps(1)), s1 = graph.add_task(s, ps(1));
    const TaskId t0 = graph.add_task(t, ps(1)), t1 = graph.add_task(t, ps(1));
    graph.add_dependency(t1, s0);
    graph.add_dependency(s1, t0);
    cycle_of(graph, &cycle);
    CHECK(cycle.size() == 4);
  }
  SUBCASE("of many: the message stays short") {
    TaskGraph graph;
    for (int i = 0; i < 1000; ++i) graph.add_task(ps(1));
    for (std::uint32_t i = 0; i < 1000; ++i) {
      graph.add_dependency(TaskId{i}, TaskId{(i + 1) % 1000});
    }
    const std::string message = cycle_of(graph, &cycle);
    CHECK(cycle.size() == 1000);
    CHECK(message.size() < 200);
    CHECK(message.find("(992 more)") != std::string::npos);
  }
}

TEST_CASE("more time than the clock can count is refused while the graph is built") {
  TaskGraph graph;
  const Picoseconds half(Picoseconds::most().count() / 2 + 1);
  const TaskId a = graph.add_task(half), b = graph.add_task(ps(0));
  CHECK_THROWS_AS(graph.add_task(half), InputError);
  CHECK_THROWS_AS(graph.add_dependency(a, b, half), InputError);
  graph.add_dependency(a, b);
  CHECK(graph.num_tasks() == 2);
  CHECK(graph.num_dependencies() == 1);
  CHECK(graph.run().makespan == half);
}

TEST_CASE("what a graph cannot mean is our bug") {
  TaskGraph graph;
  const TaskId task = graph.add_task(ps(1));
  CHECK_THROWS_AS(graph.add_task(ps(-1)), InternalError);
  CHECK_THROWS_AS(graph.add_task(ResourceId{0}, ps(1)), InternalError);
  CHECK_THROWS_AS(graph.add_dependency(task, TaskId{1}), InternalError);
  CHECK_THROWS_AS(graph.add_dependency(task, task, ps(-1)), InternalError);
  CHECK_THROWS_AS(graph.add_resource(Discipline::ReadyOrder, 0), InternalError);
  CHECK_THROWS_AS(graph.add_resource(Discipline::ProgramOrder, 2), InternalError);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::engine
