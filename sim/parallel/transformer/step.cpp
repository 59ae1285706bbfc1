#include "sim/parallel/transformer/step.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "sim/base/error.hpp"
#include "sim/cost/price.hpp"
#include "sim/parallel/data_parallel.hpp"
#include "sim/parallel/transformer/memory.hpp"
#include "sim/parallel/transformer/part.hpp"
#include "sim/parallel/transformer/passes.hpp"
#include "sim/parallel/transformer/pipeline.hpp"
#include "sim/parallel/transformer/sharded_run.hpp"
#include "sim/step/memory/memory.hpp"

namespace tracecast {
namespace {

class StepPredictor {
 public:
  /// `layer_limit`: what the job's limit leaves to the layers while they run.
  explicit StepPredictor(const TransformerRequest& job, std::optional<Watts> layer_limit = {})
      : job_(job),
        layer_limit_(layer_limit),
        gpu_(job.gpu ? *job.gpu : job.fabric.gpu_of(Rank{0})),
        grid_(job.plan, job.fabric, job.library),
        passes_{.layout = job.layout,
                .plan = job.plan,
                .software = job.software,
                .framework = job.framework,
                .gpu = gpu_,
                .cost = job.cost,
                .grid = grid_,
                .precision = job.precision,
                .adapters = job.adapters},
        power_(hold_power()),
        embedding_(price_embedding(passes_)),
        head_(price_head(passes_)) {
    const int last = job.layout.layers - 1;
    if (!job.layout.has_experts(0)) dense_ = price_layer(passes_, false);
    if (job.layout.has_experts(last)) experts_ = price_layer(passes_, true);
    if (job.first_wide_layers + job.last_wide_layers > 0) price_wide_layers();
    divide_layers();
  }

  TransformerPrediction predict() {
    TransformerPrediction result;
    const double adapters = job_.layout.adapter_parameters(job_.adapters);
    result.parameters = job_.layout.parameters() + adapters;
    result.trained_parameters = job_.adapters.any() ? adapters : result.parameters;
    if (job_.plan.zero == 3) {
      run_fully_sharded(result.shares);
    } else {
      run_stages(result.shares);
    }
    wait_for_slowest(result.shares);
    state_account(result);
    result.memory = memory();
    result.pieces = pieces();
    result.power = power_;
    if (result.power) result.power->throttles = result.board.throttles;
    // Without stages there is nothing that ranks could do apart.
    result.ranks_simulated =
        job_.fold || job_.plan.pipeline == 1 ? job_.plan.pipeline : job_.plan.ranks();
    state_rates(result);
    return result;
  }

 private:
  /// Lowers the clock of `gpu_` where the limit asks for it.
  [[nodiscard]] std::optional<LimitedClock> hold_power() {
    if (!job_.power_limit) return std::nullopt;
    const LimitedStep limited =
        limit_layer(passes_, job_.layout.has_experts(job_.layout.layers - 1),
                    layer_limit_.value_or(*job_.power_limit));
    const Watts active_idle = waiting_power(gpu_, job_.cost);
    if (limited.throttles && limited.average > active_idle)
      asked_ = std::max(1.0, (limited.demand - active_idle) / (limited.average - active_idle));
    // A raised limit acts through the limit, a lowered one through the clock.
    if (*job_.power_limit > gpu_.tdp) gpu_.tdp = *job_.power_limit;
    gpu_.set_clock = limited.gpu.set_clock;
    return LimitedClock{*job_.power_limit, limited.clock, limited.throttles};
  }

  [[nodiscard]] bool is_fp32() const { return passes_.element() > Bytes(2); }
  /// Weights that are not trained stay as GEMMs read them, or packed; embedding and head are not
  /// packed.
  [[nodiscard]] Bytes frozen_element(const PieceCost& piece) const {
    const bool is_layer = &piece != &head_ && &piece != &embedding_;
    if (is_layer && is_packed(job_.adapters.base)) {
      return Bytes(bytes_per_weight(job_.adapters.base));
    }
    if (job_.precision != PrecisionMode::Fp8) return passes_.element();
    const auto& recipe = job_.framework.precision.recipe;
    if (!recipe) return Bytes(1);
    if (!recipe->keeps_frozen_weights) return passes_.element();
    return element_size(recipe->math) + Bytes(recipe->scale_bytes);
  }

  /// Layers that stay in bf16 beside others in fewer bits.
  void price_wide_layers() {
    PassContext wide = passes_;
    wide.precision = PrecisionMode::Bf16;
    if (dense_) wide_dense_ = price_layer(wide, false);
    if (experts_) wide_experts_ = price_layer(wide, true);
  }
  [[nodiscard]] bool is_wide(int layer) const {
    return layer < job_.first_wide_layers || layer >= job_.layout.layers - job_.last_wide_layers;
  }

