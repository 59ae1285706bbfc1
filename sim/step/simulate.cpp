#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engine/task_graph.hpp"
#include "sim/step/input_pipeline.hpp"
#include "sim/step/step_program.hpp"
#include "sim/step/step_run.hpp"

namespace tracecast {
namespace {

using engine::Picoseconds;
using engine::TaskId;

Picoseconds ticks(Seconds duration) { return engine::to_ticks<Picoseconds>(duration); }

/// `num_steps` steps in a row, on a host thread, a copy engine and a stream.
class RunBuilder {
 public:
  RunBuilder(const StepProgram& program, int num_steps) : program_(program) {
    const auto n = static_cast<std::size_t>(num_steps);
    run_.graph.reserve(n * (2 * program.kernels.size() + 2), n * (3 * program.kernels.size() + 3));
    run_.kinds.reserve(n * (2 * program.kernels.size() + 2));
    run_.resources.reserve(n * (2 * program.kernels.size() + 2));
    run_.kernels.reserve(n * program.kernels.size());
    run_.launches.reserve(n * program.kernels.size());
    host_ = run_.graph.add_resource(engine::Discipline::ProgramOrder);
    copier_ = run_.graph.add_resource(engine::Discipline::ProgramOrder);
    stream_ = run_.graph.add_resource(engine::Discipline::ProgramOrder);
    for (const ProgramKernel& kernel : program.kernels) {
      durations_.push_back(ticks(kernel.duration));
      launches_.push_back(ticks(program.launch) + ticks(kernel.more_launch));
    }
    for (const ProgramOp& op : program.ops) dispatches_.push_back(ticks(op.dispatch));
    if (program.input) input_.emplace(*program.input, run_);
    for (int step = 0; step < num_steps; ++step) add_step();
  }
  [[nodiscard]] StepRun take() && { return std::move(run_); }

 private:
  void wait_for_step_before(TaskId task) {
    if (program_.synchronizes && !run_.last_of_step.empty()) {
      run_.graph.add_dependency(run_.last_of_step.back(), task);
    }
  }

  TaskId add_begin() {
    std::optional<TaskId> wait;
    if (input_) {
      wait = input_->add_ready();
      if (input_->dispatch_work() > Picoseconds()) {
        const TaskId prepared = run_.add(TaskKind::Input, host_, input_->dispatch_work());
        if (wait) run_.graph.add_dependency(*wait, prepared);
        wait_for_step_before(prepared);  // the same thread waits first
        wait = prepared;
      }
    }
    const TaskId begin = run_.add(TaskKind::Host, host_, ticks(program_.step_overhead));
    if (wait && program_.input->dispatch_takes_batch) run_.graph.add_dependency(*wait, begin);
    wait_for_step_before(begin);
    run_.begins.push_back(begin);
    return begin;
  }

  /// What the first kernel waits for besides its launch.
  std::optional<TaskId> add_copy(TaskId begin) {
    const Picoseconds duration = ticks(program_.input_copy);
    if (!input_ && duration == Picoseconds()) return std::nullopt;
    const TaskId copied = run_.add(TaskKind::Copy, copier_, duration);
    if (!input_) {
      run_.graph.add_dependency(begin, copied);
      if (program_.copy_waits_for_kernels && !run_.last_of_step.empty()) {
        run_.graph.add_dependency(run_.last_of_step.back(), copied);
      }
      return copied;
    }
    input_->release_copy(copied, begin);
    return input_->add_decode(copied);
  }

