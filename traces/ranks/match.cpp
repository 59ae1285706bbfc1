#include "traces/ranks/match.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <tuple>

namespace tracecast::traces {
namespace {

/// How many collectives earlier or later a recording may begin than another, and how many of them
/// are looked at.
constexpr int kMostShift = 16;
constexpr std::size_t kMostCompared = 4096;
/// Common ends that a shifted order must have before it can be preferred.
constexpr std::size_t kFewestCommon = 4;
/// Ends of one collective differ by less than this without being told apart.
constexpr std::int64_t kSameEndNs = 5'000;
/// Clocks farther apart than a century are no clocks.
constexpr std::int64_t kMostOffsetNs = std::int64_t{4'000'000'000'000'000'000};

std::int64_t median(std::vector<std::int64_t>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The median distance from `center`.
std::int64_t sd_about(std::vector<std::int64_t> values, std::int64_t center) {
  for (std::int64_t& value : values) value = value < center ? center - value : value - center;
  return median(values);
}

bool sizes_are_alike(std::optional<Collective> kind) {
  return kind != Collective::AllToAll && kind != Collective::SendReceive;
}

bool agree(const CollectiveKernel& a, const CollectiveKernel& b) {
  return a.kind == b.kind &&
         (!sizes_are_alike(a.kind) || a.bytes == 0 || b.bytes == 0 || a.bytes == b.bytes);
}

/// The kernels of one rank that belong to one group, in order: places in the rank's list.
struct GroupRank {
  std::uint32_t trace = 0;
  std::vector<std::uint32_t> places;
};

class Matcher {
 public:
  Matcher(const std::vector<const Trace*>& traces,
          const std::vector<std::vector<CollectiveKernel>>& kernels)
      : traces_(traces), kernels_(kernels) {
    for (const Trace* trace : traces)
      world_size_ = std::max(world_size_, trace->world_size.value_or(0));
  }

  CollectiveMatch match() {
    for (const auto& [key, ranks] : groups()) match_group(ranks);
    set_clocks();
    split();
    return std::move(match_);
  }

 private:
  [[nodiscard]] const CollectiveKernel& at(const GroupRank& rank, std::size_t i) const {
    return kernels_[rank.trace][rank.places[i]];
  }
  [[nodiscard]] const Span& span(std::uint32_t trace, std::uint32_t kernel) const {
    return traces_[trace]->kernels.span[kernel];
  }
  void leave(std::string_view why, std::uint32_t trace, const CollectiveKernel& kernel) {
    auto at = match_.unmatched.find(why);
    if (at == match_.unmatched.end()) at = match_.unmatched.emplace(why, Tally{}).first;
    at->second.add(span(trace, kernel.kernel).duration_ns);
  }

  /// By the group's name and size, or by the stream's place among those with collectives.
  [[nodiscard]] std::map<std::string, std::vector<GroupRank>> groups() const {
    std::map<std::string, std::vector<GroupRank>> groups;
    for (std::uint32_t trace = 0; trace < traces_.size(); ++trace) {
      std::vector<StreamId> streams;
      for (std::uint32_t i = 0; i < kernels_[trace].size(); ++i) {
        const CollectiveKernel& kernel = kernels_[trace][i];
        const StreamId stream = traces_[trace]->kernels.stream[kernel.kernel];
        if (streams.empty() || streams.back() != stream) streams.push_back(stream);
        const std::string key = kernel.group.empty() ? "stream " + std::to_string(streams.size())
                                                     : "group " + kernel.group + ' ' +
                                                           std::to_string(kernel.group_size);
        std::vector<GroupRank>& ranks = groups[key];
        if (ranks.empty() || ranks.back().trace != trace) ranks.push_back({trace, {}});
        ranks.back().places.push_back(i);
      }
    }
    for (auto& [key, ranks] : groups) {
      for (GroupRank& rank : ranks) {
        std::stable_sort(rank.places.begin(), rank.places.end(),
                         [&](std::uint32_t a, std::uint32_t b) {
                           return span(rank.trace, kernels_[rank.trace][a].kernel).begin_ns <
                                  span(rank.trace, kernels_[rank.trace][b].kernel).begin_ns;
                         });
      }
    }
    return groups;
  }

  /// Places of the base, first and end, that have one in the other, `shift` further on.
  static std::pair<std::size_t, std::size_t> common_places(std::size_t base, std::size_t other,
                                                           int shift) {
    const auto first = std::max<std::int64_t>(-shift, 0);
    const auto end = std::min<std::int64_t>(static_cast<std::int64_t>(base),
                                            static_cast<std::int64_t>(other) - shift);
    return {static_cast<std::size_t>(first), static_cast<std::size_t>(std::max(first, end))};
  }
  static std::size_t shifted(std::size_t place, int shift) {
    return static_cast<std::size_t>(static_cast<std::int64_t>(place) + shift);
  }

  struct Overlap {
    std::size_t compared = 0;
    std::vector<std::int64_t> ends;  ///< of those that agree: the base's end less the other's
  };
  [[nodiscard]] Overlap overlap(const GroupRank& base, const GroupRank& other, int shift) const {
    Overlap result;
    const auto [first, end] =
        common_places(std::min(base.places.size(), kMostCompared), other.places.size(), shift);
    for (std::size_t i = first; i < end; ++i) {
      ++result.compared;
      const CollectiveKernel& a = at(base, i);
      const CollectiveKernel& b = at(other, shifted(i, shift));
      if (!agree(a, b)) continue;
      result.ends.push_back(span(base.trace, a.kernel).end_ns() -
                            span(other.trace, b.kernel).end_ns());
    }
    return result;
  }

  /// How far on in the other rank's order the base's collectives stand.
  [[nodiscard]] int find_shift(const GroupRank& base, const GroupRank& other) const {
    int best = 0;
    std::optional<std::int64_t> best_uncertainty;
    const std::size_t least = std::min(base.places.size(), other.places.size()) / 2;
    for (int step = 0; step <= 2 * kMostShift; ++step) {
      const int shift = step % 2 == 1 ? -(step + 1) / 2 : step / 2;
      Overlap common = overlap(base, other, shift);
      if (common.ends.empty() || common.ends.size() * 20 < common.compared * 19) continue;
      if (shift != 0 && (common.ends.size() < kFewestCommon || common.compared < least)) continue;
      const std::int64_t center = median(common.ends);
      const std::int64_t uncertainty = sd_about(std::move(common.ends), center);
      if (best_uncertainty && uncertainty > *best_uncertainty / 2 - kSameEndNs) continue;
      best = shift;
      best_uncertainty = uncertainty;
    }
    return best;
  }

  void match_group(const std::vector<GroupRank>& ranks) {
    const GroupRank& base = ranks.front();
    const std::int64_t recorded = at(base, 0).group_size;
    const auto leave_all = [&](std::string_view why) {
      for (const GroupRank& rank : ranks) {
        for (std::size_t i = 0; i < rank.places.size(); ++i) leave(why, rank.trace, at(rank, i));
      }
    };
    if (recorded == 1) return leave_all("of a group of one rank");
    if (ranks.size() == 1) return leave_all("of a group whose other ranks are not here");
    if (recorded > 0 && static_cast<std::int64_t>(ranks.size()) > recorded)
      return leave_all("of a group's name that more ranks use than it has");
    std::vector<int> shifts(ranks.size(), 0);
    std::vector<std::vector<bool>> taken(ranks.size());
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      if (r > 0) shifts[r] = find_shift(base, ranks[r]);
      taken[r].assign(ranks[r].places.size(), false);
    }
    // Rank by rank, so that it costs what the ranks hold.
    std::vector<std::vector<std::pair<std::size_t, std::size_t>>> partners(base.places.size());
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const auto [from, to] = common_places(base.places.size(), ranks[r].places.size(), shifts[r]);
      for (std::size_t i = from; i < to; ++i) {
        const std::size_t j = shifted(i, shifts[r]);
        if (agree(at(base, i), at(ranks[r], j))) partners[i].emplace_back(r, j);
      }
    }
    const std::int64_t whole_job = std::max(static_cast<std::int64_t>(ranks.size()), world_size_);
    for (std::size_t i = 0; i < base.places.size(); ++i) {
      const CollectiveKernel& first = at(base, i);
      if (first.kind == Collective::SendReceive && ranks.size() > 2) continue;
      if (partners[i].size() < 2) continue;
      MatchedCollective found;
      found.kind = first.kind;
      found.ranks = recorded > 0 ? recorded : whole_job;
      for (const auto& [r, j] : partners[i]) {
        const CollectiveKernel& kernel = at(ranks[r], j);
        taken[r][j] = true;
        found.bytes = std::max(found.bytes, kernel.bytes);
        found.parts.push_back(
            {ranks[r].trace, kernel.kernel, span(ranks[r].trace, kernel.kernel).duration_ns, 0});
      }
      found.is_complete = static_cast<std::int64_t>(found.parts.size()) == found.ranks;
      match_.collectives.push_back(std::move(found));
    }
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      for (std::size_t j = 0; j < taken[r].size(); ++j) {
        if (taken[r][j]) continue;
        const CollectiveKernel& kernel = at(ranks[r], j);
        leave(kernel.kind == Collective::SendReceive && ranks.size() > 2
                  ? "a send or receive, whose partner is not recorded"
                  : "without counterpart in the other ranks",
              ranks[r].trace, kernel);
      }
    }
  }

