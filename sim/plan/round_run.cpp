#include "sim/plan/round_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/plan/failure_draw.hpp"
#include "sim/plan/published_random.hpp"
#include "sim/plan/round_ledger.hpp"
#include "sim/plan/shared_rates.hpp"

namespace tracecast::plan {
namespace {

class RoundRun {
 public:
  RoundRun(const JobMix& mix, const Fleet& fleet, const Rules& rules, Sharing& sharing,
           Placement placement, const ScheduleOptions& options)
      : mix_(mix),
        fleet_(fleet),
        rules_(rules),
        sharing_(sharing),
        options_(options),
        round_(rules.round.value_or(rules.shares_round)),
        progress_(mix, fleet, rules),
        free_(fleet, placement),
        ledger_(fleet.types.size(), round_),
        shared_(mix, fleet.types.size()),
        random_(static_cast<std::uint32_t>(options.seed) + kTypesSeed),
        failures_(fleet, options.seed),
        allocations_(mix.jobs.size()),
        busy_until_(fleet.machines.size()),
        unbooked_s_(mix.jobs.size()) {
    for (std::uint32_t t = 0; t < fleet.types.size(); ++t) types_.push_back({t});
    first_measured_ = options.measured ? options.measured->first : 0;
    last_measured_ = options.measured ? options.measured->second
                                      : static_cast<std::uint32_t>(mix.jobs.size()) - 1;
    left_ = last_measured_ - first_measured_ + 1;
    if (rules.decides_ahead > 0) ahead_ = engine::to_ticks<Time>(rules.decides_ahead * round_);
  }

  Schedule run() {
    go_to(mix_.jobs.front().submit);
    next_failure_ = now_;
    if (fleet_.failures) draw_failure();
    for (;;) {
      admit();
      divide_if_due();
      choose();
      book_stopped();
      if (turns_.empty()) {
        go_to(gone_.empty() ? next_moment() : now_ + engine::to_ticks<Time>(round_));
        forget_gone();
        continue;
      }
      const Time end = plan_round();
      go_to(end);
      close_round();
      if (left_ == 0) return finish();
    }
  }

 private:
  /// A job in one round.
  struct Turn {
    JobId job;
    std::size_t entity = 0;
    TypeId type;
    Time end{};
    double steps = 0;
    Seconds overhead{};
    Time resumes{};        ///< when it begins to work, or did after the last failure
    double had_steps = 0;  ///< then, of this round: below 0 where more was lost than it did
    Seconds early{};       ///< before the round
  };
  /// Where a job sits, or sat in the last round in which it ran.
  struct RoundAllocation {
    std::uint64_t round = 0;  ///< 0: never
    TypeId type;
    int gpus = 0;
    Time begin{}, end{};  ///< of the stay
    std::vector<HeldGpus> held;
    std::optional<JobId> partner;
    bool is_start = false;       ///< in this round
    Seconds start_cost{};        ///< then
    bool restarts = false;       ///< before it goes on
    Seconds owed{};              ///< of a restart, still to be paid
    std::uint64_t waits_in = 0;  ///< the round in which GPUs were only kept for it
    std::size_t phase = 0;       ///< of the job, as the policy last saw it
  };

  void go_to(Time now) {
    now_ = now;
    progress_.advance_to(now);
  }
  void admit() {
    // With nobody there the first to come is waited for.
    const Time known = active_.empty() ? now_ : now_ - ahead_;
    for (; next_ < mix_.jobs.size() && mix_.jobs[next_].submit <= known; ++next_) {
      active_.push_back({next_});
      ledger_.add({next_});
      is_stale_ = true;
    }
  }
  /// When something can change though nobody runs.
  [[nodiscard]] Time next_moment() const {
    Time next = Time::most();
    const Time until_known = active_.empty() ? Time{} : ahead_;
    if (next_ < mix_.jobs.size()) next = mix_.jobs[next_].submit + until_known;
    if (is_stale_ && !active_.empty())
      next = std::min(next, sharded_at_ + engine::to_ticks<Time>(rules_.least_between_decisions));
    TRACECAST_CHECK(next > now_ && next < Time::most(), "who waits can run one day");
    return next;
  }

