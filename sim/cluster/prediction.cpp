#include "sim/cluster/prediction.hpp"

#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "models/lowering/lower.hpp"
#include "models/training.hpp"
#include "sim/base/error.hpp"
#include "sim/cluster/cpu_run.hpp"
#include "sim/cluster/driver_calls.hpp"
#include "sim/cluster/power_limit.hpp"
#include "sim/cluster/training_loop.hpp"

namespace tracecast {
namespace {

constexpr std::array<std::pair<std::string_view, Phase>, 4> kPhases{{
    {"train", Phase::Train},
    {"infer", Phase::Infer},
    {"forward", Phase::Forward},
    {"forward_backward", Phase::ForwardBackward},
}};

/// Share of PCIe's theoretical rate that a copy from pinned memory reaches: 12 of 15.75 GB/s on PCIe 3
/// x16 (bandwidthTest of the CUDA samples on P100 and V100 hosts).
constexpr double kCopyEfficiency = 0.76;

Bytes input_bytes(const PredictRequest& request) {
  const std::vector<Bytes> sizes =
      element_sizes(request.graph, request.framework, request.gpu, request.precision);
  Bytes bytes{};
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    const Tensor& tensor = request.graph.tensors()[t];
    if (tensor.role != TensorRole::Input) continue;
    bytes += sizes[t] * static_cast<double>(element_count(tensor.shape));
  }
  return bytes;
}

cost::CpuTarget cores_of(const PredictRequest& request) {
  return {.node = *request.cpu, .kernels = request.framework.host.cpu_kernels};
}

PricedStep price_step(LoweredStep step, const PredictRequest& r) {
  auto lowered = std::make_shared<const LoweredStep>(std::move(step));
  return r.cpu ? price_on_cpu(std::move(lowered), cores_of(r), r.cost)
               : price(std::move(lowered), r.gpu, r.cost);
}

struct PlannedStep {
  PricedStep priced;
  MemoryPlan memory;
};

std::vector<Bytes> workspaces_of(const NetworkGraph& graph, const PricedStep& priced) {
  std::vector<Bytes> workspaces(graph.ops().size());
  for (std::size_t i = 0; i < priced.choices.size(); ++i) {
    workspaces[priced.lowered->ops[i].op.index] = priced.choices[i].candidate->workspace;
  }
  return workspaces;
}

/// Of every op: the scratch of what a library tries before it settles; empty where it goes by rules.
std::vector<std::vector<Bytes>> tried_workspaces_of(const NetworkGraph& graph,
                                                    const LoweredStep& lowered) {
  std::vector<std::vector<Bytes>> tried;
  for (const LoweredOp& op : lowered.ops) {
    if (op.policy != ChoicePolicy::Autotuned || op.candidates.size() < 2) continue;
    tried.resize(graph.ops().size());
    for (const Candidate& candidate : op.candidates) {
      tried[op.op.index].push_back(candidate.workspace);
    }
  }
  return tried;
}

MemoryOptions memory_options(const PredictRequest& r) {
  return {.precision = r.precision, .keeps_gradients = r.keeps_gradients};
}

/// `in_memory`: the graph without what a compiler keeps in registers.
PlannedStep choose_within(const PredictRequest& r, const FrameworkProfile& framework,
                          const NetworkGraph& in_memory) {
  PlannedStep step;
  step.priced = price_step(lower(r.graph, framework, r.gpu, {.precision = r.precision}), r);
  MemoryOptions options = memory_options(r);
  const auto tried = tried_workspaces_of(r.graph, *step.priced.lowered);
  options.tried_workspaces = tried;
  step.memory = plan_memory(in_memory, workspaces_of(r.graph, step.priced), framework, r.gpu,
                            r.cost, options);
  return step;
}

/// The plan alone: prices only ops that have a choice.
struct PlannedMemory {
  MemoryPlan memory;
};
PlannedMemory plan_within(const PredictRequest& r, const FrameworkProfile& framework,
                          const NetworkGraph& in_memory) {
  LoweredStep lowered = lower(r.graph, framework, r.gpu, {.precision = r.precision});
  MemoryOptions options = memory_options(r);
  const auto tried = tried_workspaces_of(r.graph, lowered);
  options.tried_workspaces = tried;
  std::vector<Bytes> workspaces(r.graph.ops().size());
  std::erase_if(lowered.ops, [&](const LoweredOp& op) {
    if (op.candidates.size() != 1) return false;
    workspaces[op.op.index] = op.candidates.front().workspace;
    return true;
  });
  lowered.first_alike.clear();
  const PricedStep priced = price_step(std::move(lowered), r);
  for (std::size_t i = 0; i < priced.choices.size(); ++i) {
    workspaces[priced.lowered->ops[i].op.index] = priced.choices[i].candidate->workspace;
  }
  return {.memory = plan_memory(in_memory, workspaces, framework, r.gpu, r.cost, options)};
}

/// The graph without what a compiler keeps in registers; nothing where it is the whole graph.
std::optional<NetworkGraph> fused_graph(const PredictRequest& r) {
  if (!r.framework.compiler) return std::nullopt;
  return graph_in_memory(r.graph, r.framework, r.gpu, {.precision = r.precision});
}

/// `choose` with the fastest algorithms, or with those that the memory left by everything else allows.
template <class Choose>
auto plan_with(const PredictRequest& r, const Choose& choose) {
  const std::optional<NetworkGraph> fused = fused_graph(r);
  const NetworkGraph& in_memory = fused ? *fused : r.graph;
  auto step = choose(r, r.framework, in_memory);
  if (step.memory.fits) return step;
  const MemoryPlan bare = plan_memory(in_memory, {}, r.framework, r.gpu, r.cost, memory_options(r));
  if (!bare.fits) return step;
  // Free memory is in pieces: what the largest of them holds is found by trying.
  for (const double share : {1.0, 0.5, 0.125, 0.0}) {
    FrameworkProfile framework = r.framework;
    framework.convolutions.workspace_limit =
        min(framework.convolutions.workspace_limit, bare.headroom() * share);
    auto smaller = choose(r, framework, in_memory);
    if (smaller.memory.fits) return smaller;
  }
  return step;
}

/// The first op of the backward pass begins when the forward pass has ended and the host has read its result.
void wait_after_forward(const NetworkGraph& graph, const PricedStep& priced,
                        const FrameworkProfile& framework, StepProgram& program) {
  for (ProgramOp& op : program.ops) {
    const std::uint32_t lowered = program.kernels[op.first_kernel].op;
    if (graph.op(priced.lowered->ops[lowered].op).pass == Pass::Forward) continue;
    if (!op.waits_for_gpu) op.dispatch += max(framework.host.synchronization, kWake);
    op.waits_for_gpu = true;
    return;
  }
}

/// Kernels and input err independently; the step waits for the later one.
Interval input_interval(const Prediction& prediction, const InputJob& input) {
  const double unknown_host = input.host_is_assumed ? input.pipeline.unknown_host_log_sd : 0.0;
  return interval90_of_slower(prediction.step_time_s.value, prediction.input->step_without.in_s(),
                              prediction.log_sd, prediction.input->supply.in_s(),
                              std::hypot(input.pipeline.log_sd, unknown_host));
}

}  // namespace

