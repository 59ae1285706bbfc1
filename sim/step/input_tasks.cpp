#include "sim/step/step_run.hpp"

namespace tracecast {

using engine::Discipline;
using engine::Picoseconds;
using engine::TaskId;

namespace {
Picoseconds ticks(Seconds duration) { return engine::to_ticks<Picoseconds>(duration); }
}  // namespace

InputTasks::InputTasks(const InputStages& stages, StepRun& run)
    : stages_(stages),
      run_(run),
      task_(ticks(stages.prepare / static_cast<double>(stages.tasks_per_batch))),
      read_(ticks(stages.read)),
      pin_(ticks(stages.pin)),
      decode_(ticks(stages.gpu_decode)) {
  for (int w = 0; w < stages.workers; ++w) {
    workers_.push_back(run.graph.add_resource(Discipline::ProgramOrder));
  }
  const auto add = [&](Picoseconds duration) {
    return duration > Picoseconds()
               ? std::optional(run.graph.add_resource(Discipline::ProgramOrder))
               : std::nullopt;
  };
  disk_ = add(read_);
  pin_thread_ = add(pin_);
  decoder_ = add(decode_);
}

TaskId InputTasks::add_worker_task(std::optional<TaskId> after) {
  const std::size_t worker = next_task_ % workers_.size();
  Picoseconds work = task_;
  if (next_task_ < workers_.size()) {  // in the middle of a run: some of the first tasks is done
    const auto left = static_cast<double>(worker + 1) / static_cast<double>(workers_.size());
    work = ticks(task_.in_seconds() * left);
  }
  const TaskId task = run_.add(TaskKind::Input, workers_[worker], work);
  if (after) run_.graph.add_dependency(*after, task);
  ++next_task_;
  return task;
}

std::optional<TaskId> InputTasks::add_ready() {
  std::optional<TaskId> before;
  const auto room = static_cast<std::size_t>(stages_.host_batches);
  if (step_ >= room) before = taken_[step_ - room];
  ++step_;
  if (disk_) {
    const TaskId read = run_.add(TaskKind::Input, *disk_, read_);
    if (before) run_.graph.add_dependency(*before, read);
    before = read;
  }
  ready_ = before;
  if (!workers_.empty()) {
    const TaskId all = run_.add(TaskKind::Input, Picoseconds());
    for (int i = 0; i < stages_.tasks_per_batch; ++i) {
      run_.graph.add_dependency(add_worker_task(before), all);
    }
    ready_ = all;
  }
  if (pin_thread_) {
    const TaskId pinned = run_.add(TaskKind::Input, *pin_thread_, pin_);
    if (ready_) run_.graph.add_dependency(*ready_, pinned);
    ready_ = pinned;
  }
  return ready_;
}

Picoseconds InputTasks::dispatch_work() const {
  return workers_.empty() ? ticks(stages_.prepare) : Picoseconds();
}

void InputTasks::release_copy(TaskId copy, TaskId begin) {
  if (ready_) run_.graph.add_dependency(*ready_, copy);
  const auto ahead = static_cast<std::size_t>(stages_.device_batches) + 1;
  if (stages_.device_batches == 0) {
    run_.graph.add_dependency(begin, copy);
  } else if (run_.last_of_step.size() >= ahead) {
    run_.graph.add_dependency(run_.last_of_step[run_.last_of_step.size() - ahead], copy);
  }
  if (stages_.copies_in_compute_stream && !run_.last_of_step.empty()) {
    run_.graph.add_dependency(run_.last_of_step.back(), copy);
  }
  taken_.push_back(stages_.dispatch_takes_batch ? begin : copy);
}

TaskId InputTasks::add_decode(TaskId copied) {
  if (!decoder_) return copied;
  const TaskId decoded = run_.add(TaskKind::Input, *decoder_, decode_);
  run_.graph.add_dependency(copied, decoded);
  return decoded;
}

}  // namespace tracecast