  [[nodiscard]] double since_allocation_s() const {
    return (now_ - sharded_at_).in_seconds().in_s();
  }
  /// Shares are divided anew when jobs came or went, and not too soon after the last time.
  void divide_if_due() {
    // Time 0 stands for never there.
    const bool may = sharded_at_ == Time{} ||
                     now_ - sharded_at_ >= engine::to_ticks<Time>(rules_.least_between_decisions);
    const bool every_round = sharing_.is_asked_every_round();
    const bool starts_period = every_round || ((is_stale_ || is_changed_) && may);
    if (active_.empty()) return;
    if (starts_period) {
      ledger_.reset(since_allocation_s());
      sharded_at_ = now_;
      is_changed_ = false;
    }
    if (!starts_period && !(is_stale_ && rules_.divides_at_once)) return;
    is_changed_ = !starts_period;
    if (!is_stale_ && !every_round) return;
    ledger_.assign(sharing_.divide(progress_, active_));
    ++schedule_.allocations;
    is_stale_ = false;
  }

  /// Who runs in this round.
  void choose() {
    ++schedule_.decisions;
    ++round_number_;
    if (round_number_ > kMostRounds)
      throw InputError(
          "rounds",
          fmt::format("{} of {:g} s, and jobs that have not ended", kMostRounds, round_.in_s()),
          "longer rounds (--round)");
    for (const Turn& turn : turns_) progress_.allocation(turn.job, false);
    before_ = std::move(turns_);
    turns_.clear();
    free_.free_all();
    std::vector<TypeId> types = types_;
    if (sharing_.is_blind() && rules_.blind_policies_shuffle_types) {
      for (std::size_t i = types.size(); i > 1; --i)
        std::swap(types[i - 1], types[random_.below(i)]);
    }
    for (const TypeId type : types) choose_on(type);
  }
  void choose_on(TypeId type) {
    claims_.clear();
    for (std::uint32_t e = 0; e < ledger_.size(); ++e) {
      if (is_taken(ledger_.entity(e)) || !can_run(ledger_.entity(e), type)) continue;
      const double priority = ledger_.priority(e, type);
      if (sharing_.idles() && priority <= 0) continue;
      claims_.push_back({priority, ledger_.deficit(e, type), ledger_.share(e, type), e});
    }
    std::sort(claims_.begin(), claims_.end());
    if (rules_.places_largest_first) {
      allocate_largest_first(type);
      return;
    }
    for (const Claim& claim : claims_) {
      if (free_.free_of(type) == 0) break;
      if (!is_taken(ledger_.entity(claim.entity))) allocation(claim.entity, type);
    }
  }
  /// Who runs by numbers alone, then where (Rules::places_largest_first).
  void allocate_largest_first(TypeId type) {
    int left = free_.free_of(type);
    std::vector<std::uint32_t> chosen;
    std::vector<JobId> taken;
    const auto has = [&](JobId job) {
      return std::find(taken.begin(), taken.end(), job) != taken.end();
    };
    for (const Claim& claim : claims_) {
      const Entity& entity = ledger_.entity(claim.entity);
      if (gpus_of(entity) > left || has(entity.a) || has(entity.b)) continue;
      left -= gpus_of(entity);
      taken.insert(taken.end(), {entity.a, entity.b});
      chosen.push_back(claim.entity);
    }
    const auto residences = [&](std::uint32_t e) {
      return could_be_persistent(ledger_.entity(e), type);
    };
    std::stable_sort(chosen.begin(), chosen.end(), [&](std::uint32_t a, std::uint32_t b) {
      const int one = gpus_of(ledger_.entity(a)), two = gpus_of(ledger_.entity(b));
      return one != two ? one > two : residences(a) && !residences(b);
    });
    for (const std::uint32_t e : chosen) allocation(e, type);
  }
  /// It ran in the last round on as many GPUs of the type.
  [[nodiscard]] bool could_be_persistent(const Entity& entity, TypeId type) const {
    const RoundAllocation& before = allocations_[entity.a.index];
    return rules_.keeps_places && before.round > 0 && before.round + 1 == round_number_ &&
           before.type == type && before.gpus == gpus_of(entity);
  }
  /// The stays of those who ran and do not go on where they were are booked.
  void book_stopped() {
    if (!rules_.books_when_stopped) return;
    for (const Turn& turn : before_) {
      const RoundAllocation& allocation = allocations_[turn.job.index];
      if (allocation.round != round_number_ || allocation.is_start) book(turn.job, turn.type);
    }
  }
  void book(JobId job, TypeId type) {
    double& unbooked = unbooked_s_[job.index];
    if (const auto e = ledger_.find(job)) ledger_.book(*e, type, unbooked);
    unbooked = 0;
  }
  [[nodiscard]] bool is_taken(const Entity& entity) const {
    const RoundAllocation &a = allocations_[entity.a.index], &b = allocations_[entity.b.index];
    return a.round == round_number_ || b.round == round_number_ || a.waits_in == round_number_;
  }
  [[nodiscard]] bool can_run(const Entity& entity, TypeId type) const {
    if (!entity.is_pair()) return mix_.kind_of(entity.a).rate(gpus_of(entity), type) > 0;
    return shared_.rate(kind(entity.a), kind(entity.b), type) > 0 &&
           shared_.rate(kind(entity.b), kind(entity.a), type) > 0;
  }
  [[nodiscard]] KindId kind(JobId job) const { return mix_.jobs[job.index].kind; }
  [[nodiscard]] int gpus_of(const Entity& entity) const {
    return entity.gpus.value_or(mix_.gpus_of(entity.a));
  }

