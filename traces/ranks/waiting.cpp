#include "traces/ranks/waiting.hpp"

#include <algorithm>
#include <tuple>

namespace tracecast::traces {
namespace {

CollectiveKindTime& time_of(std::vector<CollectiveKindTime>& kinds, const MatchedCollective& c) {
  const auto at = std::find_if(kinds.begin(), kinds.end(), [&c](const CollectiveKindTime& k) {
    return k.kind == c.kind && k.ranks == c.ranks;
  });
  if (at != kinds.end()) return *at;
  kinds.push_back({.kind = c.kind, .ranks = c.ranks});
  return kinds.back();
}

}  // namespace

CollectiveWaiting sum_waiting(const CollectiveMatch& match) {
  CollectiveWaiting sum;
  sum.unmatched = match.unmatched;
  sum.ranks.resize(match.clocks.size());
  for (const RankClock& clock : match.clocks)
    sum.clock_sd_ns = std::max(sum.clock_sd_ns, clock.sd_ns);
  for (const MatchedCollective& c : match.collectives) {
    ++sum.collectives;
    if (!c.is_complete) ++sum.incomplete;
    CollectiveKindTime& kind = time_of(sum.kinds, c);
    ++kind.collectives;
    if (c.bytes > 0) {
      ++kind.sized;
      kind.bytes += c.bytes;
      kind.sized_moving_ns = saturating_sum(kind.sized_moving_ns, c.moving_ns);
    }
    std::int64_t wait_ns = 0;
    for (const CollectivePart& part : c.parts) {
      sum.kernels.add(part.duration_ns);
      sum.ranks[part.trace].kernels.add(part.duration_ns);
      sum.ranks[part.trace].wait_ns = saturating_sum(sum.ranks[part.trace].wait_ns, part.wait_ns);
      wait_ns = saturating_sum(wait_ns, part.wait_ns);
      kind.move_ns = saturating_sum(kind.move_ns, part.duration_ns - part.wait_ns);
    }
    kind.wait_ns = saturating_sum(kind.wait_ns, wait_ns);
    RankWaiting& last = sum.ranks[c.parts[c.last].trace];
    ++last.last;
    last.held_ns = saturating_sum(last.held_ns, wait_ns);
  }
  for (const CollectiveKindTime& kind : sum.kinds) {
    sum.wait_ns = saturating_sum(sum.wait_ns, kind.wait_ns);
    sum.move_ns = saturating_sum(sum.move_ns, kind.move_ns);
  }
  std::stable_sort(sum.kinds.begin(), sum.kinds.end(), [](const auto& a, const auto& b) {
    return saturating_sum(a.wait_ns, a.move_ns) > saturating_sum(b.wait_ns, b.move_ns);
  });
  return sum;
}

SingleCollectives compare_repeats(const Trace& trace,
                                  const std::vector<CollectiveKernel>& kernels) {
  using Key = std::tuple<std::optional<Collective>, std::uint64_t, std::string>;
  std::map<Key, std::vector<std::int64_t>> alike;
  SingleCollectives sum;
  for (const CollectiveKernel& kernel : kernels) {
    const std::int64_t duration_ns = trace.kernels.span[kernel.kernel].duration_ns;
    sum.kernels.add(duration_ns);
    if (kernel.bytes > 0) alike[{kernel.kind, kernel.bytes, kernel.group}].push_back(duration_ns);
  }
  for (const auto& [key, durations] : alike) {
    if (durations.size() < 2) continue;
    const std::int64_t quickest = *std::min_element(durations.begin(), durations.end());
    for (const std::int64_t duration_ns : durations) {
      sum.compared.add(duration_ns);
      sum.beyond_quickest_ns = saturating_sum(sum.beyond_quickest_ns, duration_ns - quickest);
    }
  }
  return sum;
}

}  // namespace tracecast::traces
