#include "sim/parallel/transformer/passes.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "models/kept_activations.hpp"
#include "models/lowering/lower.hpp"
#include "models/recompute.hpp"
#include "models/training.hpp"
#include "sim/cost/price.hpp"

namespace tracecast {
namespace {

bool is_core(const Op& op) { return op.name.starts_with("core"); }

/// Everything but attention and the first of each two GEMMs. Source: torchtitan,
/// parallelize_llama.py, counts GEMMs of a block in its order; of the packed GEMM of queries, keys
/// and values, the keys' small one is left out.
bool is_cheap_or_second(const Op& op) {
  if (is_core(op)) return false;
  if (op.kind != OpKind::Linear) return true;
  return op.name == "attn.out" || op.name == "mlp.up";
}

/// A layer's own norms, and what lies between the GEMMs of experts.
bool is_norm_or_activation(const Op& op) {
  return op.kind == OpKind::LayerNorm || op.name.starts_with("experts.act") ||
         op.name.starts_with("experts.clamp");
}

[[nodiscard]] bool runs_again(const Op& op, SelectiveRecompute selective) {
  switch (selective) {
    case SelectiveRecompute::AttentionCore:
      return is_core(op);
    case SelectiveRecompute::OtherGemms:
      return is_cheap_or_second(op);
    case SelectiveRecompute::NormsAndActivations:
      return is_norm_or_activation(op);
  }
  return false;
}

/// Prices one piece and adds up what its passes take.
class PiecePricer {
 public:
  explicit PiecePricer(const PassContext& context)
      : c_(context), board_(context.gpu, context.cost), scales_(board_) {}

  PieceCost price(NetworkGraph forward, const ShardCollectives& collectives, LossWork loss = {}) {
    NetworkGraph step =
        make_training_graph(std::move(forward), {.with_loss = false, .with_optimizer = false});
    piece_.kept = kept_bytes(step);
    if (c_.plan.recompute == Recompute::Selective) {
      step = recompute_ops(std::move(step),
                           [&](const Op& op) { return runs_again(op, c_.software.selective); });
      piece_.kept = kept_bytes(step);
    }
    count_weights(step);
    count_macs(step);
    add_kernels(step);
    if (c_.software.casts_as_written.value_or(c_.framework.kernels.casts_as_written)) {
      add_wide_copies(step);
    }
    add_loss(loss.forward, piece_.forward);
    add_loss(loss.backward, piece_.backward);
    add_communications(collectives.forward, piece_.forward);
    add_communications(collectives.backward, piece_.backward);
    if (c_.software.adds_gradients && c_.plan.micro_batches() > 1) add_gradients(step);
    if (is_packed(c_.adapters.base)) unpack_weights(step);
    return std::move(piece_);
  }

 private:
  [[nodiscard]] Bytes kept_bytes(const NetworkGraph& step) const {
    double bytes = 0;
    for (const TensorId id : kept_activations(step)) {
      const Tensor& tensor = step.tensor(id);
      // Masks of dropout hold a byte per element.
      bytes += tensor_bytes(tensor, static_cast<int>(c_.element().in_bytes()));
    }
    return Bytes(bytes) + input_bytes(step);
  }
  /// A layer's input is a view of a weight (models/transformer/shard.hpp).
  [[nodiscard]] Bytes input_bytes(const NetworkGraph& step) const {
    for (const Tensor& tensor : step.tensors()) {
      if (is_input(tensor)) return c_.element() * static_cast<double>(element_count(tensor.shape));
    }
    return {};
  }
  [[nodiscard]] static bool is_input(const Tensor& tensor) {
    return tensor.role == TensorRole::Weight && tensor.name == "input";
  }
  [[nodiscard]] static bool is_weight(const Tensor& tensor) {
    return tensor.role == TensorRole::Weight && !is_input(tensor);
  }

  void count_weights(const NetworkGraph& step) {
    piece_.frozen_parameters = static_cast<double>(step.frozen_parameters);
    for (const Tensor& tensor : step.tensors()) {
      if (!is_weight(tensor)) continue;
      const double count = static_cast<double>(element_count(tensor.shape));
      piece_.parameters += count;
      if (tensor.name.starts_with("experts.")) piece_.expert_parameters += count;
    }
  }

