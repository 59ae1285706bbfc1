#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/plan/linear_program.hpp"
#include "sim/plan/policy/policies.hpp"
#include "sim/plan/shared_rates.hpp"

namespace tracecast::plan {
namespace {

/// Max-min fairness (max_min.cpp) where two jobs on as many GPUs may share them (Narayanan et al.,
/// OSDI 2020, section 4.1, "space sharing"): a pair is one more way to spend a job's time, at the
/// rate that each then has. A linear program over kinds: time of all jobs of a kind alone and
/// beside each other kind, per GPU type. Blind: a GPU counts the same whatever its type, and beside
/// another a job counts what it keeps of its speed alone.
class PackedMaxMin final : public Sharing {
 public:
  explicit PackedMaxMin(bool is_blind) : is_blind_(is_blind) {}
  bool is_blind() const override { return is_blind_; }

  Shares divide(const Progress& progress, std::span<const JobId> jobs) override {
    if (!shared_) shared_.emplace(progress.mix(), progress.fleet().types.size());
    groups_.clear();
    std::map<std::pair<KindId, double>, std::size_t> known;
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const QueuedJob& job = progress.mix().jobs[jobs[j].index];
      const auto [group, is_new] = known.emplace(std::pair(job.kind, job.weight), groups_.size());
      if (is_new) groups_.push_back({job.kind, job.weight, {}});
      groups_[group->second].places.push_back(j);
    }
    const auto best = make_program(progress, std::nullopt).maximize();
    TRACECAST_CHECK(best.has_value(), "equal shares are always possible");
    // Of all shares that are as fair, those with the largest sum of speeds.
    constexpr double kRounding = 1e-7;
    const auto fullest = make_program(progress, best->value * (1 - kRounding)).maximize();
    return uncertainty(progress, jobs, fullest ? fullest->x : best->x);
  }

 private:
  /// Jobs that are alike.
  struct Group {
    KindId kind;
    double weight = 1;
    std::vector<std::size_t> places;  ///< in the list of jobs
  };
  /// A way to spend time: a group alone (b = a), or jobs of two groups together (of one: is_same).
  struct Way {
    std::size_t a = 0, b = 0;
    TypeId type;
    bool is_pair = false;
  };

  /// What a second beside a job of `other` is worth to one of `group`, as a part of an equal
  /// share's speed.
  [[nodiscard]] double worth(const Progress& progress, const Group& group, const Group* other,
                             TypeId type) const {
    const JobKind& kind = progress.mix().kinds[group.kind.index];
    const double alone = kind.rates[type.index];
    if (alone <= 0) return 0;
    const double rate = other == nullptr ? alone : shared_->rate(group.kind, other->kind, type);
    double equal = 0;
    for (std::size_t t = 0; t < kind.rates.size(); ++t) {
      const double here = is_blind_ ? (kind.rates[t] > 0 ? 1.0 : 0.0) : kind.rates[t];
      equal += here * progress.fleet().types[t].gpus / progress.fleet().total_gpus();
    }
    return (is_blind_ ? rate / alone : rate) / equal * kind.gpus;
  }

