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
                            const MixtureOptions& options,
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

TensorId rms_norm(GraphBuilder& b, const std::string& name, TensorId x, TensorId constant) {
  constexpr std::array<std::int64_t, 1> kLast{-1};
  TensorId scale = b.activation(name + ".pow", x, "pow");
  scale = b.reduce(name + ".mean", scale, kLast, true, "mean");
  scale = b.add(name + ".epsilon", scale, constant);
  scale = b.activation(name + ".rsqrt", scale, "rsqrt");
  const TensorId weight = b.weight(name + ".weight", {b.shape(x).back()});
  return b.mul(name, b.mul(name + ".normalize", x, scale), weight);
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
  x = b.softmax(name + ".softmax", x);
  if (options.dropout) x = b.dropout(name + ".dropout", x);
  return b.matmul(name + ".context", x, value);
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
