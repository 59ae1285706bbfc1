#include "models/language/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "models/language/graph_parts.hpp"
#include "models/zoo/parts/attention.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace language {

TensorId GraphParts::mask(std::int64_t window, bool is_chunk) const {
  const auto known = masks.find({window, is_chunk});
  if (known != masks.end()) return known->second;
  std::string name = "causal_mask";
  if (window > 0) name = fmt::format("{}_mask_{}", is_chunk ? "chunk" : "window", window);
  const TensorId mask = b.buffer(name, {1, 1, tokens, tokens});
  masks.emplace(std::pair{window, is_chunk}, mask);
  return mask;
}

TensorId root_mean_square(const GraphParts& parts, const std::string& name, TensorId x,
                          bool learned) {
  const zoo_builders::WideNorm wide =
      parts.casts_as_written ? zoo_builders::WideNorm::All : zoo_builders::WideNorm::None;
  if (learned) return zoo_builders::rms_norm(parts.b, name, x, parts.constant, wide);
  return zoo_builders::rms_scaled(parts.b, name, name, x, parts.constant, wide);
}

TensorId norm(const GraphParts& parts, const std::string& name, TensorId x, bool learned) {
  if (parts.network.norm == LanguageNorm::RootMeanSquare) {
    return root_mean_square(parts, name, x, learned);
  }
  GraphBuilder& b = parts.b;
  learned = learned && parts.network.norm_learned;
  std::optional<TensorId> scale, bias;
  if (learned) scale = b.weight(name + ".weight", {b.shape(x).back()});
  if (learned && parts.network.norm_biases) bias = b.weight(name + ".bias", {b.shape(x).back()});
  return b.layer_norm(name, x, -1, scale, bias);
}

TensorId activate(const GraphParts& parts, const std::string& name, TensorId x) {
  GraphBuilder& b = parts.b;
  switch (parts.network.activation) {
    case LanguageActivation::Silu:
      return b.activation(name + ".silu", x, "silu");
    case LanguageActivation::Gelu:
    case LanguageActivation::GeluTanh:
      return b.activation(name + ".gelu", x, "gelu");
    case LanguageActivation::GeluTanhInSteps:
      // One loop over the elements, in which the steps are registers.
      if (parts.is_compiled) return b.activation(name + ".gelu", x, "gelu");
      return zoo_builders::gelu_by_tanh(b, name + ".gelu", x, parts.constant);
    case LanguageActivation::Relu:
      return b.activation(name + ".relu", x, "relu");
    case LanguageActivation::SquaredRelu:
      break;
  }
  return b.activation(name + ".square", b.activation(name + ".relu", x, "relu"), "pow");
}

TensorId rotate(const GraphParts& parts, const std::string& name, TensorId x, std::int64_t width) {
  if (width == 0) return x;
  GraphBuilder& b = parts.b;
  const auto& [cosine, sine] = parts.rotary.at(width);
  const auto turn = [&, &cosine = cosine, &sine = sine](TensorId part) {
    TensorId turned = b.activation(name + ".rotate_half", part, "rotate_half");
    turned = b.mul(name + ".sin", turned, sine);
    return b.add(name + ".rotary", b.mul(name + ".cos", part, cosine), turned);
  };
  if (width == b.shape(x).back()) return turn(x);
  Shape turning = b.shape(x), passing = turning;
  turning.back() = width;
  passing.back() -= width;
  const TensorId turned = turn(b.slice(name + ".turning", x, turning));
  const TensorId both[] = {turned, b.slice(name + ".passing", x, passing)};
  return b.concat(name + ".cat", both, -1);
}

