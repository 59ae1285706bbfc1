#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "sim/cluster/step_program.hpp"
#include "sim/engine/task_graph.hpp"

namespace tracecast {
namespace {

using engine::Picoseconds;
using engine::TaskId;

Picoseconds ticks(Seconds duration) { return engine::to_ticks<Picoseconds>(duration); }

enum class TaskKind : std::uint8_t { Host, Kernel, Copy };

/// `num_steps` steps in a row, on a host thread, a copy engine and a stream.
struct Run {
  engine::TaskGraph graph;
  std::vector<TaskKind> kinds;       ///< by task
  std::vector<TaskId> kernels;       ///< of all steps
  std::vector<TaskId> last_of_step;  ///< last kernel of each step, or its overhead when it has none
};

Run build(const StepProgram& program, int num_steps) {
  Run run;
  const auto n = static_cast<std::size_t>(num_steps);
  run.graph.reserve(n * (2 * program.kernels.size() + 2), n * (2 * program.kernels.size() + 3));
  run.kinds.reserve(n * (2 * program.kernels.size() + 2));
  run.kernels.reserve(n * program.kernels.size());
  const auto host = run.graph.add_resource(engine::Discipline::ProgramOrder);
  const auto copier = run.graph.add_resource(engine::Discipline::ProgramOrder);
  const auto stream = run.graph.add_resource(engine::Discipline::ProgramOrder);
  const auto add = [&](TaskKind kind, engine::ResourceId resource, Picoseconds duration) {
    run.kinds.push_back(kind);
    return run.graph.add_task(resource, duration);
  };

  const Picoseconds launch = ticks(program.launch);
  const Picoseconds overhead = ticks(program.step_overhead);
  const Picoseconds input_copy = ticks(program.input_copy);
  std::vector<Picoseconds> durations, dispatches;
  for (const ProgramKernel& kernel : program.kernels) durations.push_back(ticks(kernel.duration));
  for (const ProgramOp& op : program.ops) dispatches.push_back(ticks(op.dispatch));

  for (int step = 0; step < num_steps; ++step) {
    const TaskId begin = add(TaskKind::Host, host, overhead);
    if (program.synchronizes && step > 0) run.graph.add_dependency(run.last_of_step.back(), begin);
    std::optional<TaskId> copied;
    if (input_copy > Picoseconds()) {
      copied = add(TaskKind::Copy, copier, input_copy);
      run.graph.add_dependency(begin, *copied);
    }
    TaskId last = begin;
    for (std::size_t o = 0; o < program.ops.size(); ++o) {
      const ProgramOp& op = program.ops[o];
      for (std::uint32_t k = op.first_kernel; k < op.first_kernel + op.num_kernels; ++k) {
        const Picoseconds thinking = k == op.first_kernel ? dispatches[o] : Picoseconds();
        const TaskId launched = add(TaskKind::Host, host, thinking + launch);
        if (run.kernels.size() >= program.launch_queue) {
          run.graph.add_dependency(run.kernels[run.kernels.size() - program.launch_queue],
                                   launched);
        }
        last = add(TaskKind::Kernel, stream, durations[k]);
        run.graph.add_dependency(launched, last);
        if (copied) run.graph.add_dependency(*copied, last);
        copied.reset();  // the stream keeps the others behind the first
        run.kernels.push_back(last);
      }
    }
    run.last_of_step.push_back(last);
  }
  return run;
}

/// The length of the last step.
Picoseconds last_step(const Run& run, const engine::Schedule& schedule, std::size_t back = 0) {
  const std::size_t i = run.last_of_step.size() - 1 - back;
  return schedule.end[run.last_of_step[i].index] - schedule.end[run.last_of_step[i - 1].index];
}

StepTimeline read_last_step(const StepProgram& program, const Run& run,
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
  result.kernels.reserve(program.kernels.size());
  for (std::size_t k = first; k < run.kernels.size(); ++k) {
    const TaskId task = run.kernels[k];
    const Picoseconds start = schedule.start[task.index];
    result.kernels.push_back(
        {(start - begin).in_seconds(), (schedule.end[task.index] - begin).in_seconds()});
    busy += schedule.end[task.index] - start;
    if (start > free_since) {
      const auto release = schedule.find_release(task);
      const bool by_copy = release && run.kinds[release->task.index] == TaskKind::Copy;
      (by_copy ? idle_input : idle_host) += start - free_since;
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

  // Back along what released what; tasks that began before the step count with their part in it.
  Picoseconds on_path[3] = {};
  std::optional<TaskId> task = last;
  while (task && schedule.end[task->index] > begin) {
    const Picoseconds from = std::max(schedule.start[task->index], begin);
    on_path[static_cast<std::size_t>(run.kinds[task->index])] += schedule.end[task->index] - from;
    const auto release = schedule.find_release(*task);
    task = release ? std::optional(release->task) : std::nullopt;
  }
  result.critical_host = on_path[static_cast<std::size_t>(TaskKind::Host)].in_seconds();
  result.critical_kernels = on_path[static_cast<std::size_t>(TaskKind::Kernel)].in_seconds();
  result.critical_input = on_path[static_cast<std::size_t>(TaskKind::Copy)].in_seconds();
  return result;
}

}  // namespace

StepTimeline simulate(const StepProgram& program) {
  // A host that waits for the GPU begins every step alike: the second is like all that follow.
  if (program.synchronizes) {
    const Run run = build(program, 2);
    return read_last_step(program, run, run.graph.run());
  }
  constexpr int kFewest = 3, kMost = 24;
  constexpr double kSteady = 1e-3;
  for (int steps = kFewest;; steps *= 2) {
    const Run run = build(program, steps);
    const engine::Schedule schedule = run.graph.run();
    const Seconds now = last_step(run, schedule).in_seconds();
    const Seconds before = last_step(run, schedule, 1).in_seconds();
    const bool steady = std::abs((now - before).in_s()) <= kSteady * now.in_s();
    if (steady || steps >= kMost) return read_last_step(program, run, schedule);
  }
}

}  // namespace tracecast