  /// Gives an entity its GPUs if they are free; the same ones as in the round before where the
  /// rules say so.
  void allocation(std::size_t e, TypeId type) {
    const Entity entity = ledger_.entity(e);
    const RoundAllocation& before = allocations_[entity.a.index];
    const int gpus = gpus_of(entity);
    std::vector<HeldGpus> held;
    if (could_be_persistent(entity, type) && free_.take_again(gpus, type, before.held)) {
      held = before.held;
    } else if (!free_.take(gpus, type, held)) {
      return;
    }
    const bool is_gone = progress_.history(entity.a).end || progress_.history(entity.b).end;
    if (is_gone || (entity.is_new && rules_.new_jobs_wait)) {
      allocations_[entity.a.index].waits_in = round_number_;  // GPUs are kept for it and stay idle
    } else if (entity.is_pair()) {
      sit(entity.a, e, type, held, entity.b);
      sit(entity.b, e, type, held, entity.a);
    } else {
      sit(entity.a, e, type, held, std::nullopt);
    }
  }
  void sit(JobId job, std::size_t e, TypeId type, const std::vector<HeldGpus>& held,
           std::optional<JobId> partner) {
    RoundAllocation& allocation = allocations_[job.index];
    const int gpus = gpus_of(ledger_.entity(e));
    const bool goes_on = !allocation.restarts && allocation.round > 0 &&
                         allocation.round + 1 == round_number_ && allocation.type == type &&
                         allocation.gpus == gpus && allocation.held == held;
    if (!goes_on || partner != allocation.partner) {
      record_residence(job);
      allocation.begin = now_;
    }
    if (!goes_on) {
      if (allocation.round > 0) progress_.count_preemption(job);
      allocation.start_cost =
          progress_.start_cost(job, gpus, rules_.start_charge == StartCharge::WhenStarted);
      progress_.count_start(job, now_, gpus, progress_.is_scattered(type, gpus, held));
    }
    allocation.round = round_number_;
    allocation.type = type;
    allocation.gpus = gpus;
    allocation.held = held;
    allocation.partner = partner;
    allocation.is_start = !goes_on;
    allocation.restarts = false;
    progress_.allocation(job, true);
    turns_.push_back({job, e, type, {}, 0, {}, {}, 0, {}});
  }
  void record_residence(JobId job) {
    const RoundAllocation& allocation = allocations_[job.index];
    if (!options_.records_residences || allocation.round == 0 || allocation.end <= allocation.begin)
      return;
    if (allocation.partner && *allocation.partner < job) return;  // the other's stay is this one
    schedule_.residences.push_back({job, allocation.type, allocation.gpus, allocation.begin,
                                    allocation.end, allocation.held, allocation.partner});
  }

  /// What everybody does in this round, and when it ends.
  Time plan_round() {
    began_ = now_;
    Time last{};
    for (Turn& turn : turns_) {
      plan_turn(turn);
      last = std::max(last, turn.end);
    }
    if (rules_.round_end == RoundEnd::Fixed) last = now_ + engine::to_ticks<Time>(round_);
    fail(last);
    if (rules_.round_end == RoundEnd::Fixed) return last;
    // Two that share end together.
    for (std::size_t i = 1; i < turns_.size(); ++i) {
      if (turns_[i].entity != turns_[i - 1].entity) continue;
      turns_[i].end = turns_[i - 1].end = std::max(turns_[i].end, turns_[i - 1].end);
    }
    return last;
  }
  void plan_turn(Turn& turn) {
    RoundAllocation& allocation = allocations_[turn.job.index];
    const double rate = rate_of(turn);
    Seconds to_pay = allocation.owed;
    if (allocation.is_start) to_pay += allocation.start_cost;
    turn.early = early(turn, allocation);
    const Seconds time = round_ + turn.early;
    turn.overhead = min(to_pay, time);
    allocation.owed = to_pay - turn.overhead;
    const Time begins = now_ - elapsed(turn.early);
    turn.resumes = begins + elapsed(turn.overhead);
    const double left = progress_.left_steps(turn.job);
    double most = rate * (time - turn.overhead).in_s();
    if (rules_.whole_steps) most = std::max(1.0, std::floor(most));
    turn.steps = std::min(left, most);
    if (rules_.restarts_between_phases)
      turn.steps = std::min(turn.steps, progress_.left_of_phase(turn.job));
    turn.end = begins + engine::to_ticks<Time>(turn.overhead + Seconds(turn.steps / rate));
  }
  /// How long before the round a job begins that starts on GPUs that have been idle
  /// (Rules::starts_early).
  [[nodiscard]] Seconds early(const Turn& turn, const RoundAllocation& allocation) const {
    const bool follows = round_number_ > 1 && round_begin_ == now_;
    if (!rules_.starts_early || !allocation.is_start || allocation.partner || !follows) return {};
    Time begin = now_ - ahead_;
    for (const HeldGpus& part : allocation.held) begin = std::max(begin, busy_until_[part.machine]);
    // One that stopped after the round had been decided on, or runs elsewhere until its end, is
    // dispatched with it.
    if (progress_.history(turn.job).starts > 1) begin = allocation.end > begin ? now_ : begin;
    return begin < now_ ? (now_ - begin).in_seconds() : Seconds();
  }

