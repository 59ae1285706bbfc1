#include "models/zoo/parts/attention.hpp"

#include <array>
#include <cstdint>
#include <utility>

namespace tracecast::zoo_builders {
namespace {

TensorId permuted_heads(GraphBuilder& b, const std::string& name, TensorId x, const Heads& heads,
                        const std::array<std::int64_t, 4>& axes) {
  const Shape shape = b.shape(x);
  x = b.reshape(name + ".view", x, {shape[0], shape[1], heads.count, heads.width});
  return b.transpose(name + ".heads", x, axes);
}

/// Beside its result, `result`, the kernel keeps a statistic per head and query.
TensorId attend_in_one(GraphBuilder& b, const std::string& name, const std::string& result,
                       std::vector<TensorId> inputs, const AttentionAttributes& a) {
  Op op{.name = name + ".attention",
        .kind = OpKind::Attention,
        .attributes = a,
        .inputs = std::move(inputs)};
  const TensorId y =
      b.tensor({.name = result, .shape = {a.batch, a.queries, a.heads * a.width_of_values()}});
  op.outputs = {y,
                b.tensor({.name = name + ".statistics", .shape = {a.batch, a.heads, a.queries}})};
  b.graph().add_op(std::move(op));
  return y;
}

}  // namespace

TensorId scalar(GraphBuilder& b, const std::string& name) { return b.buffer(name, {}); }

TensorId integer_table(GraphBuilder& b, const std::string& name, Shape shape, int bytes) {
  return b.tensor({.name = name,
                   .shape = std::move(shape),
                   .role = TensorRole::Buffer,
                   .is_integer = true,
                   .integer_bytes = bytes});
}

TensorId to_heads(GraphBuilder& b, const std::string& name, TensorId x, const Heads& heads) {
  return permuted_heads(b, name, x, heads, {0, 2, 1, 3});
}

TensorId to_key_heads(GraphBuilder& b, const std::string& name, TensorId x, const Heads& heads) {
  return permuted_heads(b, name, x, heads, {0, 2, 3, 1});
}

std::array<TensorId, 3> split_heads(GraphBuilder& b, const std::string& name, TensorId x,
                                    const Heads& heads) {
  const Shape shape = b.shape(x), part = {shape[0], heads.count, shape[1], heads.width};
  const std::array<TensorId, 3> parts = {b.tensor({.name = name + ".query", .shape = part}),
                                         b.tensor({.name = name + ".key", .shape = part}),
                                         b.tensor({.name = name + ".value", .shape = part})};
  b.graph().add_op({.name = name + ".split",
                    .kind = OpKind::Split,
                    .inputs = {x},
                    .outputs = {parts.begin(), parts.end()}});
  return parts;
}

TensorId from_heads(GraphBuilder& b, const std::string& name, TensorId x) {
  const Shape shape = b.shape(x);
  constexpr std::array<std::int64_t, 4> kAxes{0, 2, 1, 3};
  x = b.transpose(name + ".tokens", x, kAxes);
  return b.reshape(name + ".merge", x, {shape[0], shape[2], shape[1] * shape[3]});
}

TensorId mixture_of_experts(GraphBuilder& b, const std::string& name, TensorId x,
                            const MoeOptions& options,
                            const std::function<TensorId(const std::string&, TensorId)>& expert) {
  const Shape shape = b.shape(x);
  TensorId scores = b.linear_layer(name + ".router", x, options.experts, false);
  scores = b.softmax(name + ".softmax", scores);
  const auto routing = b.route(name + ".route", scores, options.capacity, options.per_token);
  const TensorId tokens = b.reshape(name + ".tokens", x, {shape[0] * shape[1], shape[2]});
  TensorId y = b.slice(name + ".clone", tokens, b.shape(tokens));
  for (std::size_t i = 0; i < routing.tokens.size(); ++i) {
    const std::string part = name + ".expert_" + std::to_string(i);
    const TensorId picked = b.gather(part + ".pick", tokens, routing.tokens[i], 0);
    y = b.scatter_rows(part + ".put", y, routing.tokens[i], expert(part, picked));
  }
  return b.mul(name + ".gate", b.reshape(name + ".sequences", y, shape), routing.gate);
}

TensorId gelu_by_tanh(GraphBuilder& b, const std::string& name, TensorId x, TensorId constant) {
  const TensorId half = b.mul(name + ".half", x, constant);
  TensorId inner = b.activation(name + ".pow", x, "pow");
  inner = b.mul(name + ".cubic", inner, constant);
  inner = b.add(name + ".inner", x, inner);
  inner = b.mul(name + ".scale", inner, constant);
  inner = b.activation(name + ".tanh", inner, "tanh");
  inner = b.add(name + ".add_one", inner, constant);
  return b.mul(name + ".mul", half, inner);
}

TensorId rms_scaled(GraphBuilder& b, const std::string& name, const std::string& result, TensorId x,
                    TensorId constant, WideNorm wide) {
  constexpr std::array<std::int64_t, 1> kLast{-1};
  const TensorId squared = wide == WideNorm::None ? x : b.upcast(name + ".float", x);
  TensorId scale = b.activation(name + ".pow", squared, "pow");
  scale = b.reduce(name + ".mean", scale, kLast, true, "mean");
  scale = b.add(name + ".epsilon", scale, constant);
  scale = b.activation(name + ".rsqrt", scale, "rsqrt");
  if (wide == WideNorm::None) return b.mul(result, x, scale);
  const TensorId y = b.mul(name + ".scaled", wide == WideNorm::All ? squared : x, scale);
  return b.low_precision(result, y);
}

TensorId rms_norm(GraphBuilder& b, const std::string& name, TensorId x, TensorId constant,
                  WideNorm wide) {
  const TensorId y = rms_scaled(b, name, name + ".normalize", x, constant, wide);
  return b.mul(name, y, b.weight(name + ".weight", {b.shape(x).back()}));
}

TensorId loss_logits(GraphBuilder& b, TensorId logits, bool training, bool casts) {
  return training && casts ? b.upcast("logits.float", logits) : logits;
}

TensorId softmax_in(GraphBuilder& b, const std::string& name, TensorId x, bool wide) {
  if (!wide) return b.softmax(name + ".softmax", x);
  x = b.softmax(name + ".softmax", b.upcast(name + ".float", x));
  return b.low_precision(name + ".probabilities", x);
}

TensorId attend(GraphBuilder& b, const std::string& name, TensorId query, TensorId key,
                TensorId value, const ScoreOptions& options, bool transpose_key) {
  TensorId x = b.matmul(name + ".scores", query, key, false, transpose_key);
  if (!options.scale_query) x = b.mul(name + ".scale", x, options.scale);
  if (options.mask && options.mask_selects) {
    const TensorId operands[] = {*options.mask, x, options.scale};
    x = b.binary(name + ".mask", "where", operands);
  } else if (options.mask) {
    x = b.add(name + ".mask", x, *options.mask);
  }
  x = softmax_in(b, name, x, options.wide_softmax);
  if (options.dropout) x = b.dropout(name + ".dropout", x);
  return b.matmul(name + ".context", x, value);
}

TensorId view_heads(GraphBuilder& b, const std::string& name, TensorId x, const Heads& heads) {
  const Shape shape = b.shape(x);
  return b.append({.name = name + ".view", .kind = OpKind::Reshape, .inputs = {x}},
                  {shape[0], heads.count, shape[1], heads.width});
}

TensorId attend_composed(GraphBuilder& b, const std::string& name, TensorId query, TensorId key,
                         TensorId value, const ComposedOptions& options) {
  const auto operand = [&](const std::string& part, TensorId x, bool scaled) {
    if (options.upcasts) x = b.upcast(name + part + ".float", x);
    if (scaled) x = b.mul(name + part + ".scale", x, options.constant);
    return b.slice(name + part + ".contiguous", x, b.shape(x));
  };
  TensorId x = b.matmul(name + ".scores", operand(".query", query, true),
                        operand(".key", key, true), false, true);
  const TensorId scores = b.add(name + ".mask", x, options.mask, true);
  x = b.softmax(name + ".softmax", scores);
  Shape rows = b.shape(scores);
  const std::int64_t keys = rows.back();
  rows.back() = 1;
  const auto flags = [&](const char* of, Shape shape) {
    return b.tensor(
        {.name = name + of, .shape = std::move(shape), .is_integer = true, .integer_bytes = 1});
  };
  const TensorId hidden = flags(".hidden", b.shape(scores)), empty = flags(".empty", rows);
  b.graph().add_op({.name = name + ".hidden",
                    .kind = OpKind::Activation,
                    .attributes = ElementwiseAttributes{.name = "eq"},
                    .inputs = {scores},
                    .outputs = {hidden}});
  b.graph().add_op({.name = name + ".empty",
                    .kind = OpKind::Reduce,
                    .attributes = ReduceAttributes{.rows = element_count(rows), .cols = keys},
                    .inputs = {hidden},
                    .outputs = {empty},
                    .note = "all"});
  // "add" for where(empty, 0, x): the same bytes, and the gradient passes unchanged.
  x = b.add(name + ".safe", x, empty);
  if (options.dropout) x = b.dropout(name + ".dropout", x);
  TensorId y = b.matmul(name + ".context", x, operand(".value", value, false));
  if (!options.upcasts) return y;
  (void)b.low_precision(name + ".weights", x);  // given back, read by nobody
  return b.low_precision(name + ".low_precision", y);
}

TensorId attend_fused(GraphBuilder& b, const std::string& name, TensorId packed,
                      const AttentionAttributes& attributes) {
  return attend_in_one(b, name, name, {packed}, attributes);
}

TensorId attend_fused(GraphBuilder& b, const std::string& name,
                      std::vector<TensorId> query_key_value,
                      const AttentionAttributes& attributes) {
  return attend_in_one(b, name, name + ".context", std::move(query_key_value), attributes);
}

}  // namespace tracecast::zoo_builders