  void count_macs(const NetworkGraph& step) {
    for (const Op& op : step.ops()) {
      if (op.pass != Pass::Forward) continue;
      (op.forward ? piece_.repeated_macs : piece_.forward_macs) += macs(op);
    }
  }

  void add_kernels(const NetworkGraph& step) {
    const PricedStep priced = tracecast::price(
        lower(step, c_.framework, c_.gpu, {.precision = c_.precision}), c_.gpu, c_.cost);
    const StepProgram whole = build_step_program(step, priced, c_.framework, Seconds());
    bool backward = false;
    for (const ProgramOp& op : whole.ops) {
      const std::uint32_t index = whole.kernels[op.first_kernel].op;
      const Op& network_op = step.op(priced.lowered->ops[index].op);
      backward = backward || network_op.pass != Pass::Forward || network_op.forward.has_value();
      PassCost& pass = backward ? piece_.backward : piece_.forward;
      pass.program.launch = launch();
      if (is_sorting(network_op)) add_routing(step, backward, pass);
      ProgramOp copy = op;
      copy.dispatch = dispatch(op.dispatch, network_op.name.starts_with("experts."));
      if (is_bias_of_experts(network_op)) copy.dispatch *= launched_experts();
      copy.waits_for_gpu = copy.waits_for_gpu ||
                           (!backward && is_sorting(network_op) && c_.software.moe.reads_counts);
      copy.first_kernel = static_cast<std::uint32_t>(pass.program.kernels.size());
      copy.num_kernels = 0;
      for (std::uint32_t k = 0; k < op.num_kernels; ++k) {
        ProgramKernel kernel = whole.kernels[op.first_kernel + k];
        if (network_op.kind == OpKind::Attention) kernel.duration *= c_.software.attention_time;
        if (is_fused_away(network_op,
                          priced.choices[kernel.op].candidate->kernels[kernel.kernel])) {
          continue;
        }
        if (is_sorting(network_op) && c_.software.moe.sorts_twice && c_.plan.expert > 1) {
          kernel.duration *= 2.0;
        }
        // Weights are cast in a step's first micro-batch alone.
        const Kernel& lowered = priced.choices[kernel.op].candidate->kernels[kernel.kernel];
        const bool casts_weight =
            !backward && k < weight_casts(op.num_kernels) && lowered.name.starts_with("operand_");
        if (casts_weight && keeps_cast_weights())
          kernel.duration *= 1.0 / static_cast<double>(c_.plan.micro_batches());
        const bool is_gemm = network_op.kind == OpKind::MatMul && !is_core(network_op);
        if ((is_gemm && !casts_weight) || is_bias_of_experts(network_op)) {
          kernel.more_launch += launches_of_experts();
        }
        ++copy.num_kernels;
        pass.program.kernels.push_back(kernel);
        pass.kernels += kernel.duration;
        if (is_core(network_op)) pass.attention += kernel.duration;
        const Kernel& what = priced.choices[kernel.op].candidate->kernels[kernel.kernel];
        const cost::KernelEstimate& estimate = priced.choices[kernel.op].estimates[kernel.kernel];
        piece_.errors.push_back({what.kernel_class, kernel.duration, estimate.log_sd});
        pass.mix.add(what.kernel_class, estimate.basis, kernel.duration, energy(what, estimate));
        if (what.kernel_class == KernelClass::Gemm ||
            what.kernel_class == KernelClass::BatchedGemm ||
            what.kernel_class == KernelClass::Attention)
          piece_.flops += what.flops.in_flop();
      }
      if (copy.num_kernels > 0) pass.program.ops.push_back(copy);
    }
  }

