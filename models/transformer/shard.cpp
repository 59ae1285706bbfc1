#include "models/transformer/shard.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "models/lowering/kernels.hpp"
#include "models/ops.hpp"
#include "models/zoo/parts/adapter.hpp"
#include "models/zoo/parts/attention.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

void must_divide(std::string_view what, std::int64_t whole, std::string_view by,
                 std::int64_t parts) {
  if (parts >= 1 && whole % parts == 0) return;
  throw InputError(std::string(what), fmt::format("{} over {} {}", whole, parts, by), "a multiple");
}

void check(const TransformerLayout& layout, const TransformerShard& shard, bool with_experts) {
  must_divide("heads", layout.heads, "tensor-parallel ranks", shard.tensor);
  must_divide("tokens", shard.tokens, "context-parallel ranks", shard.context);
  if (!with_experts) {
    must_divide("feed-forward width", layout.feed_forward, "tensor-parallel ranks", shard.tensor);
  }
  if (shard.sequence_parallel) {
    must_divide("tokens", shard.tokens_here(), "tensor-parallel ranks", shard.tensor);
  }
  if (layout.latent && shard.adapters.any()) {
    throw InputError("--lora", "latent attention", "a network of grouped-query attention");
  }
  if (layout.latent && !shard.flash_attention) {
    throw InputError("--attention", "unfused", "flash for latent attention");
  }
  if (with_experts) {
    must_divide("experts", layout.experts->count, "expert-parallel ranks", shard.expert);
  }
}

struct LayerBuilder {
  GraphBuilder& b;
  const TransformerLayout& layout;
  const TransformerShard& shard;

  [[nodiscard]] std::int64_t heads() const { return layout.heads / shard.tensor; }
  [[nodiscard]] std::int64_t kv_heads() const {
    return std::max<std::int64_t>(1, layout.kv_heads / shard.tensor);
  }

