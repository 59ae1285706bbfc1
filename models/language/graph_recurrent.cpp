#include <array>
#include <string>
#include <vector>

#include "models/language/graph_parts.hpp"

/// Layers with a state per sequence: GEMMs and convolution as ops, the recurrence as one op.
namespace tracecast::language {
namespace {

/// A convolution per channel over the last tokens, and SiLU. x: batch x tokens x channels; so is
/// the result.
TensorId causal_convolution(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t taps,
                            bool bias) {
  constexpr std::array<std::int64_t, 3> kSwap{0, 2, 1};
  const std::int64_t channels = b.shape(x).back();
  x = b.transpose(name + ".channels", x, kSwap);
  x = b.conv_layer(name, x, channels, {.kernel_w = taps, .pads = {.left = taps - 1}}, bias,
                   channels);
  return b.transpose(name + ".tokens", b.activation(name + ".silu", x, "silu"), kSwap);
}

TensorId scan(GraphBuilder& b, const std::string& name, const ScanAttributes& attributes,
              std::vector<TensorId> inputs) {
  const ScanAttributes& a = attributes;
  return b.append(
      {.name = name, .kind = OpKind::Scan, .attributes = attributes, .inputs = std::move(inputs)},
      {a.batch, a.tokens, a.heads * a.value_width});
}

/// Tokens that the kernels of flash-linear-attention multiply at once. Source: its repository,
/// fla/ops/gated_delta_rule/chunk.py.
constexpr std::int64_t kDeltaChunk = 64;
/// Source: transformers, configuration_minimax.py, block_size.
constexpr std::int64_t kLightningChunk = 256;

/// A projection, or two of that rank.
TensorId by_rank(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t rank,
                 std::int64_t out) {
  if (rank == 0) return b.linear_layer(name, x, out, false);
  return b.linear_layer(name + ".up", b.linear_layer(name + ".down", x, rank, false), out, false);
}

}  // namespace

// transformers 5, modeling_qwen3_5.py, the class of the gated delta net; Moonshot's
// modeling_kimi.py; transformers 5, modeling_minimax.py, the class of lightning attention.
TensorId mix(const GraphParts& parts, const std::string& name, TensorId x, const GatedDeltaNet& g) {
  GraphBuilder& b = parts.b;
  const std::int64_t batch = b.shape(x)[0], tokens = b.shape(x)[1];
  TensorId mixed = b.linear_layer(name + ".in_proj_qkv", x, g.channels(), false);
  const TensorId gate = by_rank(b, name + ".in_proj_z", x, g.gate_rank, g.values());
  if (g.fixed_decay) {
    mixed = b.activation(name + ".silu", mixed, "silu");
    TensorId y = scan(b, name + ".lightning",
                      {.rule = ScanRule::StateSpace,
                       .batch = batch,
                       .tokens = tokens,
                       .heads = g.value_heads,
                       .groups = g.key_heads,
                       .key_width = g.key_width,
                       .value_width = g.value_width,
                       .chunk = kLightningChunk},
                      {mixed});
    y = root_mean_square(parts, name + ".norm", y);
    y = b.mul(name + ".gated", y, b.activation(name + ".gate.sigmoid", gate, "sigmoid"));
    return b.linear_layer(name + ".out_proj", y, parts.network.width, false);
  }
  const TensorId strength = b.linear_layer(name + ".in_proj_b", x, g.value_heads, false);
  const std::int64_t decays = g.decay_rank > 0 ? g.keys() : g.value_heads;
  const TensorId decay = by_rank(b, name + ".in_proj_a", x, g.decay_rank, decays);
  mixed = causal_convolution(b, name + ".conv1d", mixed, g.convolution, false);
  const TensorId bias = b.weight(name + ".dt_bias", {decays});
  const TensorId rate = b.weight(name + ".A_log", {g.value_heads});
  TensorId y = scan(b, name + ".delta_rule",
                    {.rule = ScanRule::GatedDelta,
                     .batch = batch,
                     .tokens = tokens,
                     .heads = g.value_heads,
                     .groups = g.key_heads,
                     .key_width = g.key_width,
                     .value_width = g.value_width,
                     .chunk = kDeltaChunk},
                    {mixed, strength, decay, bias, rate});
  y = b.reshape(name + ".heads", y, {batch * tokens * g.value_heads, g.value_width});
  y = root_mean_square(parts, name + ".norm", y);
  y = b.reshape(name + ".merge", y, {batch, tokens, g.values()});
  y = b.mul(name + ".gated", y, b.activation(name + ".gate.silu", gate, "silu"));
  return b.linear_layer(name + ".out_proj", y, parts.network.width, false);
}

// transformers 5, modeling_nemotron_h.py, the class of the Mamba 2 mixer.
TensorId mix(const GraphParts& parts, const std::string& name, TensorId x, const Mamba2& m) {
  GraphBuilder& b = parts.b;
  const std::int64_t batch = b.shape(x)[0], tokens = b.shape(x)[1];
  const TensorId projected =
      b.linear_layer(name + ".in_proj", x, m.inner() + m.channels() + m.heads, m.biases);
  const std::int64_t sizes[] = {m.inner(), m.channels(), m.heads};
  const std::vector<TensorId> part = b.split(name + ".split", projected, -1, sizes);
  const TensorId mixed =
      causal_convolution(b, name + ".conv1d", part[1], m.convolution, m.convolution_bias);
  const TensorId bias = b.weight(name + ".dt_bias", {m.heads});
  const TensorId rate = b.weight(name + ".A_log", {m.heads});
  const TensorId skip = b.weight(name + ".D", {m.heads});
  TensorId y = scan(b, name + ".scan",
                    {.rule = ScanRule::StateSpace,
                     .batch = batch,
                     .tokens = tokens,
                     .heads = m.heads,
                     .groups = m.groups,
                     .key_width = m.state,
                     .value_width = m.head_width,
                     .chunk = m.chunk},
                    {mixed, part[2], bias, rate, skip});
  y = b.mul(name + ".gated", y, b.activation(name + ".gate.silu", part[0], "silu"));
  if (m.norm) y = root_mean_square(parts, name + ".norm", y);
  return b.linear_layer(name + ".out_proj", y, parts.network.width, m.biases);
}

// transformers 5, modeling_mamba.py, modeling_falcon_mamba.py, and the class of the mixer of
// modeling_jamba.py.
TensorId mix(const GraphParts& parts, const std::string& name, TensorId x, const Mamba& m) {
  GraphBuilder& b = parts.b;
  const std::int64_t batch = b.shape(x)[0], tokens = b.shape(x)[1];
  const TensorId projected = b.linear_layer(name + ".in_proj", x, 2 * m.inner, m.biases);
  const std::int64_t halves[] = {m.inner, m.inner};
  const std::vector<TensorId> half = b.split(name + ".split", projected, -1, halves);
  const TensorId mixed =
      causal_convolution(b, name + ".conv1d", half[0], m.convolution, m.convolution_bias);
  const TensorId selected =
      b.linear_layer(name + ".x_proj", mixed, m.step_rank + 2 * m.state, false);
  const std::int64_t sizes[] = {m.step_rank, m.state, m.state};
  std::vector<TensorId> part = b.split(name + ".x_split", selected, -1, sizes);
  if (m.norms) {
    const char* names[] = {".dt_layernorm", ".b_layernorm", ".c_layernorm"};
    for (std::size_t i = 0; i < part.size(); ++i) {
      part[i] = root_mean_square(parts, name + names[i], part[i]);
    }
  }
  const TensorId step = b.linear_layer(name + ".dt_proj", part[0], m.inner, true);
  const TensorId rate = b.weight(name + ".A_log", {m.inner, m.state});
  const TensorId skip = b.weight(name + ".D", {m.inner});
  TensorId y = scan(b, name + ".scan",
                    {.rule = ScanRule::StateSpace,
                     .batch = batch,
                     .tokens = tokens,
                     .heads = m.inner,
                     .groups = 1,
                     .key_width = m.state,
                     .value_width = 1,
                     .chunk = 1},
                    {mixed, step, part[1], part[2], rate, skip});
  y = b.mul(name + ".gated", y, b.activation(name + ".gate.silu", half[1], "silu"));
  return b.linear_layer(name + ".out_proj", y, parts.network.width, m.biases);
}

}  // namespace tracecast::language
