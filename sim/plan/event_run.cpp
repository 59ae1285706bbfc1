#include "sim/plan/event_run.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/plan/failure_draw.hpp"

namespace tracecast::plan {
namespace {

enum Kind : std::uint16_t { kArrival, kEnd, kChange, kFailure };

class EventRun {
 public:
  EventRun(const JobMix& mix, const Fleet& fleet, const Rules& rules, Ranking& ranking,
           Placement placement, const ScheduleOptions& options)
      : mix_(mix),
        fleet_(fleet),
        rules_(rules),
        ranking_(ranking),
        options_(options),
        progress_(mix, fleet, rules),
        free_(fleet, placement),
        failures_(fleet, options.seed),
        recharges_(rules.start_charge == StartCharge::EveryDecision),
        wanted_(mix.jobs.size()),
        begun_(mix.jobs.size()) {
    first_measured_ = options.measured ? options.measured->first : 0;
    last_measured_ = options.measured ? options.measured->second
                                      : static_cast<std::uint32_t>(mix.jobs.size()) - 1;
    left_ = last_measured_ - first_measured_ + 1;
    for (std::uint32_t t = 0; t < fleet.types.size(); ++t) types_.push_back({t});
  }

  Schedule run() {
    for (std::uint32_t j = 0; j < mix_.jobs.size(); ++j)
      queue_.push(mix_.jobs[j].submit, j, kArrival, engine::Phase::Start);
    plan_failure();
    while (left_ > 0) {
      TRACECAST_CHECK(!queue_.empty(), "who waits can run one day");
      if (take_events() && left_ > 0) decide();
    }
    return finish();
  }

 private:
  /// What happens next, with all that happens at the same time. False: nothing that matters any
  /// more.
  bool take_events() {
    bool matters = false;
    do {
      const engine::Event<Time> event = queue_.pop();
      progress_.advance_to(event.time);
      switch (event.kind) {
        case kArrival:
          arrive({event.id});
          matters = true;
          break;
        case kEnd:
          matters |= recharges_ ? end_all_due(event.id) : end_if_due({event.id});
          break;
        case kFailure:
          matters |= fail();
          break;
        default:
          matters |= event.id == static_cast<std::uint32_t>(decisions_);
      }
    } while (!queue_.empty() && queue_.has_event_now());
    return matters;
  }

  void arrive(JobId job) {
    ranking_.arrived(progress_, job);
    waiting_or_all_.push_back(job);
  }
  /// Where every decision moves every end: the one that was foreseen as the earliest.
  bool end_all_due(std::uint32_t decision) {
    if (decision != static_cast<std::uint32_t>(decisions_)) return false;
    const std::vector<JobId> running = running_;
    for (const JobId job : running) {
      if (progress_.foreseen_end(job) <= progress_.now()) end(job);
    }
    return true;
  }
  bool end_if_due(JobId job) {
    if (!progress_.runs(job) || progress_.foreseen_end(job) != progress_.now()) return false;
    end(job);
    return true;
  }
  void end(JobId job) {
    free_.give_back(progress_.gpus_of(job), progress_.type_of(job), progress_.held_by(job));
    leave(job, Leaves::Done);
    ranking_.ended(progress_, job);
    if (ranking_.preempts()) std::erase(waiting_or_all_, job);
    left_ -= job.index >= first_measured_ && job.index <= last_measured_ ? 1 : 0;
  }
  void leave(JobId job, Leaves why) {
    record_residence(job);
    progress_.stop(job, why);
    std::erase(running_, job);
  }
  /// The stay on these very GPUs that ends now.
  void record_residence(JobId job) {
    if (!options_.records_residences || begun_[job.index] == progress_.now()) return;
    schedule_.residences.push_back({job, progress_.type_of(job), progress_.gpus_of(job),
                                    begun_[job.index], progress_.now(), progress_.held_by(job)});
    begun_[job.index] = progress_.now();
  }

  void decide() {
    ++decisions_;
    if (recharges_) {
      for (const JobId job : running_)
        progress_.charge_again(job, progress_.start_cost(job, progress_.gpus_of(job), true));
    }
    ranking_.order(progress_, waiting_or_all_);
    if (ranking_.preempts())
      place_all();
    else if (ranking_.chooses_by_type())
      place_by_type();
    else
      place_waiting();
    ranking_.decided(progress_);
    foresee();
  }

