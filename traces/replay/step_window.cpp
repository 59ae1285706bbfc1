#include "traces/replay/step_window.hpp"

#include <algorithm>
#include <map>

namespace tracecast::traces {

StepWindow::StepWindow(const HostThreads& host) {
  for (const std::vector<HostEvent>& events : host.threads) {
    std::map<std::uint32_t, std::int64_t> begin;  // by mark
    for (const HostEvent& event : events) {
      if (event.kind == HostEvent::Kind::StepBegin) begin[event.index] = event.span.begin_ns;
      if (event.kind != HostEvent::Kind::StepEnd) continue;
      if (const auto at = begin.find(event.index); at != begin.end())
        steps_.push_back(
            {at->second, event.span.begin_ns, static_cast<std::uint32_t>(steps_.size())});
    }
  }
  std::sort(steps_.begin(), steps_.end(),
            [](const Step& a, const Step& b) { return a.begin_ns < b.begin_ns; });
  std::vector<std::int64_t> gaps;
  for (std::size_t i = 1; i < steps_.size(); ++i)
    gaps.push_back(std::max<std::int64_t>(steps_[i].begin_ns - steps_[i - 1].end_ns, 0));
  if (gaps.empty()) return;
  std::sort(gaps.begin(), gaps.end());
  gap_ns_ = gaps[gaps.size() / 2];
}

std::uint32_t StepWindow::step_at(std::int64_t at_ns) const {
  const auto after =
      std::upper_bound(steps_.begin(), steps_.end(), at_ns,
                       [](std::int64_t ns, const Step& step) { return ns < step.begin_ns; });
  if (after == steps_.begin()) return kNoStep;
  const auto within = std::prev(after);
  if (at_ns <= within->end_ns) return within->index;
  return after == steps_.end() ? kNoStep : after->index;
}

std::int64_t StepWindow::wrap_ns(std::int64_t last_end_ns, std::int64_t first_begin_ns) const {
  const std::int64_t to_end = steps_.back().end_ns - last_end_ns;
  const std::int64_t to_first = first_begin_ns - steps_.front().begin_ns;
  return std::max<std::int64_t>(to_end + to_first + gap_ns_, 0);
}

}  // namespace tracecast::traces
