#include "tools/colocation_job.hpp"

#include <algorithm>

#include "sim/cluster/training_loop.hpp"
#include "tools/input_options.hpp"

namespace tracecast {
namespace {

int processes_of(const Job& job) { return job.program ? job.program->loop.processes : 1; }

Interval scaled(const Interval& interval, double factor) {
  return {.value = interval.value * factor,
          .low = interval.low * factor,
          .high = interval.high * factor};
}

}  // namespace

ColocatedJob colocated(const Job& job, const Prediction& prediction, std::size_t gpu) {
  ColocatedJob result{.program = at_full_speed(prediction),
                      .demands = kernel_demands(prediction.priced, prediction.program),
                      .device_memory = prediction.memory.needed,
                      .processes = processes_of(job),
                      .gpu = gpu};
  if (job.program) {
    const std::size_t shown =
        show_loop_kernels(job.program->loop, job.framework, loop_context(job), result.program);
    result.demands.insert(result.demands.begin(), shown, {.sm_share = 0.01, .dram_share = 0});
  }
  return result;
}

SharedBox shared_box(const Job& job, const Sources& sources, bool mps) {
  SharedBox box{.gpu_memory = job.gpu.memory, .sharing = sources.sharing, .mps = mps};
  const bool preempts = job.gpu.architecture >= Architecture::Pascal;
  if (preempts) box.sharing.idle_hold = Seconds();
  box.host = named_host_threads(job.options, sources, job);
  if (!box.host && job.input) box.host = job.input->host;
  return box;
}

Prediction predict_program(const Job& job, const Sources& sources) {
  Prediction prediction = predict(job, sources);
  if (processes_of(job) == 1 || prediction.program.kernels.empty()) return prediction;
  const ColocatedJob one = colocated(job, prediction);
  const Colocation shared = colocate({&one, 1}, shared_box(job, sources, false));
  if (!shared.fits) return prediction;
  const double factor = shared.jobs.front().alone.in_s() / prediction.step_time_s.value;
  prediction.step_time_s = scaled(prediction.step_time_s, factor);
  prediction.throughput_samples_per_s = scaled(prediction.throughput_samples_per_s, 1 / factor);
  return prediction;
}

}  // namespace tracecast