  /// How many of a forward GEMM's kernels, from the first, cast its weight.
  [[nodiscard]] std::uint32_t weight_casts(std::uint32_t kernels) const {
    const auto& recipe = c_.framework.precision.recipe;
    const OperandRecipe weight = recipe ? recipe->weight : OperandRecipe{};
    const OperandRecipe input = recipe ? recipe->input : OperandRecipe{};
    const auto passes = [](const OperandRecipe& o) {
      return static_cast<std::uint32_t>(o.greatest_passes + o.cast_passes);
    };
    return kernels == passes(weight) + passes(input) + 1 ? passes(weight) : 0;
  }

  /// Until the step ends, where ranks do not gather them anew for each pass. Source: Megatron-LM,
  /// core/extensions/transformer_engine.py, is_first_microbatch.
  [[nodiscard]] bool keeps_cast_weights() const {
    return c_.precision == PrecisionMode::Fp8 && c_.plan.zero < 3;
  }

  // What the host launches.

  [[nodiscard]] bool whole_step_is_graph() const { return c_.software.graphs == LayerGraphs::Step; }
  [[nodiscard]] Seconds launch() const {
    return whole_step_is_graph() ? Seconds() : c_.framework.host.launch_per_kernel;
  }
  [[nodiscard]] Seconds dispatch(Seconds time, bool of_experts) const {
    const bool is_graph =
        whole_step_is_graph() || (c_.software.graphs == LayerGraphs::AllButExperts && !of_experts);
    return is_graph ? Seconds() : time;
  }

  // MoE networks.

  /// Where tokens are sorted by expert, or their gradients back.
  [[nodiscard]] static bool is_sorting(const Op& op) {
    return op.name == "experts.permute" || op.name == "experts.permute bwd";
  }
  /// An activation that runs in the GEMMs around it, or the cast of what it gives.
  [[nodiscard]] bool is_fused_away(const Op& op, const Kernel& kernel) const {
    if (!c_.software.moe.fuses_activation) return false;
    for (const std::string_view part : {"experts.act", "experts.clamp", "experts.bias"}) {
      if (op.name.starts_with(part)) return true;
    }
    return kernel.name.starts_with("operand_") &&
           (op.name == "experts.out" || op.name.starts_with("experts.in dgrad"));
  }
  /// Experts of a rank, where each is launched by itself.
  [[nodiscard]] double launched_experts() const {
    const double each = c_.software.moe.launches_per_expert;
    if (each <= 0 || !c_.layout.experts || whole_step_is_graph()) return 1;
    return each * static_cast<double>(c_.layout.experts->count / c_.plan.expert);
  }
  /// Beyond the one launch of a kernel that stands for all.
  [[nodiscard]] Seconds launches_of_experts() const {
    return c_.framework.host.launch_per_kernel * (launched_experts() - 1);
  }
  /// What a program's loop over experts adds, op by op.
  [[nodiscard]] static bool is_bias_of_experts(const Op& op) {
    return op.name.starts_with("experts.bias.add") || op.name.starts_with("experts.bias.mul");
  }
  /// The router's choice and what gets the tokens on their way, a number per token and expert.
  void add_routing(const NetworkGraph& step, bool backward, PassCost& pass) {
    const MoeProgram& m = c_.software.moe;
    const double ops = backward ? m.router_backward_ops : m.router_ops;
    const double communication =
        c_.plan.expert > 1 ? (backward ? m.communication_backward_ops : m.communication_ops) : 0.0;
    const auto gates = std::find_if(step.ops().begin(), step.ops().end(),
                                    [](const Op& op) { return op.name == "router.softmax"; });
    if (gates == step.ops().end()) return;
    const double elements =
        static_cast<double>(element_count(step.tensor(gates->outputs.front()).shape));
    const auto& host = c_.framework.host;
    const Seconds each = backward ? host.dispatch_per_backward_op : host.dispatch_per_op;
    const Pass when = backward ? Pass::Backward : Pass::Forward;
    for (int i = 0; i < static_cast<int>(ops + communication); ++i) {
      add_elementwise(pass, when, dispatch(each, false), elements, Bytes(4), Bytes(4));
    }
  }

  /// Of the board, over its active-idle power.
  [[nodiscard]] Joules energy(const Kernel& kernel, const cost::KernelEstimate& estimate) const {
    if (!(estimate.duration > Seconds(0))) return {};
    return active_power(power_causes(kernel, estimate, board_, scales_), c_.gpu, c_.cost) *
           estimate.duration;
  }