  // The network on ranks.

  [[nodiscard]] std::vector<PieceTimes> pieces() const {
    std::vector<PieceTimes> rows;
    const auto add = [&rows](std::string_view name, const PieceCost& piece, int count) {
      rows.push_back(
          {.name = name,
           .count = count,
           .forward = piece.forward.kernels,
           .backward = piece.backward.kernels,
           .communications = piece.forward.communications() + piece.backward.communications(),
           .parameters = piece.parameters + piece.frozen_parameters,
           .kept = piece.kept});
    };
    const int with_experts =
        experts_ ? job_.layout.layers - (dense_ ? job_.layout.experts->dense_layers : 0) : 0;
    add("embedding", embedding_, 1);
    const int dense = job_.layout.layers - with_experts;
    int wide_dense = 0, wide_experts = 0;
    for (int layer = 0; layer < job_.layout.layers; ++layer) {
      if (is_wide(layer)) ++(job_.layout.has_experts(layer) ? wide_experts : wide_dense);
    }
    if (dense_) add("layer", *dense_, dense - wide_dense);
    if (experts_) add("layer with experts", *experts_, with_experts - wide_experts);
    if (wide_dense > 0) add("layer in bf16", *wide_dense_, wide_dense);
    if (wide_experts > 0) add("layer with experts in bf16", *wide_experts_, wide_experts);
    add("head and loss", head_, 1);
    return rows;
  }

  void divide_layers() {
    const ParallelPlan& plan = job_.plan;
    const std::vector<int> counts = balance_layers(job_.layout.layers, plan.pipeline, plan.chunks);
    parts_.resize(counts.size());
    int layer = 0;
    for (std::int64_t chunk = 0; chunk < plan.chunks; ++chunk) {
      for (std::int64_t stage = 0; stage < plan.pipeline; ++stage) {
        const auto i = static_cast<std::size_t>(stage * plan.chunks + chunk);
        for (int n = 0; n < counts[i]; ++n, ++layer) {
          RankPart& part = parts_[i];
          if (job_.layout.has_experts(layer)) {
            ++(is_wide(layer) ? part.wide_expert_layers : part.expert_layers);
          } else {
            ++(is_wide(layer) ? part.wide_dense_layers : part.dense_layers);
          }
        }
      }
    }
    parts_.front().embedding = true;
    parts_.back().head = true;
  }

  template <class Take>
  void for_each_piece(const RankPart& part, Take take) const {
    if (part.embedding) take(embedding_, 1);
    if (part.dense_layers > 0) take(*dense_, part.dense_layers);
    if (part.expert_layers > 0) take(*experts_, part.expert_layers);
    if (part.wide_dense_layers > 0) take(*wide_dense_, part.wide_dense_layers);
    if (part.wide_expert_layers > 0) take(*wide_experts_, part.wide_expert_layers);
    if (part.head) take(head_, 1);
  }

  [[nodiscard]] RankWeights weights_of(std::int64_t stage) const {
    RankWeights weights;
    for (std::int64_t chunk = 0; chunk < job_.plan.chunks; ++chunk) {
      const RankPart& part = parts_[static_cast<std::size_t>(stage * job_.plan.chunks + chunk)];
      for_each_piece(part, [&](const PieceCost& piece, int times) {
        if (&piece == &head_ && job_.layout.tied && job_.plan.pipeline == 1) {
          if (!job_.adapters.any()) weights.dense += job_.layout.head_parameters();
          return;
        }
        weights.frozen += frozen_element(piece) * (piece.frozen_parameters * times);
        weights.expert += piece.expert_parameters * times;
        weights.dense += (piece.parameters - piece.expert_parameters) * times;
      });
    }
    return weights;
  }

  // Passes of a part.

  [[nodiscard]] RankPartTimes times_of(const RankPart& part) {
    const auto known = times_.find(part.key());
    if (known != times_.end()) return known->second;
    StepProgram forward, backward, both;
    for_each_piece(part, [&](const PieceCost& piece, int times) {
      for (int i = 0; i < times; ++i) append(forward, piece.forward.program);
    });
    const auto add_backward = [&](const PieceCost& piece, int times) {
      StepProgram all;
      for (int i = 0; i < times; ++i) append(all, piece.backward.program);
      append(all, backward);
      backward = std::move(all);
    };
    for_each_piece(part, add_backward);
    append(both, forward);
    append(both, backward);
    RankPartTimes times;
    const bool waits = job_.software.waits_after_send && job_.plan.pipeline > 1;
    forward.synchronizes = backward.synchronizes = waits;
    if (job_.plan.pipeline > 1) {
      times.forward = simulate(forward).step_time;
      times.backward = simulate(backward).step_time;
      times.both = times.forward + times.backward;
    } else {
      times.both = simulate(both).step_time;
      if (hides_communication()) {
        times.forward = min(simulate(forward).step_time, times.both);
        times.backward = times.both - times.forward;
      }
    }
    times_[part.key()] = times;
    return times;
  }