  /// Steps per second of a job in this round.
  [[nodiscard]] double rate_of(const Turn& turn) const {
    const RoundAllocation& allocation = allocations_[turn.job.index];
    const double alone = progress_.rate_on(turn.job, turn.type, allocation.gpus, allocation.held);
    if (!allocation.partner) return alone;
    // A gang that is spread loses as much of its speed beside another.
    const double kept = alone / progress_.rate(turn.job, turn.type, allocation.gpus);
    return kept * shared_.rate(kind(turn.job), kind(*allocation.partner), turn.type) /
           rules_.run_time_factor;
  }
  static Time elapsed(Seconds time) {
    return time > Seconds() ? engine::to_ticks<Time>(time) : Time{};
  }

  /// What fails in this round, as in runs by events.
  void fail(Time end) {
    if (!fleet_.failures) return;
    for (; next_failure_ < end; draw_failure()) {
      if (next_failure_ < began_) continue;  // nobody ran
      ++schedule_.failures;
      FailureHits hits(fleet_, failures_.what());
      for (std::size_t i = 0; i < turns_.size(); ++i) {
        const RoundAllocation& allocation = allocations_[turns_[i].job.index];
        if (i > 0 && turns_[i].entity == turns_[i - 1].entity) hits.again();
        if (hits.strikes(allocation.held, allocation.gpus)) strike(turns_[i], end);
      }
    }
  }
  void draw_failure() { next_failure_ += engine::to_ticks<Time>(failures_.wait()); }
  /// The job goes back to its last checkpoint and restarts.
  void strike(Turn& turn, Time end) {
    if (turn.end <= next_failure_) return;
    RoundAllocation& allocation = allocations_[turn.job.index];
    const double rate = rate_of(turn), left = progress_.left_steps(turn.job);
    const auto worked_until = [&](Time time) {
      return turn.had_steps + rate * (time - std::min(time, turn.resumes)).in_seconds().in_s();
    };
    const double had = worked_until(next_failure_);
    const double unsaved_s = std::fmod((next_failure_ - allocation.begin).in_seconds().in_s(),
                                       fleet_.failures->checkpoint_interval.in_s());
    const double lost = std::min(unsaved_s * rate, mix_.jobs[turn.job.index].steps - left + had);
    turn.overhead += Seconds(lost / rate);
    turn.overhead -=
        (std::min(end, turn.resumes) - std::min(next_failure_, turn.resumes)).in_seconds();
    turn.had_steps = had - lost;
    turn.resumes = next_failure_ + elapsed(fleet_.failures->restart);
    turn.overhead += (std::min(end, turn.resumes) - next_failure_).in_seconds();
    allocation.owed = (turn.resumes - std::min(end, turn.resumes)).in_seconds();
    turn.steps = worked_until(end);
    turn.end = end;
    if (turn.steps < left) return;
    turn.steps = left;
    turn.end = turn.resumes + elapsed(Seconds((left - turn.had_steps) / rate));
  }

