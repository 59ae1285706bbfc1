// Simulator speed of sim/engine.
//   event_queue_hold: 1e5 events pending; one event = take the next, put it back at a later time.
//     For several distributions of the increment, mean 1 ms in picoseconds.
//   task_graph_*: 1e6 tasks on 1000 resources (half in ready order, half in program order), two
//     random dependencies each. _build is adding tasks and dependencies; _run is run(), which sorts
//     the dependencies, simulates and writes the schedule. "near" dependencies lie among the 10,000
//     tasks before, "far" ones anywhere before.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/engine/task_graph.hpp"
#include "tests/bench/bench.hpp"

namespace tracecast::engine {
namespace {

using bench::check;
using bench::Stopwatch;

struct Increments {
  const char* name;
  double (*draw)(Random&);  ///< in units of the mean
};

const Increments kIncrements[] = {
    {"exponential", [](Random& random) { return -std::log(1.0 - random.uniform()); }},
    {"uniform", [](Random& random) { return 2.0 * random.uniform(); }},
    {"constant", [](Random&) { return 1.0; }},
    {"bimodal",
     [](Random& random) { return (random.uniform() < 0.9 ? 0.1 : 19.0) * random.uniform(); }},
    {"mostly_equal", [](Random& random) { return random.uniform() < 0.5 ? 0.0 : 2.0; }},
};

void hold(const Increments& increments, std::size_t num_pending, std::size_t num_events,
          int repeats) {
  Random random(42);
  std::vector<Picoseconds> steps(1u << 16);  // drawn beforehand: not what we time
  for (Picoseconds& step : steps) {
    step = Picoseconds(static_cast<std::int64_t>(1e9 * increments.draw(random)));
  }
  std::size_t next = 0;
  EventQueue<Picoseconds> queue;
  for (std::size_t i = 0; i < num_pending; ++i) {
    queue.push(steps[random.below(steps.size())], static_cast<std::uint32_t>(i));
  }
  const auto run = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const Event<Picoseconds> event = queue.pop();
      queue.push(event.time + steps[next++ % steps.size()], event.id);
    }
  };
  run(3 * num_pending);
  Stopwatch watch;
  for (int i = 0; i < repeats; ++i) {
    watch.start();
    run(num_events);
    watch.stop();
  }
  Picoseconds last = queue.now();
  std::vector<bool> seen(num_pending);
  for (std::size_t i = 0; i < num_pending; ++i) {
    const Event<Picoseconds> event = queue.pop();
    check(event.time >= last, "events come in the order of time");
    last = event.time;
    check(!seen[event.id], "no event comes twice");
    seen[event.id] = true;
  }
  check(queue.empty(), "no event is left over");
  watch.print("event_queue_hold_" + std::string(increments.name), "events",
              static_cast<double>(num_events));
}

void task_graph(const char* name, std::uint32_t num_tasks, std::uint32_t reach, int repeats) {
  constexpr std::uint32_t kNumResources = 1000;
  Random random(42);
  std::vector<std::uint32_t> resource(num_tasks);
  std::vector<Picoseconds> duration(num_tasks);
  std::vector<std::uint32_t> before(2 * num_tasks);
  for (std::uint32_t i = 0; i < num_tasks; ++i) {
    resource[i] = static_cast<std::uint32_t>(random.below(kNumResources));
    duration[i] = Picoseconds(static_cast<std::int64_t>(1 + random.below(1'000'000'000)));
    for (std::uint32_t j = 2 * i; j < 2 * i + 2; ++j) {
      const std::uint64_t distance = i == 0 ? 0 : 1 + random.below(std::min(i, reach));
      before[j] = static_cast<std::uint32_t>(i - distance);
    }
  }
  Stopwatch build, run;
  for (int repeat = 0; repeat < repeats + (repeats > 1); ++repeat) {
    const bool warm = repeat > 0 || repeats == 1;
    if (warm) build.start();
    TaskGraph graph;
    graph.reserve(num_tasks, 2 * num_tasks);
    for (std::uint32_t i = 0; i < kNumResources; ++i) {
      graph.add_resource(i % 2 == 0 ? Discipline::ReadyOrder : Discipline::ProgramOrder);
    }
    for (std::uint32_t i = 0; i < num_tasks; ++i) {
      graph.add_task(ResourceId{resource[i]}, duration[i]);
      if (i == 0) continue;
      graph.add_dependency(TaskId{before[2 * i]}, TaskId{i});
      graph.add_dependency(TaskId{before[2 * i + 1]}, TaskId{i});
    }
    if (warm) build.stop();

    if (warm) run.start();
    const Schedule schedule = graph.run();
    if (warm) run.stop();

    Picoseconds on_path{};
    for (const TaskId task : schedule.critical_path()) on_path += duration[task.index];
    check(on_path == schedule.makespan, "the critical path fills the makespan");
    for (std::uint32_t i = 1; i < num_tasks; ++i) {
      check(schedule.start[i] >= schedule.end[before[2 * i]] &&
                schedule.start[i] >= schedule.end[before[2 * i + 1]],
            "no task starts before its dependencies end");
    }
  }
  build.print(std::string("task_graph_build_") + name, "tasks", num_tasks);
  run.print(std::string("task_graph_run_") + name, "tasks", num_tasks);
}

}  // namespace
}  // namespace tracecast::engine

int main(int argc, char** argv) {
  using namespace tracecast::engine;
  const bool smoke = tracecast::bench::is_smoke(argc, argv);
  for (const Increments& increments : kIncrements) {
    hold(increments, smoke ? 1000 : 100'000, smoke ? 10'000 : 3'000'000, smoke ? 1 : 7);
  }
  const std::uint32_t num_tasks = smoke ? 10'000 : 1'000'000;
  task_graph("near", num_tasks, 10'000, smoke ? 1 : 7);
  task_graph("far", num_tasks, num_tasks, smoke ? 1 : 7);
}
