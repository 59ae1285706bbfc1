#include "sim/job/many_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <utility>

#include "models/lowering/lower.hpp"
#include "sim/base/error.hpp"
#include "sim/job/mode/table_sharding.hpp"
#include "sim/job/shortage.hpp"
#include "sim/sharing/colocation.hpp"

namespace tracecast {
namespace {

/// Standard deviation of ln(measured / predicted) of what is communicated. Guess: link efficiencies
/// and software of other machines.
constexpr double kCommunicationLogSd = 0.3;
/// The same of each doubling of the nodes, independent of the others. Guess: every level of
/// switches has its own sharing and latency, which no table names.
constexpr double kHopLogSd = 0.15;

/// The job on another GPU.
ResolvedJob on_gpu(const ResolvedJob& job, const std::string& gpu, const Hardware& hardware) {
  PlacedJob options = job.options;
  options.gpu = gpu;
  return make_job(options, hardware);
}

/// A GPU model in nodes of like health, and the job on it.
struct Kind {
  RankGroup group;
  ResolvedJob job;
  Prediction alone;  ///< its input at hand
};

Prediction predict_without_input(const ResolvedJob& job, const Hardware& hardware) {
  if (!job.input) return predict(job, hardware);
  ResolvedJob bare = job;
  bare.input.reset();
  return predict(bare, hardware);
}

/// One step's batches when all ranks of a node load: their workers share its cores, and all share
/// its disk. Processes have workers and a pin thread each; threads of one process share its loader.
struct NodeInput {
  double ranks = 1;
  double loaders = 1;    ///< as many as ranks, or one for all
  double speed = 1;      ///< of a thread over one with a core to itself
  Seconds core_time{};   ///< of workers, for a batch of every rank
  InputStages stages{};  ///< of a rank, at the pace at which all are supplied
  Seconds supply{};      ///< of a batch for every rank
};

NodeInput load_for_node(const InputRequest& input, std::uint32_t ranks, Replicas replicas,
                        const Prediction& one_gpu) {
  NodeInput node{.ranks = static_cast<double>(ranks), .stages = plan_input(input)};
  const bool each = replicas == Replicas::Processes && input.pipeline.default_workers > 0;
  if (each) node.loaders = node.ranks;
  const double own = std::max(1, node.stages.workers), workers = own * node.loaders;
  node.core_time = node.stages.prepare * node.ranks;
  const Seconds pin = node.stages.pin * (replicas == Replicas::Processes ? 1.0 : node.ranks);
  node.stages.read = node.stages.read * node.ranks;
  // Dispatch threads work for a share of their step, which is no shorter than what all are fed:
  // slower loaders leave them more time to wait, and the cores to the loaders.
  constexpr int kRounds = 20;
  Seconds step = one_gpu.input->step_without;
  for (int round = 0; round < kRounds; ++round) {
    const double dispatching = std::min(1.0, one_gpu.timeline.host_busy / step);
    node.speed = input.host.speed(workers + node.ranks * dispatching);
    node.stages.prepare = node.core_time * (own / (workers * node.speed));
    node.stages.pin = pin / node.speed;
    node.supply = supply_time(node.stages, one_gpu.program.input_copy);
    step = (step + max(one_gpu.input->step_without, node.supply)) / 2.0;
  }
  return node;
}

/// A rank that is fed at its node's pace and computes and communicates for `step` with its input at
/// hand: what its steps take beyond the slower of both is `lost`. Alone on the host it may be far
/// from waiting.
struct FedRank {
  Seconds lost{};
  InputUse use;
};

FedRank feed_rank(const NodeInput& node, const InputRequest& input, const Prediction& one_gpu,
                  Seconds step) {
  StepProgram program = at_full_speed(one_gpu);
  program.input.reset();
  if (!program.kernels.empty()) {  // what it communicates and waits, behind its kernels
    program.kernels.back().duration += max(Seconds(), step - one_gpu.input->step_without);
  }
  constexpr int kEnough = 1 << 20;  // the speed of threads is in the stages
  const InputRun run = run_with_input(program, node.stages, {.cores = kEnough, .threads = kEnough});
  FedRank rank{.use = run.use};
  rank.lost = max(Seconds(), run.timeline.step_time - max(step, run.use.supply));
  InputUse& use = rank.use;
  use.cpu_threads = input.host.threads;
  use.cpu_quota = input.host.quota;
  use.cpu_limit = input.host.limit();
  use.cpu_speed = node.speed;
  use.step_without = step;
  const Seconds busy =
      run.timeline.loader_busy * node.loaders + one_gpu.timeline.host_busy * node.ranks;
  use.busy_threads = std::min(busy / run.timeline.step_time, use.cpu_limit);
  use.sample_cpu_time = one_gpu.input->sample_cpu_time;
  use.read_per_step = one_gpu.input->read_per_step;
  use.cached = one_gpu.input->cached;
  if (use.workers_needed) {
    use.workers_needed = std::max(
        1,
        static_cast<int>(std::min(std::ceil(node.core_time / (node.loaders * step) - 1e-9), 1e6)));
  }
  return rank;
}

/// Of one batch as 4-byte numbers, the way programs hold it.
Bytes input_bytes(const ResolvedJob& job) {
  double elements = 0;
  for (const Tensor& tensor : job.forward->tensors()) {
    if (tensor.role == TensorRole::Input)
      elements += static_cast<double>(element_count(tensor.shape));
  }
  return Bytes(4 * elements);
}

/// One thread loads for all replicas of its process, and waits for the GPUs in between.
bool loads_between_steps(const ResolvedJob& job, const StrategyProfile& strategy,
                         const StepProgram& program) {
  return job.input && strategy.replicas != Replicas::Processes && program.synchronizes &&
         plan_input(*job.input).workers == 0;
}

/// What such a thread does while no GPU works: it prepares the batches of all `ranks`, and copies
/// one after the other.
Seconds loading_between_steps(const ResolvedJob& job, std::uint32_t ranks,
                              const StepProgram& program) {
  InputRequest all = *job.input;
  all.batch *= ranks;
  return plan_input(all).prepare + program.input_copy * static_cast<double>(ranks);
}

Interval interval_of(const ManyGpus& many, const ResolvedJob& job) {
  const DataParallelStep& step = many.step;
  const double whole = step.step_time.in_s();
  const double computing = (step.parts.compute + step.parts.stragglers).in_s() / whole;
  const double exchanging = (step.parts.communication + step.parts.host_update).in_s() / whole;
  const double levels = std::log2(static_cast<double>(many.fabric.num_nodes()));
  const double communicating = std::hypot(kCommunicationLogSd, kHopLogSd * std::sqrt(levels));
  double log_sd = std::hypot(many.one_gpu.log_sd * computing, communicating * exchanging);
  if (job.input && step.parts.input > Seconds(0)) {
    const double unknown = job.input->host_is_assumed ? job.input->pipeline.unknown_host_log_sd : 0;
    log_sd = std::max(log_sd, std::hypot(job.input->pipeline.log_sd, unknown));
  }
  return interval90_with_added(interval90(whole, log_sd), job.framework.host.added);
}

}  // namespace

std::vector<TimeShare> parts_of(const DataParallelStep& step) {
  std::vector<TimeShare> parts{{"compute", step.parts.compute},
                               {"communication", step.parts.communication},
                               {"additions on the CPU", step.parts.host_update},
                               {"waiting for the slowest GPU", step.parts.stragglers},
                               {"waiting for input", step.parts.input}};
  std::erase_if(parts, [](const TimeShare& part) { return !(part.time > Seconds(0)); });
  return parts;
}

std::string_view bottleneck_of(const ManyGpus& many) {
  const StepParts& parts = many.step.parts;
  const Seconds communication = parts.communication + parts.host_update;
  const Seconds kernels = parts.compute + parts.stragglers;
  if (communication > kernels && communication > parts.input) return "communication";
  if (parts.input > kernels) return to_string(Bottleneck::Input);
  return to_string(many.one_gpu.bottleneck);
}

Range utilization_of_all(const ManyGpus& many) {
  Range all{.min = 1, .avg = 0, .max = 0};
  double count = 0;
  for (std::size_t k = 0; k < many.groups.size(); ++k) {
    const Range& range = many.step.utilization[k];
    all.min = std::min(all.min, range.min);
    all.max = std::max(all.max, range.max);
    all.avg += range.avg * many.groups[k].count;
    count += many.groups[k].count;
  }
  all.avg /= std::max(count, 1.0);
  return all;
}

const StrategyProfile& choose_strategy(const ResolvedJob& job, const DataParallel& options,
                                       const SpecLibrary& specs, bool several_nodes) {
  if (!options.strategy.empty()) return specs.find_strategy(options.strategy);
  const std::string_view date = job.options.software.date;
  return specs.usual_strategy(family_of(job.framework), date.substr(0, date.find("..")),
                              several_nodes);
}

/// The strategy as it works for this job: no communication beside the last backward pass of
/// accumulated gradients where the program sends them afterwards, no update before the last
/// gradient where a rule begins with a norm of all.
StrategyProfile settled_for(const ResolvedJob& job, StrategyProfile strategy) {
  if (job.options.accumulate > 1 && !strategy.overlaps_accumulated)
    strategy.overlaps_backward = false;
  const ComposedKernels* rule =
      job.framework.compiler ? nullptr : job.framework.kernels.composed_of(job.options.optimizer);
  if (rule != nullptr && rule->needs_all) strategy.updates_as_they_come = false;
  return strategy;
}

ManyGpus predict_many(ResolvedJob& job, const Hardware& hardware, Fabric fabric,
                      const DataParallel& options) {
  const bool several_nodes = fabric.num_nodes() > 1;
  const StrategyProfile& strategy = choose_strategy(job, options, hardware.specs(), several_nodes);
  // Every copy is simulated: 1.5 ms and 30 KB a GPU. All-reduces among alike nodes do not grow.
  constexpr std::uint32_t kMostWithCopies = 16384;
  if (strategy.communication != Communication::AllReduce && fabric.num_ranks() > kMostWithCopies) {
    throw InputError("--gpus", fmt::format("{} with strategy {}", fabric.num_ranks(), strategy.id),
                     fmt::format("at most {}, or a strategy of all-reduces", kMostWithCopies));
  }
  if (options.strategy.empty()) {
    job.assumptions.push_back(fmt::format("strategy {}: {}, usual with {}", strategy.id,
                                          strategy.name, job.framework.name));
  }
  const bool divides = strategy.tables && fabric.num_ranks() > 1;
  if (divides) divide_tables_of(job, strategy, fabric.num_ranks());
  place_stores_of(job, strategy, fabric.num_ranks(), hardware);
  std::deque<Kind> kinds;  // stays where it is: requests refer to it
  std::vector<std::uint32_t> kind_of;
  std::uint32_t most_in_host = 1;
  for (std::uint32_t r = 0; r < fabric.num_ranks(); ++r) {
    const std::string& gpu = fabric.gpu_of(Rank{r}).id;
    const FabricNodeId node = fabric.node_of(Rank{r});
    const double factor = fabric.group_of(node).compute_time_factor;
    most_in_host = std::max(most_in_host, fabric.ranks_of_host(node));
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) {
      return k.group.gpu == gpu && k.group.compute_time_factor == factor;
    });
    if (kind == kinds.end()) {
      ResolvedJob own = gpu == job.gpu.id ? job : on_gpu(job, gpu, hardware);
      if (divides && !own.tables) divide_tables_of(own, strategy, fabric.num_ranks());
      if (gpu != job.gpu.id) place_stores_of(own, strategy, fabric.num_ranks(), hardware);
      Prediction alone = predict_without_input(own, hardware);
      warn_of_power_limit(alone.power, gpu, job);
      warn_of_shortage(own, alone, hardware, job);
      kinds.push_back({{gpu, factor, 0}, std::move(own), std::move(alone)});
      kind = kinds.end() - 1;
    }
    ++kind->group.count;
    kind_of.push_back(static_cast<std::uint32_t>(kind - kinds.begin()));
  }

  ManyGpus many{.fabric = std::move(fabric),
                .strategy = &strategy,
                .groups = {},
                .kind_of = kind_of,
                .one_gpu = predict(job, hardware),
                .step = {},
                .step_time_s = {},
                .throughput_samples_per_s = {}};
  const StrategyProfile settled = settled_for(job, strategy);
  DataParallelRequest request{.fabric = many.fabric,
                              .strategy = settled,
                              .kinds = {},
                              .kind_of = std::move(kind_of),
                              .host = {},
                              .sample_sd = options.sample_sd,
                              .fold = options.fold};
  if (job.input) request.host = job.input->host;
  double alone_per_s = 0;  // samples per second of all GPUs, each alone
  const auto batch = static_cast<double>(job.step->batch * job.options.accumulate);
  for (const Kind& kind : kinds) {
    request.kinds.push_back({.one_gpu = kind.alone,
                             .graph = *kind.job.step,
                             .gpu = kind.job.gpu,
                             .element_bytes = element_sizes(*kind.job.step, kind.job.framework,
                                                            kind.job.gpu, kind.job.precision),
                             .compute_time_factor = kind.group.compute_time_factor});
    TableCrossings crossings = crossings_of(kind.job, strategy, kind.alone);
    request.kinds.back().crossings = std::move(crossings.by_kernels);
    if (request.crossings.empty()) request.crossings = std::move(crossings.works);
    const Seconds step = kind.job.input ? predict(kind.job, hardware).timeline.step_time
                                        : kind.alone.timeline.step_time;
    alone_per_s += kind.group.count * batch / step.in_s();
    many.groups.push_back(kind.group);
    const MemoryPlan& memory = kind.alone.memory;
    if (many.groups.size() == 1 || memory.headroom() < many.memory.headroom()) many.memory = memory;
  }
  Seconds loss{};
  std::optional<NodeInput> node;
  if (job.input) node = load_for_node(*job.input, most_in_host, strategy.replicas, many.one_gpu);
  const bool is_one_process = is_replicated(strategy) && many.fabric.num_ranks() > 1;
  const bool between = loads_between_steps(job, strategy, many.one_gpu.program);
  if (is_one_process) {
    many.process = std::make_shared<ReplicatedRun>(
        run_replicated_job(kinds.front().job, strategy, many.fabric, hardware,
                           {.sample_sd = options.sample_sd, .fold = options.fold}));
    many.step = many.process->step;
  } else {
    if (node && !between) request.input_supply = node->supply;
    request.date = job.options.software.date.substr(0, job.options.software.date.find(".."));
    request.cost = &hardware.cost();
    many.step = simulate_data_parallel(request);
  }
  if (node) {
    FedRank fed =
        feed_rank(*node, *job.input, many.one_gpu, many.step.step_time - many.step.parts.input);
    many.input = fed.use;
    if (!is_one_process) {
      loss = between ? loading_between_steps(job, most_in_host, many.one_gpu.program) : fed.lost;
      if (between) many.input->supply = loss;
    }
  }
  if (strategy.feed_rate > BytesPerSecond(0)) {
    // Every replica gets the whole input and cuts its part out; the thread waits for the step
    // before it feeds.
    const double ranks = most_in_host;
    loss += input_bytes(job) * (ranks * ranks) / strategy.feed_rate;
  }
  add_input_wait(many.step, loss);
  if (many.input) {
    many.input->waiting = many.step.parts.input / many.step.step_time;
    many.step.account.guessed =
        many.step.account.input * guessed_share(*job.input, many.input->slowest);
  }
  many.step_time_s = interval_of(many, job);
  const double samples = batch * many.fabric.num_ranks();
  many.throughput_samples_per_s = {.value = samples / many.step_time_s.value,
                                   .low = samples / many.step_time_s.high,
                                   .high = samples / many.step_time_s.low};
  many.efficiency = many.throughput_samples_per_s.value / alone_per_s;
  return many;
}

}  // namespace tracecast
