#include "sim/job/mode/replicated_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "hwspecs/software/training_habits.hpp"
#include "models/lowering/lower.hpp"
#include "sim/base/error.hpp"
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

/// The driver holds averages of power, so kernels may take what waiting leaves of a limit:
///   active-idle + (limit - active-idle) / computing
/// Guess: it averages over a step or more, and a collective's kernel that spins draws no more than
/// an active-idle board.
Watts power_budget(Watts limit, const GpuSpec& gpu, double computing, const CostProfile& profile) {
  const Watts active_idle = cost::waiting_power(gpu, profile);
  return active_idle + (limit - active_idle) / computing;
}

/// How batches reach the GPUs.
struct Feeding {
  Seconds supply{};  ///< of the loader's workers, for the whole batch
  Seconds host{};    ///< of the one thread
  Bytes per_gpu{};   ///< copied while kernels run
};

/// Of one batch of a GPU as 4-byte numbers, the way programs hold it.
Bytes input_bytes(const ResolvedJob& job) {
  double elements = 0;
  for (const Tensor& tensor : job.forward->tensors()) {
    if (tensor.role == TensorRole::Input)
      elements += static_cast<double>(element_count(tensor.shape));
  }
  return Bytes(4 * elements);
}

/// `fed`: one GPU with its part of the batch. One thread copies to all GPUs from pageable memory,
/// one after the other.
Feeding feeding_of(const ResolvedJob& replica, const ResolvedJob& whole, const Prediction& fed,
                   double gpus) {
  Feeding feeding;
  if (fed.program.copy_blocks_host) {
    feeding.host = fed.program.input_copy * gpus;
  } else if (whole.input) {
    feeding.per_gpu = prepared_bytes(*whole.input) / gpus;
  } else if (fed.program.input_copy > Seconds(0)) {
    feeding.per_gpu = input_bytes(replica);
  }
  if (!whole.input) return feeding;
  const InputStages stages = plan_input(*whole.input);
  if (stages.workers == 0) {
    feeding.host += stages.prepare;
    feeding.supply = stages.read;
    return feeding;
  }
  const double workers = stages.workers;
  const double speed = whole.input->host.speed(workers + 1);  // under the lock one thread issues
  feeding.supply = max(stages.read, max(stages.prepare / (workers * speed), stages.pin / speed));
  return feeding;
}

/// Steps of a process: all alike, or the micro-batches before the last one.
struct StepPass {
  Prediction replica, on_first;
  ReplicatedTimeline timeline;
  DataParallelStep step;
  std::vector<DeviceTime> times;
};

class PassRunner {
 public:
  PassRunner(const StrategyProfile& strategy, const Fabric& fabric, const Hardware& hardware,
             const ReplicatedOptions& options)
      : strategy_(strategy), fabric_(fabric), hardware_(hardware), options_(options) {}

  /// `replica` and `whole`: without micro-batches.
  StepPass run(ResolvedJob replica, ResolvedJob whole) {
    StepPass pass;
    const double gpus = fabric_.num_ranks();
    Prediction fed = predict(replica, hardware_);
    feeding_ = feeding_of(replica, whole, fed, gpus);
    const bool is_loaded = replica.input.has_value();
    replica.input.reset();
    whole.input.reset();
    pass.replica = is_loaded ? predict(replica, hardware_) : std::move(fed);
    pass.on_first = predict(whole, hardware_);
    power_limit_ = Watts(replica.options.board.power_limit_w.value_or(replica.gpu.tdp.in_w()));
    const double computing = computing_share(run_replicated(step_of(pass, replica)));
    if (replica.options.board.power_limit_w) {
      replica.options.board.power_limit_w =
          power_budget(Watts(*replica.options.board.power_limit_w), replica.gpu, computing,
                       hardware_.cost())
              .in_w();
    } else {
      replica.gpu.tdp = power_budget(replica.gpu.tdp, replica.gpu, computing, hardware_.cost());
      if (replica.sold_gpu) replica.sold_gpu->tdp = replica.gpu.tdp;
    }
    pass.replica = predict(replica, hardware_);
    const ReplicatedStep step = step_of(pass, replica);
    pass.timeline = run_replicated(step);
    pass.times = sum_device_times(step, pass.timeline);
    pass.step = tracecast::step_of(step, pass.timeline);
    return pass;
  }