  void add_step() {
    const TaskId begin = add_begin();
    std::optional<TaskId> copied = add_copy(begin);
    TaskId last = begin;
    for (std::size_t o = 0; o < program_.ops.size(); ++o) {
      const ProgramOp& op = program_.ops[o];
      for (std::uint32_t k = op.first_kernel; k < op.first_kernel + op.num_kernels; ++k) {
        const Picoseconds thinking = k == op.first_kernel ? dispatches_[o] : Picoseconds();
        const TaskId launched = run_.add(TaskKind::Host, host_, thinking + launches_[k]);
        if (op.waits_for_gpu && k == op.first_kernel) run_.graph.add_dependency(last, launched);
        if (copied && program_.copy_blocks_host) run_.graph.add_dependency(*copied, launched);
        if (run_.kernels.size() >= program_.launch_queue) {
          run_.graph.add_dependency(run_.kernels[run_.kernels.size() - program_.launch_queue],
                                    launched);
        }
        last = run_.add(TaskKind::Kernel, stream_, durations_[k]);
        run_.graph.add_dependency(launched, last);
        if (copied) run_.graph.add_dependency(*copied, last);
        copied.reset();  // the stream keeps the others behind the first
        run_.kernels.push_back(last);
        run_.launches.push_back(launched);
      }
    }
    run_.last_of_step.push_back(
        copied.value_or(last));  // a step without kernels ends with its copy
  }

