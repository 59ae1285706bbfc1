#pragma once
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/plan/fleet.hpp"
#include "sim/plan/free_gpus.hpp"
#include "sim/plan/job_mix.hpp"
#include "sim/plan/rules.hpp"

namespace tracecast::plan {

/// What has happened to one job so far.
struct JobHistory {
  std::optional<Time> first_start, end;
  Time served{};       ///< on GPUs, starts and lost work included
  double gpu_s = 0;    ///< the same over the GPUs of its gang
  Seconds overhead{};  ///< of it: starts, restarts and work done again
  std::uint32_t starts = 0, preemptions = 0;
  std::uint32_t resizes = 0;      ///< starts with another number of GPUs than before
  std::uint32_t uncertainty = 0;  ///< starts in more machines than the gang needs
  TypeId type;                    ///< of the GPUs it had last
  int gpus = 0;                   ///< it had last
};

/// Why a job leaves its GPUs.
enum class Leaves {
  Done,
  Preempted,
  Cut,  ///< the run ends before it does
};

/// Every job's remaining work on the clock of one run: who runs where, since when, how far.
///
/// While a job holds GPUs of type t it first pays what is left of its start cost c, then does
/// rate_t / f steps per second, f = Rules::run_time_factor: left(now) = left - max(0, now - since -
/// c) * rate_t / f. Work lost elsewhere than in lose_work() does not exist, so steps done + steps
/// left is constant.
class Progress {
 public:
  Progress(const JobMix& mix, const Fleet& fleet, const Rules& rules);

  [[nodiscard]] const JobMix& mix() const { return mix_; }
  [[nodiscard]] const Fleet& fleet() const { return fleet_; }
  [[nodiscard]] Time now() const { return now_; }
  void advance_to(Time now) { now_ = now; }

  /// In runs by rounds: in the last round.
  [[nodiscard]] bool runs(JobId job) const {
    return states_[job.index].runs || states_[job.index].sits;
  }
  [[nodiscard]] TypeId type_of(JobId job) const { return history_[job.index].type; }
  /// GPUs that a running job holds.
  [[nodiscard]] int gpus_of(JobId job) const { return history_[job.index].gpus; }
  [[nodiscard]] const std::vector<HeldGpus>& held_by(JobId job) const {
    return states_[job.index].held;
  }
  [[nodiscard]] double left_steps(JobId job) const;
  /// What a policy takes for left: the epochs that are left at the pace of the moment
  /// (QueuedJob::phases).
  [[nodiscard]] double expected_left(JobId job) const;
  /// JobPhase::counted of the moment; 1 where it has no phases.
  [[nodiscard]] double counted(JobId job) const;
  /// Steps until its next phase, or its end.
  [[nodiscard]] double left_of_phase(JobId job) const;
  /// Which of its phases a job is in; 0 where it has none.
  [[nodiscard]] std::size_t phase(JobId job) const;
  /// Time alone that a policy expects, where the job is fastest.
  [[nodiscard]] Seconds remaining(JobId job) const {
    return Seconds(expected_left(job) / best_rate_[job.index]);
  }
  [[nodiscard]] Time served(JobId job) const;
  [[nodiscard]] double rate(JobId job, TypeId type) const {
    return mix_.kind_of(job).rates[type.index] / rules_.run_time_factor;
  }
  /// On so many GPUs, a size of the job.
  [[nodiscard]] double rate(JobId job, TypeId type, int gpus) const {
    return mix_.kind_of(job).rate(gpus, type) / rules_.run_time_factor;
  }
  /// On these very GPUs: as measured of gangs in more machines than they need, or by
  /// Rules::scattered_run_time_factor.
  [[nodiscard]] double rate_on(JobId job, TypeId type, int gpus,
                               const std::vector<HeldGpus>& held) const;
  /// Whether so many GPUs are in more machines than they need.
  [[nodiscard]] bool is_scattered(TypeId type, int gpus, const std::vector<HeldGpus>& held) const;
  /// What a start with so many GPUs costs: its start cost where that is charged, at least
  /// JobKind::resize_cost where the job had another number before.
  [[nodiscard]] Seconds start_cost(JobId job, int gpus, bool is_charged) const;
  /// When a running job ends if nothing happens. What StartCharge::EveryDecision says is left out.
  [[nodiscard]] Time foreseen_end(JobId job) const;

  /// The job gets so many GPUs now, a size of it. `start_cost` is paid before its first step.
  void start(JobId job, TypeId type, int gpus, std::vector<HeldGpus> held, Seconds start_cost);
  void stop(JobId job, Leaves why);
  /// It goes on on other GPUs of the same type.
  void move(JobId job, std::vector<HeldGpus> held);
  /// Brings what is stored up to now and charges the start once more (StartCharge::EveryDecision).
  void charge_again(JobId job, Seconds start_cost);
  /// What was done since the last of regular checkpoints is lost, and `restart` is to be paid.
  void lose_work(JobId job, Seconds checkpoint_interval, Seconds restart);

  /// For runs in rounds: the job had so many GPUs of a type from `begin` to `end`, half of those
  /// that another shared, did so many steps and paid so much.
  void credit(JobId job, TypeId type, Time begin, Time end, double steps, Seconds overhead,
              double gpus);
  /// Whether it has GPUs in the round that begins.
  void allocation(JobId job, bool sits) { states_[job.index].sits = sits; }
  /// The same of a new stay on so many GPUs, after waiting or a move.
  void count_start(JobId job, Time begin, int gpus, bool is_scattered);
  void count_preemption(JobId job) { ++history_[job.index].preemptions; }
  /// It is done.
  void finish(JobId job, Time end) { history_[job.index].end = end; }

  [[nodiscard]] std::vector<JobHistory> take_history() { return std::move(history_); }
  [[nodiscard]] const JobHistory& history(JobId job) const { return history_[job.index]; }
  [[nodiscard]] double busy_gpu_s(TypeId type) const { return busy_gpu_s_[type.index]; }

 private:
  struct State {
    double left = 0;      ///< steps at `since`
    double rate = 0;      ///< steps per second while it runs
    double to_pay_s = 0;  ///< of the start, at `since`
    Time since{};
    Time started{};  ///< this stay on GPUs
    bool runs = false, sits = false;
    std::vector<HeldGpus> held;
  };
  void settle(JobId job);
  static void note_start(JobHistory& history, int gpus, bool is_scattered);
  [[nodiscard]] static double elapsed_s(Time from, Time to) {
    return (to - from).in_seconds().in_s();
  }

  const JobMix& mix_;
  const Fleet& fleet_;
  const Rules& rules_;
  Time now_{};
  std::vector<State> states_;
  std::vector<double> best_rate_;
  std::vector<JobHistory> history_;
  std::vector<double> busy_gpu_s_;
  std::vector<int> largest_machine_;  ///< by type
};

}  // namespace tracecast::plan