  /// The types a job may run on, best first, as the policy chooses.
  const std::vector<TypeId>& choices(JobId job) {
    if (ranking_.type_choice() == TypeChoice::First || types_.size() == 1) return types_;
    sorted_types_ = types_;
    std::stable_sort(sorted_types_.begin(), sorted_types_.end(), [&](TypeId a, TypeId b) {
      return progress_.rate(job, a) > progress_.rate(job, b);
    });
    return sorted_types_;
  }
  [[nodiscard]] bool may_run(JobId job, TypeId type) const {
    return progress_.rate(job, type) > 0 && !ranking_.refuses(progress_, job, type);
  }

  /// Those that wait take what is free; nobody loses anything.
  void place_waiting() {
    std::size_t kept = 0, next = 0;
    for (; next < waiting_or_all_.size() && free_.free() > 0; ++next) {
      const JobId job = waiting_or_all_[next];
      std::vector<HeldGpus> held;
      const std::vector<TypeId>& types = choices(job);
      const auto type = std::find_if(types.begin(), types.end(), [&](TypeId t) {
        return may_run(job, t) && free_.take(mix_.gpus_of(job), t, held);
      });
      if (type != types.end()) {
        start(job, *type, mix_.gpus_of(job), std::move(held));
      } else {
        waiting_or_all_[kept++] = job;
        if (ranking_.blocks()) {
          ++next;
          break;
        }
      }
    }
    if (kept != next) {
      waiting_or_all_.erase(waiting_or_all_.begin() + static_cast<std::ptrdiff_t>(kept),
                            waiting_or_all_.begin() + static_cast<std::ptrdiff_t>(next));
    }
  }

  /// Free GPUs take jobs, type by type.
  void place_by_type() {
    for (const TypeId type : types_) {
      while (free_.free_of(type) > 0) {
        const auto place = ranking_.choose(progress_, waiting_or_all_, type);
        if (!place) break;
        const JobId job = waiting_or_all_[*place];
        std::vector<HeldGpus> held;
        // A gang that does not fit waits for more of them.
        if (!may_run(job, type) || !free_.take(mix_.gpus_of(job), type, held)) break;
        waiting_or_all_.erase(waiting_or_all_.begin() + static_cast<std::ptrdiff_t>(*place));
        start(job, type, mix_.gpus_of(job), std::move(held));
      }
    }
  }

  /// Everybody is placed anew in the policy's order; then those who lost stop and those who won
  /// start.
  void place_all() {
    free_.free_all();
    for (const JobId job : waiting_or_all_) wanted_[job.index].gets = false;
    for (const JobId job : waiting_or_all_) {
      if (free_.free() == 0) break;
      const bool fits = ranking_.resizes() ? want_granted(job) : want(job);
      if (!fits && ranking_.blocks()) break;
    }
    const std::vector<JobId> running = running_;
    for (const JobId job : running) {
      if (!goes_on(job)) leave(job, Leaves::Preempted);
    }
    for (const JobId job : waiting_or_all_) {
      Wanted& wanted = wanted_[job.index];
      if (wanted.gets && !progress_.runs(job))
        start(job, wanted.type, wanted.gpus, std::move(wanted.held));
    }
  }
  /// What the policy grants; where machines count and that does not fit any more, the next smaller
  /// size that does.
  bool want_granted(JobId job) {
    Wanted& wanted = wanted_[job.index];
    wanted.held.clear();
    const std::optional<Grant> grant = ranking_.granted(job);
    if (!grant) return false;
    if (rules_.keeps_places && progress_.runs(job) && progress_.type_of(job) == grant->type &&
        progress_.gpus_of(job) == grant->gpus &&
        free_.take_again(grant->gpus, grant->type, progress_.held_by(job))) {
      wanted = {true, grant->type, grant->gpus, progress_.held_by(job)};
      return true;
    }
    const std::vector<GangSize>& sizes = mix_.kind_of(job).sizes;
    int gpus = grant->gpus;
    auto smaller = std::find_if(sizes.rbegin(), sizes.rend(),
                                [&](const GangSize& size) { return size.gpus < grant->gpus; });
    while (progress_.rate(job, grant->type, gpus) <= 0 ||
           !free_.take(gpus, grant->type, wanted.held)) {
      if (smaller == sizes.rend()) return false;
      gpus = (smaller++)->gpus;
    }
    wanted.gets = true;
    wanted.type = grant->type;
    wanted.gpus = gpus;
    return true;
  }
  bool want(JobId job) {
    Wanted& wanted = wanted_[job.index];
    wanted.held.clear();
    const int gpus = mix_.gpus_of(job);
    if (rules_.keeps_places && progress_.runs(job) && may_run(job, progress_.type_of(job)) &&
        free_.take_again(gpus, progress_.type_of(job), progress_.held_by(job))) {
      wanted = {true, progress_.type_of(job), gpus, progress_.held_by(job)};
      return true;
    }
    for (const TypeId type : choices(job)) {
      if (!may_run(job, type) || !free_.take(gpus, type, wanted.held)) continue;
      wanted.gets = true;
      wanted.type = type;
      wanted.gpus = gpus;
      return true;
    }
    return false;
  }
  /// Whether a running job keeps its GPUs, or gets others that cost it nothing more: a charge at
  /// every decision does not ask who moved.
  [[nodiscard]] bool goes_on(JobId job) {
    Wanted& wanted = wanted_[job.index];
    if (!wanted.gets || wanted.type != progress_.type_of(job) ||
        wanted.gpus != progress_.gpus_of(job))
      return false;
    if (wanted.held == progress_.held_by(job)) return true;
    if (!recharges_) return false;
    record_residence(job);
    progress_.move(job, std::move(wanted.held));
    return true;
  }

