// Transfers in a task graph. Links of 1 GB/s: 1000 bytes take 1 us, 1e6 ps.
#include <doctest/doctest.h>

#include <limits>
#include <optional>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/engine/task_graph.hpp"

namespace tracecast::engine {
namespace {

using namespace tracecast::literals;
using Uses = std::vector<LinkUse>;

TEST_SUITE_BEGIN("sim/engine/transfer");

TEST_CASE("a transfer waits its latency and then sends at the rate of its narrowest link") {
  // 2 us, then 4000 bytes at 0.5 GB/s: 8 us.
  TaskGraph graph;
  const LinkId wide = graph.add_link(1.0_GBps), low_precision = graph.add_link(0.5_GBps);
  const TaskId alone =
      graph.add_transfer(std::nullopt, Uses{{wide}, {low_precision}}, 4000.0_B, 2.0_us);
  const Schedule schedule = graph.run();
  CHECK(schedule.end[alone.index] == Picoseconds(10'000'000));
  CHECK(schedule.makespan == Picoseconds(10'000'000));
  CHECK(schedule.carried[wide.index].in_bytes() == 4000);
}

TEST_CASE("the latency of one transfer leaves the link to another") {
  // a sends 3000 bytes from 0: alone until 2 us (2000 sent), then half: its last 1000 take 2 us.
  // b sends from 2 us: 1000 by 4 us, the other 2000 alone until 6 us.
  TaskGraph graph;
  const LinkId link = graph.add_link(1.0_GBps);
  const TaskId a = graph.add_transfer(std::nullopt, Uses{{link}}, 3000.0_B, 0.0_us);
  const TaskId b = graph.add_transfer(std::nullopt, Uses{{link}}, 3000.0_B, 2.0_us);
  const Schedule schedule = graph.run();
  CHECK(schedule.end[a.index] == Picoseconds(4'000'000));
  CHECK(schedule.end[b.index] == Picoseconds(6'000'000));
}

TEST_CASE("a transfer holds its resource until it has ended, and dependencies wait for that") {
  // a: 0 to 1 us on the stream; b behind it: 1 to 3 us; c after b: 3 us + 5 ps.
  TaskGraph graph;
  const LinkId link = graph.add_link(1.0_GBps);
  const ResourceId stream = graph.add_resource(Discipline::ProgramOrder);
  const TaskId a = graph.add_transfer(stream, Uses{{link}}, 1000.0_B, 0.0_us);
  const TaskId b = graph.add_transfer(stream, Uses{{link}}, 1000.0_B, 1.0_us);
  const TaskId c = graph.add_task(Picoseconds(5));
  graph.add_dependency(b, c);
  const Schedule schedule = graph.run();
  CHECK(schedule.start[b.index] == Picoseconds(1'000'000));
  CHECK(schedule.end[b.index] == Picoseconds(3'000'000));
  CHECK(schedule.end[c.index] == Picoseconds(3'000'005));
  CHECK(schedule.busy[stream.index] == Picoseconds(3'000'000));
  CHECK(schedule.critical_path() == std::vector<TaskId>{c, b, a});
}

TEST_CASE("like transfers may be written as one with the sum of their weights") {
  // Four of 1000 bytes share 1 GB/s with one of 2000: 5 us; its other 1000 bytes alone: 6 us.
  for (const bool folded : {false, true}) {
    CAPTURE(folded);
    TaskGraph graph;
    const LinkId link = graph.add_link(1.0_GBps);
    const TaskId other = graph.add_transfer(std::nullopt, Uses{{link}}, 2000.0_B, 0.0_s);
    TaskId like;
    for (int i = 0; i < (folded ? 1 : 4); ++i) {
      like = graph.add_transfer(std::nullopt, Uses{{link, folded ? 4.0 : 1.0}}, 1000.0_B, 0.0_s);
    }
    const Schedule schedule = graph.run();
    CHECK(schedule.end[like.index] == Picoseconds(5'000'000));
    CHECK(schedule.end[other.index] == Picoseconds(6'000'000));
    CHECK(schedule.carried[link.index].in_bytes() == 6000);
  }
}

TEST_CASE("without bytes, or without a link and a cap, a transfer takes its latency alone") {
  TaskGraph graph;
  const LinkId link = graph.add_link(1.0_GBps);
  const TaskId empty = graph.add_transfer(std::nullopt, Uses{{link}}, 0.0_B, 3.0_us);
  const TaskId local = graph.add_transfer(std::nullopt, Uses{}, 1000.0_B, 4.0_us);
  const TaskId capped = graph.add_transfer(std::nullopt, Uses{}, 1000.0_B, 0.0_us, 0.5_GBps);
  const Schedule schedule = graph.run();
  CHECK(schedule.end[empty.index] == Picoseconds(3'000'000));
  CHECK(schedule.end[local.index] == Picoseconds(4'000'000));
  CHECK(schedule.end[capped.index] == Picoseconds(2'000'000));
}

TEST_CASE("a graph with transfers can be run again, and finds its cycles") {
  TaskGraph graph;
  const LinkId link = graph.add_link(1.0_GBps);
  const TaskId a = graph.add_transfer(std::nullopt, Uses{{link}}, 1000.0_B, 1.0_us);
  const TaskId b = graph.add_transfer(std::nullopt, Uses{{link}}, 1000.0_B, 1.0_us);
  graph.add_dependency(a, b);
  CHECK(graph.run().makespan == Picoseconds(4'000'000));
  CHECK(graph.run().makespan == Picoseconds(4'000'000));
  graph.add_dependency(b, a);
  CHECK_THROWS_AS((void)graph.run(), CycleError);
}

TEST_CASE("what cannot be sent is refused") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  TaskGraph graph;
  CHECK_THROWS_AS((void)graph.add_link(BytesPerSecond(0)), InternalError);
  CHECK_THROWS_AS((void)graph.add_link(BytesPerSecond(-1)), InternalError);
  CHECK_THROWS_AS((void)graph.add_link(BytesPerSecond(nan)), InternalError);
  const LinkId link = graph.add_link(1.0_GBps);
  const auto add = [&](LinkUse use, double bytes, double latency_s,
                       std::optional<BytesPerSecond> cap = std::nullopt) {
    (void)graph.add_transfer(std::nullopt, Uses{use}, Bytes(bytes), Seconds(latency_s), cap);
  };
  CHECK_THROWS_AS(add({link, 0.0}, 1, 0), InternalError);
  CHECK_THROWS_AS(add({link, nan}, 1, 0), InternalError);
  CHECK_THROWS_AS(add({LinkId{7}}, 1, 0), InternalError);
  CHECK_THROWS_AS(add({link}, -1, 0), InternalError);
  CHECK_THROWS_AS(add({link}, nan, 0), InternalError);
  CHECK_THROWS_AS(add({link}, 1, -1), InternalError);
  CHECK_THROWS_AS(add({link}, 1, 0, BytesPerSecond(0)), InternalError);
  CHECK(graph.num_tasks() == 0);
  add({link}, 1e18, 0);  // 1e9 s: longer than the clock can count
  CHECK_THROWS_AS((void)graph.run(), InputError);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::engine
