#include "sim/cluster/training_loop.hpp"

#include <cmath>
#include <vector>

namespace tracecast {

Seconds time_between_steps(const LoopWork& loop, const FrameworkProfile& framework,
                           const LoopContext& context) {
  const auto samples = static_cast<double>(context.batch);
  const Seconds wake = max(framework.synchronization, kWake);
  Seconds time = (loop.cycles_per_step + loop.cycles_per_sample * samples) / context.core_speed;
  time += samples * (loop.ops_per_sample * framework.dispatch_per_op +
                     loop.kernels_per_sample * framework.launch_per_kernel);
  time += wake * static_cast<double>(loop.waits_at_end);
  if (loop.weight_copies > 0) {
    time += context.weights * static_cast<double>(loop.weight_copies) / loop.copy_rate;
  }
  return time;
}

FrameworkProfile in_loop(FrameworkProfile framework, const LoopWork& loop,
                         const LoopContext& context) {
  framework.step_overhead += time_between_steps(loop, framework, context);
  framework.synchronizes_each_step |= loop.waits_at_end > 0;
  if (loop.waits_per_update) {
    framework.updates_per_synchronization = 1;
    framework.synchronization = max(framework.synchronization, kWake);
  }
  return framework;
}

std::size_t show_loop_kernels(const LoopWork& loop, const FrameworkProfile& framework,
                              const LoopContext& context, StepProgram& program) {
  const double samples = static_cast<double>(context.batch);
  const auto count = static_cast<std::size_t>(std::lround(loop.kernels_per_sample * samples));
  if (count == 0 || program.kernels.empty()) return 0;
  const Seconds thinking = samples * loop.ops_per_sample * framework.dispatch_per_op;
  const Seconds issued = static_cast<double>(count) * framework.launch_per_kernel;
  program.step_overhead = max(program.step_overhead - thinking - issued, Seconds(0));
  ProgramKernel shortest = program.kernels.front();
  for (const ProgramKernel& kernel : program.kernels) {
    shortest.duration = min(shortest.duration, kernel.duration);
  }
  shortest.more_launch = Seconds();
  for (ProgramOp& op : program.ops) op.first_kernel += static_cast<std::uint32_t>(count);
  std::vector<ProgramOp> ops;
  for (std::size_t i = 0; i < count; ++i) {
    ops.push_back({.dispatch = thinking / static_cast<double>(count),
                   .first_kernel = static_cast<std::uint32_t>(i),
                   .num_kernels = 1});
  }
  program.ops.insert(program.ops.begin(), ops.begin(), ops.end());
  program.kernels.insert(program.kernels.begin(), count, shortest);
  return count;
}

}  // namespace tracecast