  /// Tokens in norms and residuals, and all of this rank's.
  struct Gathered {
    TensorId here, all;
  };
  [[nodiscard]] Gathered gathered(const std::string& name, TensorId x) const {
    return {x, all_tokens(name, x)};
  }
  /// Residual tokens to all of this rank's tokens: a gather of others' parts, no kernel of ours.
  TensorId all_tokens(const std::string& name, TensorId x) const {
    if (!shard.sequence_parallel) return x;
    Op op{.name = name + ".gather", .kind = OpKind::Reshape, .inputs = {x}};
    const std::int64_t width = b.shape(x).back();
    return b.append(std::move(op), {shard.micro_batch, shard.tokens_here(), width});
  }
  TensorId residual_tokens(const std::string& name, TensorId x) const {
    if (!shard.sequence_parallel) return x;
    Op op{.name = name + ".scatter", .kind = OpKind::Reshape, .inputs = {x}};
    const std::int64_t width = b.shape(x).back();
    return b.append(std::move(op), {shard.micro_batch, shard.residual_tokens(), width});
  }
  [[nodiscard]] bool is_adapted(const std::string& name) const {
    return shard.adapters.any() &&
           (name.starts_with("attn.") ||
            (name.starts_with("mlp.") && shard.adapters.targets == AdapterTargets::Linear));
  }
  TensorId downcast(const std::string& name, TensorId x) const {
    return adapter_downcast(b, name, x, shard.adapters.rank);
  }
  TensorId add_adapter(const std::string& name, TensorId y, TensorId low_precision) const {
    const TensorId wide = adapter_upcast(b, name, low_precision, b.shape(y).back());
    return b.add(name + std::string(kAdapterMark) + "add", y, wide);
  }
  /// A GEMM of columns of residual tokens: every rank gathers all of them and gives some outputs.
  TensorId columns(const std::string& name, const Gathered& x, std::int64_t outputs,
                   bool biases) const {
    const TensorId y = b.linear_layer(name, x.all, outputs, biases);
    if (!is_adapted(name)) return y;
    const TensorId low_precision = downcast(name, x.here);
    return add_adapter(name, y, all_tokens(name + std::string(kAdapterMark), low_precision));
  }
  /// A GEMM of rows: the ranks' results are summed, to this rank's residual tokens.
  TensorId rows(const std::string& name, const std::string& communication, TensorId x,
                bool biases) const {
    const TensorId y =
        residual_tokens(communication, b.linear_layer(name, x, layout.width, biases));
    if (!is_adapted(name)) return y;
    return add_adapter(name, y,
                       residual_tokens(name + std::string(kAdapterMark), downcast(name, x)));
  }
  /// Root mean square norms run as one kernel here too; their weight alone is learned.
  TensorId norm(const std::string& name, TensorId x) const { return b.layer_norm_layer(name, x); }
  TensorId unfused_core(const std::string& name, TensorId packed) const {
    const std::int64_t width = layout.width_of_head();
    const Shape queries{shard.micro_batch, heads(), shard.tokens_here(), width};
    Op split{.name = name + ".split", .kind = OpKind::Split, .inputs = {packed}};
    const TensorId query = b.tensor({.name = name + ".query", .shape = queries});
    const TensorId key = b.tensor(
        {.name = name + ".key", .shape = {shard.micro_batch, heads(), width, shard.tokens}});
    const TensorId value = b.tensor(
        {.name = name + ".value", .shape = {shard.micro_batch, heads(), shard.tokens, width}});
    split.outputs = {query, key, value};
    b.graph().add_op(std::move(split));
    const TensorId context =
        has_fused_softmax()
            ? zoo_builders::attend(b, "core", query, key, value,
                                   {.scale = query, .scale_query = true, .dropout = layout.dropout})
            : attend_without_fused_softmax(query, key, value);
    return zoo_builders::from_heads(b, name, context);
  }
  /// Whether Megatron-LM's kernel of scale, mask and softmax takes these scores: a block has four
  /// rows of them, each of one token and head. Source: Megatron-LM,
  /// megatron/model/fused_softmax.py, is_kernel_available; the most tokens, 2,048 to 16,384 by
  /// version, are left out.
  [[nodiscard]] bool has_fused_softmax() const {
    constexpr std::int64_t kRowsOfBlock = 4, kLongestUnfused = 16;
    return shard.tokens > kLongestUnfused && shard.tokens % kRowsOfBlock == 0 &&
           shard.tokens_here() % kRowsOfBlock == 0 &&
           shard.micro_batch * heads() % kRowsOfBlock == 0;
  }
  /// Other scores are widened, scaled, masked and narrowed again by kernels of PyTorch. Source: the
  /// same, forward_torch_softmax; 32 bits and a scale are what scaling by layer asks for, its
  /// default until the middle of 2023.
  TensorId attend_without_fused_softmax(TensorId query, TensorId key, TensorId value) const {
    const TensorId number = zoo_builders::scalar(b, "core.layer");
    const TensorId mask =
        zoo_builders::integer_table(b, "core.hidden", {1, 1, shard.tokens_here(), shard.tokens}, 1);
    TensorId x = b.upcast("core.float", b.matmul("core.scores", query, key));
    x = b.mul("core.scale", x, number);
    const TensorId operands[] = {mask, x, number};
    x = b.binary("core.mask", "where", operands);
    x = b.low_precision("core.probabilities", b.softmax("core.softmax", x));
    if (layout.dropout) x = b.dropout("core.dropout", x);
    return b.matmul("core.context", x, value);
  }
  [[nodiscard]] AttentionAttributes core_attributes() const {
    return {.batch = shard.micro_batch,
            .heads = heads(),
            .kv_heads = kv_heads(),
            .queries = shard.tokens_here(),
            .keys = shard.tokens,
            .width = layout.width_of_head(),
            .causal = layout.causal,
            .value_width = layout.latent ? layout.latent->value_width : 0,
            .window = layout.mean_window(shard.tokens)};
  }
  TensorId flash_core(TensorId packed) const {
    return zoo_builders::attend_fused(b, "core", packed, core_attributes());
  }
  /// Queries, keys and values of a packed GEMM, as views.
  std::vector<TensorId> heads_of(TensorId packed) const {
    const std::int64_t width = layout.width_of_head();
    std::vector<TensorId> parts;
    for (const auto& [name, count] :
         {std::pair{"attn.query", heads()}, std::pair{"attn.key", kv_heads()},
          std::pair{"attn.value", kv_heads()}}) {
      parts.push_back(b.tensor(
          {.name = name, .shape = {shard.micro_batch, shard.tokens_here(), count, width}}));
    }
    b.graph().add_op({.name = "attn.heads",
                      .kind = OpKind::Split,
                      .inputs = {packed},
                      .outputs = parts,
                      .note = std::string(kViewNote)});
    return parts;
  }
  /// Rotary positions step by step, as where cosines and sines carry a factor, which fused kernels
  /// do not take: x cos + rotate_half(x) sin, and a copy that joins it to the channels that are not
  /// turned. Sources: Megatron-LM, core/models/common/embeddings/rope_utils.py,
  /// apply_rotary_pos_emb (mscale) and _apply_rotary_pos_emb_bshd.
  TensorId turned(const std::string& name, TensorId x) const {
    const auto table = [&](const char* part) {
      return b.tensor({.name = name + part,
                       .shape = {1, shard.tokens_here(), 1, layout.width_of_head()},
                       .role = TensorRole::Buffer});
    };
    const TensorId along = b.mul(name + ".rotary.cos", x, table(".cosine"));
    const TensorId half = b.activation(name + ".rotary.half", x, "rotate_half");
    const TensorId across = b.mul(name + ".rotary.sin", half, table(".sine"));
    return joined(name + ".rotary.join", b.add(name + ".rotary.add", along, across));
  }
  /// Where queries and keys go their own ways: normalised head by head, turned step by step. Rows
  /// of a head are short: a warp has each and adds up its weight's gradient on the way, so that
  /// either pass reads and writes once. Source: TransformerEngine, common/normalization/rmsnorm.
  TensorId core_of_parts(TensorId packed) const {
    std::vector<TensorId> parts = heads_of(packed);
    for (const auto& [name, x] :
         {std::pair{"attn.query", &parts[0]}, std::pair{"attn.key", &parts[1]}}) {
      const std::string part = name;
      if (layout.norms_heads) *x = b.activation(part + ".norm", *x, "rms_norm");
      if (layout.scales_rotation) {
        *x = turned(part, *x);
      } else if (layout.rotary) {
        *x = b.activation(part + ".rotary", *x, "rotary");
      }
    }
    return zoo_builders::attend_fused(b, "core", std::move(parts), core_attributes());
  }
  /// GEMMs down are whole on every rank, on its residual tokens; ranks gather what they give, and
  /// their GEMMs up are of their heads. One kernel turns queries and keys and writes keys of all
  /// heads beside their values. Sources: Megatron-LM, core/transformer/multi_latent_attention.py
  /// and core/fusions/fused_mla_yarn_rope_apply.py.
  TensorId latent_attention(const Gathered& x, const LatentHeads& a) const {
    TensorId query = x.all;
    if (a.query_rank > 0) {
      query = b.linear_layer("attn.q_down", x.here, a.query_rank, false);
      query = all_tokens("attn.q", norm("attn.q_norm", query));
    }
    query = b.linear_layer("attn.q_up", query, heads() * a.key_width(), false);
    const auto [latent, rope] = latent_and_rope(x.here, a);
    const TensorId kept = all_tokens("attn.kv", norm("attn.kv_norm", latent));
    const TensorId pair =
        b.linear_layer("attn.kv_up", kept, heads() * (a.nope_width + a.value_width), false);
    const TensorId packed = b.append(
        {.name = "attn.rotary",
         .kind = OpKind::Concat,
         .inputs = {query, pair, all_tokens("attn.rope", rope)}},
        {shard.micro_batch, shard.tokens_here(), heads() * (2 * a.key_width() + a.value_width)});
    return rows("attn.out", "attn", flash_core(packed), false);
  }
  struct LatentAndRope {
    TensorId latent, rope;
  };
  [[nodiscard]] LatentAndRope latent_and_rope(TensorId x, const LatentHeads& a) const {
    const TensorId down = b.linear_layer("attn.kv_down", x, a.kv_rank + a.rope_width, false);
    const std::int64_t tokens = b.shape(x)[1];
    const LatentAndRope parts{
        b.tensor({.name = "attn.latent", .shape = {shard.micro_batch, tokens, a.kv_rank}}),
        b.tensor({.name = "attn.rope", .shape = {shard.micro_batch, tokens, a.rope_width}})};
    b.graph().add_op({.name = "attn.kv_split",
                      .kind = OpKind::Split,
                      .inputs = {down},
                      .outputs = {parts.latent, parts.rope}});
    return parts;
  }
  TensorId attention(const Gathered& x) const {
    if (layout.latent) return latent_attention(x, *layout.latent);
    const std::int64_t width = layout.width_of_head();
    TensorId packed = columns("attn.qkv", x, (heads() + 2 * kv_heads()) * width, layout.biases);
    if ((layout.scales_rotation || layout.norms_heads) && shard.flash_attention) {
      return rows("attn.out", "attn", core_of_parts(packed), layout.biases);
    }
    if (layout.rotary) packed = b.activation("attn.rotary", packed, "rotary");
    const TensorId core = shard.flash_attention ? flash_core(packed) : unfused_core("attn", packed);
    return rows("attn.out", "attn", core, layout.biases);
  }
  TensorId feed_forward(const std::string& name, const Gathered& x, std::int64_t hidden,
                        bool biases) const {
    TensorId inner{};
    if (layout.gated && shard.separate_gate) {
      const TensorId gate = columns(name + ".gate", x, hidden, biases);
      const TensorId up = columns(name + ".up", x, hidden, biases);
      inner = b.mul(name + ".gemm", b.activation(name + ".silu", gate, "silu"), up);
    } else {
      inner =
          gated(name, columns(name + ".in", x, layout.gated ? 2 * hidden : hidden, biases), hidden);
    }
    return rows(name + ".out", name, inner, biases);
  }
  /// The feed-forward's activation, of two halves where it is gated.
  TensorId gated(const std::string& name, TensorId x, std::int64_t hidden) const {
    if (!layout.gated) return b.activation(name + ".gelu", x, "gelu");
    Shape shape = b.shape(x);
    shape.back() = hidden;
    return b.append({.name = name + ".gate",
                     .kind = OpKind::Activation,
                     .attributes = ElementwiseAttributes{.name = "silu"},
                     .inputs = {x}},
                    std::move(shape));
  }
  /// Probabilities of experts, tokens sorted by expert, one GEMM in and out per expert, tokens
  /// sorted back.
  TensorId experts(TensorId x) const {
    const ExpertLayout& e = *layout.experts;
    const Shape shape = b.shape(x);
    const std::int64_t tokens = shape[0] * shape[1];
    TensorId gates = b.softmax("router.softmax", b.linear_layer("router", x, e.count, false));
    const std::int64_t here = e.count / shard.expert;
    // Every rank sends its tokens out and gets as many for its own experts.
    const std::int64_t each = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(static_cast<double>(tokens * e.per_token * shard.expert) *
                                     e.capacity_factor / static_cast<double>(e.count)));
    TensorId sorted = b.append({.name = "experts.permute",
                                .kind = OpKind::Gather,
                                .attributes = ElementwiseAttributes{.name = "expand"},
                                .inputs = {x}},
                               {1, each * here, layout.width});
    sorted = grouped_feed_forward(sorted, gates, here, each);
    Op back{.name = "experts.unpermute",
            .kind = OpKind::Binary,
            .attributes = ElementwiseAttributes{.name = "combine"},
            .inputs = {sorted, gates}};
    TensorId y = b.append(std::move(back), shape);
    if (e.shared_feed_forward > 0) {
      const TensorId shared = feed_forward("shared", gathered("shared", x),
                                           e.shared_feed_forward / shard.tensor, false);
      y = b.add("experts.add_shared", y, shared);
    }
    return y;
  }
  /// Experts are divided among expert-parallel ranks, and each expert is whole.
  TensorId grouped_feed_forward(TensorId x, TensorId gates, std::int64_t count,
                                std::int64_t each) const {
    const std::int64_t hidden = layout.experts->feed_forward;
    const std::int64_t inner = layout.gated ? 2 * hidden : hidden;
    x = b.reshape("experts.view", x, {count, each, layout.width});
    x = b.matmul("experts.in", x, b.weight("experts.in.weight", {count, layout.width, inner}));
    if (layout.experts->clamped) x = clamped(x);
    Shape shape = b.shape(x);
    shape.back() = hidden;
    x = b.append({.name = "experts.act",
                  .kind = OpKind::Activation,
                  .attributes = ElementwiseAttributes{.name = layout.gated ? "silu" : "gelu"},
                  .inputs = {x}},
                 std::move(shape));
    x = b.matmul("experts.out", x, b.weight("experts.out.weight", {count, hidden, layout.width}));
    return layout.experts->biases ? with_weighted_bias(x, gates, count, each) : x;
  }
  /// Gate and feed-forward within their bounds: a pass over each half, and one that joins them.
  /// Source: Megatron-LM, core/fusions/fused_bias_geglu.py, weighted_bias_quick_geglu_impl.
  TensorId clamped(TensorId x) const {
    x = b.activation("experts.clamp", x, "clamp");
    return joined("experts.clamp.join", x);
  }
  /// A token's probability, which is fp32, times its expert's bias, added, the experts' results
  /// joined and cast back: t + b * p. The bias of the first GEMM is the GEMM's. Source:
  /// Megatron-LM, core/transformer/moe/experts.py, TEGroupedMLP._apply_bias.
  TensorId with_weighted_bias(TensorId x, TensorId gates, std::int64_t count,
                              std::int64_t each) const {
    const Shape shape = b.shape(x);
    const TensorId probabilities = b.tensor(
        {.name = "experts.bias.probabilities", .shape = {count, each, 1}, .is_wide = true});
    b.graph().add_op({.name = "experts.bias.sort",
                      .kind = OpKind::Reshape,
                      .inputs = {gates},
                      .outputs = {probabilities}});
    const TensorId bias = b.weight("experts.bias", {count, 1, shape.back()});
    x = b.add("experts.bias.add", x, b.mul("experts.bias.mul", probabilities, bias));
    return b.low_precision("experts.bias.cast", joined("experts.bias.join", x));
  }
  TensorId joined(const std::string& name, TensorId x) const {
    const TensorId parts[] = {x};
    return b.concat(name, parts, 0);
  }
  TensorId add_residual(const std::string& name, TensorId branch, TensorId x) const {
    if (layout.dropout) branch = b.dropout(name + ".dropout", branch);
    return b.add(name + ".add", branch, x);
  }
};

