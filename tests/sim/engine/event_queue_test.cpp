#include "sim/engine/event_queue.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <queue>
#include <tuple>
#include <vector>

#include "sim/base/random.hpp"

namespace tracecast::engine {
namespace {

using Queue = EventQueue<Picoseconds>;

/// The order as the definition has it: (time, phase, sequence number).
class Reference {
 public:
  void push(Picoseconds time, std::uint32_t id, Phase phase) {
    queue_.push({time, phase, sequence_++, id});
  }
  Picoseconds next_time() const { return std::get<0>(queue_.top()); }
  std::uint32_t pop() {
    const std::uint32_t id = std::get<3>(queue_.top());
    queue_.pop();
    return id;
  }

 private:
  using Entry = std::tuple<Picoseconds, Phase, std::uint64_t, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::uint64_t sequence_ = 0;
};

static_assert(sizeof(Event<Picoseconds>) == 16);

TEST_SUITE_BEGIN("sim/engine/event_queue");

TEST_CASE("events come by time, at one time completions before starts, then first in first out") {
  Queue queue;
  queue.push(Picoseconds(20), 1, 7, Phase::Start);
  queue.push(Picoseconds(10), 2, 7, Phase::Start);
  queue.push(Picoseconds(20), 3, 8, Phase::Completion);
  queue.push(Picoseconds(20), 4, 9, Phase::Start);
  queue.push(Picoseconds(20), 5, 9, Phase::Completion);
  CHECK(queue.size() == 5);
  CHECK(queue.next_time() == Picoseconds(10));
  CHECK(queue.now() == Picoseconds(0));  // looking does not move the clock
  std::vector<std::uint32_t> ids;
  while (!queue.empty()) {
    const Event<Picoseconds> event = queue.pop();
    CHECK(queue.now() == event.time);
    ids.push_back(event.id);
  }
  CHECK(ids == std::vector<std::uint32_t>{2, 3, 5, 1, 4});
}

TEST_CASE("a completion that arises now goes before starts that wait for now") {
  Queue queue;
  queue.push(Picoseconds(5), 1, 0, Phase::Start);
  queue.push(Picoseconds(5), 2, 0, Phase::Start);
  CHECK(queue.pop().id == 1);
  queue.push(Picoseconds(5), 3, 0, Phase::Completion);
  CHECK(queue.has_event_now());
  CHECK(queue.pop().id == 3);
  CHECK(queue.pop().id == 2);
  CHECK(!queue.has_event_now());
}

TEST_CASE("looking ahead leaves room for earlier events") {
  Queue queue;
  queue.push(Picoseconds(1'000'000), 1);
  queue.push(Picoseconds(1'000'001), 2);
  CHECK(queue.next_time() == Picoseconds(1'000'000));
  queue.push(Picoseconds(3), 3);
  CHECK(queue.next_time() == Picoseconds(3));
  CHECK(queue.pop().id == 3);
  CHECK(queue.pop().id == 1);
  CHECK(queue.pop().id == 2);
}

TEST_CASE("an event in the past and a pop from nothing are bugs") {
  Queue queue;
  CHECK_THROWS_AS((void)queue.pop(), InternalError);
  CHECK_THROWS_AS((void)queue.next_time(), InternalError);
  CHECK_THROWS_AS(queue.push(Picoseconds(-1), 0), InternalError);
  queue.push(Picoseconds(10), 1);
  (void)queue.pop();
  CHECK_THROWS_AS(queue.push(Picoseconds(9), 2), InternalError);
  CHECK(queue.empty());
}

TEST_CASE("the last moment of the clock is a time like any other") {
  Queue queue;
  queue.push(Picoseconds::most(), 1);
  queue.push(Picoseconds::most(), 2);
  queue.push(Picoseconds::most() - Picoseconds(1), 3);
  CHECK(queue.pop().id == 3);
  CHECK(queue.next_time() == Picoseconds::most());
  CHECK(queue.pop().id == 1);
  CHECK(queue.pop().id == 2);
}

TEST_CASE("any mixture of pushes and pops gives the order of the definition") {
  // Increments from no time at all to days, equal and unequal, few and many events pending.
  struct Row {
    const char* what;
    std::int64_t (*draw)(Random&);
  };
  const Row rows[] = {
      {"small, many equal", [](Random& r) { return static_cast<std::int64_t>(r.below(4)); }},
      {"constant", [](Random&) { return std::int64_t{1'000'000}; }},
      {"uniform", [](Random& r) { return static_cast<std::int64_t>(r.below(1'000'000'000)); }},
      {"every order of magnitude",
       [](Random& r) { return static_cast<std::int64_t>(r.next() >> (8 + r.below(56))) / 1024; }},
      {"bursts far apart",
       [](Random& r) { return r.below(100) == 0 ? std::int64_t{1} << 40 : std::int64_t{0}; }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      CAPTURE(seed);
      Random random(seed);
      Queue queue;
      Reference reference;
      std::uint32_t next_id = 0;
      bool same = true;
      const std::size_t most = 1u << random.below(12);
      for (int step = 0; step < 4000 && same; ++step) {
        // Long phases of growing and of shrinking.
        const bool grow = random.below(8) < ((step / 500) % 2 == 0 ? 6u : 2u);
        if (queue.empty() || (grow && queue.size() < most)) {
          const Picoseconds time = queue.now() + Picoseconds(row.draw(random));
          const Phase phase = random.below(2) == 0 ? Phase::Completion : Phase::Start;
          queue.push(time, next_id, 0, phase);
          reference.push(time, next_id++, phase);
        } else {
          const Picoseconds time = reference.next_time();
          same = queue.next_time() == time && queue.has_event_now() == (time == queue.now());
          same = same && queue.pop().id == reference.pop() && queue.now() == time;
        }
      }
      while (!queue.empty() && same) same = queue.pop().id == reference.pop();
      CHECK(same);
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::engine
