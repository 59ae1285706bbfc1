#include "sim/replay/replay_transfer.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "hwspecs/software/framework_profile.hpp"
#include "sim/cost/transfer.hpp"

namespace tracecast {
namespace {

/// Saturates far above what a replay takes (106 days).
std::int64_t nanoseconds(double ns) { return std::llround(std::min(ns, 9e18)); }

/// Times of kinds that an enum counts.
template <class Kind, std::size_t N>
class ByKind {
 public:
  void add(Kind kind, double recorded_s, double predicted_s) {
    MovedTime& time = times_[static_cast<std::size_t>(kind)];
    time.recorded_s += recorded_s;
    time.predicted_s += predicted_s;
  }
  [[nodiscard]] std::vector<MovedTime> taken() const {
    std::vector<MovedTime> taken;
    for (std::size_t i = 0; i < N; ++i) {
      if (!(times_[i].recorded_s > 0)) continue;
      taken.push_back(times_[i]);
      taken.back().name = to_string(static_cast<Kind>(i));
    }
    return taken;
  }

 private:
  std::array<MovedTime, N> times_{};
};

}  // namespace

MovedWork move_to(ReplayProgram& program, std::span<const std::uint32_t> records,
                  const RecordedWork& recorded, const GpuSpec& from, const GpuSpec& to,
                  const CostProfile& profile, const MoveOptions& options) {
  const auto moved = cost::transfer(
      recorded, from, to, profile,
      {.tf32_convolutions = options.tf32_convolutions, .tf32_gemms = options.tf32_gemms});
  MovedWork result;
  result.from = from.id, result.to = to.id;
  ByKind<cost::TransferWay, cost::kTransferWayCount> ways;
  ByKind<KernelClass, kKernelClassCount> classes;
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    ReplayTask& task = program.tasks[i];
    if (task.work == ReplayWork::HostWork && options.host_speed > 0)
      task.duration_ns = nanoseconds(static_cast<double>(task.duration_ns) / options.host_speed);
    if (!is_on_gpu(task.work)) continue;
    const double before = static_cast<double>(task.duration_ns) * 1e-9;
    if (task.work == ReplayWork::Kernel) {
      const cost::TransferredKernel& kernel = moved[records[i]];
      task.duration_ns = nanoseconds(kernel.duration.in_s() * 1e9);
      ways.add(kernel.way, before, kernel.duration.in_s());
      classes.add(task.kernel_class, before, kernel.duration.in_s());
      result.kernels.recorded_s += before;
      result.kernels.predicted_s += kernel.duration.in_s();
      result.errors.push_back(
          {task.kernel_class, kernel.duration, kernel.log_sd, kernel.shared_log_sd});
    } else {
      const CopyRoute route =
          task.work == ReplayWork::Copy ? recorded.copies[records[i]] : CopyRoute::Device;
      const Seconds after = cost::transfer_copy(Seconds(before), route, from, to, profile);
      task.duration_ns = nanoseconds(after.in_s() * 1e9);
      result.copies.recorded_s += before;
      result.copies.predicted_s += after.in_s();
    }
  }
  result.ways = ways.taken();
  result.classes = classes.taken();
  return result;
}

double moved_log_sd(const MovedWork& moved, double span_s, double busy_s) {
  const FrameworkProfile generic;
  std::vector<ErrorShare> errors = moved.errors;
  // Kernels side by side: what of them counts.
  const double all = moved.kernels.predicted_s;
  const double exposed = all > 0 ? std::min(1.0, busy_s / all) : 1;
  for (ErrorShare& share : errors) share.time = share.time * exposed;
  return step_log_sd(errors, Seconds(span_s), Seconds(std::max(span_s - busy_s, 0.0)),
                     generic.host.log_sd, generic.system_log_sd);
}

}  // namespace tracecast
