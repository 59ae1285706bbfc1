#include "sim/job/mode/colocation_job.hpp"

#include <algorithm>

#include "sim/job/input.hpp"
#include "sim/step/training_loop.hpp"

namespace tracecast {
namespace {

int processes_of(const ResolvedJob& job) { return job.program ? job.program->loop.processes : 1; }

/// Ops of the program before the first that is not of the forward pass.
std::size_t count_forward_ops(const Prediction& prediction) {
  const StepProgram& program = prediction.program;
  const auto is_forward = [&](const ProgramOp& op) {
    const ProgramKernel& kernel = program.kernels[op.first_kernel];
    return prediction.priced.choices[kernel.op].candidate->kernels[kernel.kernel].pass ==
           Pass::Forward;
  };
  return static_cast<std::size_t>(
      std::find_if_not(program.ops.begin(), program.ops.end(), is_forward) - program.ops.begin());
}

Interval scaled(const Interval& interval, double factor) {
  return {.value = interval.value * factor,
          .low = interval.low * factor,
          .high = interval.high * factor};
}

}  // namespace

ColocatedJob colocated(const ResolvedJob& job, const Prediction& prediction, std::size_t gpu) {
  ColocatedJob result{.program = at_full_speed(prediction),
                      .demands = {},
                      .device_memory = prediction.memory.needed,
                      .processes = processes_of(job),
                      .gpu = gpu};
  if (job.program) {
    show_loop_kernels(job.program->loop, job.framework, loop_context(job),
                      count_forward_ops(prediction), result.program);
  }
  result.demands = kernel_demands(prediction.priced, result.program);
  return result;
}

SharedBox shared_box(const ResolvedJob& job, const Hardware& hardware, bool mps) {
  SharedBox box{.gpu_memory = job.gpu.memory, .sharing = hardware.sharing(), .mps = mps};
  const bool preempts = job.gpu.architecture >= Architecture::Pascal;
  if (preempts) box.sharing.idle_hold = Seconds();
  box.host = named_host_threads(job.options, hardware, job);
  if (!box.host && job.input) box.host = job.input->host;
  return box;
}

Prediction predict_program(const ResolvedJob& job, const Hardware& hardware) {
  Prediction prediction = predict(job, hardware);
  if (processes_of(job) == 1 || prediction.program.kernels.empty()) return prediction;
  const ColocatedJob one = colocated(job, prediction);
  const Colocation shared = colocate({&one, 1}, shared_box(job, hardware, false));
  if (!shared.fits) return prediction;
  const double factor = shared.jobs.front().alone.in_s() / prediction.step_time_s.value;
  prediction.step_time_s = scaled(prediction.step_time_s, factor);
  prediction.throughput_samples_per_s = scaled(prediction.throughput_samples_per_s, 1 / factor);
  return prediction;
}

}  // namespace tracecast