  /// The largest level, or the largest sum of speeds at one of at least `floor`.
  LinearProgram make_program(const Progress& progress, std::optional<double> floor) {
    using Term = LinearProgram::Term;
    const std::vector<GpuType>& types = progress.fleet().types;
    ways_.clear();
    LinearProgram program;
    const std::size_t level = program.add_variable(floor ? 0 : 1, floor.value_or(0));
    const auto add = [&](double gain) { return program.add_variable(floor ? gain : 0); };
    std::vector<std::vector<Term>> gains(groups_.size()), times(groups_.size()), held(types.size());
    for (std::uint32_t t = 0; t < types.size(); ++t) {
      for (std::size_t a = 0; a < groups_.size(); ++a) {
        const double alone = worth(progress, groups_[a], nullptr, {t});
        if (alone <= 0) continue;
        const auto gpus = static_cast<double>(progress.mix().kinds[groups_[a].kind.index].gpus);
        const std::size_t x = add(alone);
        ways_.push_back({a, a, {t}, false});
        gains[a].push_back({x, alone});
        times[a].push_back({x, 1});
        held[t].push_back({x, gpus});
        for (std::size_t b = a; b < groups_.size(); ++b) {
          if (!may_pair(progress, a, b, {t})) continue;
          const double one = worth(progress, groups_[a], &groups_[b], {t});
          const double two = worth(progress, groups_[b], &groups_[a], {t});
          const std::size_t y = add(one + two);
          ways_.push_back({a, b, {t}, true});
          gains[a].push_back({y, a == b ? one + two : one});
          times[a].push_back({y, a == b ? 2.0 : 1.0});
          held[t].push_back({y, gpus});
          if (a == b) continue;
          gains[b].push_back({y, two});
          times[b].push_back({y, 1});
        }
      }
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const auto n = static_cast<double>(groups_[g].places.size());
      gains[g].push_back({level, -n * groups_[g].weight});
      program.add_row(std::move(gains[g]), 0, LinearProgram::kInfinity);
      program.add_row(std::move(times[g]), 0, n);
    }
    for (std::size_t t = 0; t < types.size(); ++t)
      program.add_row(std::move(held[t]), 0, types[t].gpus);
    return program;
  }
  /// As many GPUs each, both run, and together they do more than one after the other.
  [[nodiscard]] bool may_pair(const Progress& progress, std::size_t a, std::size_t b,
                              TypeId type) const {
    const JobKind& first = progress.mix().kinds[groups_[a].kind.index];
    const JobKind& second = progress.mix().kinds[groups_[b].kind.index];
    if (first.gpus != second.gpus || (a == b && groups_[a].places.size() < 2)) return false;
    const double ra = shared_->rate(groups_[a].kind, groups_[b].kind, type);
    const double rb = shared_->rate(groups_[b].kind, groups_[a].kind, type);
    if (ra <= 0 || rb <= 0) return false;
    return ra / first.rates[type.index] + rb / second.rates[type.index] > 1;
  }

  /// Pairs of m and n that give each of the m a part 1/m of the whole, and each of the n a part
  /// 1/n: m + n - 1 at most.
  template <class Take>
  static void deal(std::size_t m, std::size_t n, Take take) {
    // In units of 1 / (m n) the i-th of m ends at (i + 1) n, the k-th of n at (k + 1) m.
    std::size_t at = 0;
    for (std::size_t i = 0, k = 0; i < m && k < n;) {
      const std::size_t end = std::min((i + 1) * n, (k + 1) * m);
      take(i, k, static_cast<double>(end - at) / static_cast<double>(m * n));
      at = end;
      if (at == (i + 1) * n) ++i;
      if (at == (k + 1) * m) ++k;
    }
  }

  /// Every job of a group the same.
  Shares uncertainty(const Progress& progress, std::span<const JobId> jobs,
                     const std::vector<double>& x) const {
    constexpr double kNothing = 1e-9;
    const std::size_t types = progress.fleet().types.size();
    Shares shares(jobs.size(), types);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<double>> pairs;
    for (std::size_t w = 0; w < ways_.size(); ++w) {
      const Way& way = ways_[w];
      const double time = x[w + 1];
      if (time <= kNothing) continue;
      const std::vector<std::size_t>&a = groups_[way.a].places, &b = groups_[way.b].places;
      if (!way.is_pair) {
        for (const std::size_t place : a)
          shares.at(place, way.type) = time / static_cast<double>(a.size());
        continue;
      }
      const auto add = [&](std::size_t one, std::size_t two, double part) {
        const auto [first, second] = std::minmax(one, two);
        const std::pair<std::uint32_t, std::uint32_t> who(first, second);
        pairs.emplace(who, std::vector<double>(types)).first->second[way.type.index] += part;
      };
      if (way.a == way.b) {
        // Everybody with the next.
        for (std::size_t i = 0; i < a.size(); ++i)
          add(a[i], a[(i + 1) % a.size()], time / static_cast<double>(a.size()));
      } else {
        deal(a.size(), b.size(),
             [&](std::size_t i, std::size_t k, double part) { add(a[i], b[k], part * time); });
      }
    }
    for (auto& [who, of_type] : pairs)
      shares.pairs.push_back({who.first, who.second, std::move(of_type)});
    return shares;
  }

  bool is_blind_;
  std::optional<SharedRates> shared_;
  std::vector<Group> groups_;
  std::vector<Way> ways_;  ///< variable i + 1 of the program
};

}  // namespace

std::unique_ptr<Sharing> make_max_min_packed(const PolicyOptions&) {
  return std::make_unique<PackedMaxMin>(false);
}
std::unique_ptr<Sharing> make_max_min_blind_packed(const PolicyOptions&) {
  return std::make_unique<PackedMaxMin>(true);
}

}  // namespace tracecast::plan
