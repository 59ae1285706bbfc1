#include <array>
#include <string>
#include <utility>

#include "models/language/graph_parts.hpp"
#include "models/zoo/parts/attention.hpp"

namespace tracecast::language {
namespace {

using zoo_builders::attend_fused;
using zoo_builders::from_heads;
using zoo_builders::Heads;
using zoo_builders::to_heads;

/// Each head of keys or values serves several heads of queries, by a copy.
TensorId repeat(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t heads) {
  if (b.shape(x)[1] == heads) return x;
  Shape shape = b.shape(x);
  shape[1] = heads;
  return b.append({.name = name + ".repeat_kv",
                   .kind = OpKind::Gather,
                   .attributes = ElementwiseAttributes{.name = "expand"},
                   .inputs = {x}},
                  std::move(shape));
}

/// Parts of the last dimension, one copy each, unless all their readers take them as they lie
/// (`note`); the shapes may have their axes swapped, as views of the parts have.
std::vector<TensorId> split(GraphBuilder& b, const std::string& name, TensorId x,
                            const std::vector<std::pair<std::string, Shape>>& parts,
                            std::string_view note = {}) {
  Op op{.name = name + ".split", .kind = OpKind::Split, .inputs = {x}, .note = std::string(note)};
  for (const auto& [part, shape] : parts) {
    op.outputs.push_back(b.tensor({.name = name + "." + part, .shape = shape}));
  }
  std::vector<TensorId> outputs = op.outputs;
  b.graph().add_op(std::move(op));
  return outputs;
}

/// Another order of axes or another grouping of the same values, without a copy.
TensorId view(GraphBuilder& b, const std::string& name, TensorId x, Shape shape) {
  return b.append({.name = name, .kind = OpKind::Reshape, .inputs = {x}}, std::move(shape));
}

/// Whether a layer's attention is one kernel. PyTorch's takes no sinks; transformers runs linear
/// positions without it.
bool is_fused(const GraphParts& parts, bool sinks) {
  if (parts.attention == AttentionKernels::Sparse) return true;
  return parts.attention == AttentionKernels::Fused && !sinks && !parts.alibi;
}

/// batch x heads x tokens x width: kernels of fused attention read heads in place, GEMMs want them
/// side by side.
TensorId heads_of(const GraphParts& parts, const std::string& name, TensorId x, const Heads& heads,
                  bool fused) {
  const Shape shape = parts.b.shape(x);
  if (!fused) return to_heads(parts.b, name, x, heads);
  return view(parts.b, name + ".view", x, {shape[0], heads.count, shape[1], heads.width});
}

struct QueriesKeysValues {
  TensorId query, key, value;      ///< batch x heads x tokens x width
  std::optional<TensorId> gate{};  ///< batch x tokens x heads * width
};

TensorId normed_heads(const GraphParts& parts, const std::string& name, TensorId x,
                      const Heads& heads, const GroupedQueryAttention& a) {
  GraphBuilder& b = parts.b;
  const bool fused = is_fused(parts, a.sinks);
  const bool before = a.head_norm != HeadNorm::None && a.head_norm_learned;
  if (!before) return heads_of(parts, name, x, heads, fused);
  if (a.head_norm == HeadNorm::OverAllHeads) {
    return heads_of(parts, name, norm(parts, name + ".norm", x), heads, fused);
  }
  const Shape shape = b.shape(x);
  x = b.reshape(name + ".view", x, {shape[0], shape[1], heads.count, heads.width});
  x = norm(parts, name + ".norm", x);
  if (fused) return view(b, name + ".heads", x, {shape[0], heads.count, shape[1], heads.width});
  constexpr std::array<std::int64_t, 4> kAxes{0, 2, 1, 3};
  return b.transpose(name + ".heads", x, kAxes);
}

/// Turned by their place, and normalised after it where norms have no weight (Llama 4).
TensorId placed(const GraphParts& parts, const std::string& name, TensorId x,
                const GroupedQueryAttention& a) {
  x = rotate(parts, name, x, a.rotary_width);
  const bool after = a.head_norm != HeadNorm::None && !a.head_norm_learned;
  return after ? root_mean_square(parts, name + ".norm", x, false) : x;
}

QueriesKeysValues by_one_gemm(const GraphParts& parts, const std::string& name, TensorId x,
                              const GroupedQueryAttention& a) {
  GraphBuilder& b = parts.b;
  const std::int64_t batch = b.shape(x)[0], tokens = b.shape(x)[1];
  const std::int64_t channels = (a.heads + 2 * a.kv_heads) * a.head_width;
  x = b.linear_layer(name + ".query_key_value", x, channels, a.input_biases);
  const Shape queries{batch, a.heads, tokens, a.head_width},
      others{batch, a.kv_heads, tokens, a.head_width};
  const std::vector<TensorId> part =
      split(b, name, x, {{"query", queries}, {"key", others}, {"value", others}},
            is_fused(parts, a.sinks) && a.rotary_width == 0 ? kViewNote : std::string_view());
  return {.query = placed(parts, name + ".query", part[0], a),
          .key = placed(parts, name + ".key", part[1], a),
          .value = part[2]};
}

QueriesKeysValues by_three_gemms(const GraphParts& parts, const std::string& name, TensorId x,
                                 const GroupedQueryAttention& a) {
  GraphBuilder& b = parts.b;
  const std::int64_t queries = a.heads * a.head_width, others = a.kv_heads * a.head_width;
  const Heads heads{a.heads, a.head_width}, shared{a.kv_heads, a.head_width};
  const bool bias = a.input_biases;
  TensorId query = b.linear_layer(name + ".q_proj", x, a.output_gate ? 2 * queries : queries, bias);
  std::optional<TensorId> key, value;
  if (!a.borrows_keys) {
    key = b.linear_layer(name + ".k_proj", x, others, bias);
    value = a.keys_are_values ? key : b.linear_layer(name + ".v_proj", x, others, bias);
  }
  std::optional<TensorId> gate;
  if (a.output_gate) {
    const Shape half{b.shape(x)[0], b.shape(x)[1], queries};
    const std::vector<TensorId> halves =
        split(b, name + ".q_proj", query, {{"query", half}, {"gate", half}});
    query = halves[0];
    gate = halves[1];
  }
  const TensorId turned =
      placed(parts, name + ".q_proj", normed_heads(parts, name + ".q_proj", query, heads, a), a);
  if (a.borrows_keys) {
    const auto& [made_key, made_value] = parts.made_keys.at(a.window > 0);
    return {.query = turned, .key = made_key, .value = made_value, .gate = gate};
  }
  const TensorId turned_key =
      placed(parts, name + ".k_proj", normed_heads(parts, name + ".k_proj", *key, shared, a), a);
  const TensorId values =
      heads_of(parts, name + ".v_proj", *value, shared, is_fused(parts, a.sinks));
  parts.made_keys.insert_or_assign(a.window > 0, std::pair{turned_key, values});
  return {.query = turned, .key = turned_key, .value = values, .gate = gate};
}

/// A score that no value belongs to stands beside each row while it is normalised.
TensorId softmax_with_sinks(GraphBuilder& b, const std::string& name, TensorId scores,
                            std::int64_t heads) {
  const Shape shape = b.shape(scores);
  TensorId sinks = b.weight(name + ".sinks", {heads});
  sinks = b.reshape(name + ".sinks.view", sinks, {1, heads, 1, 1});
  sinks = b.append({.name = name + ".sinks.expand",
                    .kind = OpKind::Gather,
                    .attributes = ElementwiseAttributes{.name = "expand"},
                    .inputs = {sinks}},
                   {shape[0], shape[1], shape[2], 1});
  const TensorId both[] = {scores, sinks};
  const TensorId all = b.softmax(name + ".softmax", b.concat(name + ".with_sinks", both, -1));
  return b.slice(name + ".without_sinks", all, shape);
}

struct Scoring {
  TensorId mask;
  bool mask_selects = false;
  bool sinks = false;
};

/// softmax(q k, masked) v, step by step; what Llama needs is the zoo's own `attend`.
TensorId attend(const GraphParts& parts, const std::string& name, TensorId query, TensorId key,
                TensorId value, const Scoring& scoring) {
  GraphBuilder& b = parts.b;
  if (!parts.alibi && !scoring.sinks) {
    return zoo_builders::attend(b, name, query, key, value,
                                {.scale = parts.constant,
                                 .mask = scoring.mask,
                                 .mask_selects = scoring.mask_selects,
                                 .wide_softmax = parts.casts_as_written},
                                true);
  }
  TensorId x = b.matmul(name + ".scores", query, key, false, true);
  x = parts.alibi ? b.add(name + ".alibi", x, *parts.alibi)
                  : b.mul(name + ".scale", x, parts.constant);
  x = b.add(name + ".mask", x, scoring.mask);
  x = scoring.sinks ? softmax_with_sinks(b, name, x, b.shape(query)[1])
                    : zoo_builders::softmax_in(b, name, x, parts.casts_as_written);
  return b.matmul(name + ".context", x, value);
}

/// Which keys a query may see by the indexer's scores: 1 or 0 per query and key, for all heads. No
/// gradient passes.
TensorId chosen_keys(const GraphParts& parts, const std::string& name, TensorId x, TensorId query,
                     const LatentAttention& a, TensorId mask) {
  GraphBuilder& b = parts.b;
  const SparseIndexer& i = *a.indexer;
  const std::int64_t batch = b.shape(x)[0], tokens = b.shape(x)[1];
  TensorId q = b.linear_layer(name + ".wq_b", query, i.heads * i.head_width, false);
  q = rotate(parts, name + ".wq_b", to_heads(b, name + ".wq_b", q, {i.heads, i.head_width}),
             a.rope_width);
  TensorId k =
      b.layer_norm_layer(name + ".k_norm", b.linear_layer(name + ".wk", x, i.head_width, false));
  k = b.reshape(name + ".wk.view", k, {batch, 1, tokens, i.head_width});
  k = rotate(parts, name + ".wk", k, a.rope_width);
  TensorId weights = b.linear_layer(name + ".weights_proj", x, i.heads, false);
  constexpr std::array<std::int64_t, 3> kAxes{0, 2, 1};
  weights = b.transpose(name + ".weights", weights, kAxes);
  weights = b.reshape(name + ".weights.view", weights, {batch, i.heads, tokens, 1});
  TensorId scores = b.matmul(name + ".scores", q, k, false, true);
  scores = b.mul(name + ".weigh", b.activation(name + ".relu", scores, "relu"), weights);
  constexpr std::array<std::int64_t, 1> kHeads{1};
  scores = b.add(name + ".mask", b.reduce(name + ".sum", scores, kHeads, true, "sum"), mask);
  const TensorId chosen = b.tensor({.name = name + ".chosen",
                                    .shape = {batch, 1, tokens, tokens},
                                    .is_integer = true,
                                    .integer_bytes = 1});
  b.graph().add_op(
      {.name = name + ".top_keys",
       .kind = OpKind::TopKeys,
       .attributes =
           TopKeysAttributes{.rows = batch * tokens, .cols = tokens, .chosen = i.top_keys},
       .inputs = {scores},
       .outputs = {chosen}});
  return chosen;
}

/// Whether transformers makes a mask for the window: it leaves the mask out where there are fewer
/// tokens than the window has (masking_utils.py, _ignore_causal_mask_sdpa: kv_length <
/// local_attention_size).
bool is_windowed(const GraphParts& parts, const GroupedQueryAttention& a) {
  return a.window > 0 && a.window <= parts.tokens;
}

/// Queries see keys up to their own, within a window or a block of the sequence where there is one.
TensorId fused_group_attention(const GraphParts& parts, const std::string& name,
                               const QueriesKeysValues& in, const GroupedQueryAttention& a) {
  GraphBuilder& b = parts.b;
  const std::int64_t window = a.window < parts.tokens ? a.window : 0;
  AttentionAttributes attributes{.batch = b.shape(in.query)[0],
                                 .heads = a.heads,
                                 .kv_heads = a.kv_heads,
                                 .queries = parts.tokens,
                                 .keys = parts.tokens,
                                 .width = a.head_width,
                                 .causal = true};
  // A mask goes with keys that stand there once per head; all scores are computed.
  if (is_windowed(parts, a) && parts.attention == AttentionKernels::Fused) {
    attributes.kv_heads = a.heads;
    attributes.causal = false;
    return attend_fused(
        b, name,
        {in.query, repeat(b, name + ".k_proj", in.key, a.heads),
         repeat(b, name + ".v_proj", in.value, a.heads), parts.mask(a.window, a.is_chunk)},
        attributes);
  }
  // Queries of a block see half of it on average.
  attributes.window = a.is_chunk ? window / 2 : window;
  std::vector<TensorId> inputs{in.query, in.key, in.value};
  if (a.sinks) inputs.push_back(b.weight(name + ".sinks", {a.heads}));
  return attend_fused(b, name, std::move(inputs), attributes);
}

/// PyTorch's own steps, every head of queries with keys of its own.
TensorId composed_group_attention(const GraphParts& parts, const std::string& name,
                                  const QueriesKeysValues& in, const GroupedQueryAttention& a) {
  GraphBuilder& b = parts.b;
  const TensorId y =
      zoo_builders::attend_composed(b, name, in.query, repeat(b, name + ".k_proj", in.key, a.heads),
                                    repeat(b, name + ".v_proj", in.value, a.heads),
                                    {.constant = parts.constant, .mask = parts.mask(0, false)});
  return from_heads(b, name, y);
}

/// Whether heads share keys and PyTorch's kernels do not take that
/// (NetworkCode::grouped_attention).
bool is_composed(const GraphParts& parts, const GroupedQueryAttention& a) {
  const bool masked = a.sinks || parts.alibi || is_windowed(parts, a);
  return parts.grouped_attention == AttentionKernels::Composed && a.kv_heads < a.heads && !masked;
}

TensorId group_attention_by_steps(const GraphParts& parts, const std::string& name,
                                  const QueriesKeysValues& in, const GroupedQueryAttention& a) {
  GraphBuilder& b = parts.b;
  const std::int64_t window = a.window < parts.tokens ? a.window : 0;
  const Scoring scoring{.mask = parts.mask(window, window > 0 && a.is_chunk), .sinks = a.sinks};
  const TensorId value = repeat(b, name + ".v_proj", in.value, a.heads);
  const TensorId key = repeat(b, name + ".k_proj", in.key, a.heads);
  return from_heads(b, name, attend(parts, name, in.query, key, value, scoring));
}

}  // namespace

TensorId mix(const GraphParts& parts, const std::string& name, TensorId x,
             const GroupedQueryAttention& a) {
  GraphBuilder& b = parts.b;
  const QueriesKeysValues in =
      a.packed ? by_one_gemm(parts, name, x, a) : by_three_gemms(parts, name, x, a);
  TensorId y = is_composed(parts, a)      ? composed_group_attention(parts, name, in, a)
               : is_fused(parts, a.sinks) ? fused_group_attention(parts, name, in, a)
                                          : group_attention_by_steps(parts, name, in, a);
  if (in.gate) {
    y = b.mul(name + ".gated", y, b.activation(name + ".gate.sigmoid", *in.gate, "sigmoid"));
  }
  return b.linear_layer(name + ".o_proj", y, parts.network.width, a.output_bias);
}

namespace {

/// What latent attention reads, from the layer's input.
struct Latents {
  TensorId low;                     ///< what queries and the indexer's queries come from
  TensorId query_nope, query_rope;  ///< batch x heads x tokens x width
  TensorId latent;                  ///< batch x tokens x kv_rank
  TensorId rope;                    ///< batch x 1 x tokens x rope_width, turned
};

Latents latents_of(const GraphParts& parts, const std::string& name, TensorId x,
                   const LatentAttention& a) {
  GraphBuilder& b = parts.b;
  const std::int64_t batch = b.shape(x)[0], tokens = b.shape(x)[1];
  TensorId low = x;
  if (a.query_rank > 0) {
    low = b.linear_layer(name + ".q_a_proj", x, a.query_rank, a.biases);
    low = root_mean_square(parts, name + ".q_a_layernorm", low);
  }
  const TensorId query =
      b.linear_layer(name + ".q_proj", low, a.heads * (a.nope_width + a.rope_width), false);
  const std::vector<TensorId> q = split(b, name + ".q_proj", query,
                                        {{"nope", {batch, a.heads, tokens, a.nope_width}},
                                         {"rope", {batch, a.heads, tokens, a.rope_width}}});
  const TensorId shared =
      b.linear_layer(name + ".kv_a_proj", x, a.kv_rank + a.rope_width, a.biases);
  const std::vector<TensorId> kept =
      split(b, name + ".kv_a_proj", shared,
            {{"latent", {batch, tokens, a.kv_rank}}, {"rope", {batch, 1, tokens, a.rope_width}}});
  return {.low = low,
          .query_nope = q[0],
          .query_rope = rotate(parts, name + ".q_proj", q[1], a.rope_width),
          .latent = root_mean_square(parts, name + ".kv_a_layernorm", kept[0]),
          .rope = rotate(parts, name + ".k_rope", kept[1], a.rope_width)};
}

/// A GEMM per head with a weight of its own: batch x heads x tokens x in to the same with `out`.
TensorId gemm_of_heads(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t out) {
  const Shape shape = b.shape(x);  // batch, heads, tokens, in
  const std::int64_t rows = shape[0] * shape[2];
  x = view(b, name + ".view", x, {shape[1], rows, shape[3]});
  x = b.matmul(name, x, b.weight(name + ".weight", {shape[1], shape[3], out}));
  return view(b, name + ".heads", x, {shape[0], shape[1], shape[2], out});
}

/// Each query reads the latents that it chose; GEMMs in and out of the latents' width stand for
/// those of keys and values (DeepSeek-V2, arXiv 2405.04434, section 2.1.2, absorbed).
TensorId attend_to_chosen(const GraphParts& parts, const std::string& name, TensorId x,
                          const Latents& in, const LatentAttention& a) {
  GraphBuilder& b = parts.b;
  const std::int64_t batch = b.shape(x)[0], tokens = b.shape(x)[1];
  const TensorId chosen = chosen_keys(parts, name + ".indexer", x, in.low, a, parts.mask(0, false));
  const TensorId absorbed = gemm_of_heads(b, name + ".k_b_proj", in.query_nope, a.kv_rank);
  const TensorId queries[] = {absorbed, in.query_rope};
  const TensorId keys[] = {view(b, name + ".latent.view", in.latent, {batch, 1, tokens, a.kv_rank}),
                           in.rope};
  const TensorId all_queries = b.concat(name + ".query", queries, -1);
  const TensorId all_keys = b.concat(name + ".key", keys, -1);
  TensorId y = attend_fused(b, name, {all_queries, all_keys, chosen},
                            {.batch = batch,
                             .heads = a.heads,
                             .kv_heads = 1,
                             .queries = tokens,
                             .keys = tokens,
                             .width = a.kv_rank + a.rope_width,
                             .causal = true,
                             .value_width = a.kv_rank,
                             .chosen = a.indexer->top_keys});
  y = view(b, name + ".context.view", y, {batch, a.heads, tokens, a.kv_rank});
  y = gemm_of_heads(b, name + ".v_b_proj", y, a.value_width);
  return view(b, name + ".merge", y, {batch, tokens, a.heads * a.value_width});
}

}  // namespace

// transformers 5, modeling_deepseek_v3.py and modeling_glm_moe_dsa.py: keys and values of all heads
// are written out.
TensorId mix(const GraphParts& parts, const std::string& name, TensorId x,
             const LatentAttention& a) {
  GraphBuilder& b = parts.b;
  const std::int64_t batch = b.shape(x)[0], tokens = b.shape(x)[1];
  const Latents in = latents_of(parts, name, x, a);
  const bool chooses = a.indexer && a.indexer->top_keys < tokens;
  if (parts.attention == AttentionKernels::Sparse && chooses) {
    const TensorId y = attend_to_chosen(parts, name, x, in, a);
    return b.linear_layer(name + ".o_proj", y, parts.network.width, a.biases);
  }
  const TensorId wide = b.linear_layer(name + ".kv_b_proj", in.latent,
                                       a.heads * (a.nope_width + a.value_width), false);
  const std::vector<TensorId> kv = split(b, name + ".kv_b_proj", wide,
                                         {{"nope", {batch, a.heads, tokens, a.nope_width}},
                                          {"value", {batch, a.heads, tokens, a.value_width}}});
  const TensorId queries[] = {in.query_nope, in.query_rope},
                 keys[] = {kv[0], repeat(b, name + ".k_rope", in.rope, a.heads)};
  const TensorId all_queries = b.concat(name + ".query", queries, -1);
  const TensorId all_keys = b.concat(name + ".key", keys, -1);
  std::optional<TensorId> chosen;
  if (a.indexer) {
    chosen = chosen_keys(parts, name + ".indexer", x, in.low, a, parts.mask(0, false));
  }
  TensorId y;
  if (is_fused(parts, false)) {
    std::vector<TensorId> inputs{all_queries, all_keys, kv[1]};
    if (chosen && chooses) inputs.push_back(*chosen);
    y = attend_fused(b, name, std::move(inputs),
                     {.batch = batch,
                      .heads = a.heads,
                      .kv_heads = a.heads,
                      .queries = tokens,
                      .keys = tokens,
                      .width = a.nope_width + a.rope_width,
                      .causal = !(chosen && chooses),
                      .value_width = a.value_width});
  } else {
    Scoring scoring{.mask = chosen.value_or(parts.mask(0, false)),
                    .mask_selects = chosen.has_value()};
    y = from_heads(b, name, attend(parts, name, all_queries, all_keys, kv[1], scoring));
  }
  return b.linear_layer(name + ".o_proj", y, parts.network.width, a.biases);
}

}  // namespace tracecast::language