double residual_elements(const TransformerLayout& layout, const TransformerShard& shard) {
  return static_cast<double>(shard.micro_batch) * static_cast<double>(shard.tokens_here()) *
         static_cast<double>(layout.width);
}

constexpr std::string_view kInput = "input";

/// A source of gradients: a weight seen as an activation.
TensorId layer_input(GraphBuilder& b, Shape shape) {
  const TensorId source = b.weight(std::string(kInput), shape);
  return b.reshape("input.view", source, std::move(shape));
}

NetworkGraph with_frozen_weights(NetworkGraph graph, const TransformerShard& shard) {
  if (shard.adapters.any()) freeze_all_but_adapters(graph, kInput);
  return graph;
}

}  // namespace

std::int64_t padded_vocabulary(std::int64_t vocabulary, std::int64_t tensor) {
  const std::int64_t unit = 128 * tensor;
  return (vocabulary + unit - 1) / unit * unit;
}

NetworkGraph sharded_layer(const TransformerLayout& layout, const TransformerShard& shard,
                           bool with_experts) {
  check(layout, shard, with_experts);
  GraphBuilder b("layer", shard.micro_batch);
  const LayerBuilder l{b, layout, shard};
  TensorId x = layer_input(b, {shard.micro_batch, shard.residual_tokens(), layout.width});
  TensorId y = l.attention(l.gathered("attn", l.norm("norm1", x)));
  x = l.add_residual("attn", y, x);
  y = l.norm("norm2", x);
  if (with_experts) {
    y = l.experts(y);  // routes the tokens that a rank has
  } else {
    y = l.feed_forward("mlp", l.gathered("mlp", y), layout.feed_forward / shard.tensor,
                       layout.biases);
  }
  b.graph().outputs = {l.add_residual("mlp", y, x)};
  return with_frozen_weights(std::move(b).take(), shard);
}