  /// Adds the parts of one micro-batch's passes, `times` over.
  void add_shares(const RankPart& part, Seconds passes, double times, TransformerShares& shares) {
    Seconds busy{};
    for_each_piece(part, [&](const PieceCost& piece, int count) {
      for (const PassCost* pass : {&piece.forward, &piece.backward}) {
        WorkMix mix = pass->mix;
        work_ += mix.slice(times * count);
        shares.compute += pass->kernels * (times * count);
        shares.tensor += pass->tensor * (times * count);
        shares.context += pass->context * (times * count);
        shares.expert += pass->expert * (times * count);
        busy += (pass->kernels + pass->communications()) * static_cast<double>(count);
        dispatching_ += host_time(pass->program) * (times * count);
      }
    });
    shares.host += max(passes - busy, Seconds()) * times;
  }

  // Data parallelism.

  [[nodiscard]] bool hides_communication() const {
    return job_.software.overlaps_gradients || job_.software.overlaps_weights;
  }
  [[nodiscard]] Bytes gradient_bytes() const {
    return Bytes(is_fp32() || job_.software.wide_gradients ? 4 : 2);
  }

  /// What ranks that hold the same weights do together in a step.
  struct Shared {
    Seconds time{};
    Joules active{};   ///< of one board
    int channels = 0;  ///< whose kernels hold an SM each
  };
  Shared& add(Shared& shared, const GroupCommunication& communication) const {
    shared.time += communication.time;
    shared.active += communication.energy(gpu_, job_.cost);
    shared.channels = std::max(shared.channels, communication.channels);
    return shared;
  }

  [[nodiscard]] Shared reduce_time(const RankWeights& weights) const {
    Shared shared;
    const std::int64_t sharing = job_.plan.sharing_ranks();
    const std::int64_t all = job_.plan.data * job_.plan.context;
    const Bytes whole = gradient_bytes() * weights.dense,
                experts = gradient_bytes() * weights.expert;
    if (all == 1) return {};
    if (job_.plan.zero == 0) {
      add(shared, grid_.reduce_experts(Collective::AllReduce, experts));
      return add(shared, grid_.reduce_gradients(Collective::AllReduce, whole, all));
    }
    add(shared, grid_.reduce_experts(Collective::ReduceScatter, experts));
    add(shared, grid_.reduce_gradients(Collective::ReduceScatter, whole, sharing));
    return add(shared, grid_.reduce_over_copies(whole / static_cast<double>(sharing), sharing));
  }

  /// Updated weights back to all ranks.
  [[nodiscard]] Shared gather_time(const RankWeights& weights) const {
    if (job_.plan.zero == 0 || job_.plan.sharing_ranks() == 1) return {};
    Shared shared;
    add(shared, grid_.reduce_experts(Collective::AllGather, passes_.element() * weights.expert));
    return add(shared,
               grid_.reduce_gradients(Collective::AllGather, passes_.element() * weights.dense,
                                      job_.plan.sharing_ranks()));
  }

  struct Update {
    Seconds kernels{}, host{};
    Joules active{};
    [[nodiscard]] Seconds time() const { return kernels + host; }
  };
  [[nodiscard]] Update update_of(const RankWeights& weights) const {
    const bool shares = job_.plan.zero > 0;
    const double sharing = shares ? static_cast<double>(job_.plan.sharing_ranks()) : 1.0;
    const double copies = shares ? static_cast<double>(job_.plan.expert_copies()) : 1.0;
    if (job_.optimizer == OptimizerKind::None) return {.host = job_.framework.host.step_overhead};
    const double elements = weights.dense / sharing + weights.expert / copies;
    const double bytes = job_.software.update_bytes + 4 * (update_accesses(job_.optimizer) -
                                                           update_accesses(OptimizerKind::Adam));
    Kernel kernel;
    kernel.kernel_class = KernelClass::Optimizer;
    kernel.pass = Pass::Update;
    const double copied = job_.software.gradient_copy_bytes * (weights.dense + weights.expert);
    kernel.read = Bytes(bytes * 0.6 * elements + 0.5 * copied);
    kernel.written = Bytes(bytes * 0.4 * elements + 0.5 * copied);
    kernel.work = StreamWork{.elements = elements, .operations_per_element = 12};
    const cost::KernelEstimate estimate = cost::estimate(kernel, gpu_, job_.cost);
    return {.kernels = estimate.duration,
            .host = job_.framework.host.step_overhead,
            .active = active_power(kernel, estimate, gpu_, job_.cost) * estimate.duration};
  }