  /// Books the round that has just ended.
  void close_round() {
    for (const Turn& turn : turns_) {
      const JobId job = turn.job;
      RoundAllocation& allocation = allocations_[job.index];
      const bool books = !allocation.partner || job < *allocation.partner;
      const Seconds worked = (turn.end - round_begin_).in_seconds() + turn.early - turn.overhead;
      const double worked_s = std::max(0.0, worked.in_s());
      if (rules_.books_when_stopped && ledger_.entity(turn.entity).is_job()) {
        ledger_.run(turn.entity, turn.type, worked_s);
        unbooked_s_[job.index] += worked_s;
      } else if (books) {
        ledger_.record(turn.entity, turn.type, worked_s);
      }
      progress_.credit(job, turn.type, began_ - elapsed(turn.early), std::min(turn.end, now_),
                       turn.steps, turn.overhead,
                       allocation.partner ? 0.5 * allocation.gpus : allocation.gpus);
      if (progress_.phase(job) != allocation.phase) {
        allocation.phase = progress_.phase(job);
        allocation.restarts = rules_.restarts_between_phases;
        is_stale_ = true;
        if (rules_.books_when_stopped) book(job, turn.type);
      }
      allocation.end = turn.end;
      for (const HeldGpus& part : allocation.held) busy_until_[part.machine] = turn.end;
      if (progress_.left_steps(job) > kDone * mix_.jobs[job.index].steps) continue;
      progress_.finish(job, turn.end);
      record_residence(job);
      gone_.push_back(job);
      left_ -= job.index >= first_measured_ && job.index <= last_measured_ ? 1 : 0;
    }
    round_begin_ = now_;
    forget_gone();
  }
  /// Jobs that ended before the next round is decided on. One that ends later has its GPUs in that
  /// round, idle.
  void forget_gone() {
    const auto is_done = [&](JobId job) {
      const auto& end = progress_.history(job).end;
      return end && *end <= now_ - ahead_;
    };
    if (std::erase_if(gone_, is_done) == 0) return;
    ledger_.remove_done(is_done);
    std::erase_if(active_, is_done);
    is_stale_ = true;
  }

  Schedule finish() {
    for (const JobId job : active_) {
      if (!progress_.history(job).end) record_residence(job);
    }
    schedule_.end = now_;
    for (const TypeId type : types_) schedule_.busy_gpu_s.push_back(progress_.busy_gpu_s(type));
    schedule_.jobs = progress_.take_history();
    return std::move(schedule_);
  }

  /// Added to the seed for the order of GPU types, as Gavel's scheduler.py does.
  static constexpr std::uint32_t kTypesSeed = 5;
  /// Twenty years of rounds of six minutes.
  static constexpr std::uint64_t kMostRounds = 2'000'000;
  /// What a whole job may lack through rounding, of its steps.
  static constexpr double kDone = 1e-12;
  struct Claim {
    double priority, deficit, share;
    std::uint32_t entity;
    /// The most urgent first.
    friend bool operator<(const Claim& a, const Claim& b) {
      if (a.priority != b.priority) return a.priority > b.priority;
      if (a.deficit != b.deficit) return a.deficit > b.deficit;
      if (a.share != b.share) return a.share > b.share;
      return a.entity < b.entity;
    }
  };

  const JobMix& mix_;
  const Fleet& fleet_;
  const Rules& rules_;
  Sharing& sharing_;
  const ScheduleOptions& options_;
  Seconds round_;
  Progress progress_;
  FreeGpus free_;
  Ledger ledger_;
  SharedRates shared_;
  PublishedRandom random_;
  FailureDraw failures_;
  Time next_failure_{};
  std::vector<RoundAllocation> allocations_;
  std::vector<Time> busy_until_;    ///< by machine: the end of the last that ran there
  std::vector<double> unbooked_s_;  ///< by job: of a stay that goes on (Rules::books_when_stopped)
  std::vector<TypeId> types_;
  std::vector<JobId> active_;         ///< arrived and not done, in order
  std::vector<Turn> turns_, before_;  ///< of this round, and of the one before
  std::vector<Claim> claims_;
  Time now_{}, began_{};
  std::vector<JobId> gone_;  ///< ended, and not yet known to be
  Time ahead_{};             ///< the next round is decided on so long before it begins
  Time round_begin_{};       ///< the end of the round before
  Time sharded_at_{};
  bool is_changed_ = false;  ///< shares were divided anew within the period
  bool is_stale_ = false;
  std::uint32_t next_ = 0, first_measured_ = 0, last_measured_ = 0;
  std::uint64_t left_ = 0, round_number_ = 0;
  Schedule schedule_;
};

}  // namespace

Schedule run_by_rounds(const JobMix& mix, const Fleet& fleet, const Rules& rules, Sharing& sharing,
                       Placement placement, const ScheduleOptions& options) {
  if (mix.jobs.empty()) return {};
  return RoundRun(mix, fleet, rules, sharing, placement, options).run();
}

}  // namespace tracecast::plan