NetworkGraph sharded_embedding(const TransformerLayout& layout, const TransformerShard& shard) {
  check(layout, shard, false);
  GraphBuilder b("embedding", shard.micro_batch);
  const std::int64_t tokens = shard.tokens_here();
  const TensorId ids = b.input("ids", {shard.micro_batch, tokens}, true);
  const std::int64_t rows = padded_vocabulary(layout.vocabulary, shard.tensor) / shard.tensor;
  TensorId x = b.embedding_layer("tokens", ids, rows, layout.width);
  const LayerBuilder l{b, layout, shard};
  if (layout.positions > 0) {
    const TensorId where = zoo_builders::integer_table(b, "position_ids", {1, tokens}, 8);
    const TensorId table = b.embedding_layer("positions", where, layout.positions, layout.width);
    x = b.add("add_positions", x, table);
  }
  x = l.residual_tokens("embedding", x);
  if (layout.dropout) x = b.dropout("embedding.dropout", x);
  b.graph().outputs = {x};
  return with_frozen_weights(std::move(b).take(), shard);
}

NetworkGraph sharded_head(const TransformerLayout& layout, const TransformerShard& shard) {
  GraphBuilder b("head", shard.micro_batch);
  const LayerBuilder l{b, layout, shard};
  TensorId x = layer_input(b, {shard.micro_batch, shard.residual_tokens(), layout.width});
  x = l.all_tokens("head", l.norm("last_norm", x));
  const std::int64_t columns = padded_vocabulary(layout.vocabulary, shard.tensor) / shard.tensor;
  b.graph().outputs = {b.linear_layer("logits", x, columns, false)};
  return with_frozen_weights(std::move(b).take(), shard);
}