  void run_stages(TransformerShares& shares) {
    const ParallelPlan& plan = job_.plan;
    const double m = static_cast<double>(plan.micro_batches());
    std::vector<Seconds> done(static_cast<std::size_t>(plan.pipeline));
    if (plan.pipeline == 1) {
      done[0] = times_of(parts_[0]).both * m;
    } else {
      done = pipeline().done;
    }
    // The stage that ends its reduction last decides when the update can begin (norm of all
    // gradients).
    std::size_t slowest = 0;
    Seconds reduced{};
    Beside exposed, gather;
    Update update;
    Joules active{};  // of collectives and updates of all stages
    for (std::size_t s = 0; s < done.size(); ++s) {
      const RankWeights weights = weights_of(static_cast<std::int64_t>(s));
      const Shared summed = reduce_time(weights), gathered = gather_time(weights);
      const Update updated = update_of(weights);
      active += summed.active + gathered.active + updated.active;
      const Beside reduce = exposed_gradients(summed, s);
      if (done[s] + reduce.time() > reduced) {
        slowest = s;
        reduced = done[s] + reduce.time();
        exposed = reduce;
      }
      if (updated.time() > update.time()) update = updated;
      const Beside weights_back = exposed_weights(gathered, s);
      if (weights_back.time() > gather.time()) gather = weights_back;
    }
    Seconds passes{};
    for (std::int64_t chunk = 0; chunk < plan.chunks; ++chunk) {
      const RankPart& part =
          parts_[slowest * static_cast<std::size_t>(plan.chunks) + static_cast<std::size_t>(chunk)];
      const Seconds both = times_of(part).both;
      add_shares(part, both, m, shares);
      passes += both * m;
    }
    shares.bubble = max(done[slowest] - passes, Seconds());
    shares.data = exposed.exposed + gather.exposed;
    shares.slowed = exposed.slowed + gather.slowed;
    if (shares.compute > Seconds(0)) work_.slice(1 + shares.slowed / shares.compute);
    if (job_.layout.tied && plan.pipeline > 1 && !job_.adapters.any()) {
      shares.data += grid_.tie_embeddings(gradient_bytes() * embedding_.parameters).time;
    }
    shares.update = update.time();
    add_update(update);
    active_ = active + passes_energy();
  }

  void add_update(const Update& update) {
    work_.add(KernelClass::Optimizer, cost::Basis::Spec, update.kernels);
    work_.idle += update.host;
  }
  /// Over the active-idle power, of the kernels and collectives of all stages' passes, one rank
  /// each.
  [[nodiscard]] Joules passes_energy() const {
    Joules sum{};
    for (const RankPart& part : parts_) {
      for_each_piece(part, [&](const PieceCost& piece, int times) {
        sum += (piece.forward.mix.active + piece.backward.mix.active) * static_cast<double>(times);
      });
    }
    return sum * static_cast<double>(job_.plan.micro_batches());
  }

  [[nodiscard]] PipelineRun pipeline() {
    const ParallelPlan& plan = job_.plan;
    PipelineProblem problem{.stages = static_cast<int>(plan.pipeline),
                            .chunks = static_cast<int>(plan.chunks),
                            .micro_batches = plan.micro_batches(),
                            .schedule = plan.schedule};
    if (!job_.fold) problem.copies = static_cast<int>(plan.data * plan.tensor * plan.context);
    for (const RankPart& part : parts_) {
      const RankPartTimes times = times_of(part);
      problem.forward.push_back(times.forward);
      problem.backward.push_back(times.backward);
    }
    const TransformerShard shard = plan.shard();
    const Bytes message = passes_.element() * (static_cast<double>(shard.micro_batch) *
                                               static_cast<double>(shard.residual_tokens()) *
                                               static_cast<double>(job_.layout.width));
    problem.send = grid_.send(message).time;
    return run_pipeline(problem);
  }

