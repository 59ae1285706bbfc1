#include "sim/step/training_loop.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

namespace tracecast {
namespace {

Seconds wake_of(const FrameworkProfile& framework) {
  return max(framework.host.synchronization, kWake);
}

/// The loop's work besides what it dispatches to the GPU.
Seconds own_work(const LoopWork& loop, const LoopContext& context) {
  const auto samples = static_cast<double>(context.batch);
  return (loop.cycles_per_step + loop.cycles_per_sample * samples) / context.core_speed;
}

/// Puts ops of the loop, with a kernel each of the length of the program's shortest, between those
/// of a program.
class ProgramMixer {
 public:
  explicit ProgramMixer(const StepProgram& program)
      : program_(program),
        shortest_(*std::min_element(program.kernels.begin(), program.kernels.end(),
                                    [](const ProgramKernel& a, const ProgramKernel& b) {
                                      return a.duration < b.duration;
                                    })) {
    shortest_.more_launch = Seconds();
  }
  void add_shortest(const ProgramOp& op) { add(op, {&shortest_, 1}); }
  /// The program's own ops before that of index `end`, from where it stopped.
  void take_until(std::size_t end) {
    for (; taken_ < end; ++taken_) {
      const ProgramOp& op = program_.ops[taken_];
      add(op, std::span(program_.kernels).subspan(op.first_kernel, op.num_kernels));
    }
  }
  void finish(StepProgram& program) {
    program.ops = std::move(ops_);
    program.kernels = std::move(kernels_);
  }

 private:
  void add(ProgramOp op, std::span<const ProgramKernel> kernels) {
    op.first_kernel = static_cast<std::uint32_t>(kernels_.size());
    op.num_kernels = static_cast<std::uint32_t>(kernels.size());
    ops_.push_back(op);
    kernels_.insert(kernels_.end(), kernels.begin(), kernels.end());
  }

  const StepProgram& program_;
  ProgramKernel shortest_;
  std::size_t taken_ = 0;
  std::vector<ProgramOp> ops_;
  std::vector<ProgramKernel> kernels_;
};

}  // namespace

Seconds time_between_steps(const LoopWork& loop, const FrameworkProfile& framework,
                           const LoopContext& context) {
  const auto samples = static_cast<double>(context.batch);
  Seconds time = own_work(loop, context);
  time += samples * (loop.ops_per_sample * framework.host.dispatch_per_op +
                     loop.kernels_per_sample * framework.host.launch_per_kernel);
  time += wake_of(framework) * static_cast<double>(loop.waits_at_end + loop.waits_within_forward);
  if (loop.weight_copies > 0) {
    time += context.weights * static_cast<double>(loop.weight_copies) / loop.copy_rate;
  }
  return time;
}

FrameworkProfile in_loop(FrameworkProfile framework, const LoopWork& loop,
                         const LoopContext& context) {
  framework.host.step_overhead += time_between_steps(loop, framework, context);
  framework.host.synchronizes_each_step |= loop.waits_at_end > 0;
  if (loop.waits_per_update) {
    framework.host.updates_per_synchronization = 1;
    framework.host.synchronization = max(framework.host.synchronization, kWake);
  }
  return framework;
}

std::size_t show_loop_kernels(const LoopWork& loop, const FrameworkProfile& framework,
                              const LoopContext& context, std::size_t forward_ops,
                              StepProgram& program) {
  const double samples = static_cast<double>(context.batch);
  const auto count = static_cast<std::size_t>(std::lround(loop.kernels_per_sample * samples));
  if (count == 0 || program.kernels.empty()) return 0;
  const Seconds thinking = samples * loop.ops_per_sample * framework.host.dispatch_per_op;
  const Seconds issued = static_cast<double>(count) * framework.host.launch_per_kernel;
  const auto waits = static_cast<std::size_t>(loop.waits_within_forward);
  const Seconds own = waits > 0 ? own_work(loop, context) : Seconds();
  const Seconds waking = static_cast<double>(waits) * wake_of(framework);
  program.step_overhead = max(program.step_overhead - thinking - issued - own - waking, Seconds(0));

  ProgramMixer mixer(program);
  const std::size_t parts = std::max<std::size_t>(waits, 1);
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t first = count * part / parts, end = count * (part + 1) / parts;
    for (std::size_t i = first; i < end; ++i) {
      const bool waits_here = waits > 0 && i == first;
      const Seconds more = waits_here ? (own + waking) / static_cast<double>(parts) : Seconds();
      mixer.add_shortest(
          {.dispatch = thinking / static_cast<double>(count) + more, .waits_for_gpu = waits_here});
    }
    mixer.take_until(part + 1 == parts ? program.ops.size() : forward_ops * (part + 1) / parts);
  }
  mixer.finish(program);
  return count;
}

}  // namespace tracecast