  void start(JobId job, TypeId type, int gpus, std::vector<HeldGpus> held) {
    const bool is_charged = rules_.start_charge != StartCharge::Never;
    progress_.start(job, type, gpus, std::move(held), progress_.start_cost(job, gpus, is_charged));
    running_.push_back(job);
    begun_[job.index] = progress_.now();
    if (!recharges_) queue_.push(progress_.foreseen_end(job), job.index, kEnd);
  }

  void foresee() {
    if (recharges_) {
      std::optional<Time> next;
      for (const JobId job : running_) {
        const Time end = std::max(progress_.foreseen_end(job), progress_.now());
        if (!next || end < *next) next = end;
      }
      if (next) queue_.push(*next, static_cast<std::uint32_t>(decisions_), kEnd);
    }
    if (const auto change = ranking_.next_change(progress_))
      queue_.push(*change, static_cast<std::uint32_t>(decisions_), kChange, engine::Phase::Start);
  }

  void plan_failure() {
    if (!fleet_.failures) return;
    queue_.push(progress_.now() + engine::to_ticks<Time>(failures_.wait()), 0, kFailure,
                engine::Phase::Start);
  }
  /// A machine or a GPU stops; the gangs on it go back to their last checkpoint and start again at
  /// once on others like it.
  bool fail() {
    plan_failure();
    ++schedule_.failures;
    FailureHits hits(fleet_, failures_.what());
    bool any = false;
    const std::vector<JobId> running = running_;
    for (const JobId job : running) {
      if (!hits.strikes(progress_.held_by(job), progress_.gpus_of(job))) continue;
      progress_.lose_work(job, fleet_.failures->checkpoint_interval, fleet_.failures->restart);
      if (!recharges_) queue_.push(progress_.foreseen_end(job), job.index, kEnd);
      any = true;
    }
    return any;
  }

  Schedule finish() {
    schedule_.end = progress_.now();
    for (const JobId job : std::vector<JobId>(running_)) leave(job, Leaves::Cut);
    for (const TypeId type : types_) schedule_.busy_gpu_s.push_back(progress_.busy_gpu_s(type));
    schedule_.jobs = progress_.take_history();
    schedule_.decisions = decisions_;
    return std::move(schedule_);
  }

  struct Wanted {
    bool gets = false;
    TypeId type;
    int gpus = 0;
    std::vector<HeldGpus> held;
  };

  const JobMix& mix_;
  const Fleet& fleet_;
  const Rules& rules_;
  Ranking& ranking_;
  const ScheduleOptions& options_;
  Progress progress_;
  FreeGpus free_;
  FailureDraw failures_;
  bool recharges_;
  std::vector<Wanted> wanted_;
  std::vector<Time> begun_;  ///< of the stay of a running job
  engine::EventQueue<Time> queue_;
  std::vector<JobId>
      waiting_or_all_;          ///< all that are not done, or without preemption those that wait
  std::vector<JobId> running_;  ///< in the order of their starts
  std::vector<TypeId> types_, sorted_types_;
  std::uint32_t first_measured_ = 0, last_measured_ = 0;
  std::uint64_t left_ = 0;  ///< jobs that matter and are not done
  std::uint64_t decisions_ = 0;
  Schedule schedule_;
};

}  // namespace

Schedule run_by_events(const JobMix& mix, const Fleet& fleet, const Rules& rules, Ranking& ranking,
                       Placement placement, const ScheduleOptions& options) {
  if (mix.jobs.empty()) return {};
  return EventRun(mix, fleet, rules, ranking, placement, options).run();
}

}  // namespace tracecast::plan