ShardCollectives layer_collectives(const TransformerLayout& layout, const TransformerShard& shard,
                                   bool with_experts) {
  ShardCollectives result;
  const double whole = residual_elements(layout, shard);
  // Pairs of GEMMs of columns and rows; experts are whole, but for the shared ones.
  const int gemms = with_experts && layout.experts->shared_feed_forward == 0 ? 1 : 2;
  if (shard.tensor > 1) {
    for (int i = 0; i < gemms; ++i) {
      // What goes into the GEMMs of columns: of latent attention what its GEMMs down give.
      const double entering = i == 0 && layout.latent
                                  ? whole / static_cast<double>(layout.width) *
                                        static_cast<double>(layout.latent->ranks(layout.width))
                                  : whole;
      if (!shard.sequence_parallel) {
        result.forward.push_back({ShardGroup::Tensor, ShardCommunication::AllReduce, whole});
        result.backward.push_back({ShardGroup::Tensor, ShardCommunication::AllReduce, entering});
        continue;
      }
      result.forward.push_back({ShardGroup::Tensor, ShardCommunication::AllGather, entering});
      result.forward.push_back({ShardGroup::Tensor, ShardCommunication::ReduceScatter, whole});
      result.backward.push_back({ShardGroup::Tensor, ShardCommunication::AllGather, whole});
      if (!shard.adapters.any())
        result.backward.push_back({ShardGroup::Tensor, ShardCommunication::AllGather, entering});
      result.backward.push_back({ShardGroup::Tensor, ShardCommunication::ReduceScatter, entering});
    }
  }
  if (shard.tensor > 1 && shard.adapters.any()) {
    const double low_precision = static_cast<double>(shard.micro_batch) *
                                 static_cast<double>(shard.tokens_here()) *
                                 static_cast<double>(shard.adapters.rank);
    const bool all = shard.adapters.targets == AdapterTargets::Linear && !with_experts;
    for (int pair = 0; pair < (all ? 2 : 1); ++pair) {
      result.forward.push_back({ShardGroup::Tensor, ShardCommunication::AllReduce, low_precision});
      result.backward.push_back({ShardGroup::Tensor, ShardCommunication::AllReduce, low_precision});
    }
  }
  if (shard.context > 1) {
    const double keys =
        static_cast<double>(shard.micro_batch) * static_cast<double>(shard.tokens) *
        static_cast<double>(layout.width_of_head() + layout.width_of_value()) *
        static_cast<double>(std::max<std::int64_t>(1, layout.kv_heads / shard.tensor));
    result.forward.push_back({ShardGroup::Context, ShardCommunication::Ring, keys});
    result.backward.push_back({ShardGroup::Context, ShardCommunication::Ring, 2 * keys});
  }
  if (with_experts && shard.expert > 1) {
    const double sent =
        static_cast<double>(shard.micro_batch) * static_cast<double>(shard.residual_tokens()) *
        static_cast<double>(layout.width) * static_cast<double>(layout.experts->per_token);
    for (int i = 0; i < 2; ++i) {
      result.forward.push_back({ShardGroup::Expert, ShardCommunication::AllToAll, sent});
      result.backward.push_back({ShardGroup::Expert, ShardCommunication::AllToAll, sent});
    }
  }
  return result;
}