  /// Sets clocks rank by rank, from the first one along groups in common: pairs of ranks in their
  /// order, and again from the first pair on. Only pairs with one clock set are looked at, so that
  /// a chain of ranks costs no square.
  void set_clocks() {
    match_.clocks.assign(traces_.size(), {});
    if (traces_.empty()) return;
    using Pair = std::pair<std::uint32_t, std::uint32_t>;
    std::map<Pair, std::vector<std::int64_t>> ends;
    std::vector<std::vector<Pair>> pairs_of(traces_.size());
    for (const MatchedCollective& c : match_.collectives) {
      const CollectivePart& first = c.parts.front();
      for (std::size_t i = 1; i < c.parts.size(); ++i) {
        const CollectivePart& part = c.parts[i];
        ends[{first.trace, part.trace}].push_back(span(first.trace, first.kernel).end_ns() -
                                                  span(part.trace, part.kernel).end_ns());
      }
    }
    for (const auto& [pair, differences] : ends) {
      pairs_of[pair.first].push_back(pair);
      pairs_of[pair.second].push_back(pair);
    }
    match_.clocks.front().is_set = true;
    std::set<Pair> open(pairs_of.front().begin(), pairs_of.front().end());
    for (Pair last{}; !open.empty();) {
      auto at = open.lower_bound(last);
      if (at == open.end()) at = open.begin();
      const Pair pair = last = *at;
      open.erase(at);
      const bool forward = match_.clocks[pair.first].is_set;
      if (forward == match_.clocks[pair.second].is_set) continue;
      const std::uint32_t other = forward ? pair.second : pair.first;
      if (!set_clock(forward ? pair.first : pair.second, other, forward, ends[pair])) continue;
      open.insert(pairs_of[other].begin(), pairs_of[other].end());
    }
  }
  /// By the differences of common ends, the pair's first less its second. False: no clock can be
  /// that far off.
  bool set_clock(std::uint32_t known, std::uint32_t other, bool forward,
                 std::vector<std::int64_t>& differences) {
    const std::int64_t center = median(differences);
    const RankClock& from = match_.clocks[known];
    const std::int64_t difference = forward ? center : -center;
    if (std::abs(difference) > kMostOffsetNs / 2 || std::abs(from.offset_ns) > kMostOffsetNs / 2)
      return false;
    match_.clocks[other] = {true, from.offset_ns + difference, sd_about(differences, center),
                            differences.size()};
    return true;
  }

