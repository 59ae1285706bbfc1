// Operators of ONNX Runtime (domain com.microsoft) that its graph optimisers write in place of
// several standard ones. Source of inputs and attributes: onnxruntime, docs/ContribOperators.md.
// Each becomes the standard ops it stands for, so that the framework asked for decides what is one
// kernel.
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/onnx/call.hpp"
#include "models/onnx/layers.hpp"
#include "models/zoo/parts/attention.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast::onnx {
namespace {

using Use = Interpreter::Use;
using zoo_builders::Heads;

/// A GEMM with operands transposed by attributes.
bool fused_matmul(const Call& call) {
  const bool transpose_a = call.node.integer("transA", 0) != 0;
  const bool transpose_b = call.node.integer("transB", 0) != 0;
  if (call.node.integer("transBatchA", 0) != 0 || call.node.integer("transBatchB", 0) != 0) {
    return false;
  }
  if (!transpose_a && !transpose_b) return matmul_from(call, {.x = 0, .weight = 1});
  const Value& b = call.input(1);
  GraphBuilder& build = call.build();
  if (b.is_constant() && b.shape.size() == 2 && !transpose_a) {
    call.set(0, build.linear(call.name(), call.tensor(0), call.parameter(1), {}), kReal);
  } else {
    call.set(0, build.matmul(call.name(), call.tensor(0), call.tensor(1), transpose_a, transpose_b),
             kReal);
  }
  return true;
}

/// The function that an attribute names, applied to the first output.
bool activate(const Call& call) {
  const std::string function = to_lower(call.node.text("activation", ""));
  if (function.empty()) return true;
  const TensorId y = *call.run.value(call.node.outputs[0]).tensor;
  call.set(0, call.build().activation(call.name() + "." + function, y, function), kReal);
  return true;
}
bool fused_gemm(const Call& call) {
  return gemm_from(call, {.x = 0, .weight = 1, .bias = 2}) && activate(call);
}
bool fused_conv(const Call& call) {
  if (!conv_from(call, {.x = 0, .weight = 1, .bias = 2})) return false;
  if (call.has_input(3)) {
    const TensorId y = *call.run.value(call.node.outputs[0]).tensor;
    call.set(0, call.build().add(call.name() + ".add", y, call.tensor(3)), kReal);
  }
  return activate(call);
}

/// Gelu, with a bias added first where there is a second input.
bool gelu(const Call& call) {
  TensorId x = call.tensor(0);
  if (call.has_input(1)) x = call.build().add(call.name() + ".bias", x, call.parameter(1));
  call.set(0, call.build().activation(call.name(), x, "gelu"), kReal);
  return true;
}

/// x, bias, skip: their sum.
bool sum(const Call& call) {
  std::vector<TensorId> terms = {call.tensor(0), call.parameter(1)};
  if (call.has_input(2)) terms.push_back(call.tensor(2));
  call.set(0, call.build().binary(call.name(), "add", terms), kReal);
  return true;
}

struct NormInputs {
  std::size_t scale, shift, bias;
};

/// Layer norm (or, without a shift, RMS norm) of input + skip [+ bias]; output 3 is that sum.
bool skip_norm(const Call& call, const NormInputs& at) {
  if (call.wants_output(1) || call.wants_output(2)) return false;
  GraphBuilder& build = call.build();
  std::vector<TensorId> terms = {call.tensor(0), call.tensor(1)};
  if (call.has_input(at.bias)) terms.push_back(call.parameter(at.bias));
  const TensorId sum = build.binary(call.name() + ".sum", "add", terms);
  const auto shift = at.shift > 0 ? call.optional_parameter(at.shift) : std::nullopt;
  call.set(0, build.layer_norm(call.name(), sum, -1, call.parameter(at.scale), shift), kReal);
  if (call.wants_output(3)) call.set(3, sum, kReal);
  return true;
}
bool skip_layer_norm(const Call& call) {
  return skip_norm(call, {.scale = 2, .shift = 3, .bias = 4});
}
bool skip_rms_norm(const Call& call) {
  return skip_norm(call, {.scale = 2, .shift = 0, .bias = 3});
}
bool rms_norm(const Call& call) {
  if (call.wants_output(1)) return false;
  call.set(0,
           call.build().layer_norm(call.name(), call.tensor(0), call.node.integer("axis", -1),
                                   call.parameter(1), {}),
           kReal);
  return true;
}

/// Ids, segments, tables of words, positions and segments, scale and shift of the norm. Outputs:
/// the norm, lengths, the sum before it.
bool embed_layer_norm(const Call& call) {
  const Shape ids = call.shape(0);
  const Shape positions = call.shape(3);
  if (ids.size() != 2 || positions.size() != 2 || call.wants_output(1)) return false;
  if (positions[0] < ids[1]) {
    throw InputError(
        "ids " + to_string(ids), std::to_string(ids[1]) + " tokens",
        "at most " + std::to_string(positions[0]) + ", as many as there are positions");
  }
  GraphBuilder& build = call.build();
  const std::string& name = call.name();
  std::vector<TensorId> terms = {
      build.embedding(name + ".words", call.tensor(0), call.parameter(2)),
      build.slice(name + ".positions", call.parameter(3), {ids[1], positions[1]})};
  if (call.has_input(1) && call.has_input(4)) {
    terms.push_back(build.embedding(name + ".segments", call.tensor(1), call.parameter(4)));
  }
  const TensorId sum = build.binary(name + ".sum", "add", terms);
  call.set(0, build.layer_norm(name, sum, -1, call.parameter(5), call.optional_parameter(6)),
           kReal);
  if (call.wants_output(2)) call.set(2, sum, kReal);
  return true;
}

/// Queries, keys and values as batch x tokens x width, and what an earlier step left.
struct AttentionOperands {
  TensorId query, key, value;
  std::optional<TensorId> past_key{}, past_value{};  ///< batch x heads x tokens x width of a head
};

TensorId joined(const Call& call, const char* what, std::optional<TensorId> past, TensorId now) {
  if (!past) return now;
  const TensorId parts[] = {*past, now};
  return call.build().concat(call.name() + what, parts, 2);
}

/// Keys and values with those of earlier steps in front, batch x heads x tokens x width of a head.
struct Cache {
  TensorId key, value;
};

Cache set_attention(const Call& call, const AttentionOperands& operands) {
  GraphBuilder& build = call.build();
  const std::string& name = call.name();
  const std::int64_t heads = call.node.integer("num_heads", 1);
  const auto split = [&](const char* what, TensorId x) {
    const Shape& shape = build.shape(x);
    if (shape.size() != 3 || heads < 1 || shape[2] % heads != 0) {
      throw InputError("input " + to_string(shape), std::to_string(heads) + " heads",
                       "batch, tokens and a width that the heads divide");
    }
    const Heads form{.count = heads, .width = shape[2] / heads};
    return zoo_builders::to_heads(build, name + what, x, form);
  };
  const TensorId query = split(".query", operands.query);
  const Cache cache{joined(call, ".keys", operands.past_key, split(".key", operands.key)),
                    joined(call, ".values", operands.past_value, split(".value", operands.value))};
  const TensorId y = zoo_builders::attend(
      build, name, query, cache.key, cache.value,
      {.scale = zoo_builders::scalar(build, name + ".scale_factor"), .scale_query = true}, true);
  call.set(0, zoo_builders::from_heads(build, name, y), kReal);
  return cache;
}

/// Input, weights of queries, keys and values side by side, bias, mask, past: batch x tokens x
/// width. The mask's addition and the scale are inside the softmax's kernel.
bool attention_of(const Call& call, std::size_t past_at) {
  const Shape x = call.shape(0), weight = call.shape(1);
  if (x.size() != 3 || weight.size() != 2) {
    throw InputError("inputs", to_string(x) + " and " + to_string(weight),
                     "batch, tokens, width and a matrix");
  }
  std::vector<std::int64_t> sizes = call.node.integers("qkv_hidden_sizes");
  if (sizes.size() != 3) sizes.assign(3, weight[1] / 3);
  GraphBuilder& build = call.build();
  const std::string& name = call.name();
  const TensorId packed =
      build.linear(name + ".qkv", call.tensor(0), call.parameter(1), call.optional_parameter(2),
                   GraphBuilder::WeightLayout::InOut);
  const std::vector<TensorId> parts = build.split(name + ".parts", packed, -1, sizes);
  AttentionOperands operands{.query = parts[0], .key = parts[1], .value = parts[2]};
  if (call.has_input(past_at) && call.shape(past_at).size() == 5) {
    const Shape past = call.shape(past_at);  // 2, batch, heads, tokens, width of a head
    const std::int64_t halves[] = {1, 1};
    const std::vector<TensorId> both = build.split(name + ".past", call.tensor(past_at), 0, halves);
    const Shape one(past.begin() + 1, past.end());
    operands.past_key = build.reshape(name + ".past_key", both.at(0), one);
    operands.past_value = build.reshape(name + ".past_value", both.at(1), one);
  }
  const Cache cache = set_attention(call, operands);
  if (call.wants_output(1)) {
    Shape one = build.shape(cache.key);
    one.insert(one.begin(), 1);
    const TensorId both[] = {build.reshape(name + ".present_key", cache.key, one),
                             build.reshape(name + ".present_value", cache.value, one)};
    call.set(1, build.concat(name + ".present", both, 0), kReal);
  }
  return true;
}
bool attention(const Call& call) { return attention_of(call, 4); }
/// Scales of input and weights before the mask and the past.
bool quantized_attention(const Call& call) { return attention_of(call, 8); }

/// Queries, keys, values, bias of the three, masks, past keys and values.
bool multi_head_attention(const Call& call) {
  if (!call.has_input(1) || !call.has_input(2) || call.shape(0).size() != 3 ||
      call.shape(1).size() != 3 || call.shape(2).size() != 3) {
    return false;  // packed
  }
  GraphBuilder& build = call.build();
  AttentionOperands operands{
      .query = call.tensor(0), .key = call.tensor(1), .value = call.tensor(2)};
  if (call.has_input(3)) {
    const TensorId bias = call.parameter(3);
    const std::array<std::pair<TensorId*, const char*>, 3> all{{{&operands.query, ".query_bias"},
                                                                {&operands.key, ".key_bias"},
                                                                {&operands.value, ".value_bias"}}};
    for (const auto& [operand, what] : all) {
      const std::string name = call.name() + what;
      const TensorId part = build.slice(name + "_part", bias, {build.shape(*operand).back()});
      *operand = build.add(name, *operand, part);
    }
  }
  if (call.has_input(6)) operands.past_key = call.tensor(6);
  if (call.has_input(7)) operands.past_value = call.tensor(7);
  const Cache cache = set_attention(call, operands);
  if (call.wants_output(1)) call.set(1, cache.key, kReal);
  if (call.wants_output(2)) call.set(2, cache.value, kReal);
  return true;
}

/// Attention whose query heads share heads of keys and values, one kernel: queries, keys, values
/// (or the three packed in the first), past keys and values, lengths.
bool group_query_attention(const Call& call) {
  const Shape x = call.shape(0);
  const std::int64_t heads = call.node.integer("num_heads", 1);
  const std::int64_t kv_heads = call.node.integer("kv_num_heads", 1);
  const bool is_packed = !call.has_input(1);
  constexpr std::int64_t kMostHeads = 1 << 20;
  if (x.size() != 3 || heads < 1 || kv_heads < 1 || heads > kMostHeads || kv_heads > kMostHeads) {
    throw InputError("input", to_string(x), "batch, tokens, width");
  }
  const std::int64_t width = x[2] / (is_packed ? heads + 2 * kv_heads : heads);
  std::int64_t past = 0;
  if (call.has_input(3) && call.shape(3).size() == 4) past = call.shape(3)[2];
  const AttentionAttributes attributes{.batch = x[0],
                                       .heads = heads,
                                       .kv_heads = kv_heads,
                                       .queries = x[1],
                                       .keys = past + x[1],
                                       .width = width,
                                       .causal = past == 0};
  GraphBuilder& build = call.build();
  Op op{.name = call.name() + ".attention",
        .kind = OpKind::Attention,
        .attributes = attributes,
        .inputs = {call.tensor(0)}};
  for (const std::size_t i : {1, 2, 3, 4}) {
    if (call.has_input(i)) op.inputs.push_back(call.tensor(i));
  }
  const TensorId y = build.tensor({.name = call.name(), .shape = {x[0], x[1], heads * width}});
  op.outputs = {y,
                build.tensor({.name = call.name() + ".statistics", .shape = {x[0], heads, x[1]}})};
  for (std::size_t i = 1; i < 3; ++i) {
    if (!call.wants_output(i)) continue;
    const TensorId present = build.tensor({.name = call.name() + ".present" + std::to_string(i),
                                           .shape = {x[0], kv_heads, past + x[1], width}});
    op.outputs.push_back(present);
    call.set(i, present, kReal);
  }
  build.graph().add_op(std::move(op));
  call.set(0, y, kReal);
  return true;
}

bool rotary_embedding(const Call& call) {
  call.set(0, call.build().activation(call.name(), call.tensor(0), "rotary"), kReal);
  return true;
}

/// A matrix in blocks of few bits with a scale each: K and N stand in attributes.
bool matmul_n_bits(const Call& call) {
  const std::int64_t k = call.node.integer("K", 0), n = call.node.integer("N", 0);
  if (k < 1 || n < 1)
    throw InputError("K, N", std::to_string(k) + ", " + std::to_string(n), "at least 1");
  const TensorId weight =
      call.build().weight(call.name() + ".weight", checked_shape({n, k}, "K, N"));
  std::optional<TensorId> bias;
  if (call.has_input(5)) bias = call.parameter(5);
  call.set(0, call.build().linear(call.name(), call.tensor(0), weight, bias), kReal);
  return true;
}

constexpr NamedHandler kRuntimeHandlers[] = {
    {"com.microsoft.FusedMatMul", fused_matmul},
    {"com.microsoft.TransposeMatMul", fused_matmul},
    {"com.microsoft.FusedGemm", fused_gemm},
    {"com.microsoft.FusedConv", fused_conv},
    {"com.microsoft.Gelu", gelu},
    {"com.microsoft.BiasGelu", gelu},
    {"com.microsoft.FastGelu", gelu},
    {"com.microsoft.QuickGelu", gelu},
    {"com.microsoft.BiasAdd", sum},
    {"com.microsoft.SkipLayerNormalization", skip_layer_norm},
    {"com.microsoft.SkipSimplifiedLayerNormalization", skip_rms_norm},
    {"com.microsoft.SimplifiedLayerNormalization", rms_norm},
    {"SimplifiedLayerNormalization", rms_norm},
    {"RMSNormalization", rms_norm},
    {"com.microsoft.EmbedLayerNormalization", embed_layer_norm},
    {"com.microsoft.Attention", attention},
    {"com.microsoft.QAttention", quantized_attention},
    {"com.microsoft.MultiHeadAttention", multi_head_attention},
    {"com.microsoft.GroupQueryAttention", group_query_attention},
    {"com.microsoft.RotaryEmbedding", rotary_embedding},
    {"RotaryEmbedding", rotary_embedding},
    {"com.microsoft.MatMulNBits", matmul_n_bits},
};

}  // namespace

std::span<const NamedHandler> runtime_handlers() { return kRuntimeHandlers; }

}  // namespace tracecast::onnx
