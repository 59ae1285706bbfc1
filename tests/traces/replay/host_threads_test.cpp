#include "traces/replay/host_threads.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/random.hpp"
#include "tests/traces/trace_text.hpp"

using namespace tracecast;
using namespace tracecast::traces;

namespace {

using Place = std::pair<std::uint32_t, std::uint32_t>;

/// Looks through all threads: what the last call of another one is, wholly within (from, to).
std::optional<Place> last_of_all(const HostThreads& host, const std::vector<bool>& takes_turns,
                                 std::uint32_t thread, std::int64_t from_ns, std::int64_t to_ns) {
  std::optional<Place> last;
  std::int64_t last_ns = from_ns;
  for (std::uint32_t other = 0; other < host.threads.size(); ++other) {
    if (other == thread || !takes_turns[other]) continue;
    for (std::uint32_t i = 0; i < host.threads[other].size(); ++i) {
      const Span& span = host.threads[other][i].span;
      if (span.begin_ns < from_ns || span.end_ns() > to_ns || span.end_ns() < last_ns) continue;
      last = Place(other, i);
      last_ns = span.end_ns();
    }
  }
  return last;
}

}  // namespace

TEST_CASE(
    "a call follows the last one of other threads since its own thread's, of any number of "
    "threads") {
  Random random(3);
  std::uint64_t all_handoffs = 0;
  for (int round = 0; round < 20; ++round) {
    const int threads = 2 + static_cast<int>(random.below(6));
    std::string events;
    for (int i = 0; i < 120; ++i) {
      // Few moments, and calls that take no time, so that many begin or end together.
      events +=
          (i > 0 ? "," : "") +
          test::launch(static_cast<int>(random.below(60)), static_cast<int>(random.below(4)), i + 1,
                       static_cast<int>(random.below(static_cast<std::uint64_t>(threads))));
    }
    const Trace trace = test::trace_of(events);
    std::vector<bool> takes_turns(trace.threads.size(), true);
    takes_turns[random.below(takes_turns.size())] = round % 2 == 0;
    const HostThreads host = find_host_threads(trace, takes_turns, 0);
    std::uint64_t handoffs = 0;
    for (std::uint32_t thread = 0; thread < host.threads.size(); ++thread) {
      std::int64_t free_ns = 0;
      for (const HostEvent& event : host.threads[thread]) {
        const auto expected = takes_turns[thread] ? last_of_all(host, takes_turns, thread, free_ns,
                                                                event.span.begin_ns)
                                                  : std::nullopt;
        CHECK(event.after == expected);
        handoffs += expected ? 1 : 0;
        free_ns = event.span.end_ns();
      }
    }
    CHECK(handoffs == host.handoffs);
    all_handoffs += handoffs;
  }
  CHECK(all_handoffs > 200);
}
