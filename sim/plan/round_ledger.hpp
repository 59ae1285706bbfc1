#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/plan/sharing.hpp"

namespace tracecast::plan {

/// A job (a = b), or two that share GPUs, or a job on another number of GPUs, as the mechanism
/// weighs them.
struct Entity {
  JobId a, b;
  bool is_new = false;      ///< came after the shares were divided
  std::optional<int> gpus;  ///< nothing: as stated
  [[nodiscard]] bool is_pair() const { return a != b; }
  [[nodiscard]] bool is_job() const { return !is_pair() && !gpus; }
};

/// What every entity should have and has had, per GPU type.
class Ledger {
 public:
  /// Who has a share has half a round on its account: `round` above zero.
  Ledger(std::size_t types, Seconds round)
      : types_(types), half_round_(0.5 * round.in_s()), given_(types), running_sum_(types) {
    TRACECAST_CHECK(round > Seconds(0), "a round takes time");
  }

  [[nodiscard]] std::size_t size() const { return entities_.size(); }
  [[nodiscard]] const Entity& entity(std::size_t e) const { return entities_[e]; }
  [[nodiscard]] double share(std::size_t e, TypeId t) const { return share_[e * types_ + t.index]; }

  /// A job that came after the shares were divided: it has none.
  void add(JobId job) { append({job, job, true, {}}, half_round_); }
  /// Forgets entities of jobs that are done.
  template <class IsDone>
  void remove_done(IsDone is_done) {
    std::size_t kept = 0;
    for (std::size_t e = 0; e < entities_.size(); ++e) {
      if (is_done(entities_[e].a) || is_done(entities_[e].b)) continue;
      move(e, kept++);
    }
    resize(kept);
  }
  void record(std::size_t e, TypeId t, double seconds) {
    time_[e * types_ + t.index] += seconds;
    given_[t.index] += seconds;
  }
  /// Time of a stay that goes on, until the end of a period.
  void run(std::size_t e, TypeId t, double seconds) {
    running_[e * types_ + t.index] += seconds;
    running_sum_[t.index] += seconds;
  }
  /// The stay is over: so many seconds in all.
  void book(std::size_t e, TypeId t, double seconds) {
    running_sum_[t.index] -= running_[e * types_ + t.index];
    running_[e * types_ + t.index] = 0;
    record(e, t, seconds);
  }
  /// The entity that is the job with the GPUs that it states.
  [[nodiscard]] std::optional<std::size_t> find(JobId job) const {
    for (std::size_t e = 0; e < entities_.size(); ++e) {
      if (entities_[e].is_job() && entities_[e].a == job) return e;
    }
    return std::nullopt;
  }
  /// Ends a period of so many seconds: what was missed is remembered, time received starts anew.
  void reset(double elapsed_s) {
    std::fill(given_.begin(), given_.end(), 0.0);
    std::fill(running_.begin(), running_.end(), 0.0);
    std::fill(running_sum_.begin(), running_sum_.end(), 0.0);
    for (std::size_t e = 0; e < entities_.size(); ++e) {
      for (std::size_t t = 0; t < types_; ++t) {
        const std::size_t at = e * types_ + t;
        deficit_[at] += share_[at] * elapsed_s - (time_[at] - half_round_);
        time_[at] = half_round_;
        given_[t] += half_round_;
      }
    }
  }
  /// New shares for the jobs, which are the entities that are neither pairs nor sizes, in order.
  void assign(const Shares& shares) {
    std::size_t singles = 0;
    for (std::size_t e = 0; e < entities_.size(); ++e) {
      if (entities_[e].is_job()) move(e, singles++);
    }
    resize(singles);
    TRACECAST_CHECK(singles * types_ == shares.alone.size(), "shares of every job");
    std::copy(shares.alone.begin(), shares.alone.end(), share_.begin());
    for (Entity& entity : entities_) entity.is_new = false;
    for (const SizedShare& sized : shares.sized) {
      const JobId job = entities_[sized.job].a;
      append_shared({job, job, false, sized.gpus}, sized.of_type);
    }
    for (const PairShare& pair : shares.pairs)
      append_shared({entities_[pair.a].a, entities_[pair.b].a, false, {}}, pair.of_type);
  }
  /// How urgent an entity is on a type: its share over the part it has had of the time given so
  /// far. Who has no share yet is the least urgent. Shares are assigned in a period that reset()
  /// has begun: some time has been given then.
  [[nodiscard]] double priority(std::size_t e, TypeId t) const {
    const std::size_t at = e * types_ + t.index;
    if (share_[at] <= 0) return 0;
    const double given = given_[t.index] + running_sum_[t.index];
    const double time = time_[at] + running_[at];
    return share_[at] / (time / given);
  }
  [[nodiscard]] double deficit(std::size_t e, TypeId t) const {
    return deficit_[e * types_ + t.index];
  }

 private:
  void append_shared(const Entity& entity, const std::vector<double>& of_type) {
    append(entity, half_round_);
    std::copy(of_type.begin(), of_type.end(), share_.end() - static_cast<std::ptrdiff_t>(types_));
    for (std::size_t t = 0; t < types_; ++t) given_[t] += half_round_;
  }
  void append(const Entity& entity, double time) {
    entities_.push_back(entity);
    share_.resize(share_.size() + types_);
    deficit_.resize(deficit_.size() + types_);
    time_.resize(time_.size() + types_, time);
    running_.resize(running_.size() + types_);
  }
  void move(std::size_t from, std::size_t to) {
    if (from == to) return;
    entities_[to] = entities_[from];
    for (std::size_t t = 0; t < types_; ++t) {
      share_[to * types_ + t] = share_[from * types_ + t];
      time_[to * types_ + t] = time_[from * types_ + t];
      running_[to * types_ + t] = running_[from * types_ + t];
      deficit_[to * types_ + t] = deficit_[from * types_ + t];
    }
  }
  void resize(std::size_t size) {
    entities_.resize(size);
    for (auto* values : {&share_, &time_, &deficit_, &running_}) values->resize(size * types_);
  }

  std::size_t types_;
  double half_round_;
  std::vector<Entity> entities_;
  std::vector<double> share_, time_, deficit_;  ///< entities x types
  std::vector<double> given_;                   ///< time that all together received, by type
  /// Of stays that go on and are booked when they end (Rules::books_when_stopped), since the period
  /// began.
  std::vector<double> running_, running_sum_;
};

}  // namespace tracecast::plan
