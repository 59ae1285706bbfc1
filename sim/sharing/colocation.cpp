#include "sim/sharing/colocation.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/error.hpp"
#include "sim/sharing/shared_run.hpp"
#include "sim/step/prediction.hpp"

namespace tracecast {
namespace {

using Time = SharedProcess::Time;
Time ticks(Seconds duration) { return engine::to_ticks<Time>(duration); }

/// One GPU that several processes use.
struct SharedGpu {
  std::vector<std::size_t> processes;  ///< on it
  std::optional<std::size_t> active;   ///< whose context is loaded (time slices)
  bool switching = false;
  std::optional<Time> idle_since;   ///< the active context has had no kernel since then
  Time active_since{}, last{};      ///< when it was loaded; until when progress is accounted for
  Time slice_begin{}, slice_end{};  ///< its slice, as far as it was asked for
  std::vector<double> rates;        ///< of `processes` since `last`; 0: runs no kernel
  bool is_planned = false;          ///< something comes next of itself:
  Time next{};                      ///< then
  std::uint64_t next_order = 0;     ///< among events of one time
  std::deque<std::size_t> copies;   ///< processes whose copy waits for the copy engine or is on it
  bool copying = false;
};

enum Kind : std::uint16_t { kHost, kWorker, kRead, kPin, kCopy, kDecode };

/// What a process does until `time`.
struct Action {
  Time time{};
  std::uint64_t order = 0;  ///< among events of one time: first in first out
  std::uint32_t process = 0, worker = 0;
  Kind kind = kHost;
};
/// For heaps with the next one in front.
constexpr auto kEndsLater = [](const Action& a, const Action& b) {
  return a.time > b.time || (a.time == b.time && a.order > b.order);
};

/// What share() needs while it runs.
struct Sharing {
  std::vector<std::size_t> running;
  std::vector<KernelDemand> demands;
  std::vector<double> rates;
  std::vector<char> fixed;
};

/// fair_rates() into `rates`; `fixed` is room to work in.
void fill_fair_rates(std::span<const KernelDemand> demands, std::vector<double>& rates,
                     std::vector<char>& fixed) {
  rates.assign(demands.size(), 0.0);
  fixed.assign(demands.size(), 0);
  for (std::size_t round = 0; round < demands.size() + 1; ++round) {
    double sm_left = 1, dram_left = 1, sm_rising = 0, dram_rising = 0, level = 1;
    bool any = false;
    for (std::size_t i = 0; i < demands.size(); ++i) {
      (fixed[i] ? sm_left : sm_rising) += (fixed[i] ? -rates[i] : 1.0) * demands[i].sm_share;
      (fixed[i] ? dram_left : dram_rising) += (fixed[i] ? -rates[i] : 1.0) * demands[i].dram_share;
      any |= !fixed[i];
    }
    if (!any) break;
    const double by_sm = sm_rising > 0 ? std::max(sm_left, 0.0) / sm_rising : 2.0;
    const double by_dram = dram_rising > 0 ? std::max(dram_left, 0.0) / dram_rising : 2.0;
    level = std::min({1.0, by_sm, by_dram});
    for (std::size_t i = 0; i < demands.size(); ++i) {
      if (fixed[i]) continue;
      rates[i] = level;
      const bool uses_full = (by_sm <= level && demands[i].sm_share > 0) ||
                             (by_dram <= level && demands[i].dram_share > 0);
      fixed[i] = level >= 1 || uses_full;
    }
  }
}

/// All processes in one box, for a given speed of host threads. A few actions are under way at a
/// time, and what a GPU does next is planned anew with each of them: so a small heap, and one place
/// per GPU, in place of an event queue that would carry the plans that came to nothing.
class BoxRun {
 public:
  BoxRun(std::span<const ColocatedJob> jobs, const SharedBox& box, double speed) : box_(box) {
    slice_ = ticks(box.sharing.time_slice);
    switch_ = ticks(box.sharing.context_switch);
    hold_ = ticks(box.sharing.idle_hold);
    std::size_t num_gpus = 0;
    for (const ColocatedJob& job : jobs) num_gpus = std::max(num_gpus, job.gpu + 1);
    gpus_.resize(num_gpus);
    for (const ColocatedJob& job : jobs) {
      for (int i = 0; i < job.processes; ++i) {
        gpus_[job.gpu].processes.push_back(processes_.size());
        gpus_[job.gpu].rates.push_back(0);
        processes_.emplace_back(job, speed);
      }
    }
  }