  void add_op(PassCost& pass, Seconds dispatch, Seconds duration) {
    pass.program.launch = launch();
    pass.program.ops.push_back(
        {.dispatch = dispatch,
         .first_kernel = static_cast<std::uint32_t>(pass.program.kernels.size()),
         .num_kernels = 1});
    pass.program.kernels.push_back({.duration = duration});
  }

  void add_loss(const std::vector<Kernel>& kernels, PassCost& pass) {
    for (const Kernel& kernel : kernels) {
      const cost::KernelEstimate estimate = cost::estimate(kernel, c_.gpu, c_.cost);
      add_op(pass, dispatch(c_.framework.host.dispatch_per_op, false), estimate.duration);
      pass.kernels += estimate.duration;
      pass.mix.add(kernel.kernel_class, estimate.basis, estimate.duration,
                   energy(kernel, estimate));
      piece_.errors.push_back({kernel.kernel_class, estimate.duration, estimate.log_sd});
    }
  }

  /// What GEMMs do not hide of a collective in as many pieces as there are ranks: the first piece,
  /// and what outlasts the `gemms` beside it.
  [[nodiscard]] Seconds exposed(Seconds communication, Seconds gemms) const {
    const double first = 1.0 / static_cast<double>(c_.plan.tensor);
    return communication * first + max(communication * (1 - first) - gemms, Seconds());
  }

  [[nodiscard]] GroupCommunication communication(const ShardCollective& one) const {
    const Bytes whole = (one.is_wide ? Bytes(4) : c_.element()) * one.elements;
    if (one.group != ShardGroup::Expert || !c_.software.moe.sends_once) {
      return c_.grid.communication(one.group, one.communication, whole);
    }
    return c_.grid.communication_tokens(whole, static_cast<double>(c_.layout.experts->per_token));
  }
  /// What the kernels of another micro-batch, of the same pass, do not hide of a collective, and
  /// what they take longer for its SMs. The collectives of a pass share its kernels evenly.
  [[nodiscard]] Seconds exposed_beside_kernels(Seconds communication, const PassCost& pass) const {
    constexpr double kCommunications = 2;  // out and back
    const double sms = c_.software.moe.hidden_communication_sms;
    if (sms <= 0 || c_.plan.micro_batches() < 2) return communication;
    const Seconds hidden = min(communication, pass.kernels / kCommunications);
    return communication - hidden + hidden * std::min(1.0, sms / c_.gpu.sm_count);
  }

  void add_communications(const std::vector<ShardCollective>& collectives, PassCost& pass) {
    const bool hides = c_.software.overlaps_tensor && c_.plan.sequence_parallel;
    const Seconds gemms = (pass.kernels - pass.attention) /
                          static_cast<double>(std::max<std::size_t>(1, collectives.size()));
    for (const ShardCollective& one : collectives) {
      const GroupCommunication communicated = communication(one);
      pass.mix.active += communicated.energy(c_.gpu, c_.cost);
      Seconds time = communicated.time;
      Seconds& sum = one.group == ShardGroup::Tensor    ? pass.tensor
                     : one.group == ShardGroup::Context ? pass.context
                                                        : pass.expert;
      if (hides && one.group == ShardGroup::Tensor && !one.is_wide) time = exposed(time, gemms);
      if (one.communication == ShardCommunication::Ring)
        time = max(time - pass.attention, Seconds());
      if (one.group == ShardGroup::Expert) time = exposed_beside_kernels(time, pass);
      if (!(time > Seconds())) continue;
      sum += time;
      add_op(
          pass,
          dispatch(c_.framework.host.dispatch_per_op + c_.framework.host.dispatch_per_library_call,
                   one.group == ShardGroup::Expert),
          time);
    }
  }