ShardCollectives embedding_collectives(const TransformerLayout& layout,
                                       const TransformerShard& shard) {
  ShardCollectives result;
  if (shard.tensor == 1) return result;
  const double whole = residual_elements(layout, shard);
  if (shard.sequence_parallel) {
    result.forward.push_back({ShardGroup::Tensor, ShardCommunication::ReduceScatter, whole});
    if (!shard.adapters.any())
      result.backward.push_back({ShardGroup::Tensor, ShardCommunication::AllGather, whole});
  } else {
    result.forward.push_back({ShardGroup::Tensor, ShardCommunication::AllReduce, whole});
  }
  return result;
}

ShardCollectives head_collectives(const TransformerLayout& layout, const TransformerShard& shard) {
  ShardCollectives result;
  if (shard.tensor == 1) return result;
  const double whole = residual_elements(layout, shard);
  const double rows =
      static_cast<double>(shard.micro_batch) * static_cast<double>(shard.tokens_here());
  if (shard.sequence_parallel) {
    result.forward.push_back({ShardGroup::Tensor, ShardCommunication::AllGather, whole});
    if (!shard.adapters.any())
      result.backward.push_back({ShardGroup::Tensor, ShardCommunication::AllGather, whole});
    result.backward.push_back({ShardGroup::Tensor, ShardCommunication::ReduceScatter, whole});
  } else {
    result.backward.push_back({ShardGroup::Tensor, ShardCommunication::AllReduce, whole});
  }
  // Maximum, the label's logit and the sum of exponentials of every token.
  for (int i = 0; i < 3; ++i) {
    result.forward.push_back({ShardGroup::Tensor, ShardCommunication::AllReduce, rows, true});
  }
  return result;
}