  /// Until every process has done `steps`, or most events have happened.
  void run(std::size_t steps) {
    constexpr std::uint64_t kMostEvents = 40'000'000;
    for (std::size_t p = 0; p < processes_.size(); ++p) progress(p);
    while (events_ < kMostEvents) {
      if (has_step_ended_ && finished(steps)) return;
      has_step_ended_ = false;
      if (!handle_next()) return;
    }
  }
  [[nodiscard]] const SharedProcess& process(std::size_t p) const { return processes_[p]; }
  [[nodiscard]] Time now() const { return now_; }

 private:
  [[nodiscard]] bool finished(std::size_t steps) const {
    return std::all_of(processes_.begin(), processes_.end(),
                       [&](const SharedProcess& p) { return p.step_ends().size() >= steps; });
  }

  /// False: nothing is under way.
  bool handle_next() {
    SharedGpu* first = nullptr;
    for (SharedGpu& gpu : gpus_) {
      if (!gpu.is_planned) continue;
      if (first == nullptr ||
          comes_before(gpu.next, gpu.next_order, first->next, first->next_order)) {
        first = &gpu;
      }
    }
    if (actions_.empty() && first == nullptr) return false;
    ++events_;
    if (actions_.empty() ||
        (first != nullptr && comes_before(first->next, first->next_order, actions_.front().time,
                                          actions_.front().order))) {
      now_ = first->next;
      advance(*first);
      return true;
    }
    const Action action = actions_.front();
    std::pop_heap(actions_.begin(), actions_.end(), kEndsLater);
    actions_.pop_back();
    now_ = action.time;
    end(action);
    progress(action.process);
    return true;
  }
  static bool comes_before(Time a, std::uint64_t a_order, Time b, std::uint64_t b_order) {
    return a < b || (a == b && a_order < b_order);
  }

  void end(const Action& action) {
    SharedProcess& process = processes_[action.process];
    switch (action.kind) {
      case kHost:
        return process.end_host();
      case kWorker:
        return process.end_worker(action.worker);
      case kRead:
        return process.end_read();
      case kPin:
        return process.end_pin();
      case kDecode:
        return process.end_decode();
      case kCopy: {
        process.end_copy();
        SharedGpu& gpu = gpus_[process.gpu()];
        gpu.copying = false;
        next_copy(gpu);
      }
    }
  }

  void schedule(std::size_t p, Kind kind, Time duration, std::size_t worker = 0) {
    TRACECAST_CHECK(duration >= Time(), "an action takes no negative time");
    actions_.push_back({now_ + duration, ++order_, static_cast<std::uint32_t>(p),
                        static_cast<std::uint32_t>(worker), kind});
    std::push_heap(actions_.begin(), actions_.end(), kEndsLater);
  }

  /// Begins whatever the process can begin now, and tells its GPU.
  void progress(std::size_t p) {
    SharedProcess& process = processes_[p];
    const bool may_load = process.take_loader_change();
    if (may_load) {
      if (const auto time = process.begin_read()) schedule(p, kRead, *time);
      for (std::size_t w = 0; w < process.num_workers(); ++w) {
        if (const auto time = process.begin_worker(w)) schedule(p, kWorker, *time, w);
      }
      if (const auto time = process.begin_pin()) schedule(p, kPin, *time);
    }
    if (const auto time = process.begin_host()) schedule(p, kHost, *time);
    if (may_load) {
      begin_copy(p);
      if (const auto time = process.begin_decode()) schedule(p, kDecode, *time);
    }
    advance(gpus_[process.gpu()]);
  }

