#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engine/time.hpp"
#include "sim/sharing/colocation.hpp"

namespace tracecast {

/// One process of a co-located job: host thread, loader and the kernels it has launched. Time comes
/// from outside: whoever runs it asks what can begin now, and says when it has ended.
class SharedProcess {
 public:
  /// `speed`: of host threads, over one with a core to itself.
  SharedProcess(const ColocatedJob& job, double speed);

  using Time = engine::Picoseconds;

  // Host. The next action when the host can begin one now.
  [[nodiscard]] std::optional<Time> begin_host() {
    if (host_busy_) return std::nullopt;
    return begin_idle_host();
  }
  void end_host();
  // Loader.
  [[nodiscard]] std::size_t num_workers() const { return workers_.size(); }
  [[nodiscard]] std::optional<Time> begin_worker(std::size_t worker);
  void end_worker(std::size_t worker);
  [[nodiscard]] std::optional<Time> begin_read();
  void end_read();
  [[nodiscard]] std::optional<Time> begin_pin();
  void end_pin();
  [[nodiscard]] std::optional<Time> begin_decode();
  void end_decode();
  // Copy engine: whether the next step's input can be copied now; then how long it takes.
  [[nodiscard]] std::optional<Time> begin_copy() {
    if (!needs_copy_ || copies_begun_ > copied_) return std::nullopt;
    return begin_next_copy();
  }
  void end_copy();
  /// Whether anything that these five wait for, loader and copy, has changed since this was asked
  /// last.
  [[nodiscard]] bool take_loader_change() { return std::exchange(loader_changed_, false); }

  // GPU: the kernel at the head of the stream.
  [[nodiscard]] bool has_kernel() const {
    if (stream_is_empty()) return false;
    if (next_kernel_ > 0 || !needs_copy_) return true;
    return (decode_ > Time() ? decoded_ : copied_) > steps_done();
  }
  [[nodiscard]] Time kernel_left() const { return left_; }
  [[nodiscard]] const KernelDemand& demand() const { return job_.demands[next_kernel_]; }
  /// It ran for so long (at full rate).
  void run_kernel(Time time) {
    const Time run = std::min(time, left_);
    left_ -= run;
    gpu_busy_ += run;
  }
  /// True: it was the step's last.
  bool end_kernel(Time now);

  [[nodiscard]] std::size_t gpu() const { return job_.gpu; }
  [[nodiscard]] const std::vector<Time>& step_ends() const { return step_ends_; }
  [[nodiscard]] Time busy() const { return gpu_busy_; }

 private:
  enum class HostState : std::uint8_t { Begin, Op };
  [[nodiscard]] std::size_t steps_done() const { return step_ends_.size(); }
  [[nodiscard]] bool stream_is_empty() const { return launched_ == done_; }
  [[nodiscard]] bool can_begin_step() const;
  [[nodiscard]] std::optional<Time> begin_idle_host();
  [[nodiscard]] std::optional<Time> begin_next_copy();
  [[nodiscard]] std::size_t taken() const;

  const ColocatedJob& job_;
  const StepProgram& program_;
  std::vector<Time> kernel_times_;
  /// The launch of a kernel by the host.
  struct Launch {
    Time time{};
    bool waits = false;    ///< until the GPU has nothing left
    bool is_last = false;  ///< of its step
  };
  std::vector<Launch> launches_;
  Time begin_time_, start_, worker_task_, read_, pin_, decode_, copy_;
  bool has_input_ = false, needs_copy_ = false;

  HostState host_state_ = HostState::Begin;
  bool host_busy_ = false;
  std::size_t step_ = 0, kernel_ = 0;  // the host's next action
  std::uint64_t launched_ = 0, done_ = 0;
  std::size_t next_kernel_ = 0;  // of a step, at the head of the stream
  Time left_{};

  struct Worker {
    std::uint64_t next_task = 0;
    bool busy = false, started = false;
  };
  std::vector<Worker> workers_;
  std::deque<int> parts_left_;  // of batches in preparation, from batch `prepared_` on
  std::size_t begun_ = 0, read_batches_ = 0, prepared_ = 0, pinned_ = 0, copied_ = 0, decoded_ = 0,
              copies_begun_ = 0;
  bool reading_ = false, pinning_ = false, decoding_ = false;
  bool loader_changed_ = true;

  Time gpu_busy_{};
  std::vector<Time> step_ends_;
};

}  // namespace tracecast