  void add_elementwise(PassCost& pass, Pass when, Seconds dispatch, double elements,
                       Bytes read_each, Bytes written_each) {
    Kernel kernel;
    kernel.kernel_class = KernelClass::Elementwise;
    kernel.pass = when;
    kernel.read = read_each * elements;
    kernel.written = written_each * elements;
    kernel.work = StreamWork{.elements = elements};
    const cost::KernelEstimate estimate = cost::estimate(kernel, c_.gpu, c_.cost);
    add_op(pass, dispatch, estimate.duration);
    pass.kernels += estimate.duration;
    pass.mix.add(kernel.kernel_class, estimate.basis, estimate.duration, energy(kernel, estimate));
    piece_.errors.push_back({kernel.kernel_class, estimate.duration, estimate.log_sd});
  }

  /// Norms whose input is cast to fp32 before: the copy, what the norm reads more; its gradient in
  /// fp32 and cast back.
  void add_wide_copies(const NetworkGraph& step) {
    const Bytes low_precision = c_.element(), wide = Bytes(4), more = wide - low_precision;
    for (const Op& op : step.ops()) {
      if (op.kind != OpKind::LayerNorm || op.pass != Pass::Forward || op.forward) continue;
      const double elements =
          static_cast<double>(element_count(step.tensor(op.inputs.front()).shape));
      const auto& host = c_.framework.host;
      add_elementwise(piece_.forward, Pass::Forward, host.dispatch_per_op, elements,
                      low_precision + more, wide);
      add_elementwise(piece_.backward, Pass::Backward, host.dispatch_per_backward_op, elements,
                      wide + more, low_precision + more);
    }
  }

  /// Packed weights are written out in 16 bits before the GEMM that reads them, in both passes.
  void unpack_weights(const NetworkGraph& step) {
    const Bytes packed(bytes_per_weight(c_.adapters.base));
    for (const Tensor& tensor : step.tensors()) {
      if (tensor.role != TensorRole::Buffer || tensor.shape.size() < 2) continue;
      const double count = static_cast<double>(element_count(tensor.shape));
      const auto& host = c_.framework.host;
      add_elementwise(piece_.forward, Pass::Forward, host.dispatch_per_op, count, packed,
                      c_.element());
      add_elementwise(piece_.backward, Pass::Backward, host.dispatch_per_backward_op, count, packed,
                      c_.element());
    }
  }

  /// A kernel per weight: kept gradient += new one.
  void add_gradients(const NetworkGraph& step) {
    for (const Tensor& tensor : step.tensors()) {
      if (!is_weight(tensor)) continue;
      const double count = static_cast<double>(element_count(tensor.shape));
      add_elementwise(piece_.backward, Pass::Backward, c_.framework.host.dispatch_per_backward_op,
                      count, c_.element() * 2, c_.element());
    }
  }