  void begin_copy(std::size_t p) {
    const auto time = processes_[p].begin_copy();
    if (!time) return;
    SharedGpu& gpu = gpus_[processes_[p].gpu()];
    gpu.copies.push_back(p);
    copy_times_.resize(processes_.size());
    copy_times_[p] = *time;
    next_copy(gpu);
  }

  void next_copy(SharedGpu& gpu) {
    if (gpu.copying || gpu.copies.empty()) return;
    const std::size_t p = gpu.copies.front();
    gpu.copies.pop_front();
    gpu.copying = true;
    schedule(p, kCopy, copy_times_[p]);
  }

  /// Accounts for what has run since the last time, ends kernels that are through, and plans what
  /// comes next.
  void advance(SharedGpu& gpu) {
    const Time passed = now_ - gpu.last;
    gpu.last = now_;
    finished_.clear();
    for (std::size_t i = 0; i < gpu.processes.size(); ++i) {
      if (gpu.rates[i] <= 0) continue;
      SharedProcess& process = processes_[gpu.processes[i]];
      const bool whole = gpu.rates[i] >= 1;
      process.run_kernel(
          whole ? passed : Time(std::llround(static_cast<double>(passed.count()) * gpu.rates[i])));
      gpu.rates[i] = process.kernel_left() > Time() ? gpu.rates[i] : 0;
      if (process.kernel_left() > Time()) continue;
      has_step_ended_ = process.end_kernel(now_) || has_step_ended_;
      finished_.push_back(gpu.processes[i]);
    }
    // The host may have waited for that; what it begins now ends later.
    for (const std::size_t p : finished_) wake(p);
    if (gpu.is_planned) ++events_;
    gpu.is_planned = false;
    if (box_.mps) {
      share(gpu);
    } else {
      take_turns(gpu);
    }
  }

  /// Host and copy of a process whose kernel has ended.
  void wake(std::size_t p) {
    if (const auto time = processes_[p].begin_host()) schedule(p, kHost, *time);
    begin_copy(p);
  }

  void plan(SharedGpu& gpu, Time after) {
    gpu.is_planned = true;
    gpu.next = now_ + after;
    gpu.next_order = ++order_;
  }

  void share(SharedGpu& gpu) {
    auto& [running, demands, rates, fixed] = sharing_;
    running.clear();
    demands.clear();
    for (std::size_t i = 0; i < gpu.processes.size(); ++i) {
      gpu.rates[i] = 0;
      const SharedProcess& process = processes_[gpu.processes[i]];
      if (!process.has_kernel()) continue;
      running.push_back(i);
      demands.push_back(process.demand());
    }
    if (running.empty()) return;
    fill_fair_rates(demands, rates, fixed);
    std::optional<Time> first;
    for (std::size_t r = 0; r < running.size(); ++r) {
      gpu.rates[running[r]] = rates[r];
      const auto left =
          static_cast<double>(processes_[gpu.processes[running[r]]].kernel_left().count());
      const Time end(static_cast<std::int64_t>(std::ceil(left / rates[r])));
      first = first ? std::min(*first, end) : end;
    }
    plan(gpu, *first);
  }

  /// The next process after the active one that has a kernel.
  [[nodiscard]] std::optional<std::size_t> waiting(const SharedGpu& gpu) const {
    const std::size_t n = gpu.processes.size(), from = gpu.active.value_or(n - 1);
    for (std::size_t i = 1; i <= n; ++i) {
      const std::size_t at = from + i < n ? from + i : from + i - n;
      if (gpu.active && at == *gpu.active) continue;
      if (processes_[gpu.processes[at]].has_kernel()) return at;
    }
    return std::nullopt;
  }

  /// Of the active process, in which the GPU is now.
  void find_slice(SharedGpu& gpu) {
    if (gpu.slice_begin <= now_ && now_ < gpu.slice_end) return;
    const Time held = now_ - gpu.active_since;
    gpu.slice_begin = now_ - Time(held.count() % slice_.count());
    gpu.slice_end = gpu.slice_begin + slice_;
  }