MemoryPlan plan_memory(const PredictRequest& request) {
  return plan_with(request, plan_within).memory;
}

bool fits_in_memory(const PredictRequest& r) {
  const std::optional<NetworkGraph> fused = fused_graph(r);
  const bool may_fit =
      tensors_fit(fused ? *fused : r.graph, r.framework, r.gpu, r.cost, memory_options(r));
  return may_fit && plan_memory(r).fits;
}

DriverCalls count_driver_calls(const PredictRequest& r, const PricedStep& priced) {
  MemoryOptions options = memory_options(r);
  const auto tried = tried_workspaces_of(r.graph, *priced.lowered);
  options.tried_workspaces = tried;
  return count_driver_calls(r.graph, workspaces_of(r.graph, priced), r.framework, r.gpu, r.cost,
                            options);
}

std::string_view to_string(Phase phase) {
  for (const auto& [name, value] : kPhases) {
    if (value == phase) return name;
  }
  return "?";
}

std::optional<Phase> find_phase(std::string_view name) {
  for (const auto& [known, value] : kPhases) {
    if (known == name) return value;
  }
  return std::nullopt;
}

NetworkGraph make_step_graph(NetworkGraph forward, Phase phase, const StepOptions& options) {
  forward.training_mode = phase != Phase::Infer;
  if (phase == Phase::Infer || phase == Phase::Forward) return forward;
  const auto kind = find_optimizer(options.optimizer);
  TRACECAST_CHECK(kind.has_value(), "the optimizer's name was checked where it came in");
  const bool whole = phase == Phase::Train;
  NetworkGraph step = make_training_graph(std::move(forward),
                                          {.optimizer = *kind,
                                           .with_loss = whole,
                                           .with_optimizer = whole && options.with_update,
                                           .adds_gradients = options.adds_gradients,
                                           .differentiates_input = options.differentiates_input,
                                           .copies_first_gradient = options.copies_first_gradient});
  return recompute_activations(std::move(step), options.recompute);
}