  /// Buckets follow layers: all but that of the last layer can hide.
  [[nodiscard]] double last_bucket() const {
    const double here =
        static_cast<double>(job_.layout.layers) / static_cast<double>(job_.plan.pipeline);
    return 1 / (here + 1);
  }
  /// What a pass of one micro-batch through a stage hides: communication runs on while kernels wait
  /// for the host.
  [[nodiscard]] Seconds hidden_by(Seconds RankPartTimes::*pass, std::size_t stage) {
    Seconds sum{};
    const auto chunks = static_cast<std::size_t>(job_.plan.chunks);
    for (std::size_t c = 0; c < chunks; ++c) sum += times_of(parts_[stage * chunks + c]).*pass;
    return sum * (1 - last_bucket());
  }

  /// Of chunks that take turns, each is reduced when its own last pass ends, while the others' go
  /// on, and gathered before its own first: a turn is as many micro-batches as there are stages.
  /// Source: Megatron-LM, core/pipeline_parallel/schedules.py, grad_sync_func and param_sync_func
  /// of the interleaved schedule.
  [[nodiscard]] Seconds other_chunks(Seconds RankPartTimes::*pass, std::size_t stage) {
    Seconds sum{};
    const auto chunks = static_cast<std::size_t>(job_.plan.chunks);
    for (std::size_t c = 0; c < chunks; ++c) sum += times_of(parts_[stage * chunks + c]).*pass;
    const auto turns = static_cast<double>(std::min(job_.plan.pipeline, job_.plan.micro_batches()));
    return sum * (turns * (1 - 1 / static_cast<double>(chunks)));
  }
  /// What passes do not hide, and what those that do are longer for the SMs of the channels.
  struct Beside {
    Seconds exposed{}, slowed{};
    [[nodiscard]] Seconds time() const { return exposed + slowed; }
  };
  [[nodiscard]] Beside behind(const Shared& shared, Seconds passes, double exposed_at_least) const {
    const Seconds exposed = max(shared.time - passes, shared.time * exposed_at_least);
    const double held = static_cast<double>(shared.channels) / gpu_.sm_count;
    return {exposed, (shared.time - exposed) * std::min(held, 0.5)};
  }
  [[nodiscard]] Beside exposed_gradients(const Shared& reduce, std::size_t stage) {
    if (!job_.software.overlaps_gradients) return {reduce.time, {}};
    if (job_.plan.chunks == 1)
      return behind(reduce, hidden_by(&RankPartTimes::backward, stage), last_bucket());
    return behind(reduce, other_chunks(&RankPartTimes::backward, stage),
                  1 / static_cast<double>(job_.plan.chunks));
  }
  [[nodiscard]] Beside exposed_weights(const Shared& gather, std::size_t stage) {
    if (!job_.software.overlaps_weights) return {gather.time, {}};
    const auto chunks = static_cast<double>(job_.plan.chunks);
    Seconds hidden = hidden_by(&RankPartTimes::forward, stage) / chunks;
    if (chunks > 1) hidden += other_chunks(&RankPartTimes::forward, stage);
    return behind(gather, hidden, last_bucket());
  }

  // ZeRO 3.

  [[nodiscard]] static Seconds host_time(const StepProgram& program) {
    Seconds sum{};
    for (const ProgramOp& op : program.ops) {
      sum += op.dispatch + program.launch * static_cast<double>(op.num_kernels);
    }
    return sum;
  }

  [[nodiscard]] ShardedUnit unit_of(const PieceCost& piece, int times, int& channels) {
    const auto time = [](const PassCost& pass) {
      return max(pass.kernels + pass.communications(), host_time(pass.program));
    };
    const RankWeights weights{piece.parameters - piece.expert_parameters, piece.expert_parameters,
                              frozen_element(piece) * piece.frozen_parameters};
    const std::int64_t sharing = job_.plan.sharing_ranks();
    ShardedUnit unit{.forward = time(piece.forward), .backward = time(piece.backward)};
    if (sharing == 1) return unit;
    const double elements = weights.dense + weights.expert / static_cast<double>(job_.plan.expert);
    const GroupCommunication gather = grid_.reduce_gradients(
        Collective::AllGather, passes_.element() * elements + weights.frozen, sharing);
    const GroupCommunication scatter =
        grid_.reduce_gradients(Collective::ReduceScatter, gradient_bytes() * elements, sharing);
    channels = std::max({channels, gather.channels, scatter.channels});
    unit.gather = gather.time;
    const GroupCommunication copies = grid_.reduce_over_copies(
        gradient_bytes() * (elements / static_cast<double>(sharing)), sharing);
    unit.scatter = scatter.time + copies.time;
    // Gathered for both passes, unless the weights stay.
    const double gathers = job_.plan.keeps_gathered ? 1 : 2;
    unit_energy_ += (gather.energy(gpu_, job_.cost) * gathers + scatter.energy(gpu_, job_.cost) +
                     copies.energy(gpu_, job_.cost)) *
                    static_cast<double>(times);
    return unit;
  }