  void take_turns(SharedGpu& gpu) {
    if (gpu.switching) {
      if (now_ < gpu.active_since) return plan(gpu, gpu.active_since - now_);
      gpu.switching = false;
    }
    std::fill(gpu.rates.begin(), gpu.rates.end(), 0.0);
    const bool has_work = gpu.active && processes_[gpu.processes[*gpu.active]].has_kernel();
    const auto other = waiting(gpu);
    if (other) find_slice(gpu);
    const bool slice_over = other && now_ == gpu.slice_begin && now_ > gpu.active_since;
    if (has_work) {
      gpu.idle_since.reset();
    } else if (gpu.active && !gpu.idle_since) {
      gpu.idle_since = now_;
    }
    if (other && gpu.idle_since && !slice_over) {  // keeps its turn for a while
      const Time leaves = std::min(*gpu.idle_since + hold_, gpu.slice_end);
      if (now_ < leaves) return plan(gpu, leaves - now_);
    }
    bool is_contested = other.has_value();
    if (other && (!has_work || slice_over)) {
      gpu.idle_since.reset();
      const bool first = !gpu.active;
      gpu.active = other;
      gpu.active_since = first ? now_ : now_ + switch_;
      gpu.slice_begin = gpu.slice_end = Time();
      gpu.switching = gpu.active_since > now_;
      if (gpu.switching) return plan(gpu, switch_);
      is_contested = waiting(gpu).has_value();
    } else if (!has_work) {
      return;
    }
    gpu.rates[*gpu.active] = 1;
    const Time left = processes_[gpu.processes[*gpu.active]].kernel_left();
    if (!is_contested) return plan(gpu, left);
    find_slice(gpu);
    plan(gpu, std::min(left, gpu.slice_end - now_));
  }

