#include "sim/plan/progress.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/error.hpp"

namespace tracecast::plan {

Progress::Progress(const JobMix& mix, const Fleet& fleet, const Rules& rules)
    : mix_(mix),
      fleet_(fleet),
      rules_(rules),
      states_(mix.jobs.size()),
      best_rate_(mix.jobs.size()),
      history_(mix.jobs.size()),
      busy_gpu_s_(fleet.types.size()),
      largest_machine_(fleet.types.size()) {
  for (const FleetMachine& machine : fleet.machines) {
    int& largest = largest_machine_[machine.type.index];
    largest = std::max(largest, machine.gpus);
  }
  for (std::uint32_t j = 0; j < mix.jobs.size(); ++j) {
    states_[j].left = mix.jobs[j].steps;
    best_rate_[j] = mix.best_rate({j}) / rules.run_time_factor;
  }
}

double Progress::left_steps(JobId job) const {
  const State& state = states_[job.index];
  if (!state.runs) return state.left;
  const double ran = std::max(0.0, elapsed_s(state.since, now_) - state.to_pay_s);
  return std::max(0.0, state.left - ran * state.rate);
}

std::size_t Progress::phase(JobId job) const {
  const std::vector<JobPhase>& phases = mix_.jobs[job.index].phases;
  constexpr double kRounding = 1e-9;
  const double steps = mix_.jobs[job.index].steps;
  double done = steps - left_steps(job) + kRounding * steps;
  std::size_t p = 0;
  for (; p + 1 < phases.size() && done >= phases[p].steps; ++p) done -= phases[p].steps;
  return p;
}

double Progress::left_of_phase(JobId job) const {
  const std::vector<JobPhase>& phases = mix_.jobs[job.index].phases;
  double left = left_steps(job);
  for (std::size_t p = phase(job) + 1; p < phases.size(); ++p) left -= phases[p].steps;
  return std::max(left, 0.0);
}

double Progress::counted(JobId job) const {
  const std::vector<JobPhase>& phases = mix_.jobs[job.index].phases;
  return phases.empty() ? 1 : phases[phase(job)].counted;
}

double Progress::expected_left(JobId job) const {
  const double left = left_steps(job);
  const std::vector<JobPhase>& phases = mix_.jobs[job.index].phases;
  if (phases.empty()) return left;
  const std::size_t now = phase(job);
  const double efficiency = phases[now].steps / phases[now].epochs;
  double here = left, epochs = 0;
  for (std::size_t p = now + 1; p < phases.size(); ++p) {
    here -= phases[p].steps;
    epochs += phases[p].epochs;
  }
  return std::max(here, 0.0) + epochs * efficiency;
}

Time Progress::served(JobId job) const {
  const State& state = states_[job.index];
  const Time before = history_[job.index].served;
  return state.runs ? before + (now_ - state.started) : before;
}

Time Progress::foreseen_end(JobId job) const {
  const State& state = states_[job.index];
  const double pay = rules_.start_charge == StartCharge::EveryDecision ? 0.0 : state.to_pay_s;
  const double left = pay + state.left / state.rate;
  return state.since + (left > 0 ? engine::to_ticks<Time>(Seconds(left)) : Time{});
}

void Progress::settle(JobId job) {
  State& state = states_[job.index];
  const double elapsed = elapsed_s(state.since, now_);
  history_[job.index].overhead += Seconds(std::min(elapsed, state.to_pay_s));
  state.left = left_steps(job);
  state.to_pay_s = std::max(0.0, state.to_pay_s - elapsed);
  state.since = now_;
}

Seconds Progress::start_cost(JobId job, int gpus, bool is_charged) const {
  const JobKind& kind = mix_.kind_of(job);
  const GangSize* size = kind.size_of(gpus);
  Seconds cost;
  if (is_charged) cost = size == nullptr ? kind.start_cost : size->start_cost;
  const JobHistory& before = history_[job.index];
  const bool resizes = before.starts > 0 && before.gpus != gpus;
  return resizes ? max(cost, kind.resize_cost) : cost;
}

bool Progress::is_scattered(TypeId type, int gpus, const std::vector<HeldGpus>& held) const {
  const int machine = largest_machine_[type.index];
  return static_cast<int>(held.size()) > (gpus + machine - 1) / machine;
}

double Progress::rate_on(JobId job, TypeId type, int gpus,
                         const std::vector<HeldGpus>& held) const {
  if (!is_scattered(type, gpus, held)) return rate(job, type, gpus);
  const double measured = mix_.kind_of(job).scattered_rate(gpus, type);
  return measured > 0 ? measured / rules_.run_time_factor
                      : rate(job, type, gpus) / rules_.scattered_run_time_factor;
}

void Progress::move(JobId job, std::vector<HeldGpus> held) {
  State& state = states_[job.index];
  settle(job);
  state.rate = rate_on(job, history_[job.index].type, history_[job.index].gpus, held);
  state.held = std::move(held);
}

void Progress::note_start(JobHistory& history, int gpus, bool is_scattered) {
  history.uncertainty += is_scattered ? 1 : 0;
  if (history.starts > 0 && history.gpus != gpus) ++history.resizes;
  ++history.starts;
  history.gpus = gpus;
}

void Progress::start(JobId job, TypeId type, int gpus, std::vector<HeldGpus> held,
                     Seconds start_cost) {
  State& state = states_[job.index];
  JobHistory& history = history_[job.index];
  TRACECAST_CHECK(!state.runs, "a job that runs is not started");
  state.runs = true;
  state.rate = rate_on(job, type, gpus, held);
  TRACECAST_CHECK(state.rate > 0, "a job starts where it can run");
  state.to_pay_s = start_cost.in_s();
  state.since = state.started = now_;
  state.held = std::move(held);
  history.type = type;
  note_start(history, gpus, is_scattered(type, gpus, state.held));
  if (!history.first_start) history.first_start = now_;
}

void Progress::stop(JobId job, Leaves why) {
  State& state = states_[job.index];
  JobHistory& history = history_[job.index];
  TRACECAST_CHECK(state.runs, "only a running job is stopped");
  settle(job);
  state.runs = false;
  state.held.clear();
  const Time residence = now_ - state.started;
  const double gpu_s = residence.in_seconds().in_s() * history.gpus;
  history.served += residence;
  history.gpu_s += gpu_s;
  busy_gpu_s_[history.type.index] += gpu_s;
  if (why == Leaves::Done) {
    state.left = 0;
    history.end = now_;
  } else if (why == Leaves::Preempted) {
    ++history.preemptions;
  }
}

void Progress::credit(JobId job, TypeId type, Time begin, Time end, double steps, Seconds overhead,
                      double gpus) {
  JobHistory& history = history_[job.index];
  State& state = states_[job.index];
  state.left = std::max(0.0, state.left - steps);
  const double gpu_s = gpus * elapsed_s(begin, end);
  history.served += end - begin;
  history.gpu_s += gpu_s;
  history.overhead += overhead;
  history.type = type;
  busy_gpu_s_[type.index] += gpu_s;
}

void Progress::count_start(JobId job, Time begin, int gpus, bool is_scattered) {
  JobHistory& history = history_[job.index];
  note_start(history, gpus, is_scattered);
  if (!history.first_start) history.first_start = begin;
}

void Progress::charge_again(JobId job, Seconds start_cost) {
  settle(job);
  states_[job.index].to_pay_s = start_cost.in_s();
}

void Progress::lose_work(JobId job, Seconds checkpoint_interval, Seconds restart) {
  State& state = states_[job.index];
  settle(job);
  const double residence = elapsed_s(state.started, now_);
  const double unsaved = std::fmod(residence, checkpoint_interval.in_s());
  const double lost = std::min(unsaved * state.rate, mix_.jobs[job.index].steps - state.left);
  state.left += lost;
  history_[job.index].overhead += Seconds(lost / state.rate);
  state.to_pay_s = restart.in_s();
}

}  // namespace tracecast::plan