namespace {

TensorId mix(const GraphParts&, const std::string&, TensorId x, const std::monostate&) { return x; }
TensorId feed_forward(const GraphParts&, const std::string&, TensorId x, const std::monostate&) {
  return x;
}

TensorId mixed(const GraphParts& parts, const std::string& name, TensorId x,
               const LanguageMixer& mixer) {
  return std::visit([&](const auto& m) { return mix(parts, name, x, m); }, mixer);
}

TensorId fed(const GraphParts& parts, const std::string& name, TensorId x,
             const LanguageFeedForward& part) {
  const bool is_moe = std::holds_alternative<ExpertFeedForward>(part);
  return std::visit(
      [&](const auto& f) { return feed_forward(parts, name + (is_moe ? ".moe" : ".mlp"), x, f); },
      part);
}

std::string_view mixer_name(const LanguageMixer& mixer) {
  const bool is_attention = std::holds_alternative<GroupedQueryAttention>(mixer) ||
                            std::holds_alternative<LatentAttention>(mixer) ||
                            std::holds_alternative<CompressedAttention>(mixer);
  return is_attention ? ".self_attn" : ".mixer";
}

/// What mixes the tokens of a layer, both where there are two.
TensorId mixed(const GraphParts& parts, const std::string& name, TensorId x,
               const LanguageLayer& layer) {
  const TensorId y = mixed(parts, name + std::string(mixer_name(layer.mixer)), x, layer.mixer);
  if (layer.beside.index() == 0) return y;
  const TensorId other =
      mixed(parts, name + std::string(mixer_name(layer.beside)), x, layer.beside);
  return parts.b.add(name + ".add_mixers", y, other);
}

/// Both halves read the layer's input; one sum takes both.
TensorId parallel_layer(const GraphParts& parts, const std::string& name, TensorId x,
                        const LanguageLayer& layer) {
  GraphBuilder& b = parts.b;
  const TensorId read = norm(parts, name + ".input_layernorm", x);
  const TensorId y = mixed(parts, name, read, layer);
  const TensorId other =
      layer.shared_norm ? read : norm(parts, name + ".post_attention_layernorm", x);
  const TensorId both = b.add(name + ".add", y, fed(parts, name, other, layer.feed_forward));
  return b.add(name + ".residual", both, x);
}

/// Both halves read a mean of the residual streams.
TensorId layer_of_streams(const GraphParts& parts, const std::string& name, TensorId x,
                          const LanguageLayer& layer) {
  if (layer.mixer.index() != 0) {
    const StreamWeights in = stream_weights(parts, name + ".attn_hc", x);
    const TensorId read = norm(parts, name + ".input_layernorm", in.mean);
    x = joined_streams(parts, name + ".attn_hc", x, mixed(parts, name, read, layer), in.weights);
  }
  if (layer.feed_forward.index() != 0) {
    const StreamWeights in = stream_weights(parts, name + ".ffn_hc", x);
    const TensorId read = norm(parts, name + ".post_attention_layernorm", in.mean);
    x = joined_streams(parts, name + ".ffn_hc", x, fed(parts, name, read, layer.feed_forward),
                       in.weights);
  }
  return x;
}

/// The layer's own input through a gate, added to its result. Source: transformers 5,
/// modeling_gemma4.py.
TensorId with_layer_input(const GraphParts& parts, const std::string& name, TensorId x) {
  GraphBuilder& b = parts.b;
  const Shape all = b.shape(*parts.layer_inputs);
  TensorId input = b.slice(name + ".layer_input", *parts.layer_inputs, {all[0], all[1], 1, all[3]});
  input = b.reshape(name + ".layer_input.view", input, {all[0], all[1], all[3]});
  TensorId y = b.linear_layer(name + ".per_layer_input_gate", x, all[3], false);
  y = b.mul(name + ".per_layer_mul", activate(parts, name + ".per_layer", y), input);
  y = b.linear_layer(name + ".per_layer_projection", y, parts.network.width, false);
  return b.add(name + ".add_layer_input", x, norm(parts, name + ".post_per_layer_input_norm", y));
}

TensorId layer_of(const GraphParts& parts, const std::string& name, TensorId x,
                  const LanguageLayer& layer) {
  if (layer.parallel) return parallel_layer(parts, name, x, layer);
  if (parts.network.streams > 1) return layer_of_streams(parts, name, x, layer);
  GraphBuilder& b = parts.b;
  if (layer.mixer.index() != 0) {
    TensorId y = layer.norms_before ? norm(parts, name + ".input_layernorm", x) : x;
    y = mixed(parts, name, y, layer);
    if (layer.norms_after) y = norm(parts, name + ".after_attention_layernorm", y);
    x = b.add(name + ".add_attn", x, y);
  }
  if (layer.feed_forward.index() != 0) {
    TensorId y = layer.norms_before ? norm(parts, name + ".post_attention_layernorm", x) : x;
    y = fed(parts, name, y, layer.feed_forward);
    if (layer.norms_after) y = norm(parts, name + ".after_feedforward_layernorm", y);
    x = b.add(name + ".add_mlp", x, y);
  }
  if (parts.layer_inputs) x = with_layer_input(parts, name, x);
  return x;
}

void add_rotary(GraphParts& parts, std::int64_t width) {
  if (width == 0 || parts.rotary.contains(width)) return;
  const std::string name =
      parts.rotary.empty() ? std::string("rotary") : fmt::format("rotary_{}", width);
  const TensorId cosine = parts.b.buffer(name + ".cos", {1, 1, parts.tokens, width});
  const TensorId sine = parts.b.buffer(name + ".sin", {1, 1, parts.tokens, width});
  parts.rotary.emplace(width, std::pair{cosine, sine});
}

/// Tables that are the same for all layers: positions, and distances where scores fall with them.
void add_tables(GraphParts& parts) {
  for (const LanguageLayer& layer : parts.network.kinds) {
    if (const auto* a = std::get_if<GroupedQueryAttention>(&layer.beside)) {
      add_rotary(parts, a->rotary_width);
    }
    if (const auto* a = std::get_if<GroupedQueryAttention>(&layer.mixer)) {
      add_rotary(parts, a->rotary_width);
    } else if (const auto* l = std::get_if<LatentAttention>(&layer.mixer)) {
      add_rotary(parts, l->rope_width);
    } else if (const auto* c = std::get_if<CompressedAttention>(&layer.mixer)) {
      add_rotary(parts, c->rotary_width);
    }
  }
  std::int64_t heads = 0;
  for (const LanguageLayer& layer : parts.network.kinds) {
    if (const auto* a = std::get_if<GroupedQueryAttention>(&layer.mixer)) {
      heads = std::max(heads, a->heads);
    }
  }
  if (parts.network.positions == LanguagePositions::Alibi && heads > 0) {
    parts.alibi = parts.b.buffer("alibi", {1, heads, 1, parts.tokens});
  }
}

TensorId embed(GraphBuilder& b, const LanguageNetwork& network, TensorId ids, TensorId words,
               std::int64_t tokens) {
  TensorId x = b.embedding("embed_tokens", ids, words);
  if (network.words_width() != network.width) {
    x = b.linear_layer("project_in", x, network.width, false);
  }
  if (network.positions == LanguagePositions::Learned) {
    const TensorId where = zoo_builders::integer_table(b, "position_ids", {1, tokens}, 8);
    x = b.add("add_positions", x,
              b.embedding_layer("embed_positions", where, network.position_rows, network.width));
  }
  return x;
}

/// Rows of the layers' own table and a projection of the tokens, together.
TensorId layer_inputs(const GraphParts& parts, TensorId ids, TensorId x) {
  GraphBuilder& b = parts.b;
  const LanguageNetwork& n = parts.network;
  const std::int64_t all = n.layers() * n.layer_input_width;
  const Shape shape{b.shape(x)[0], b.shape(x)[1], n.layers(), n.layer_input_width};
  TensorId rows = b.embedding_layer("embed_tokens_per_layer", ids, n.layer_input_vocabulary, all);
  rows = b.reshape("embed_tokens_per_layer.view", rows, shape);
  TensorId projected = b.linear_layer("per_layer_model_projection", x, all, false);
  projected = b.reshape("per_layer_model_projection.view", projected, shape);
  projected = norm(parts, "per_layer_projection_norm", projected);
  return b.add("per_layer_inputs", rows, projected);
}

}  // namespace
}  // namespace language