  const SharedBox& box_;
  Time slice_, switch_, hold_;
  std::vector<SharedProcess> processes_;
  std::vector<SharedGpu> gpus_;
  std::vector<Time> copy_times_;
  std::vector<std::size_t> finished_;
  std::vector<Action> actions_;  ///< heap of those under way
  Time now_{};
  std::uint64_t order_ = 0, events_ = 0;
  bool has_step_ended_ = false;
  Sharing sharing_;
};

/// Mean time of the process's steps, without the first ones.
Seconds mean_step(const SharedProcess& process, std::size_t warm_up) {
  const std::vector<Time>& ends = process.step_ends();
  const std::size_t from = std::min(std::max(warm_up, ends.size() / 4), ends.size() - 2);
  return (ends.back() - ends[from]).in_seconds() / static_cast<double>(ends.size() - 1 - from);
}

/// Host thread of one step, on a core of its own.
Seconds host_time(const StepProgram& program) {
  Seconds time = program.step_overhead;
  for (const ProgramOp& op : program.ops) {
    time += op.dispatch + program.launch * static_cast<double>(op.num_kernels);
  }
  for (const ProgramKernel& kernel : program.kernels) time += kernel.more_launch;
  return time;
}

/// Mean number of threads that are ready to run: loaders, and the host thread, which spins while it
/// waits for the GPU.
double runnable_threads(const StepProgram& program, double speed, Seconds step) {
  const Seconds loading = program.input ? program.input->prepare + program.input->pin : Seconds();
  const double host = program.synchronizes ? 1.0 : std::min(host_time(program) / speed / step, 1.0);
  return host + loading / speed / step;
}

struct Round {
  std::vector<Seconds> steps;      ///< by job
  std::vector<double> gpu_shares;  ///< by job
  double runnable = 0;
};

Round run_round(std::span<const ColocatedJob> jobs, const SharedBox& box, double speed) {
  constexpr std::size_t kWarmUp = 3, kSteps = 9;
  BoxRun run(jobs, box, speed);
  run.run(kSteps);
  Round round;
  std::size_t p = 0;
  for (const ColocatedJob& job : jobs) {
    Seconds sum{}, busy{};
    for (int i = 0; i < job.processes; ++i, ++p) {
      const SharedProcess& process = run.process(p);
      TRACECAST_CHECK(process.step_ends().size() >= 3, "co-located jobs make progress");
      sum += mean_step(process, kWarmUp);
      busy += process.busy().in_seconds();
    }
    const Seconds step = sum / static_cast<double>(job.processes);
    round.steps.push_back(step);
    round.gpu_shares.push_back(busy / run.now().in_seconds());
    round.runnable +=
        static_cast<double>(job.processes) * runnable_threads(job.program, speed, step);
  }
  return round;
}

struct Settled {
  Round round;
  double speed = 1;
};

Settled settle(std::span<const ColocatedJob> jobs, const SharedBox& box) {
  constexpr int kMostRounds = 12;
  constexpr double kSteady = 0.001;
  Settled settled;
  for (int i = 0; i < kMostRounds; ++i) {
    settled.round = run_round(jobs, box, settled.speed);
    if (!box.host) break;
    const double speed = box.host->speed(settled.round.runnable);
    if (std::abs(speed - settled.speed) <= kSteady * settled.speed) break;
    settled.speed = i == 0 ? speed : (speed + settled.speed) / 2;
  }
  return settled;
}

}  // namespace

std::vector<KernelDemand> kernel_demands(const PricedStep& priced, const StepProgram& program) {
  std::vector<KernelDemand> demands;
  for (const ProgramKernel& kernel : program.kernels) {
    const cost::KernelEstimate& e = priced.choices[kernel.op].estimates[kernel.kernel];
    const double memory = e.duration > Seconds(0) ? e.memory_time / e.duration : 0.0;
    demands.push_back({.sm_share = std::clamp(e.sm_share, 1e-3, 1.0),
                       .dram_share = std::clamp(memory, 0.0, 1.0)});
  }
  return demands;
}

StepProgram at_full_speed(const Prediction& prediction) {
  StepProgram program = prediction.program;
  if (!prediction.input) return program;
  const double speed = prediction.input->cpu_speed;
  program.step_overhead = program.step_overhead * speed;
  program.launch = program.launch * speed;
  for (ProgramOp& op : program.ops) op.dispatch = op.dispatch * speed;
  for (ProgramKernel& kernel : program.kernels) kernel.more_launch = kernel.more_launch * speed;
  program.input->prepare = program.input->prepare * speed;
  program.input->pin = program.input->pin * speed;
  return program;
}

std::vector<double> fair_rates(std::span<const KernelDemand> demands) {
  std::vector<double> rates;
  std::vector<char> fixed;
  fill_fair_rates(demands, rates, fixed);
  return rates;
}

double Colocation::normalized_sum() const {
  double sum = 0;
  for (const JobShare& job : jobs) sum += job.normalized_rate();
  return sum;
}

Seconds step_alone(const ColocatedJob& job, const SharedBox& box) {
  return settle({&job, 1}, box).round.steps.front();
}

Colocation colocate(std::span<const ColocatedJob> jobs, const SharedBox& box) {
  return colocate(jobs, box, {});
}

Colocation colocate(std::span<const ColocatedJob> jobs, const SharedBox& box,
                    std::span<const Seconds> alone) {
  TRACECAST_CHECK(!jobs.empty(), "somebody is co-located");
  TRACECAST_CHECK(alone.empty() || alone.size() == jobs.size(), "each job has its own step");
  Colocation result;
  std::vector<Bytes> memory;
  for (const ColocatedJob& job : jobs) {
    if (memory.size() <= job.gpu) memory.resize(job.gpu + 1);
    memory[job.gpu] += job.device_memory * static_cast<double>(job.processes);
  }
  for (const Bytes bytes : memory) result.device_memory = max(result.device_memory, bytes);
  result.fits = result.device_memory <= box.gpu_memory;
  if (!result.fits) return result;

  const Settled all = settle(jobs, box);
  result.cpu_speed = all.speed;
  result.busy_threads = all.round.runnable;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    result.jobs.push_back({.alone = !alone.empty()     ? alone[j]
                                    : jobs.size() == 1 ? all.round.steps.front()
                                                       : step_alone(jobs[j], box),
                           .together = all.round.steps[j],
                           .gpu_share = all.round.gpu_shares[j]});
  }
  return result;
}

}  // namespace tracecast
