#include "sim/step/prediction.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "models/lowering/lower.hpp"
#include "models/training.hpp"
#include "sim/base/error.hpp"
#include "sim/step/cpu_run.hpp"
#include "sim/step/driver_calls.hpp"
#include "sim/step/power_limit.hpp"
#include "sim/step/scratch_shortage.hpp"
#include "sim/step/training_loop.hpp"

namespace tracecast {
namespace {

constexpr std::array<std::pair<std::string_view, Phase>, 4> kPhases{{
    {"train", Phase::Train},
    {"infer", Phase::Infer},
    {"forward", Phase::Forward},
    {"forward_backward", Phase::ForwardBackward},
}};

/// Share of PCIe's theoretical rate that a copy from pinned memory reaches: 12 of 15.75 GB/s on
/// PCIe 3 x16 (bandwidthTest of the CUDA samples on P100 and V100 hosts).
constexpr double kCopyEfficiency = 0.76;

cost::CpuTarget cores_of(const PredictRequest& request) {
  return {.node = *request.cpu, .kernels = request.framework.host.cpu_kernels};
}

std::shared_ptr<const PreparedStep> prepared_of(const PredictRequest& r) {
  if (r.prepared) return r.prepared;
  return prepare_step(r.graph, r.framework, r.gpu,
                      {.precision = r.precision, .keeps_gradients = r.keeps_gradients});
}

MemoryPlan plan_for(const PredictRequest& r, const GpuSpec& device, const PreparedStep& step,
                    std::span<const Bytes> workspaces) {
  return plan_memory(step.lives, workspaces, r.framework, device, r.cost, step.tried_workspaces);
}

using Lowered = std::shared_ptr<const LoweredStep>;

/// Algorithms of a step, by what bounds their scratch.
struct Scratch {
  Lowered lowered;                ///< with limits of its own for every op, where room decided
  Bytes most{};                   ///< that any op takes
  std::vector<Bytes> workspaces;  ///< by op of the graph
  MemoryPlan memory;
  Seconds chosen{};  ///< time of all ops that have a choice of algorithm
};

PricedStep price_within(const PredictRequest& r, const Lowered& lowered, Bytes most_workspace) {
  return r.cpu ? price_on_cpu(lowered, cores_of(r), r.cost)
               : price(lowered, r.gpu, r.cost, most_workspace);
}

/// Prices only ops that have a choice. `device`: whose memory counts.
Scratch plan_within(const PredictRequest& r, const GpuSpec& device, const PreparedStep& step,
                    const Lowered& with_limits, Bytes most_workspace) {
  const LoweredStep& lowered = *with_limits;
  const cost::SustainedBoard board(r.gpu, r.cost);
  std::vector<Bytes> workspaces(r.graph.ops().size());
  std::vector<Seconds> times(lowered.ops.size());
  Seconds chosen{};
  for (std::size_t i = 0; i < lowered.ops.size(); ++i) {
    const LoweredOp& op = lowered.ops[i];
    Bytes& workspace = workspaces[op.op.index];
    if (const std::uint32_t first = lowered.first_alike[i]; first != i) {
      workspace = workspaces[lowered.ops[first].op.index];
      times[i] = times[first];
    } else if (op.candidates.size() == 1) {
      workspace = op.candidates.front().workspace;
    } else {
      const cost::PricedCandidate best = r.cpu ? cost::choose_on_cpu(op, cores_of(r), r.cost)
                                               : cost::choose(op, board, most_workspace);
      workspace = best.candidate->workspace;
      times[i] = best.duration;
    }
    chosen += times[i];
  }
  MemoryPlan memory = plan_for(r, device, step, workspaces);
  return {.lowered = with_limits,
          .most = most_workspace,
          .workspaces = std::move(workspaces),
          .memory = memory,
          .chosen = chosen};
}

/// The step, where not all fastest algorithms fit: libraries hand out algorithms in order of time,
/// and an op takes the first whose scratch can be allocated when it runs, and is at most `cap`.
/// Sources: PyTorch, aten/src/ATen/native/cudnn/Conv_v7.cpp, AlgoIterator::try_all; TensorFlow,
/// core/kernels/conv_ops.cc, DnnScratchAllocator.
Lowered limit_scratch(const PredictRequest& r, const PreparedStep& step, Bytes cap) {
  auto lowered = std::make_shared<LoweredStep>(*step.lowered);
  const cost::SustainedBoard board(r.gpu, r.cost);
  const Bytes most_of_framework = r.framework.convolutions.workspace_limit;
  std::vector<LoweredOp*> by_op(step.lives.num_ops);
  for (LoweredOp& op : lowered->ops) by_op[op.op.index] = &op;
  const auto choose = [&](OpId id, const std::function<bool(Bytes)>& has_room) {
    LoweredOp* op = by_op[id.index];
    if (op == nullptr || op->candidates.empty()) return Bytes(0);
    if (op->candidates.size() == 1) return op->candidates.front().workspace;
    const Bytes limit = min(min(op->workspace_limit, most_of_framework), cap);
    Bytes most{};
    for (const Candidate& candidate : op->candidates) {
      const Bytes size = candidate.workspace;
      if (size <= most || size > limit) continue;
      if (has_room(size)) most = size;
    }
    op->workspace_limit = most;
    return r.cpu ? cost::choose_on_cpu(*op, cores_of(r), r.cost).candidate->workspace
                 : cost::choose(*op, board).candidate->workspace;
  };
  (void)choose_scratch(step.lives, r.framework, r.gpu, r.cost, choose);
  // Like ops may run at times with other room.
  std::iota(lowered->first_alike.begin(), lowered->first_alike.end(), 0U);
  return lowered;
}

/// Scratch that no device is too full for.
constexpr Bytes kSmallScratch = Bytes(1 << 20);

Bytes largest_scratch(const PreparedStep& step) {
  Bytes largest{};
  for (const LoweredOp& op : step.lowered->ops) {
    for (const Candidate& candidate : op.candidates) {
      if (candidate.workspace <= op.workspace_limit) largest = max(largest, candidate.workspace);
    }
  }
  return largest;
}

/// What is known when any plan that fits will do.
enum class Wanted { Fastest, Any };

/// A device like that of `r` whose memory just holds the step's tensors: a job that does not fit is
/// reported as it would run there, with no more room for scratch than one that just fits.
GpuSpec with_room_for_tensors(const PredictRequest& r, const PreparedStep& step) {
  GpuSpec device = r.gpu;
  const auto holds = [&](Bytes memory) {
    device.memory = memory;
    return plan_fits(step.lives, {}, r.framework, device, r.cost);
  };
  constexpr double kGrowth = 1.1, kClose = 1e-4;
  Bytes low = r.gpu.memory, high = low * kGrowth;
  while (!holds(high)) {
    low = high;
    high = high * kGrowth;
  }
  while (high - low > high * kClose) {
    const Bytes middle = low + (high - low) * 0.5;
    (holds(middle) ? high : low) = middle;
  }
  device.memory = high;
  return device;
}

/// `plan`, which fits, with scratch for one op after the other as long as the step still fits,
/// beginning with the op that gains most: no op goes without for the sake of one that gains less.
void grant_scratch(const PredictRequest& r, const GpuSpec& device, const PreparedStep& prepared,
                   Scratch& plan) {
  constexpr std::size_t kMostOps = 128;  // the others gain little
  const cost::SustainedBoard board(r.gpu, r.cost);
  const auto price = [&](const LoweredOp& op, Bytes most) {
    return r.cpu ? cost::choose_on_cpu(op, cores_of(r), r.cost) : cost::choose(op, board, most);
  };
  struct Want {
    std::size_t op;
    Seconds now, gain;
  };
  auto lowered = std::make_shared<LoweredStep>(*prepared.lowered);
  const Bytes most = r.framework.convolutions.workspace_limit;
  std::vector<Want> wants;
  for (std::size_t i = 0; i < lowered->ops.size(); ++i) {
    LoweredOp& op = lowered->ops[i];
    if (op.candidates.size() < 2) continue;
    const Bytes has = plan.workspaces[op.op.index];
    const Seconds now = price(op, has).duration, best = price(op, most).duration;
    if (best < now) wants.push_back({i, now, now - best});
    op.workspace_limit = has;
  }
  std::stable_sort(wants.begin(), wants.end(),
                   [](const Want& a, const Want& b) { return b.gain < a.gain; });
  if (wants.size() > kMostOps) wants.resize(kMostOps);
  bool grants = false;
  for (const Want& want : wants) {
    const LoweredOp& whole = prepared.lowered->ops[want.op];
    Bytes& scratch = plan.workspaces[whole.op.index];
    const Bytes had = scratch;
    // Of its algorithms the fastest first; each asks for less than the one before.
    for (Bytes limit = most;;) {
      const cost::PricedCandidate choice = price(whole, limit);
      if (!(choice.duration < want.now) || !(choice.candidate->workspace > had)) break;
      scratch = choice.candidate->workspace;
      if (plan_fits(prepared.lives, plan.workspaces, r.framework, device, r.cost)) {
        grants = true;
        plan.chosen = plan.chosen - (want.now - choice.duration);
        lowered->ops[want.op].workspace_limit = scratch;
        break;
      }
      limit = scratch - Bytes(1);
      scratch = had;
    }
  }
  if (grants) plan.memory = plan_for(r, device, prepared, plan.workspaces);
  std::iota(lowered->first_alike.begin(), lowered->first_alike.end(), 0U);
  plan.lowered = std::move(lowered);
  plan.most = most;
}

/// A step that does not fit, as on a device whose memory just holds its tensors.
Scratch as_if_it_fitted(const PredictRequest& r, const PreparedStep& prepared) {
  const GpuSpec device = with_room_for_tensors(r, prepared);
  Scratch plan = plan_within(r, device, prepared, prepared.lowered, Bytes(0));
  if (plan.memory.fits) grant_scratch(r, device, prepared, plan);
  plan.memory = plan_for(r, r.gpu, prepared, plan.workspaces);
  return plan;
}

/// The fastest algorithms, or those for whose scratch there is room. A tensor may lie where scratch
/// was, and a later one, or a later op's scratch, find no piece large enough: where large scratch
/// is not taken, the step may be faster.
Scratch find_scratch(const PredictRequest& r, const PreparedStep& prepared,
                     Wanted wanted = Wanted::Fastest) {
  const Bytes most = r.framework.convolutions.workspace_limit;
  Scratch best = plan_within(r, r.gpu, prepared, prepared.lowered, most);
  if (best.memory.fits) return best;
  const bool tensors_fit = plan_fits(prepared.lives, {}, r.framework, r.gpu, r.cost);
  if (!tensors_fit && wanted == Wanted::Any) return best;
  if (!tensors_fit) return as_if_it_fitted(r, prepared);
  const auto consider = [&](const Lowered& lowered, Bytes cap) {
    Scratch other = plan_within(r, r.gpu, prepared, lowered, cap);
    if (!other.memory.fits) return;
    if (!best.memory.fits || other.chosen < best.chosen) best = std::move(other);
  };
  const auto is_enough = [&] { return wanted == Wanted::Any && best.memory.fits; };
  for (Bytes cap = largest_scratch(prepared); cap >= kSmallScratch && !is_enough();
       cap = cap * 0.5) {
    consider(prepared.lowered, cap);
    if (!is_enough()) consider(limit_scratch(r, prepared, cap), most);
  }
  if (!best.memory.fits) consider(limit_scratch(r, prepared, Bytes(0)), most);
  if (!best.memory.fits || wanted == Wanted::Any) return best;
  grant_scratch(r, r.gpu, prepared, best);
  // Scratch that was granted early may lie in the way of more: once again from none.
  Scratch anew = plan_within(r, r.gpu, prepared, prepared.lowered, Bytes(0));
  if (anew.memory.fits) grant_scratch(r, r.gpu, prepared, anew);
  return anew.memory.fits && anew.chosen < best.chosen ? anew : best;
}

/// The first op of the backward pass begins when the forward pass has ended and the host has read
/// its result.
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
Interval input_interval(const Prediction& prediction, const InputRequest& input) {
  const double unknown_host = input.host_is_assumed ? input.pipeline.unknown_host_log_sd : 0.0;
  return interval90_of_slower(prediction.step_time_s.value, prediction.input->step_without.in_s(),
                              prediction.log_sd, prediction.input->supply.in_s(),
                              std::hypot(input.pipeline.log_sd, unknown_host));
}

}  // namespace

MemoryPlan plan_step_memory(const PredictRequest& request) {
  const auto prepared = prepared_of(request);
  MemoryPlan plan = find_scratch(request, *prepared).memory;
  state_least(prepared->lives, request.framework, request.gpu, request.cost, plan);
  return plan;
}

bool step_fits(const PredictRequest& r) {
  const auto prepared = prepared_of(r);
  return tensors_fit(prepared->lives, r.framework, r.gpu, r.cost) &&
         find_scratch(r, *prepared, Wanted::Any).memory.fits;
}

std::optional<ScratchShortage> find_shortage(const PredictRequest& r,
                                             const Prediction& prediction) {
  const auto prepared = prepared_of(r);
  const PricedStep& priced = prediction.priced;
  // What the library takes where memory is no matter. Steps with limits of their own are copies of
  // this one.
  const LoweredStep& lowered = *prepared->lowered;
  const Bytes most = r.framework.convolutions.workspace_limit;
  const cost::SustainedBoard board(r.gpu, r.cost);
  ScratchShortage found;
  Seconds worst{};
  struct Choice {
    Algorithm algorithm{};
    Bytes workspace{};
    Seconds duration{};
  };
  std::vector<Choice> fastest(lowered.ops.size());
  for (std::size_t i = 0; i < lowered.ops.size(); ++i) {
    const LoweredOp& op = lowered.ops[i];
    if (op.candidates.size() < 2) continue;
    if (const std::uint32_t first = lowered.first_alike[i]; first != i) {
      fastest[i] = fastest[first];
    } else {
      const cost::PricedCandidate best =
          r.cpu ? cost::choose_on_cpu(op, cores_of(r), r.cost) : cost::choose(op, board, most);
      fastest[i] = {best.candidate->algorithm, best.candidate->workspace, best.duration};
    }
    const cost::PricedCandidate& is = priced.choices[i];
    const Choice& would = fastest[i];
    if (is.candidate->algorithm == would.algorithm && is.candidate->workspace == would.workspace) {
      continue;
    }
    const Seconds longer = is.duration - would.duration;
    if (found.ops == 0 || longer > worst) {
      worst = longer;
      found.op = op.op;
      found.runs = is.candidate->algorithm;
      found.fastest = would.algorithm;
      found.wanted = would.workspace;
    }
    ++found.ops;
    found.longer += longer;
  }
  if (found.ops == 0) return std::nullopt;
  const bool is_free = prediction.memory.fits && priced.lowered == prepared->lowered;
  const bool has_room =
      is_free && plan_within(r, r.gpu, *prepared, prepared->lowered, most).memory.fits;
  return has_room ? std::nullopt : std::optional(found);
}

DriverCalls count_driver_calls(const PredictRequest& r, const PricedStep& priced) {
  const auto prepared = prepared_of(r);
  std::vector<Bytes> workspaces(r.graph.ops().size());
  for (std::size_t i = 0; i < priced.choices.size(); ++i) {
    workspaces[priced.lowered->ops[i].op.index] = priced.choices[i].candidate->workspace;
  }
  return count_driver_calls(r.graph, workspaces, r.framework, r.gpu, r.cost,
                            {.precision = r.precision,
                             .keeps_gradients = r.keeps_gradients,
                             .tried_workspaces = prepared->tried_workspaces});
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

HostBatch host_batch(const PredictRequest& request, Bytes bytes) {
  if (request.cpu) return {};
  const BytesPerSecond pinned = request.gpu.pcie_bandwidth * kCopyEfficiency;
  // Rows of a data set in pinned memory, which the GPU reads by itself while it computes the step
  // before.
  const Bytes stored = bytes_from_stores(request.graph);
  if (stored > Bytes(0)) return {.copy = stored / pinned};
  if (request.input) {
    return {.copy = prepared_bytes(*request.input) / copy_rate(*request.input, pinned)};
  }
  if (request.input_from_host == nullptr) return {};
  const InputPipelineProfile& loader = *request.input_from_host;
  // Only what the loader makes itself is pinned: a loop's own arrays are not.
  const bool pageable = loader.pinned_by != PinnedBy::Worker;
  const bool gathers = loader.pinned_by == PinnedBy::None;
  return {.copy = bytes / (pageable ? min(pinned, loader.memory_copy) : pinned),
          .gather = gathers ? bytes / loader.memory_copy * loader.worker_copies : Seconds(),
          .pageable = pageable,
          .waits = pageable || loader.copies_in_compute_stream};
}

/// One thread's copying speed, which pageable memory reaches the GPU at: the driver moves it
/// through a buffer of its own. Source: tensorpack documentation, input-source.md (2018), as in the
/// profiles of input pipelines.
constexpr BytesPerSecond kThreadCopy = 5.0_GBps;

/// Arrays of the program's own that ops hand over and take: the host waits for both.
void add_host_copies(const NetworkGraph& graph, const PricedStep& priced, const GpuSpec& gpu,
                     StepProgram& program) {
  const BytesPerSecond pinned = gpu.pcie_bandwidth * kCopyEfficiency;
  for (ProgramOp& op : program.ops) {
    const std::uint32_t priced_op = program.kernels[op.first_kernel].op;
    const auto* routine =
        std::get_if<RoutineAttributes>(&graph.op(priced.lowered->ops[priced_op].op).attributes);
    if (routine == nullptr) continue;
    op.dispatch += Bytes(static_cast<double>(routine->fed_bytes)) / min(pinned, kThreadCopy) +
                   Bytes(static_cast<double>(routine->fetched_bytes)) / pinned;
  }
}

/// What kernels draw while they run, in such proportion that their mean over the step is that of
/// the board.
std::vector<double> shown_power(std::vector<double> kernel_w, const StepTimeline& timeline,
                                const PowerRange& power) {
  double energy = 0;
  for (std::size_t k = 0; k < kernel_w.size(); ++k) {
    energy += kernel_w[k] * (timeline.kernels[k].end - timeline.kernels[k].start).in_s();
  }
  const double shown =
      std::max((power.avg - power.active_idle).in_w(), 0.0) * timeline.step_time.in_s();
  for (double& watts : kernel_w) watts *= energy > 0 ? shown / energy : 0.0;
  return kernel_w;
}

}  // namespace

Prediction predict_step(const PredictRequest& request) {
  const NetworkGraph& graph = request.graph;
  Prediction result;
  const auto prepared = prepared_of(request);
  const Scratch scratch = find_scratch(request, *prepared);
  result.priced = price_within(request, scratch.lowered, scratch.most);
  result.memory = scratch.memory;
  state_least(prepared->lives, request.framework, request.gpu, request.cost, result.memory);

  const HostBatch fed_batch = host_batch(request, prepared->input);
  result.program = build_step_program(graph, result.priced, request.framework, fed_batch.copy);
  if (!request.cpu) add_host_copies(graph, result.priced, request.gpu, result.program);
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
                               request.power_limit.value_or(request.gpu.tdp), request.cost, run,
                               request.input != nullptr);
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
  result.step_time_s = interval90_with_added(result.step_time_s, request.framework.host.added);
  if (step > Seconds(0)) {
    const auto batch = static_cast<double>(graph.batch);
    const Interval& time = result.step_time_s;
    result.throughput_samples_per_s = {
        .value = batch / time.value, .low = batch / time.high, .high = batch / time.low};
    result.cpu_utilization = result.input ? result.input->busy_threads / result.input->cpu_limit
                                          : result.timeline.host_busy / step;
  }
  if (request.cpu) {
    result.cpu_utilization =
        cores_busy(result.priced, result.timeline, cores_of(request), request.cost);
  } else {
    result.gpu_utilization = gpu_utilization(result.timeline, request.gpu);
    result.power = board_power(result.priced, limited, request.cost);
    result.power_causes = limited.demand_causes;
    result.energy_per_sample = result.power.avg * step / static_cast<double>(graph.batch);
    result.kernel_w = shown_power(std::move(limited.kernel_w), result.timeline, result.power);
  }
  result.sm_efficiency = sm_efficiency(result.priced, step, request.gpu, request.cost);
  result.by_class = time_by_class(result.priced, result.program, result.timeline);
  result.convolutions =
      convolution_time_by_algorithm(result.priced, result.program, result.timeline);
  result.by_basis = time_by_basis(result.priced, result.program, result.timeline);
  if (request.framework.host.added.any())
    move_to_guessed(result.by_basis, request.framework.host.added.median());
  if (result.input) {
    move_to_guessed(result.by_basis, result.timeline.idle_input *
                                         guessed_share(*request.input, result.input->slowest));
  }
  result.bottleneck = find_bottleneck(result.priced, result.timeline);
  if (result.input && limits(*result.input, step)) result.bottleneck = Bottleneck::Input;
  result.greatest =
      greatest_costs(graph, result.priced, result.program, result.timeline, request.num_causes);
  return result;
}

}  // namespace tracecast
