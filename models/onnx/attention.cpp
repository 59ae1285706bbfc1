// Attention as a standard operator (opset 23). Source of inputs and attributes: onnx,
// docs/Operators.md.
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/onnx/call.hpp"
#include "models/zoo/parts/attention.hpp"
#include "sim/base/error.hpp"

namespace tracecast::onnx {
namespace {

using zoo_builders::Heads;

constexpr std::size_t kMask = 3, kPastKey = 4, kPastValue = 5;

/// Heads of an input: of rank 4 its second dimension, of rank 3 what an attribute says.
Heads heads_of(const Call& call, std::size_t i, std::string_view attribute) {
  const Shape& x = call.shape(i);
  if (x.size() == 4) return {.count = x[1], .width = x[3]};
  const std::int64_t count = call.node.integer(attribute, 0);
  if (x.size() != 3 || count < 1 || x[2] % count != 0) {
    throw InputError(
        "input " + to_string(x), std::to_string(count) + " heads by " + std::string(attribute),
        "batch, heads, tokens, width; or batch, tokens and a width that the heads divide");
  }
  return {.count = count, .width = x[2] / count};
}

/// batch x heads x tokens x width, without a copy where the kernel reads heads in place.
TensorId as_heads(const Call& call, std::size_t i, const char* what, const Heads& heads,
                  bool fused) {
  const TensorId x = call.tensor(i);
  if (call.shape(i).size() == 4) return x;
  const std::string name = call.name() + what;
  return fused ? zoo_builders::view_heads(call.build(), name, x, heads)
               : zoo_builders::to_heads(call.build(), name, x, heads);
}

TensorId behind_past(const Call& call, std::size_t past, const char* what, TensorId now) {
  if (!call.has_input(past) || call.shape(past).size() != 4) return now;
  const TensorId parts[] = {call.tensor(past), now};
  return call.build().concat(call.name() + what, parts, 2);
}

/// A head of keys or values for each head of queries, by a copy.
TensorId repeated(const Call& call, const char* what, TensorId x, std::int64_t heads) {
  Shape shape = call.build().shape(x);
  if (shape[1] == heads) return x;
  shape[1] = heads;
  return call.build().append({.name = call.name() + what,
                              .kind = OpKind::Gather,
                              .attributes = ElementwiseAttributes{.name = "expand"},
                              .inputs = {x}},
                             std::move(shape));
}

/// Q, K, V, mask, past keys and values; results: y in Q's layout, keys and values with the past.
/// One kernel, or steps where the framework has none.
bool standard_attention(const Call& call) {
  if (call.wants_output(3)) return false;  // the scores, which a fused kernel does not have
  for (const std::size_t i : {0, 1, 2}) (void)call.input(i);
  const bool fused = call.run.attention() != AttentionKernels::Steps;
  const Heads queries = heads_of(call, 0, "q_num_heads"), keys = heads_of(call, 1, "kv_num_heads"),
              values = heads_of(call, 2, "kv_num_heads");
  if (keys.width != queries.width || keys.count != values.count ||
      queries.count % keys.count != 0) {
    throw InputError(
        "inputs",
        to_string(call.shape(0)) + ", " + to_string(call.shape(1)) + " and " +
            to_string(call.shape(2)),
        "keys as wide as queries, and heads of queries that share those of keys evenly");
  }
  GraphBuilder& b = call.build();
  const std::string& name = call.name();
  const TensorId query = as_heads(call, 0, ".query", queries, fused);
  const TensorId key = behind_past(call, kPastKey, ".keys", as_heads(call, 1, ".key", keys, fused));
  const TensorId value =
      behind_past(call, kPastValue, ".values", as_heads(call, 2, ".value", values, fused));
  if (call.wants_output(1)) call.set(1, key, kReal);
  if (call.wants_output(2)) call.set(2, value, kReal);
  if (call.node.real("softcap", 0) > 0) call.assume("the cap on scores is not counted");
  const Shape q = b.shape(query), k = b.shape(key);
  const bool causal = call.node.integer("is_causal", 0) != 0;
  if (!fused) {
    zoo_builders::ScoreOptions options{.scale = zoo_builders::scalar(b, name + ".scale_factor"),
                                       .scale_query = true};
    if (call.has_input(kMask)) options.mask = call.tensor(kMask);
    if (causal && !options.mask) options.mask = b.buffer(name + ".causal_mask", {1, 1, q[2], k[2]});
    const TensorId y =
        zoo_builders::attend(b, name, query, repeated(call, ".repeat_k", key, q[1]),
                             repeated(call, ".repeat_v", value, q[1]), options, true);
    call.set(0, call.shape(0).size() == 4 ? y : zoo_builders::from_heads(b, name, y), kReal);
    return true;
  }
  std::vector<TensorId> inputs{query, key, value};
  if (call.has_input(kMask)) inputs.push_back(call.tensor(kMask));
  // One query sees all that came before it: the kernel leaves nothing out.
  const TensorId y = zoo_builders::attend_fused(b, name, std::move(inputs),
                                                {.batch = q[0],
                                                 .heads = queries.count,
                                                 .kv_heads = keys.count,
                                                 .queries = q[2],
                                                 .keys = k[2],
                                                 .width = queries.width,
                                                 .causal = causal && q[2] == k[2],
                                                 .value_width = values.width});
  const Heads results{.count = queries.count, .width = values.width};
  call.set(0,
           call.shape(0).size() == 4 ? zoo_builders::view_heads(b, name + ".heads", y, results) : y,
           kReal);
  return true;
}

constexpr NamedHandler kAttentionHandlers[] = {{"Attention", standard_attention}};

}  // namespace

std::span<const NamedHandler> attention_handlers() { return kAttentionHandlers; }

}  // namespace tracecast::onnx
