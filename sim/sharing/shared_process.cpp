#include <algorithm>
#include <limits>

#include "sim/base/error.hpp"
#include "sim/sharing/shared_run.hpp"

namespace tracecast {
namespace {
using Time = SharedProcess::Time;
Time ticks(Seconds duration) { return engine::to_ticks<Time>(duration); }
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
}  // namespace

SharedProcess::SharedProcess(const ColocatedJob& job, double speed)
    : job_(job),
      program_(job.program),
      begin_time_(ticks(job.program.step_overhead / speed)),
      start_(ticks(job.start)) {
  TRACECAST_CHECK(!program_.kernels.empty(), "a co-located step has kernels");
  for (const ProgramKernel& kernel : program_.kernels) {
    kernel_times_.push_back(ticks(kernel.duration));
  }
  for (const ProgramOp& op : program_.ops) {
    for (std::uint32_t k = 0; k < op.num_kernels; ++k) {
      const ProgramKernel& kernel = program_.kernels[op.first_kernel + k];
      const Seconds thinking = k == 0 ? op.dispatch : Seconds();
      launch_times_.push_back(ticks((thinking + program_.launch + kernel.more_launch) / speed));
    }
  }
  has_input_ = program_.input.has_value();
  needs_copy_ = has_input_ || program_.input_copy > Seconds();
  copy_ = ticks(program_.input_copy);
  if (has_input_) {
    const InputStages& s = *program_.input;
    worker_task_ = ticks(s.prepare / static_cast<double>(s.tasks_per_batch) / speed);
    read_ = ticks(s.read);
    pin_ = ticks(s.pin / speed);
    decode_ = ticks(s.gpu_decode);
    if (s.workers == 0) begin_time_ += ticks(s.prepare / speed);
    for (int w = 0; w < s.workers; ++w) workers_.push_back({static_cast<std::uint64_t>(w)});
    if (workers_.empty()) prepared_ = pinned_ = kAll;  // the dispatch thread does it
    if (pin_ == Time()) pinned_ = kAll;
  }
  left_ = kernel_times_.front();
}

std::size_t SharedProcess::taken() const {
  return program_.input->dispatch_takes_batch ? begun_ : copied_;
}

bool SharedProcess::can_begin_step() const {
  const bool waits = program_.synchronizes || program_.copy_waits_for_kernels;
  if (waits && steps_done() < step_) return false;
  if (!has_input_ || !program_.input->dispatch_takes_batch) return true;
  return std::min(prepared_, pinned_) > step_;
}

std::optional<Time> SharedProcess::begin_host() {
  if (host_busy_) return std::nullopt;
  if (host_state_ == HostState::Begin) {
    if (!can_begin_step()) return std::nullopt;
    host_busy_ = true;
    return step_ == 0 ? begin_time_ + start_ : begin_time_;
  }
  const ProgramOp& op = program_.ops[op_];
  if (op.waits_for_gpu && kernel_ == op.first_kernel && !stream_is_empty()) return std::nullopt;
  if (launched_ - done_ >= program_.launch_queue) return std::nullopt;
  host_busy_ = true;
  return launch_times_[kernel_];
}

void SharedProcess::end_host() {
  host_busy_ = false;
  if (host_state_ == HostState::Begin) {
    ++begun_;
    host_state_ = HostState::Op;
    op_ = kernel_ = 0;
    return;
  }
  ++launched_;
  ++kernel_;
  const ProgramOp& op = program_.ops[op_];
  if (kernel_ < op.first_kernel + op.num_kernels) return;
  if (++op_ == program_.ops.size()) {
    host_state_ = HostState::Begin;
    ++step_;
  }
}

std::optional<Time> SharedProcess::begin_read() {
  if (read_ == Time() || reading_) return std::nullopt;
  const auto room = static_cast<std::size_t>(program_.input->host_batches);
  if (read_batches_ >= taken() + room) return std::nullopt;
  reading_ = true;
  return read_;
}

void SharedProcess::end_read() {
  reading_ = false;
  ++read_batches_;
}

std::optional<Time> SharedProcess::begin_worker(std::size_t worker) {
  Worker& w = workers_[worker];
  if (w.busy) return std::nullopt;
  const auto batch = static_cast<std::size_t>(
      w.next_task / static_cast<std::uint64_t>(program_.input->tasks_per_batch));
  if (batch >= taken() + static_cast<std::size_t>(program_.input->host_batches)) {
    return std::nullopt;
  }
  if (read_ > Time() && batch >= read_batches_) return std::nullopt;
  w.busy = true;
  if (w.started) return worker_task_;
  w.started = true;  // in the middle of a run: some of the first tasks is done
  const double part = static_cast<double>(worker + 1) / static_cast<double>(workers_.size());
  return ticks(worker_task_.in_seconds() * part);
}

void SharedProcess::end_worker(std::size_t worker) {
  Worker& w = workers_[worker];
  w.busy = false;
  const auto parts = static_cast<std::uint64_t>(program_.input->tasks_per_batch);
  const auto index = static_cast<std::size_t>(w.next_task / parts) - prepared_;
  w.next_task += workers_.size();
  while (parts_left_.size() <= index) parts_left_.push_back(program_.input->tasks_per_batch);
  --parts_left_[index];
  while (!parts_left_.empty() && parts_left_.front() == 0) {
    parts_left_.pop_front();
    ++prepared_;
  }
}

std::optional<Time> SharedProcess::begin_pin() {
  if (pinned_ == kAll || pinning_ || pinned_ >= prepared_ || !has_input_) return std::nullopt;
  pinning_ = true;
  return pin_;
}

void SharedProcess::end_pin() {
  pinning_ = false;
  ++pinned_;
}

std::optional<Time> SharedProcess::begin_copy() {
  if (!needs_copy_ || copies_begun_ > copied_) return std::nullopt;
  const std::size_t step = copied_;
  if (!has_input_) {
    if (begun_ <= step) return std::nullopt;
  } else {
    const InputStages& s = *program_.input;
    if (std::min(prepared_, pinned_) <= step && !workers_.empty()) return std::nullopt;
    if (s.device_batches == 0 && begun_ <= step) return std::nullopt;
    const auto ahead = static_cast<std::size_t>(s.device_batches) + 1;
    if (s.device_batches > 0 && step >= ahead && steps_done() + ahead <= step) return std::nullopt;
    if (s.copies_in_compute_stream && steps_done() < step) return std::nullopt;
  }
  ++copies_begun_;
  return copy_;
}

void SharedProcess::end_copy() { ++copied_; }

std::optional<Time> SharedProcess::begin_decode() {
  if (decode_ == Time() || decoding_ || decoded_ >= copied_) return std::nullopt;
  decoding_ = true;
  return decode_;
}

void SharedProcess::end_decode() {
  decoding_ = false;
  ++decoded_;
}

bool SharedProcess::has_kernel() const {
  if (stream_is_empty()) return false;
  if (next_kernel_ > 0 || !needs_copy_) return true;
  return (decode_ > Time() ? decoded_ : copied_) > steps_done();
}

void SharedProcess::run_kernel(Time time) {
  const Time run = std::min(time, left_);
  left_ -= run;
  gpu_busy_ += run;
}

void SharedProcess::end_kernel(Time now) {
  ++done_;
  if (++next_kernel_ == kernel_times_.size()) {
    next_kernel_ = 0;
    step_ends_.push_back(now);
  }
  left_ = kernel_times_[next_kernel_];
}

}  // namespace tracecast
