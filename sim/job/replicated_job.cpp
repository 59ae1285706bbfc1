#include "sim/job/replicated_job.hpp"

#include <algorithm>

#include "hwspecs/job_spread.hpp"
#include "models/lowering/lower.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast {
namespace {

/// Of the step: in which a kernel of an op runs on one of the GPUs that are alike.
double computing_share(const ReplicatedTimeline& run) {
  Seconds sum{};
  for (const DeviceSpan& span : run.spans) {
    if (!span.on_first && span.work == DeviceWork::Kernel) sum += span.end - span.start;
  }
  return std::clamp(sum / (run.steps * run.step_time), 0.01, 1.0);
}

/// The driver holds averages of power, so kernels may take what waiting leaves:
///   awake + (tdp - awake) / computing
/// Guess: it averages over a step or more, and a collective's kernel that spins draws no more than an awake board.
Watts power_budget(const GpuSpec& gpu, double computing, const CostProfile& profile) {
  const Watts awake = cost::awake_power(gpu, profile);
  return awake + (gpu.tdp - awake) / computing;
}

}  // namespace

Seconds ReplicatedJob::device_time() const {
  Seconds sum{};
  for (const DeviceTime& time : times) sum += time.time;
  return sum;
}

bool runs_replicated(const ResolvedJob& job, const StrategyProfile& strategy,
                     const Fabric& fabric) {
  return strategy.exchange == Exchange::FirstGpu && fabric.num_nodes() == 1 &&
         fabric.num_ranks() > 1 && job.phase == Phase::Train && !job.micro_batch;
}

ReplicatedJob run_replicated(const ResolvedJob& job, const StrategyProfile& strategy,
                             const Fabric& fabric, const Hardware& hardware) {
  PlacedJob options = job.options;
  options.batch *= fabric.num_ranks();
  if (job.program) options.network = std::string(kJobPrefix) + job.program->id;
  ResolvedJob whole = make_job(options, hardware);
  const bool waits = job.program && job.program->loop.waits_after_forward > 0;
  const bool replicates_features = job.program && spread_of(*job.program).replicates_features;
  ReplicatedJob result;
  Seconds supply{};
  Bytes input{};
  if (whole.input) {
    const InputStages stages = plan_input(*whole.input);
    const double workers = std::max(1, stages.workers);
    const double speed = whole.input->host.speed(workers + 1);
    supply = max(stages.read, max(stages.prepare / (workers * speed), stages.pin / speed));
    input = prepared_bytes(*whole.input) / static_cast<double>(fabric.num_ranks());
    whole.input.reset();
  }
  ResolvedJob replica = job;
  replica.input.reset();
  const Prediction on_first = predict(whole, hardware);
  const auto step_of = [&] {
    return ReplicatedStep{
        .replica = result.replica,
        .whole = on_first,
        .graph = *replica.step,
        .replicated_ops = replicates_features
                              ? count_feature_ops(*replica.forward)
                              : static_cast<std::uint32_t>(replica.forward->ops().size()),
        .fabric = fabric,
        .strategy = strategy,
        .element_bytes =
            element_sizes(*replica.step, replica.framework, replica.gpu, replica.precision),
        .input_supply = supply,
        .input_per_gpu = input,
        .date = std::string_view(job.options.software.date)
                    .substr(0, job.options.software.date.find("..")),
        .steps_per_report = job.program ? job.program->loop.steps_per_report : 0};
  };
  result.replica = predict(replica, hardware);
  const double computing = computing_share(run_replicated(step_of(), waits));
  replica.gpu.tdp = power_budget(job.gpu, computing, hardware.cost());
  result.replica = predict(replica, hardware);
  result.calls = count_driver_calls({.graph = *replica.step,
                                     .gpu = replica.gpu,
                                     .cost = hardware.cost(),
                                     .framework = replica.framework,
                                     .precision = replica.precision},
                                    result.replica.priced);
  const ReplicatedStep step = step_of();
  result.timeline = run_replicated(step, waits);
  result.times = sum_device_times(step, result.timeline);
  return result;
}

std::string device_work_name(const DeviceTime& time) {
  switch (time.work) {
    case DeviceWork::Flatten:
      return "flatten for exchange";
    case DeviceWork::Broadcast:
      return "broadcast";
    case DeviceWork::Reduce:
      return "reduce";
    case DeviceWork::Copy:
      return "copy";
    case DeviceWork::Kernel:
      break;
  }
  std::string name(to_string(time.kernel_class));
  if (time.algorithm != Algorithm::None && time.kernel_class == KernelClass::Convolution)
    return name + ", " + std::string(to_string(time.algorithm));
  const bool is_pool = time.op == OpKind::MaxPool || time.op == OpKind::AvgPool;
  if (is_pool) name = time.op == OpKind::MaxPool ? "max pool" : "average pool";
  if (time.pass == Pass::Forward || time.pass == Pass::Update) return name;
  return is_pool ? name + ", backward" : name;
}

}  // namespace tracecast
