#include "sim/cluster/known_rate.hpp"

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

void scale_kernels(ColocatedJob& job, double factor) {
  for (ProgramKernel& kernel : job.program.kernels) kernel.duration *= factor;
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

/// The factor, between 1/8 and 8, with which the job's steps come closest to `step`; steps grow with it.
double find_host_factor(const ColocatedJob& job, const SharedBox& box, Seconds step) {
  constexpr int kRounds = 6;
  double low = std::log(1.0 / 8), high = std::log(8.0);
  for (int i = 0; i < kRounds; ++i) {
    const double middle = (low + high) / 2;
    const bool too_slow = run_alone(with_host(job, std::exp(middle)), box).step > step;
    (too_slow ? high : low) = middle;
  }
  return std::exp((low + high) / 2);
}

}  // namespace

ColocatedJob with_rate_alone(ColocatedJob job, const SharedBox& box, Seconds step) {
  TRACECAST_CHECK(step > Seconds(0), "a step takes time");
  if (run_alone(job, box).gpu_share < kBusyGpu) {
    job = with_host(std::move(job), find_host_factor(job, box, step));
  }
  constexpr int kCorrections = 3;
  for (int i = 0; i < kCorrections; ++i) {
    const Alone now = run_alone(job, box);
    const double factor = step / now.step;
    if (now.gpu_share < kBusyGpu) job = with_host(std::move(job), factor);
    scale_kernels(job, factor);
  }
  return job;
}

}  // namespace tracecast