namespace {

/// A batch on its way from host memory to the GPU, each step.
struct HostBatch {
  Seconds copy{};
  Seconds gather{};  ///< the dispatch thread copies it together first
  bool pageable = false;
  bool waits = false;  ///< for the kernels of the step before
};

HostBatch host_batch(const PredictRequest& request) {
  if (request.cpu) return {};
  const BytesPerSecond pinned = request.gpu.pcie_bandwidth * kCopyEfficiency;
  if (request.input) {
    return {.copy = prepared_bytes(*request.input) / copy_rate(*request.input, pinned)};
  }
  if (request.input_from_host == nullptr) return {};
  const InputPipelineProfile& loader = *request.input_from_host;
  const Bytes bytes = input_bytes(request);
  // Only what the loader makes itself is pinned: a loop's own arrays are not.
  const bool pageable = loader.pinned_by != PinnedBy::Worker;
  const bool gathers = loader.pinned_by == PinnedBy::None;
  return {.copy = bytes / (pageable ? min(pinned, loader.memory_copy) : pinned),
          .gather = gathers ? bytes / loader.memory_copy * loader.worker_copies : Seconds(),
          .pageable = pageable,
          .waits = pageable || loader.copies_in_compute_stream};
}

}  // namespace

Prediction predict(const PredictRequest& request) {
  const NetworkGraph& graph = request.graph;
  Prediction result;
  PlannedStep planned = plan_with(request, choose_within);
  result.priced = std::move(planned.priced);
  result.memory = planned.memory;

  const HostBatch fed_batch = host_batch(request);
  result.program = build_step_program(graph, result.priced, request.framework, fed_batch.copy);
  result.program.copy_blocks_host = fed_batch.pageable;
  result.program.copy_waits_for_kernels = fed_batch.waits;
  result.program.step_overhead += fed_batch.gather;
  if (request.waits_after_forward) {
    wait_after_forward(graph, result.priced, request.framework, result.program);
  }
  if (request.cpu) result.program.launch_queue = 1;  // the thread that dispatches waits for each op
  InputRun fed;                                      // the last run with an input pipeline
  const auto run = [&](const StepProgram& program) {
    if (!request.input) return simulate(program);
    fed = run_with_input(program, *request.input);
    return fed.timeline;
  };
  result.timeline = run(result.program);
  LimitedStep limited;
  if (!request.cpu) {
    limited = hold_power_limit(result.priced, result.program, result.timeline, request.gpu,
                               request.power_limit.value_or(request.gpu.tdp), request.cost, run);
  }
  if (request.input) {
    result.program = std::move(fed.program);
    result.input = fed.use;
  }
  const StepTimeline& work = request.input ? fed.without : result.timeline;

  result.num_kernels = result.program.kernels.size();
  std::vector<ErrorShare> errors;
  // Kernels that overlap the host's work decide nothing; which ones is not worth telling apart.
  const double on_path =
      work.kernel_busy > Seconds(0) ? work.critical_kernels / work.kernel_busy : 0.0;
  for (std::size_t i = 0; i < result.priced.choices.size(); ++i) {
    const cost::PricedCandidate& choice = result.priced.choices[i];
    for (std::size_t k = 0; k < choice.estimates.size(); ++k) {
      const Kernel& kernel = choice.candidate->kernels[k];
      errors.push_back({.kernel_class = kernel.kernel_class,
                        .time = choice.estimates[k].duration * on_path,
                        .log_sd = choice.estimates[k].log_sd,
                        .shared_log_sd = choice.estimates[k].shared_log_sd});
      if (kernel.is_bounded_guess) {
        ++result.num_guessed_kernels;
        result.guessed_time += choice.estimates[k].duration;
      }
    }
  }

  const Seconds step = result.timeline.step_time;
  result.log_sd = step_log_sd(errors, work.step_time, work.critical_host,
                              request.framework.host.log_sd, request.framework.system_log_sd);
  result.step_time_s = interval90(step.in_s(), result.log_sd);
  if (request.input) result.step_time_s = input_interval(result, *request.input);
  if (step > Seconds(0)) {
    const auto batch = static_cast<double>(graph.batch);
    const Interval& time = result.step_time_s;
    result.throughput_samples_per_s = {
        .value = batch / time.value, .low = batch / time.high, .high = batch / time.low};
    result.cpu_utilization = result.input ? result.input->busy_threads / result.input->cpu_threads
                                          : result.timeline.host_busy / step;
  }
  if (request.cpu) {
    result.cpu_utilization =
        cores_busy(result.priced, result.timeline, cores_of(request), request.cost);
  } else {
    result.gpu_utilization = gpu_utilization(result.timeline, request.gpu);
    result.power = board_power(result.priced, limited);
    result.power_causes = limited.demand_causes;
    result.energy_per_sample = result.power.avg * step / static_cast<double>(graph.batch);
  }
  result.sm_efficiency = sm_efficiency(result.priced, step, request.gpu);
  result.by_class = time_by_class(result.priced, result.timeline);
  result.convolutions = convolution_time_by_algorithm(result.priced);
  result.by_basis = time_by_basis(result.priced, result.timeline);
  result.bottleneck = find_bottleneck(result.priced, result.timeline);
  if (result.input && paces(*result.input, step)) result.bottleneck = Bottleneck::Input;
  result.greatest = greatest_costs(graph, result.priced, result.timeline, request.num_causes);
  return result;
}

}  // namespace tracecast