  const StepProgram& program_;
  StepRun run_;
  engine::ResourceId host_{}, copier_{}, stream_{};
  std::vector<Picoseconds> durations_, launches_, dispatches_;
  std::optional<InputTasks> input_;
};

/// The length of the last step.
Picoseconds last_step(const StepRun& run, const engine::Schedule& schedule, std::size_t back = 0) {
  const std::size_t i = run.last_of_step.size() - 1 - back;
  return schedule.end[run.last_of_step[i].index] - schedule.end[run.last_of_step[i - 1].index];
}

bool is_input(TaskKind kind) { return kind == TaskKind::Copy || kind == TaskKind::Input; }

/// When the host of the last step stopped waiting for its batch; 0 when it waited for something
/// else.
Picoseconds host_waited_until(const StepProgram& program, const StepRun& run,
                              const engine::Schedule& schedule) {
  if (!program.input) return {};
  const auto release = schedule.find_release(run.begins.back());
  const bool waited = release && is_input(run.kinds[release->task.index]);
  return waited ? schedule.start[run.begins.back().index] : Picoseconds();
}

StepTimeline read_last_step(const StepProgram& program, const StepRun& run,
                            const engine::Schedule& schedule) {
  StepTimeline result;
  const std::size_t steps = run.last_of_step.size();
  const TaskId last = run.last_of_step[steps - 1];
  const Picoseconds begin = schedule.end[run.last_of_step[steps - 2].index];
  const Picoseconds end = schedule.end[last.index];
  result.step_time = (end - begin).in_seconds();
  result.steps_simulated = static_cast<int>(steps);

  const std::size_t first = run.kernels.size() - program.kernels.size();
  Picoseconds free_since = begin, busy{}, idle_input{}, idle_host{};
  const Picoseconds batch_taken = host_waited_until(program, run, schedule);
  result.kernels.reserve(program.kernels.size());
  for (std::size_t k = first; k < run.kernels.size(); ++k) {
    const TaskId task = run.kernels[k];
    const Picoseconds start = schedule.start[task.index];
    result.kernels.push_back(
        {(start - begin).in_seconds(), (schedule.end[task.index] - begin).in_seconds()});
    busy += schedule.end[task.index] - start;
    if (start > free_since) {
      const auto release = schedule.find_release(task);
      const bool by_input = release && is_input(run.kinds[release->task.index]);
      const Picoseconds input_until = by_input ? start : std::min(start, batch_taken);
      const Picoseconds by_host_since = std::max(free_since, input_until);
      idle_input += by_host_since - free_since;
      idle_host += start - by_host_since;
    }
    free_since = schedule.end[task.index];
  }
  result.kernel_busy = busy.in_seconds();
  result.idle_host = idle_host.in_seconds();
  result.idle_input = idle_input.in_seconds();
  result.copy_busy = program.input_copy;
  result.host_busy = program.step_overhead;
  for (const ProgramOp& op : program.ops) {
    result.host_busy += op.dispatch + program.launch * static_cast<double>(op.num_kernels);
  }
  for (const ProgramKernel& kernel : program.kernels) result.host_busy += kernel.more_launch;

  if (program.input) {
    result.loader_busy = program.input->prepare + program.input->pin;
    if (program.input->workers == 0) result.loader_busy = program.input->pin;
    if (program.input->workers == 0) result.host_busy += program.input->prepare;
  }

  // Back along what released what; tasks that began before the step count with their part in it.
  Picoseconds on_path[kTaskKindCount] = {};
  std::optional<TaskId> task = last;
  while (task && schedule.end[task->index] > begin) {
    const Picoseconds from = std::max(schedule.start[task->index], begin);
    on_path[static_cast<std::size_t>(run.kinds[task->index])] += schedule.end[task->index] - from;
    const auto release = schedule.find_release(*task);
    task = release ? std::optional(release->task) : std::nullopt;
  }
  result.critical_host = on_path[static_cast<std::size_t>(TaskKind::Host)].in_seconds();
  result.critical_kernels = on_path[static_cast<std::size_t>(TaskKind::Kernel)].in_seconds();
  result.critical_input = (on_path[static_cast<std::size_t>(TaskKind::Copy)] +
                           on_path[static_cast<std::size_t>(TaskKind::Input)])
                              .in_seconds();
  return result;
}

Seconds mean_of_last_half(const StepRun& run, const engine::Schedule& schedule) {
  const std::size_t last = run.last_of_step.size() - 1, half = run.last_of_step.size() / 2;
  const auto end_of = [&](std::size_t step) {
    return schedule.end[run.last_of_step[step].index].in_seconds();
  };
  return (end_of(last) - end_of(last - half)) / static_cast<double>(half);
}

/// Of steps that take turns to be long and short, as batches come in bursts: the mean of the last
/// half of them, and no less than the loader's slowest stage takes. The wait for input is what
/// differs.
void take_mean(const StepProgram& program, const StepRun& run, const engine::Schedule& schedule,
               StepTimeline& timeline) {
  const Seconds step =
      max(mean_of_last_half(run, schedule), supply_time(*program.input, program.input_copy));
  Seconds more = step - timeline.step_time;
  // What is not waited for input cannot be left out.
  more = max(more, timeline.idle_input * -1.0);
  more = max(more, timeline.critical_input * -1.0);
  if (!timeline.kernels.empty()) more = max(more, timeline.kernels.front().start * -1.0);
  for (KernelSpan& span : timeline.kernels) span.start += more, span.end += more;
  timeline.step_time += more;
  timeline.idle_input += more;
  timeline.critical_input += more;
}

}  // namespace

StepRun build_step_run(const StepProgram& program, int num_steps) {
  return RunBuilder(program, num_steps).take();
}

StepTimeline simulate(const StepProgram& program) {
  // A host that waits for the GPU begins every step alike: the second is like all that follow.
  if (program.synchronizes && !program.input) {
    const StepRun run = build_step_run(program, 2);
    return read_last_step(program, run, run.graph.run());
  }
  // Of unsteady steps with input the last half counts by its mean.
  constexpr int kFewest = 3, kFewestWithInput = 6, kMost = 24, kMostWithInput = 48;
  constexpr double kSteady = 1e-3;
  for (int steps = program.input ? kFewestWithInput : kFewest;; steps *= 2) {
    const StepRun run = build_step_run(program, steps);
    const engine::Schedule schedule = run.graph.run();
    const Seconds now = last_step(run, schedule).in_seconds();
    const Seconds before = last_step(run, schedule, 1).in_seconds();
    bool steady = std::abs((now - before).in_s()) <= kSteady * now.in_s();
    // Batches may come in bursts: steps alike that follow each other are not yet all.
    if (program.input && steady) {
      const Seconds mean = mean_of_last_half(run, schedule);
      steady = std::abs((mean - now).in_s()) <= kSteady * now.in_s();
    }
    if (!steady && steps < (program.input ? kMostWithInput : kMost)) continue;
    StepTimeline timeline = read_last_step(program, run, schedule);
    if (!steady && program.input) take_mean(program, run, schedule, timeline);
    return timeline;
  }
}

}  // namespace tracecast