 private:
  [[nodiscard]] ReplicatedStep step_of(const StepPass& pass, const ResolvedJob& replica) const {
    const auto& program = replica.program;
    const double node = fabric_.group_of(FabricNodeId{0}).compute_time_factor *
                        shared_board_factor(replica.gpu, fabric_);
    const double straggling = straggling_of(fabric_, options_.sample_sd, replica.step->batch,
                                            pass.replica.timeline.kernel_share());
    return {.replica = pass.replica,
            .whole = pass.on_first,
            .graph = *replica.step,
            .replicated_ops = program && habits_of(*program).replicates_features
                                  ? count_feature_ops(*replica.forward)
                                  : static_cast<std::uint32_t>(replica.forward->ops().size()),
            .fabric = fabric_,
            .strategy = strategy_,
            .element_bytes =
                element_sizes(*replica.step, replica.framework, replica.gpu, replica.precision),
            .input_supply = feeding_.supply,
            .host_input = feeding_.host,
            .input_per_gpu = feeding_.per_gpu,
            .date = std::string_view(replica.options.software.date)
                        .substr(0, replica.options.software.date.find("..")),
            .steps_per_report = program ? program->loop.steps_per_report : 0,
            .waits_after_forward = program && program->loop.waits_after_forward > 0,
            .replica_time_factor = node * straggling,
            .first_time_factor = node,
            .fold = options_.fold,
            .straggling = straggling,
            .power_limit = power_limit_,
            .cost = &hardware_.cost()};
  }

  const StrategyProfile& strategy_;
  const Fabric& fabric_;
  const Hardware& hardware_;
  ReplicatedOptions options_;
  Feeding feeding_;
  Watts power_limit_{};
};

/// The last micro-batch with the update, or one of those before it.
ResolvedJob micro_batch_of(ResolvedJob job, bool last) {
  if (!last) job.step = job.micro_batch;
  job.micro_batch.reset();
  return job;
}

/// `times` of each of `early`, and `times` before it.
void add_times(std::vector<DeviceTime>& sums, const std::vector<DeviceTime>& early, double times) {
  for (DeviceTime time : early) {
    time.time = time.time * times;
    time.flops = time.flops * times;
    time.calls *= static_cast<std::size_t>(times);
    const auto known = std::find_if(sums.begin(), sums.end(),
                                    [&](const DeviceTime& sum) { return are_alike(sum, time); });
    if (known == sums.end()) {
      sums.push_back(time);
      continue;
    }
    known->time += time.time;
    known->flops += time.flops;
    known->calls += time.calls;
  }
  std::stable_sort(sums.begin(), sums.end(),
                   [](const DeviceTime& a, const DeviceTime& b) { return b.time < a.time; });
}

}  // namespace

Seconds ReplicatedRun::device_time() const {
  Seconds sum{};
  for (const DeviceTime& time : times) sum += time.time;
  return sum;
}

ReplicatedRun run_replicated_job(const ResolvedJob& job, const StrategyProfile& strategy,
                                 const Fabric& fabric, const Hardware& hardware,
                                 const ReplicatedOptions& how) {
  if (fabric.num_nodes() > 1) {
    throw InputError("--strategy", fmt::format("{} on {} nodes", strategy.id, fabric.num_nodes()),
                     "one node: one process drives all GPUs");
  }
  PlacedJob options = job.options;
  options.batch *= fabric.num_ranks();
  if (job.program) options.network = std::string(kJobPrefix) + job.program->id;
  const ResolvedJob whole = make_job(options, hardware);
  PassRunner runner(strategy, fabric, hardware, how);
  StepPass last = runner.run(micro_batch_of(job, true), micro_batch_of(whole, true));
  ReplicatedRun result{.timeline = std::move(last.timeline),
                       .micro_batch = {},
                       .step = std::move(last.step),
                       .times = std::move(last.times),
                       .launches = 0,
                       .replica = std::move(last.replica)};
  result.launches = result.timeline.launches;
  result.launching = result.timeline.launching;
  result.waiting = result.timeline.waiting;
  if (!job.micro_batch) return result;
  StepPass early = runner.run(micro_batch_of(job, false), micro_batch_of(whole, false));
  const double times = static_cast<double>(job.options.accumulate - 1);
  result.step = accumulate_steps(early.step, times, std::move(result.step));
  add_times(result.times, early.times, times);
  result.launches += early.timeline.launches * static_cast<std::size_t>(times);
  result.launching += early.timeline.launching * times;
  result.waiting += early.timeline.waiting * times;
  result.micro_batch = std::move(early.timeline);
  return result;
}

DriverCalls driver_calls_of(const ResolvedJob& job, const ReplicatedRun& run,
                            const Hardware& hardware) {
  return count_driver_calls({.graph = *job.step,
                             .gpu = job.gpu,
                             .cost = hardware.cost(),
                             .framework = job.framework,
                             .precision = job.precision},
                            run.replica.priced);
}

std::string device_work_name(const DeviceTime& time) {
  switch (time.work) {
    case DeviceWork::Flatten:
      return "flatten for communication";
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