  void run_fully_sharded(TransformerShares& shares) {
    int channels = 0;
    ShardedProblem problem{.micro_batches = job_.plan.micro_batches(),
                           .keeps_gathered = job_.plan.keeps_gathered};
    for_each_piece(parts_.front(), [&](const PieceCost& piece, int times) {
      const ShardedUnit unit = unit_of(piece, times, channels);
      problem.units.insert(problem.units.end(), static_cast<std::size_t>(times), unit);
    });
    const double share = static_cast<double>(channels) / gpu_.sm_count;
    problem.slow_down = 1 / (1 - std::min(share, 0.5));
    const ShardedRun run = run_sharded(problem);
    const double m = static_cast<double>(job_.plan.micro_batches());
    Seconds passes{};
    for (const ShardedUnit& unit : problem.units) passes += unit.forward + unit.backward;
    add_shares(parts_.front(), passes, m, shares);
    shares.slowed = max(run.compute - passes * m, Seconds());
    if (shares.compute > Seconds(0)) work_.slice(1 + shares.slowed / shares.compute);
    // The engine's times are whole picoseconds: of a run that hides all of it a few may be missing.
    shares.data = max(run.makespan - passes * m - shares.slowed, Seconds());
    const Update update = update_of(weights_of(0));
    shares.update = update.time();
    add_update(update);
    active_ = passes_energy() + update.active + unit_energy_ * m;
  }

  /// Like boards differ (RankVariation), and a step meets all of them: what kernels, hosts and
  /// stages take on the mean rank they take longer on the slowest.
  void wait_for_slowest(TransformerShares& shares) const {
    const double slower = straggling_of(job_.fabric, 0, 1) - 1;
    // A host that paces the step straggles also while its GPU communicates.
    const Seconds own = max(shares.compute + shares.slowed + shares.host, dispatching_);
    shares.stragglers = (own + shares.bubble) * slower;
  }

  // What follows.

  /// Shares by class and basis, power and energy.
  void state_account(TransformerPrediction& result) const {
    const TransformerShares& s = result.shares;
    const Seconds step = total(s);
    StepAccount account;
    account.work = work_;
    account.work.idle += s.host;
    account.communication = s.tensor + s.context + s.expert + s.bubble + s.data + s.stragglers;
    result.by_basis = account.by_basis();
    account.communication = {};
    result.by_class = account.by_class();
    for (const auto& [name, time] :
         {std::pair("tensor_parallel", s.tensor), std::pair("context_parallel", s.context),
          std::pair("expert_parallel", s.expert), std::pair("pipeline_bubble", s.bubble),
          std::pair("data_parallel", s.data), std::pair("stragglers", s.stragglers)}) {
      if (time > Seconds(0)) result.by_class.push_back({name, time});
    }
    PowerRange& board = result.board;
    board.idle = gpu_.idle_power;
    board.active_idle = waiting_power(gpu_, job_.cost);
    board.limit = job_.power_limit.value_or(gpu_.tdp);
    const double stages = static_cast<double>(job_.plan.pipeline);
    const Watts drawn = board.active_idle + active_ / (step * stages);
    board.demand = board.active_idle + active_ / (step * stages) * asked_;
    board.avg = min(drawn, max(board.limit, board.active_idle));
    board.min = board.max = board.avg;
    board.is_guess = true;  // tensor cores' energy is hardly fitted
    if (power_) {
      board.clock = power_->clock;
      board.throttles = power_->throttles && board.demand >= board.limit;
    }
    const double tokens =
        static_cast<double>(job_.plan.global_batch) * static_cast<double>(job_.plan.tokens);
    result.energy_per_token = board.avg * step * (static_cast<double>(job_.plan.ranks()) / tokens);
  }

  [[nodiscard]] Seconds total(const TransformerShares& s) const {
    return s.compute + s.slowed + s.tensor + s.context + s.expert + s.host + s.bubble + s.data +
           s.update + s.stragglers;
  }

  [[nodiscard]] TransformerMemory memory() const {
    TransformerMemory worst;
    for (std::int64_t stage = 0; stage < job_.plan.pipeline; ++stage) {
      const TransformerMemory here = memory_of(stage);
      if (stage == 0 || here.total() > worst.total()) worst = here;
    }
    return worst;
  }