  [[nodiscard]] std::int64_t begin_of(const CollectivePart& part) const {
    return span(part.trace, part.kernel).begin_ns + match_.clocks[part.trace].offset_ns;
  }

  /// Waiting and moving of every collective, by the clocks.
  void split() {
    std::vector<std::pair<std::int64_t, MatchedCollective>> kept;  // by last arrival
    for (MatchedCollective& c : match_.collectives) {
      const bool is_set = std::all_of(c.parts.begin(), c.parts.end(), [&](const auto& part) {
        return match_.clocks[part.trace].is_set;
      });
      if (!is_set) {
        for (const CollectivePart& part : c.parts) {
          CollectiveKernel kernel;
          kernel.kernel = part.kernel;
          leave("of ranks whose clocks nothing joins", part.trace, kernel);
        }
        continue;
      }
      for (std::uint32_t i = 1; i < c.parts.size(); ++i) {
        if (begin_of(c.parts[i]) > begin_of(c.parts[c.last])) c.last = i;
      }
      const std::int64_t arrival_ns = begin_of(c.parts[c.last]);
      std::vector<std::int64_t> moving;
      for (CollectivePart& part : c.parts) {
        part.wait_ns = std::clamp<std::int64_t>(arrival_ns - begin_of(part), 0, part.duration_ns);
        moving.push_back(part.duration_ns - part.wait_ns);
      }
      c.moving_ns = median(moving);
      kept.emplace_back(arrival_ns, std::move(c));
    }
    std::stable_sort(kept.begin(), kept.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    match_.collectives.clear();
    for (auto& [arrival_ns, c] : kept) match_.collectives.push_back(std::move(c));
  }

  const std::vector<const Trace*>& traces_;
  const std::vector<std::vector<CollectiveKernel>>& kernels_;
  std::int64_t world_size_ = 0;  ///< a group without recorded size is the whole job
  CollectiveMatch match_;
};

}  // namespace

CollectiveMatch match_collectives(const std::vector<const Trace*>& traces,
                                  const std::vector<std::vector<CollectiveKernel>>& kernels) {
  return Matcher(traces, kernels).match();
}

}  // namespace tracecast::traces
