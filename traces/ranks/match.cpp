#include "traces/ranks/match.hpp"

#include <algorithm>
#include <cstdlib>
#include <tuple>

namespace tracecast::traces {
namespace {

/// How many collectives earlier or later a recording may begin than another, and how many of them are looked at.
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
std::int64_t spread_about(std::vector<std::int64_t> values, std::int64_t center) {
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
      : traces_(traces), kernels_(kernels) {}

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

  struct Overlap {
    std::size_t compared = 0;
    std::vector<std::int64_t> ends;  ///< of those that agree: the base's end less the other's
  };
  [[nodiscard]] Overlap overlap(const GroupRank& base, const GroupRank& other, int shift) const {
    Overlap result;
    const std::size_t count = std::min(base.places.size(), kMostCompared);
    for (std::size_t i = 0; i < count; ++i) {
      const auto j = static_cast<std::int64_t>(i) + shift;
      if (j < 0 || j >= static_cast<std::int64_t>(other.places.size())) continue;
      ++result.compared;
      const CollectiveKernel& a = at(base, i);
      const CollectiveKernel& b = at(other, static_cast<std::size_t>(j));
      if (!agree(a, b)) continue;
      result.ends.push_back(span(base.trace, a.kernel).end_ns() -
                            span(other.trace, b.kernel).end_ns());
    }
    return result;
  }

  /// How far on in the other rank's order the base's collectives stand.
  [[nodiscard]] int find_shift(const GroupRank& base, const GroupRank& other) const {
    int best = 0;
    std::optional<std::int64_t> best_spread;
    const std::size_t least = std::min(base.places.size(), other.places.size()) / 2;
    for (int step = 0; step <= 2 * kMostShift; ++step) {
      const int shift = step % 2 == 1 ? -(step + 1) / 2 : step / 2;
      Overlap common = overlap(base, other, shift);
      if (common.ends.empty() || common.ends.size() * 20 < common.compared * 19) continue;
      if (shift != 0 && (common.ends.size() < kFewestCommon || common.compared < least)) continue;
      const std::int64_t center = median(common.ends);
      const std::int64_t spread = spread_about(std::move(common.ends), center);
      if (best_spread && spread > *best_spread / 2 - kSameEndNs) continue;
      best = shift;
      best_spread = spread;
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
    for (std::size_t i = 0; i < base.places.size(); ++i) {
      const CollectiveKernel& first = at(base, i);
      if (first.kind == Collective::SendReceive && ranks.size() > 2) continue;
      MatchedCollective found;
      found.kind = first.kind;
      found.ranks = recorded;
      std::vector<std::pair<std::size_t, std::size_t>> places;  // (rank, place)
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        const auto j = static_cast<std::int64_t>(i) + shifts[r];
        if (j < 0 || j >= static_cast<std::int64_t>(ranks[r].places.size())) continue;
        const CollectiveKernel& kernel = at(ranks[r], static_cast<std::size_t>(j));
        if (!agree(first, kernel)) continue;
        places.emplace_back(r, static_cast<std::size_t>(j));
        found.bytes = std::max(found.bytes, kernel.bytes);
        found.parts.push_back(
            {ranks[r].trace, kernel.kernel, span(ranks[r].trace, kernel.kernel).duration_ns, 0});
      }
      if (found.parts.size() < 2) continue;
      for (const auto& [r, j] : places) taken[r][j] = true;
      if (found.ranks == 0) found.ranks = ranks_of_job(ranks.size());
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

  /// A group without recorded size is the whole job.
  [[nodiscard]] std::int64_t ranks_of_job(std::size_t found) const {
    std::int64_t ranks = static_cast<std::int64_t>(found);
    for (const Trace* trace : traces_) ranks = std::max(ranks, trace->world_size.value_or(0));
    return ranks;
  }

  /// Sets clocks rank by rank, from the first one along groups in common.
  void set_clocks() {
    match_.clocks.assign(traces_.size(), {});
    if (traces_.empty()) return;
    match_.clocks.front().is_set = true;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::int64_t>> ends;
    for (const MatchedCollective& c : match_.collectives) {
      const CollectivePart& first = c.parts.front();
      for (std::size_t i = 1; i < c.parts.size(); ++i) {
        const CollectivePart& part = c.parts[i];
        ends[{first.trace, part.trace}].push_back(span(first.trace, first.kernel).end_ns() -
                                                  span(part.trace, part.kernel).end_ns());
      }
    }
    for (bool again = true; again;) {
      again = false;
      for (auto& [pair, differences] : ends) {
        const bool forward = match_.clocks[pair.first].is_set;
        if (forward == match_.clocks[pair.second].is_set) continue;
        const std::int64_t center = median(differences);
        const RankClock& from = match_.clocks[forward ? pair.first : pair.second];
        RankClock& to = match_.clocks[forward ? pair.second : pair.first];
        const std::int64_t difference = forward ? center : -center;
        if (std::abs(difference) > kMostOffsetNs / 2 ||
            std::abs(from.offset_ns) > kMostOffsetNs / 2)
          continue;
        to = {true, from.offset_ns + difference, spread_about(differences, center),
              differences.size()};
        again = true;
      }
    }
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
  CollectiveMatch match_;
};

}  // namespace

CollectiveMatch match_collectives(const std::vector<const Trace*>& traces,
                                  const std::vector<std::vector<CollectiveKernel>>& kernels) {
  return Matcher(traces, kernels).match();
}

}  // namespace tracecast::traces