  /// Groups of ranks that this rank communicates in.
  [[nodiscard]] int communicators() const {
    const ParallelPlan& plan = job_.plan;
    int groups = 0;
    for (const std::int64_t ranks :
         {plan.tensor, plan.context, plan.data * plan.context, plan.pipeline, plan.expert}) {
      if (ranks > 1) ++groups;
    }
    return groups;
  }
  /// Whole weights of ZeRO 3, and gradients that are not scattered yet. `layer`: bytes of the
  /// largest piece; `root`: of embedding and head; `all`: of every piece.
  [[nodiscard]] Bytes gathered(Bytes layer, Bytes root, Bytes all) const {
    const ProgramMemory& program = job_.software.memory;
    Bytes whole = layer * program.gathered_layers;
    if (program.gathered_elements > 0) {
      whole = max(whole, min(all, passes_.element() * program.gathered_elements));
    }
    if (program.keeps_root) whole += root;
    if (job_.adapters.any()) return min(whole, all);
    return min(whole, all) + layer * program.gathered_gradients;
  }
  /// What a rank of this stage holds at the update besides model states.
  [[nodiscard]] Bytes held_by_update(const RankWeights& weights) const {
    const double all = static_cast<double>(job_.plan.sharing_ranks());
    const double own = (weights.dense + weights.expert) / (job_.plan.zero >= 1 ? all : 1.0);
    const bool has_moments = state_count(job_.optimizer) > 1;
    return Bytes(has_moments ? job_.software.memory.update_copies * own : 0.0);
  }

  [[nodiscard]] TransformerMemory memory_of(std::int64_t stage) const {
    const ParallelPlan& plan = job_.plan;
    const ProgramMemory& program = job_.software.memory;
    const RankWeights weights = weights_of(stage);
    TransformerMemory memory =
        model_states(weights, plan, job_.software, is_fp32(), job_.optimizer);
    const std::int64_t flights =
        most_in_flight(plan.schedule, plan.pipeline - stage, plan.chunks, plan.micro_batches());
    Bytes kept{}, working{};
    Bytes largest{}, root{}, all{};
    for (std::int64_t chunk = 0; chunk < plan.chunks; ++chunk) {
      const RankPart& part = parts_[static_cast<std::size_t>(stage * plan.chunks + chunk)];
      for_each_piece(part, [&](const PieceCost& piece, int times) {
        const Bytes whole =
            passes_.element() * piece.parameters + frozen_element(piece) * piece.frozen_parameters;
        const bool is_layer = &piece != &head_ && &piece != &embedding_;
        all += whole * times;
        if (is_layer) {
          largest = max(largest, whole);
        } else {
          root += whole;
        }
        // The loss is over before the last layer is computed again.
        if (&piece == &head_) {
          working = max(working, piece.kept);
          return;
        }
        kept +=
            piece.kept * (static_cast<double>(flights) / static_cast<double>(plan.chunks) * times);
        working = max(working, piece.working);
      });
    }
    memory.activations = kept;
    memory.buffers = working;
    if (plan.zero == 3) memory.buffers += gathered(largest, root, all);
    if (plan.data * plan.context > 1) {
      memory.buffers += passes_.element() * program.bucket_elements +
                        Bytes(program.gradient_copies * (weights.dense + weights.expert));
    }
    memory.buffers = max(memory.buffers, held_by_update(weights) - kept);
    memory.pool = memory.total() * program.allocator_share;
    memory.context = device_context(gpu_, job_.cost) + job_.framework.memory.context +
                     program.communicator * communicators();
    memory.capacity = gpu_.memory;
    memory.log_sd = program.log_sd;
    return memory;
  }

  /// What recomputation adds. Full: the whole forward pass, as published figures count it
  /// (Chowdhery et al., arXiv 2204.02311, appendix B, hardware FLOPs utilization).
  [[nodiscard]] double repeated_flops_per_token() const {
    const bool repeats_layers = job_.plan.recompute == Recompute::Full;
    double forward = 0, repeated = 0;
    for (const RankPart& part : parts_) {
      for_each_piece(part, [&](const PieceCost& piece, int times) {
        forward += piece.forward_macs * times;
        const bool is_layer = &piece != &head_ && &piece != &embedding_;
        repeated += (repeats_layers && is_layer ? piece.forward_macs : piece.repeated_macs) * times;
      });
    }
    if (!(forward > 0)) return 0;
    return 2 * job_.layout.forward_macs(job_.plan.tokens) / static_cast<double>(job_.plan.tokens) *
           (repeated / forward);
  }