  const PassContext& c_;
  const cost::SustainedBoard board_;
  const PowerScales scales_;
  PieceCost piece_;
};

/// The whole forward pass again before the backward one; only the input was kept.
void recompute_all(PieceCost& piece, Bytes input) {
  PassCost both;
  both.program = piece.forward.program;
  append(both.program, piece.backward.program);
  both.kernels = piece.forward.kernels + piece.backward.kernels;
  both.mix = piece.forward.mix;
  both.mix += piece.backward.mix;
  both.attention = piece.forward.attention + piece.backward.attention;
  both.tensor = piece.forward.tensor + piece.backward.tensor;
  both.context = piece.forward.context + piece.backward.context;
  both.expert = piece.forward.expert + piece.backward.expert;
  piece.backward = std::move(both);
  piece.working = piece.kept - input;  // which is there already
  piece.kept = input;
}

}  // namespace

namespace {

/// Per logit at the loss's peak, logits and gradient counted: what the program's files say, else
/// what its kernels write. The fused one writes the gradient over the logits.
Bytes loss_bytes(const TrainingSoftware& software) {
  if (software.memory.loss_bytes > 0) return Bytes(software.memory.loss_bytes);
  switch (software.loss) {
    case LossKernels::StepByStep:
      return Bytes(12);
    case LossKernels::LogSoftmax:
      return Bytes(14);
    case LossKernels::Fused:
      return Bytes(2);
  }
  return Bytes(2);
}

}  // namespace

TransformerShard PassContext::shard() const {
  TransformerShard shard = plan.shard();
  shard.separate_gate = software.separate_gate;
  shard.adapters = adapters;
  return shard;
}

Precision PassContext::tensor_gemm_format() const {
  switch (precision) {
    case PrecisionMode::Fp8:
      return framework.precision.recipe ? framework.precision.recipe->math : Precision::Fp8;
    case PrecisionMode::Tf32:
      return Precision::Tf32;
    case PrecisionMode::Fp32:
      return Precision::Fp32;
    case PrecisionMode::Bf16:
      return Precision::Bf16;
    default:
      return Precision::Fp16;
  }
}

Bytes PassContext::element() const {
  const bool wide = precision == PrecisionMode::Fp32 || precision == PrecisionMode::Tf32;
  return Bytes(wide ? 4 : 2);
}

void append(StepProgram& program, const StepProgram& more) {
  const auto shift = static_cast<std::uint32_t>(program.kernels.size());
  program.launch = more.launch;
  for (ProgramOp op : more.ops) {
    op.first_kernel += shift;
    program.ops.push_back(op);
  }
  program.kernels.insert(program.kernels.end(), more.kernels.begin(), more.kernels.end());
}

LimitedStep limit_layer(const PassContext& context, bool with_experts, Watts limit) {
  const NetworkGraph step =
      make_training_graph(sharded_layer(context.layout, context.shard(), with_experts),
                          {.with_loss = false, .with_optimizer = false});
  PricedStep priced = tracecast::price(
      lower(step, context.framework, context.gpu, {.precision = context.precision}), context.gpu,
      context.cost);
  StepProgram program = build_step_program(step, priced, context.framework, Seconds());
  const auto run = [](const StepProgram& at_clock) { return simulate(at_clock); };
  StepTimeline timeline = run(program);
  return hold_power_limit(priced, program, timeline, context.gpu, limit, context.cost, run);
}

PieceCost price_layer(const PassContext& context, bool with_experts) {
  const TransformerShard shard = context.shard();
  PieceCost piece =
      PiecePricer(context).price(sharded_layer(context.layout, shard, with_experts),
                                 layer_collectives(context.layout, shard, with_experts));
  const Bytes input = context.element() * (static_cast<double>(shard.micro_batch) *
                                           static_cast<double>(shard.residual_tokens()) *
                                           static_cast<double>(context.layout.width));
  if (context.plan.recompute == Recompute::Full) recompute_all(piece, input);
  return piece;
}

PieceCost price_embedding(const PassContext& context) {
  const TransformerShard shard = context.shard();
  return PiecePricer(context).price(sharded_embedding(context.layout, shard),
                                    embedding_collectives(context.layout, shard));
}

PieceCost price_head(const PassContext& context) {
  const TransformerShard shard = context.shard();
  const double rows =
      static_cast<double>(shard.micro_batch) * static_cast<double>(shard.tokens_here());
  const double columns = static_cast<double>(
      padded_vocabulary(context.layout.vocabulary, shard.tensor) / shard.tensor);
  LossWork loss = vocabulary_loss(context.software.loss, rows, columns, Precision::Bf16);
  for (int i = 0; i < context.software.training_metrics; ++i) {
    const LossWork metric =
        vocabulary_loss(LossKernels::LogSoftmax, rows, columns, Precision::Bf16);
    loss.forward.insert(loss.forward.end(), metric.forward.begin(), metric.forward.end());
  }
  if (context.software.metric_passes > 0) {
    Kernel passes;
    passes.kernel_class = KernelClass::Softmax;
    passes.pass = Pass::Forward;
    passes.read = context.element() * (rows * columns * context.software.metric_passes);
    passes.work = StreamWork{.elements = rows * columns, .operations_per_element = 2};
    loss.forward.push_back(std::move(passes));
  }
  PieceCost piece = PiecePricer(context).price(sharded_head(context.layout, shard),
                                               head_collectives(context.layout, shard), loss);
  piece.kept += loss_bytes(context.software) * (rows * columns);
  return piece;
}

}  // namespace tracecast