LossWork vocabulary_loss(LossKernels kernels, double rows, double columns, Precision format) {
  const double n = rows * columns;
  const Bytes low_precision = element_size(format) * n, wide = Bytes(4 * n), none{};
  const auto stream = [&](std::string_view name, Pass pass, Bytes read, Bytes written) {
    return lowering::stream_kernel(name, KernelClass::Softmax, pass, Precision::Fp32, read, written,
                                   n, 2);
  };
  const Pass forward = Pass::Forward, backward = Pass::Backward;
  switch (kernels) {
    case LossKernels::StepByStep:
      return {.forward = {stream("loss_cast", forward, low_precision, wide),
                          stream("loss_max", forward, wide, none),
                          stream("loss_subtract", forward, wide, wide),
                          stream("loss_exp", forward, wide, wide),
                          stream("loss_sum", forward, wide, none),
                          stream("loss_divide", forward, wide, wide)},
              .backward = {stream("loss_scale", backward, wide, wide),
                           stream("loss_cast", backward, wide, low_precision)}};
    case LossKernels::LogSoftmax:
      return {.forward = {stream("loss_cast", forward, low_precision, wide),
                          stream("log_softmax", forward, wide, wide)},
              .backward = {stream("label_grad", backward, none, wide),
                           stream("softmax_grad", backward, wide * 2.0, wide),
                           stream("loss_cast", backward, wide, low_precision)}};
    case LossKernels::Fused:
      break;
  }
  return {.forward = {stream("loss", forward, low_precision, none)},
          .backward = {stream("loss_grad", backward, low_precision, low_precision)}};
}

}  // namespace tracecast
