#include "traces/chrome/event_text.hpp"

#include <algorithm>

namespace tracecast::traces::chrome {

namespace {
constexpr std::int64_t kGrid = 4096;  ///< steps of a microsecond

/// The first step at or behind a time that is not negative.
std::int64_t on_grid(std::int64_t ns) {
  return ns / 1000 * kGrid + (ns % 1000 * kGrid + 999) / 1000;
}
}  // namespace

void EventText::exact_span(std::int64_t begin_ns, std::int64_t duration_ns) {
  const std::int64_t begin = on_grid(begin_ns);
  // Nothing may end where it begins: speedscope would end its neighbour in its place.
  const std::int64_t end = std::max(on_grid(begin_ns + duration_ns), begin + 1);
  text_ += ",\"ts\":";
  grid_microseconds(begin);
  text_ += ",\"dur\":";
  grid_microseconds(end - begin);
}

void EventText::grid_microseconds(std::int64_t steps) {
  number(steps / kGrid);
  // A step is 244140625 of 10^-12.
  std::int64_t rest = steps % kGrid * 244'140'625;
  if (rest == 0) return;
  text_ += '.';
  for (std::int64_t place = 100'000'000'000; rest > 0; rest %= place, place /= 10)
    text_ += static_cast<char>('0' + rest / place);
}

}  // namespace tracecast::traces::chrome
