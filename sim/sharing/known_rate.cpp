#include "sim/sharing/known_rate.hpp"

#include <cmath>
#include <utility>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

struct Alone {
  Seconds step{};
  double gpu_share = 0;  ///< of all processes
};

Alone run_alone(const ColocatedJob& job, const SharedBox& box) {
  SharedBox roomy = box;
  roomy.gpu_memory = Bytes(1e18);  // whether it fits is asked elsewhere
  const Colocation result = colocate({&job, 1}, roomy);
  return {result.jobs.front().alone, result.jobs.front().gpu_share};
}

ColocatedJob with_kernels(ColocatedJob job, double factor) {
  for (ProgramKernel& kernel : job.program.kernels) kernel.duration *= factor;
  return job;
}

ColocatedJob with_host(ColocatedJob job, double factor) {
  StepProgram& program = job.program;
  program.step_overhead *= factor;
  program.launch *= factor;
  for (ProgramOp& op : program.ops) op.dispatch *= factor;
  for (ProgramKernel& kernel : program.kernels) kernel.more_launch *= factor;
  if (program.input) {
    program.input->read *= factor;
    program.input->prepare *= factor;
    program.input->pin *= factor;
  }
  return job;
}

/// The factor, between 1/8 and 8, with which the steps of `scaled(job, factor)` come closest to
/// `step`; they grow with it.
template <class Scaled>
double find_factor(const ColocatedJob& job, const SharedBox& box, Seconds step, Scaled&& scaled) {
  constexpr int kRounds = 6;
  double low = std::log(1.0 / 8), high = std::log(8.0);
  for (int i = 0; i < kRounds; ++i) {
    const double middle = (low + high) / 2;
    const bool too_slow = run_alone(scaled(job, std::exp(middle)), box).step > step;
    (too_slow ? high : low) = middle;
  }
  return std::exp((low + high) / 2);
}

bool is_due_to_kernels(const Alone& predicted, const KnownSteps& known) {
  if (known.here > predicted.step) return known.here > kHostRange * known.fastest;
  return predicted.gpu_share >= kBusyGpu;
}

}  // namespace

ColocatedJob with_rate_alone(ColocatedJob job, const SharedBox& box, const KnownSteps& known) {
  TRACECAST_CHECK(Seconds(0) < known.fastest && known.fastest <= known.here, "a step takes time");
  const bool by_kernels = is_due_to_kernels(run_alone(job, box), known);
  const auto scaled = by_kernels ? with_kernels : with_host;
  job = scaled(job, find_factor(job, box, known.here, scaled));
  constexpr int kCorrections = 3;
  for (int i = 0; i < kCorrections; ++i) {
    const Alone now = run_alone(job, box);
    const double factor = known.here / now.step;
    if (!by_kernels && now.gpu_share < kBusyGpu) job = with_host(std::move(job), factor);
    job = with_kernels(std::move(job), factor);
  }
  return job;
}

}  // namespace tracecast
