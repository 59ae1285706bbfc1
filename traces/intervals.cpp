#include "traces/intervals.hpp"

#include <algorithm>

namespace tracecast::traces {

Intervals Intervals::union_of(std::vector<Span> spans) {
  std::erase_if(spans, [](const Span& span) { return span.duration_ns <= 0; });
  const auto earlier = [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; };
  if (!std::is_sorted(spans.begin(), spans.end(), earlier))
    std::sort(spans.begin(), spans.end(), earlier);
  Intervals set;
  for (const Span& span : spans) {
    if (set.spans_.empty() || span.begin_ns > set.spans_.back().end_ns()) {
      set.spans_.push_back(span);
    } else {
      Span& last = set.spans_.back();
      last.duration_ns = std::max(last.end_ns(), span.end_ns()) - last.begin_ns;
    }
  }
  std::int64_t length = 0;
  set.before_.reserve(set.spans_.size());
  for (const Span& span : set.spans_) set.before_.push_back(length += span.duration_ns);
  return set;
}

/// Length of the part before `at_ns`.
std::int64_t Intervals::until(std::int64_t at_ns) const {
  const auto after =
      std::upper_bound(spans_.begin(), spans_.end(), at_ns,
                       [](std::int64_t at, const Span& span) { return at < span.begin_ns; });
  if (after == spans_.begin()) return 0;
  const auto last = static_cast<std::size_t>(after - spans_.begin()) - 1;
  const std::int64_t missing = std::max<std::int64_t>(spans_[last].end_ns() - at_ns, 0);
  return before_[last] - missing;
}

std::int64_t Intervals::within(std::int64_t from_ns, std::int64_t to_ns) const {
  return to_ns <= from_ns ? 0 : until(to_ns) - until(from_ns);
}

std::vector<Span> Intervals::gaps() const {
  std::vector<Span> gaps;
  for (std::size_t i = 1; i < spans_.size(); ++i) {
    const std::int64_t begin = spans_[i - 1].end_ns();
    gaps.push_back({begin, spans_[i].begin_ns - begin});
  }
  return gaps;
}

std::int64_t Intervals::overlap_ns(const Intervals& other) const {
  std::int64_t total = 0;
  for (const Span& span : other.spans_) total += within(span.begin_ns, span.end_ns());
  return total;
}

}  // namespace tracecast::traces
