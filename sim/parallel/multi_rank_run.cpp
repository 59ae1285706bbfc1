#include "sim/parallel/multi_rank_run.hpp"

namespace tracecast {

using engine::Picoseconds;

void merge(std::vector<TickSpan>& spans) {
  std::sort(spans.begin(), spans.end(),
            [](const TickSpan& a, const TickSpan& b) { return a.start < b.start; });
  std::size_t kept = 0;
  for (const TickSpan& span : spans) {
    if (kept > 0 && span.start <= spans[kept - 1].end) {
      spans[kept - 1].end = std::max(spans[kept - 1].end, span.end);
    } else {
      spans[kept++] = span;
    }
  }
  spans.resize(kept);
}

MultiRankRun::MultiRankRun(const MultiRankProgram& program, std::size_t steps)
    : program_(program), schedule_(program.graph().run()) {
  const std::vector<Task>& ends = program.step_ends();
  end_ = schedule_.makespan;
  if (ends.empty()) return;
  last_ = ends.back();
  end_ = end_of(ends.back());
  if (ends.size() > steps) begin_ = end_of(ends[ends.size() - 1 - steps]);
}

Picoseconds overlap(const std::vector<TickSpan>& spans, Picoseconds start, Picoseconds end) {
  Picoseconds sum{};
  auto at =
      std::lower_bound(spans.begin(), spans.end(), start,
                       [](const TickSpan& span, Picoseconds from) { return span.end <= from; });
  for (; at != spans.end() && at->start < end; ++at) {
    sum += std::min(at->end, end) - std::max(at->start, start);
  }
  return sum;
}

}  // namespace tracecast