  void state_rates(TransformerPrediction& result) const {
    const ParallelPlan& plan = job_.plan;
    const Seconds step = total(result.shares);
    std::vector<ErrorShare> errors;
    const double m = static_cast<double>(plan.micro_batches());
    for (const RankPart& part : parts_) {
      for_each_piece(part, [&](const PieceCost& piece, int times) {
        for (ErrorShare error : piece.errors) {
          error.time = error.time * (m * times / static_cast<double>(plan.pipeline));
          errors.push_back(error);
        }
      });
    }
    constexpr double kCommunicationSd =
        0.25;  // Guess: collectives, as far as the step waits for them
    // Guess: each doubling of the nodes passes links of its own, whose sharing no table names.
    constexpr double kHopSd = 0.15;
    const double levels = std::log2(static_cast<double>(job_.fabric.num_nodes()));
    errors.push_back(
        {KernelClass::Collective,
         result.shares.tensor + result.shares.data + result.shares.slowed + result.shares.expert,
         std::hypot(kCommunicationSd, kHopSd * std::sqrt(levels))});
    const double of_release = job_.layout.experts ? job_.software.moe_log_sd : 0;
    result.log_sd = step_log_sd(errors, step, result.shares.host, job_.framework.host.log_sd,
                                std::hypot(job_.framework.system_log_sd, of_release));
    result.step_time_s = interval90(step.in_s(), result.log_sd);
    const double tokens = static_cast<double>(plan.global_batch) * static_cast<double>(plan.tokens);
    result.tokens_per_s = interval90(tokens / step.in_s(), result.log_sd);
    const double frozen = job_.adapters.any() ? job_.layout.weight_macs() : 0;
    result.model_flops_per_token =
        6 * job_.layout.forward_macs(plan.tokens) / static_cast<double>(plan.tokens) - 2 * frozen;
    const double gpus = static_cast<double>(plan.ranks());
    const double per_gpu = tokens / step.in_s() / gpus;
    result.tflops_per_gpu = result.model_flops_per_token * per_gpu * 1e-12;
    result.hardware_tflops_per_gpu =
        result.tflops_per_gpu * (1 + repeated_flops_per_token() / result.model_flops_per_token);
    auto peak = gpu_.find_peak(passes_.tensor_gemm_format(), MathUnit::TensorCore);
    if (!peak && job_.precision != PrecisionMode::Fp32)
      peak = gpu_.find_peak(Precision::Fp16, MathUnit::TensorCore);
    result.mfu = result.tflops_per_gpu * 1e12 / peak.value_or(gpu_.peak_fp32()).in_si();
  }

  const TransformerRequest& job_;
  std::optional<Watts> layer_limit_;
  double asked_ = 1;  ///< power over the active-idle one that layers ask for without a limit, over
                      ///< what they draw
  GpuSpec gpu_;
  RankGrid grid_;
  PassContext passes_;
  std::optional<LimitedClock> power_;
  PieceCost embedding_, head_;
  std::optional<PieceCost> dense_, experts_;
  std::optional<PieceCost> wide_dense_, wide_experts_;  ///< of a recipe that keeps layers in bf16
  std::vector<RankPart> parts_;
  std::map<RankPart::Key, RankPartTimes> times_;
  WorkMix work_;           ///< of a rank of the slowest stage
  Joules active_{};        ///< over the active-idle power, one rank of every stage
  Joules unit_energy_{};   ///< of collectives of fully sharded units, one micro-batch
  Seconds dispatching_{};  ///< what the host of a rank of the slowest stage issues in all passes
};

}  // namespace

TransformerPrediction predict_transformer(const TransformerRequest& job) {
  TRACECAST_CHECK(static_cast<std::int64_t>(job.fabric.num_ranks()) == job.plan.ranks(),
                  "the plan was made for this many ranks");
  const GpuSpec& gpu = job.gpu ? *job.gpu : job.fabric.gpu_of(Rank{0});
  if (!job.power_limit || *job.power_limit >= gpu.tdp) return StepPredictor(job).predict();
  // The driver holds averages: layers may take what the rest of the step leaves of the limit, but
  // no more than the board's own.
  TransformerRequest unlimited = job;
  unlimited.power_limit.reset();
  const TransformerPrediction free = StepPredictor(unlimited).predict();
  const double busy = std::clamp(free.shares.compute.in_s() / free.step_time_s.value, 0.01, 1.0);
  const Watts active_idle = waiting_power(gpu, job.cost);
  const Watts left = active_idle + (*job.power_limit - active_idle) / busy;
  return StepPredictor(job, max(*job.power_limit, min(left, gpu.tdp))).predict();
}

}  // namespace tracecast
