#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/plan/linear_program.hpp"
#include "sim/plan/policy/policies.hpp"
#include "sim/plan/shared_rates.hpp"

namespace tracecast::plan {
namespace {

/// Max-min fairness (max_min.cpp) where two jobs on as many GPUs may share them (Narayanan et al., OSDI 2020, section 4.1,
/// "space sharing"): a pair is one more way to spend a job's time, at the rate that each then has. A linear program over
/// kinds: time of all jobs of a kind alone and beside each other kind, per GPU type. Blind: a GPU counts the same whatever its
/// type, and beside another a job counts what it keeps of its speed alone.
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
    ways_.clear();
    const LinearProgram program = make_program(progress);
    const auto solution = program.maximize();
    TRACECAST_CHECK(solution.has_value(), "equal shares are always possible");
    return spread(progress, jobs, solution->x);
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

  /// What a second beside a job of `other` is worth to one of `group`, as a part of an equal share's speed.
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

  LinearProgram make_program(const Progress& progress) {
    using Term = LinearProgram::Term;
    const std::vector<GpuType>& types = progress.fleet().types;
    LinearProgram program;
    const std::size_t level = program.add_variable(1);
    std::vector<std::vector<Term>> gains(groups_.size()), times(groups_.size()), held(types.size());
    for (std::uint32_t t = 0; t < types.size(); ++t) {
      for (std::size_t a = 0; a < groups_.size(); ++a) {
        const double alone = worth(progress, groups_[a], nullptr, {t});
        if (alone <= 0) continue;
        const auto gpus = static_cast<double>(progress.mix().kinds[groups_[a].kind.index].gpus);
        const std::size_t x = program.add_variable(0);
        ways_.push_back({a, a, {t}, false});
        gains[a].push_back({x, alone});
        times[a].push_back({x, 1});
        held[t].push_back({x, gpus});
        for (std::size_t b = a; b < groups_.size(); ++b) {
          if (!may_pair(progress, a, b, {t})) continue;
          const std::size_t y = program.add_variable(0);
          ways_.push_back({a, b, {t}, true});
          gains[a].push_back({y, (a == b ? 2 : 1) * worth(progress, groups_[a], &groups_[b], {t})});
          times[a].push_back({y, a == b ? 2.0 : 1.0});
          held[t].push_back({y, gpus});
          if (a == b) continue;
          gains[b].push_back({y, worth(progress, groups_[b], &groups_[a], {t})});
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

  /// Every job of a group the same; the time of two groups together over as many pairs as the larger has jobs.
  Shares spread(const Progress& progress, std::span<const JobId> jobs,
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
      const std::size_t count = way.a == way.b ? a.size() : std::max(a.size(), b.size());
      for (std::size_t i = 0; i < count; ++i) {
        // Within one group everybody with the next.
        auto one = static_cast<std::uint32_t>(a[i % a.size()]);
        auto two = static_cast<std::uint32_t>(b[(i + (way.a == way.b ? 1 : 0)) % b.size()]);
        if (two < one) std::swap(one, two);
        std::vector<double>& of_type =
            pairs.emplace(std::pair(one, two), std::vector<double>(types)).first->second;
        of_type[way.type.index] += time / static_cast<double>(count);
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
