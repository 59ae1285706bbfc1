#include "sim/replay/replay_network.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "sim/network/collective.hpp"

namespace tracecast {
namespace {

Seconds seconds_of(std::int64_t ns) { return Seconds(static_cast<double>(ns) * 1e-9); }

/// Prices of collectives among the first ranks of a fabric.
class Prices {
 public:
  Prices(const Fabric& fabric, const CollectiveLibrary& library, const LinkFactors& factors)
      : fabric_(fabric), library_(library), factors_(factors) {}

  Seconds of(Collective kind, std::uint64_t bytes, std::int64_t ranks) {
    auto at = by_size_.find(ranks);
    if (at == by_size_.end()) {
      std::vector<Rank> members = all_ranks(fabric_);
      members.resize(static_cast<std::size_t>(ranks));
      at = by_size_.emplace(ranks, Communicator(fabric_, members, library_)).first;
    }
    const CollectivePlan plan = at->second.plan(kind, Bytes(static_cast<double>(bytes)));
    std::optional<BytesPerSecond> rate = plan.rate_cap;
    for (const FabricUse& use : plan.uses) {
      const FabricLink& link = fabric_.link(use.link);
      const BytesPerSecond most =
          link.bandwidth * (factors_.bandwidth[static_cast<std::size_t>(link.kind)] / use.weight);
      rate = rate ? min(*rate, most) : most;
    }
    const Seconds latency = plan.latency * factors_.latency;
    return rate ? latency + plan.bytes / *rate : latency;
  }

 private:
  const Fabric& fabric_;
  const CollectiveLibrary& library_;
  const LinkFactors factors_;
  std::map<std::int64_t, Communicator> by_size_;
};

class Mover {
 public:
  Mover(RanksProgram& job, const ReplayNetwork& network)
      : job_(job),
        network_(network),
        recorded_(network.recorded, network.library, {}),
        target_(network.target, network.library, network.factors) {}

  std::vector<MovingChange> move() {
    find_quickest();
    for (const ReplayCollective& c : job_.collectives) move(c);
    std::stable_sort(changes_.begin(), changes_.end(), [](const auto& a, const auto& b) {
      return max(a.recorded, a.moved) > max(b.recorded, b.moved);
    });
    return std::move(changes_);
  }

 private:
  using Like = std::tuple<std::optional<Collective>, std::uint64_t, std::int64_t>;
  static bool is_single(const ReplayCollective& c) {
    return c.parts.front().arrival == ReplayCollective::kNoTask;
  }
  [[nodiscard]] std::int64_t& duration(const ReplayCollective::Part& part) {
    return job_.program.tasks[part.kernel].duration_ns;
  }

  void find_quickest() {
    for (const ReplayCollective& c : job_.collectives) {
      if (!is_single(c)) continue;
      const std::int64_t lasts = duration(c.parts.front());
      const auto [at, is_new] = quickest_.emplace(Like(c.kind, c.bytes, c.ranks), lasts);
      if (!is_new) at->second = std::min(at->second, lasts);
    }
  }

  void move(const ReplayCollective& c) {
    const auto all = static_cast<std::int64_t>(network_.recorded.num_ranks());
    const auto target = static_cast<std::int64_t>(network_.target.num_ranks());
    const std::int64_t before = c.ranks > 0 ? std::min(c.ranks, all) : all;
    const std::int64_t after = before == all ? target : std::min(before, target);
    const std::int64_t lasts = duration(c.parts.front());
    MovingChange change{
        c.kind, before, after, MovingBasis::Kept, 1, seconds_of(lasts), seconds_of(lasts), {}};
    if (c.kind && c.bytes > 0 && before > 1) {
      change.priced = recorded_.of(*c.kind, c.bytes, before);
      const double ratio = after > 1 ? target_.of(*c.kind, c.bytes, after) / change.priced : 0.0;
      Seconds moving = change.recorded;
      if (is_single(c)) {
        moving = min(change.priced, seconds_of(quickest_.at(Like(c.kind, c.bytes, c.ranks))));
      }
      change.basis = is_single(c) ? MovingBasis::Estimated : MovingBasis::Scaled;
      change.moved = change.recorded - moving + moving * ratio;
      for (const ReplayCollective::Part& part : c.parts)
        duration(part) = std::llround(change.moved.in_s() * 1e9);
    }
    add(change);
  }

  void add(const MovingChange& change) {
    const auto at = std::find_if(changes_.begin(), changes_.end(), [&](const MovingChange& c) {
      return c.kind == change.kind && c.recorded_ranks == change.recorded_ranks &&
             c.ranks == change.ranks && c.basis == change.basis;
    });
    if (at == changes_.end()) {
      changes_.push_back(change);
      return;
    }
    ++at->count;
    at->recorded = at->recorded + change.recorded;
    at->moved = at->moved + change.moved;
    at->priced = at->priced + change.priced;
  }

  RanksProgram& job_;
  const ReplayNetwork& network_;
  Prices recorded_, target_;
  std::map<Like, std::int64_t> quickest_;  ///< of single kernels
  std::vector<MovingChange> changes_;
};

}  // namespace

std::string_view to_string(MovingBasis basis) {
  switch (basis) {
    case MovingBasis::Scaled:
      return "scaled";
    case MovingBasis::Estimated:
      return "estimated";
    case MovingBasis::Kept:
      return "kept";
  }
  return "unknown";
}

std::vector<MovingChange> move_collectives(RanksProgram& job, const ReplayNetwork& network) {
  return Mover(job, network).move();
}

}  // namespace tracecast