NetworkGraph language_graph(const LanguageNetwork& network, const LanguageGraphSizes& sizes) {
  const std::string where = "network " + network.family;
  constexpr std::int64_t kMostTokens = 1 << 20;
  const bool learned = network.positions == LanguagePositions::Learned;
  const std::int64_t most = learned ? learned_positions(network) : kMostTokens;
  if (sizes.tokens < 1 || sizes.tokens > most) {
    throw InputError(where, fmt::format("{} tokens", sizes.tokens), fmt::format("1 to {}", most));
  }
  GraphBuilder b(network.family, sizes.batch);
  const TensorId ids = b.input("input_ids", {sizes.batch, sizes.tokens}, true);
  const TensorId words =
      b.weight("embed_tokens.weight", {network.vocabulary, network.words_width()});
  TensorId x = language::embed(b, network, ids, words, sizes.tokens);
  language::GraphParts parts{.b = b,
                             .network = network,
                             .tokens = sizes.tokens,
                             .constant = zoo_builders::scalar(b, "constant"),
                             .attention = sizes.attention,
                             .grouped_attention = sizes.grouped_attention.value_or(sizes.attention),
                             .casts_as_written = sizes.casts_as_written,
                             .is_compiled = sizes.is_compiled};
  language::add_tables(parts);
  if (network.embedding_norm) x = norm(parts, "embed_norm", x);
  if (network.layer_input_width > 0) parts.layer_inputs = language::layer_inputs(parts, ids, x);
  if (network.streams > 1) {
    x = b.append({.name = "streams",
                  .kind = OpKind::Gather,
                  .attributes = ElementwiseAttributes{.name = "expand"},
                  .inputs = {x}},
                 {sizes.batch, sizes.tokens, network.streams * network.width});
  }
  for (std::size_t i = 0; i < network.order.size(); ++i) {
    x = language::layer_of(parts, "layers." + std::to_string(i), x, network.layer(i));
  }
  if (network.streams > 1) x = language::last_stream(parts, x);
  if (network.last_norm) x = norm(parts, "norm", x);
  if (network.words_width() != network.width) {
    x = b.linear_layer("project_out", x, network.words_width(), false);
  }
  const TensorId head =
      network.tied ? words
                   : b.weight("lm_head.weight", {network.vocabulary, network.words_width()});
  std::optional<TensorId> bias;
  if (network.head_bias) bias = b.weight("lm_head.bias", {network.vocabulary});
  TensorId logits = b.linear("lm_head", x, head, bias);
  if (sizes.training && sizes.casts_as_written) logits = b.upcast("logits.float", logits);
  b.graph().outputs = {logits};
  return std::move(b).take();
}

std::int64_t learned_positions(const LanguageNetwork& network) {
  if (network.context == 0) return network.position_rows;
  return std::min(network.context, network.position_rows);
}

std::int64_t usual_tokens(const LanguageNetwork& network) {
  constexpr std::int64_t kUsual = 4096;
  if (network.context == 0) return kUsual / 2;
  return std::min(network.context, kUsual);
}

}  // namespace tracecast
