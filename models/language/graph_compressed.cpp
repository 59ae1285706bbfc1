#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "models/language/graph_parts.hpp"
#include "models/zoo/parts/attention.hpp"

/// Attention to a window and to entries that stand for several tokens each, and residual streams.
/// Source: transformers 5, modeling_deepseek_v4.py (eager attention alone).
namespace tracecast::language {
namespace {

/// Tokens into entries of `rate` each: values times a softmax over the entry's tokens, summed.
/// batch x entries x kept.
TensorId compressed(const GraphParts& parts, const std::string& name, TensorId x, std::int64_t rate,
                    std::int64_t wide, std::int64_t kept) {
  GraphBuilder& b = parts.b;
  const std::int64_t batch = b.shape(x)[0], tokens = b.shape(x)[1], each = std::min(rate, tokens);
  const std::int64_t entries = tokens / each;  // tokens left over wait for their entry
  const Shape grid{batch, entries, each, wide};
  const auto grouped = [&](const std::string& part) {
    const TensorId y = b.linear_layer(name + part, x, wide, false);
    return b.reshape(name + part + ".view",
                     b.slice(name + part + ".whole", y, {batch, entries * each, wide}), grid);
  };
  const TensorId values = grouped(".kv_proj");
  const TensorId bias =
      b.slice(name + ".bias", b.weight(name + ".position_bias", {rate, wide}), {each, wide});
  const TensorId gate =
      b.softmax(name + ".softmax", b.add(name + ".add_bias", grouped(".gate_proj"), bias), 2);
  constexpr std::array<std::int64_t, 1> kThird{2};
  TensorId y = b.reduce(name + ".sum", b.mul(name + ".weigh", values, gate), kThird, false, "sum");
  if (wide > kept) {  // each entry reads the tokens of the one before, too
    y = b.reshape(name + ".series", y, {batch, entries, wide / kept, kept});
    y = b.reduce(name + ".both", y, kThird, false, "sum");
  }
  return root_mean_square(parts, name + ".kv_norm", y);
}

/// Which entries each query reads: batch x 1 x tokens x entries. No gradient passes.
TensorId chosen_entries(const GraphParts& parts, const std::string& name, TensorId x, TensorId low,
                        const CompressedAttention& a) {
  GraphBuilder& b = parts.b;
  const SparseIndexer& i = *a.indexer;
  const std::int64_t batch = b.shape(x)[0], tokens = b.shape(x)[1];
  TensorId keys = compressed(parts, name, x, a.rate, a.index_width(), i.head_width);
  const std::int64_t entries = b.shape(keys)[1];
  keys = b.reshape(name + ".keys", keys, {batch, 1, entries, i.head_width});
  TensorId q = b.linear_layer(name + ".q_b_proj", low, i.heads * i.head_width, false);
  q = zoo_builders::to_heads(b, name + ".q_b_proj", q, {i.heads, i.head_width});
  q = rotate(parts, name + ".q_b_proj", q, a.rotary_width);
  constexpr std::array<std::int64_t, 3> kAxes{0, 2, 1};
  TensorId weights = b.transpose(name + ".weights",
                                 b.linear_layer(name + ".weights_proj", x, i.heads, false), kAxes);
  weights = b.reshape(name + ".weights.view", weights, {batch, i.heads, tokens, 1});
  TensorId scores =
      b.activation(name + ".relu", b.matmul(name + ".scores", q, keys, false, true), "relu");
  constexpr std::array<std::int64_t, 1> kHeads{1};
  scores = b.reduce(name + ".sum_heads", b.mul(name + ".weigh_heads", scores, weights), kHeads,
                    true, "sum");
  const TensorId chosen = b.tensor({.name = name + ".chosen",
                                    .shape = {batch, 1, tokens, entries},
                                    .is_integer = true,
                                    .integer_bytes = 1});
  b.graph().add_op({.name = name + ".top_keys",
                    .kind = OpKind::TopKeys,
                    .attributes = TopKeysAttributes{.rows = batch * tokens,
                                                    .cols = entries,
                                                    .chosen = std::min(i.top_keys, entries)},
                    .inputs = {scores},
                    .outputs = {chosen}});
  return chosen;
}

}  // namespace

TensorId mix(const GraphParts& parts, const std::string& name, TensorId x,
             const CompressedAttention& a) {
  GraphBuilder& b = parts.b;
  const std::int64_t batch = b.shape(x)[0], tokens = b.shape(x)[1];
  const TensorId low = root_mean_square(parts, name + ".q_norm",
                                        b.linear_layer(name + ".q_a_proj", x, a.query_rank, false));
  TensorId query = b.linear_layer(name + ".q_b_proj", low, a.heads * a.head_width, false);
  query = zoo_builders::to_heads(b, name + ".q_b_proj", query, {a.heads, a.head_width});
  query = rotate(parts, name + ".q", root_mean_square(parts, name + ".q_head_norm", query, false),
                 a.rotary_width);
  TensorId keys = root_mean_square(parts, name + ".kv_norm",
                                   b.linear_layer(name + ".kv_proj", x, a.head_width, false));
  keys = b.reshape(name + ".kv.view", keys, {batch, 1, tokens, a.head_width});
  keys = rotate(parts, name + ".kv", keys, a.rotary_width);
  std::optional<TensorId> chosen;
  if (a.rate > 0) {
    TensorId entries =
        compressed(parts, name + ".compressor", x, a.rate, a.entry_width(), a.head_width);
    entries = b.reshape(name + ".compressor.view", entries,
                        {batch, 1, b.shape(entries)[1], a.head_width});
    if (a.indexer) chosen = chosen_entries(parts, name + ".indexer", x, low, a);
    const TensorId both[] = {keys, entries};
    keys = b.concat(name + ".all_keys", both, 2);
  }
  const std::int64_t count = b.shape(keys)[2];
  const TensorId repeated = b.append({.name = name + ".repeat_kv",
                                      .kind = OpKind::Gather,
                                      .attributes = ElementwiseAttributes{.name = "expand"},
                                      .inputs = {keys}},
                                     {batch, a.heads, count, a.head_width});
  TensorId scores = b.mul(name + ".scale", b.matmul(name + ".scores", query, repeated, false, true),
                          parts.constant);
  // Entries have no place in the mask of the window.
  const TensorId mask = parts.mask(std::min(a.window, tokens), false);
  std::vector<TensorId> hidden{scores, mask};
  if (chosen) hidden.push_back(*chosen);
  scores = b.append({.name = name + ".mask",
                     .kind = OpKind::Binary,
                     .attributes = ElementwiseAttributes{.name = "add"},
                     .inputs = std::move(hidden)},
                    b.shape(scores));
  TensorId sinks =
      b.reshape(name + ".sinks.view", b.weight(name + ".sinks", {a.heads}), {1, a.heads, 1, 1});
  sinks = b.append({.name = name + ".sinks.expand",
                    .kind = OpKind::Gather,
                    .attributes = ElementwiseAttributes{.name = "expand"},
                    .inputs = {sinks}},
                   {batch, a.heads, tokens, 1});
  const Shape shape = b.shape(scores);
  const TensorId with[] = {scores, sinks};
  TensorId y = b.softmax(name + ".softmax", b.concat(name + ".with_sinks", with, -1));
  y = b.matmul(name + ".context", b.slice(name + ".without_sinks", y, shape), repeated);
  y = zoo_builders::from_heads(b, name, rotate(parts, name + ".context", y, a.rotary_width));
  // Groups of heads by matrices of their own.
  const std::int64_t wide = a.heads * a.head_width / a.output_groups, rows = batch * tokens;
  constexpr std::array<std::int64_t, 3> kGroupsFirst{1, 0, 2};
  y = b.transpose(name + ".groups",
                  b.reshape(name + ".groups.view", y, {rows, a.output_groups, wide}), kGroupsFirst);
  y = b.matmul(name + ".o_a_proj", y,
               b.weight(name + ".o_a_proj.weight", {a.output_groups, wide, a.output_rank}));
  y = b.transpose(name + ".groups_back", y, kGroupsFirst);
  y = b.reshape(name + ".groups.merge", y, {batch, tokens, a.output_groups * a.output_rank});
  return b.linear_layer(name + ".o_b_proj", y, parts.network.width, false);
}

StreamWeights stream_weights(const GraphParts& parts, const std::string& name, TensorId streams) {
  GraphBuilder& b = parts.b;
  const std::int64_t n = parts.network.streams, mixed = (2 + n) * n;
  const TensorId flat = root_mean_square(parts, name + ".input_norm", streams, false);
  TensorId weights =
      b.linear(name + ".fn", flat, b.weight(name + ".fn.weight", {mixed, b.shape(flat).back()}),
               b.weight(name + ".base", {mixed}));
  weights = b.append({.name = name + ".scaled",
                      .kind = OpKind::Binary,
                      .attributes = ElementwiseAttributes{.name = "mul"},
                      .inputs = {weights, b.weight(name + ".scale", {3})}},
                     b.shape(weights));
  const TensorId read[] = {weights};
  b.routine(name + ".mixing", read, {.ops = std::max<std::int64_t>(parts.network.mixing_ops, 1)});
  Shape one = b.shape(streams);
  one.back() = parts.network.width;
  return {weights, b.append({.name = name + ".collapse",
                             .kind = OpKind::Binary,
                             .attributes = ElementwiseAttributes{.name = "combine"},
                             .inputs = {streams, weights}},
                            std::move(one))};
}

TensorId joined_streams(const GraphParts& parts, const std::string& name, TensorId streams,
                        TensorId y, TensorId weights) {
  return parts.b.append({.name = name + ".join",
                         .kind = OpKind::Binary,
                         .attributes = ElementwiseAttributes{.name = "combine"},
                         .inputs = {streams, y, weights}},
                        parts.b.shape(streams));
}

TensorId last_stream(const GraphParts& parts, TensorId streams) {
  GraphBuilder& b = parts.b;
  const std::int64_t n = parts.network.streams;
  const TensorId flat = root_mean_square(parts, "hc_head.input_norm", streams, false);
  TensorId weights =
      b.linear("hc_head.fn", flat, b.weight("hc_head.fn.weight", {n, b.shape(flat).back()}),
               b.weight("hc_head.base", {n}));
  weights = b.mul("hc_head.scaled", weights, b.weight("hc_head.scale", {1}));
  Shape one = b.shape(streams);
  one.back() = parts.network.width;
  return b.append({.name = "hc_head.collapse",
                   .kind = OpKind::Binary,
                   .attributes = ElementwiseAttributes{.name = "combine"},
                   .inputs = {streams, weights}},
                  std::move(one));
}

}  // namespace tracecast::language
