#include <array>
#include <string>
#include <utility>
#include <vector>

#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Decoders whose attention and feed-forward read the same tokens side by side. GPT-NeoX has a norm for each, one
/// product for queries, keys and values, and biases everywhere; GPT-J shares the norm, and its attention has no biases.
struct DecoderLayout {
  int layers;
  std::int64_t width, heads, vocabulary;
  std::int64_t rotary;  ///< of a head's channels, those that carry the position
  bool is_gptj = false;
};

struct Decoder {
  GraphBuilder& b;
  const DecoderLayout& layout;
  TensorId constant, cosine, sine, mask;

  /// Rotary positions on a part of each head: x cos + turned(x) sin, then the two parts joined again.
  TensorId rotate(const std::string& name, TensorId x) const {
    Shape turning = b.shape(x), passing = turning;
    turning.back() = layout.rotary;
    passing.back() -= layout.rotary;
    const TensorId part = b.slice(name + ".rotary", x, turning);
    TensorId turned = b.activation(name + ".rotate_half", part, "rotate_half");
    turned = b.mul(name + ".sin", turned, sine);
    turned = b.add(name + ".turned", b.mul(name + ".cos", part, cosine), turned);
    const TensorId both[] = {turned, b.slice(name + ".pass", x, passing)};
    return b.concat(name + ".cat", both, 3);
  }
  TensorId attention(const std::string& name, TensorId x) const {
    const Heads heads{layout.heads, layout.width / layout.heads};
    const auto project = [&](const std::string& part) {
      return to_heads(b, part, b.linear_layer(part, x, layout.width, false), heads);
    };
    const auto [query, key, value] =
        layout.is_gptj
            ? std::array{project(name + ".q_proj"), project(name + ".k_proj"),
                         project(name + ".v_proj")}
            : split_heads(b, name,
                          b.linear_layer(name + ".query_key_value", x, 3 * layout.width, true),
                          heads);
    // GPT-NeoX scales in the product.
    const TensorId context = attend(
        b, name, rotate(name + ".query", query), rotate(name + ".key", key), value,
        {.scale = constant, .mask = mask, .mask_selects = true, .scale_query = !layout.is_gptj},
        true);
    return b.linear_layer(name + ".dense", from_heads(b, name, context), layout.width,
                          !layout.is_gptj);
  }
  TensorId feed_forward(const std::string& name, TensorId x) const {
    x = b.linear_layer(name + ".fc_in", x, 4 * layout.width, true);
    x = layout.is_gptj ? gelu_by_tanh(b, name + ".gelu", x, constant)
                       : b.activation(name + ".gelu", x, "gelu");
    return b.linear_layer(name + ".fc_out", x, layout.width, true);
  }
  TensorId layer(const std::string& name, TensorId x) const {
    const TensorId normed = b.layer_norm_layer(name + ".ln_1", x);
    const TensorId attended = attention(name + ".attn", normed);
    const TensorId read = layout.is_gptj ? normed : b.layer_norm_layer(name + ".ln_2", x);
    const TensorId both = b.add(name + ".add", attended, feed_forward(name + ".mlp", read));
    return b.add(name + ".residual", both, x);
  }
};

// Hugging Face transformers 4.40, modeling_gpt_neox.py and modeling_gptj.py (eager attention). Their dropout has
// probability 0, which PyTorch does not run.
NetworkGraph decoder(const BuildOptions& options, const DecoderLayout& layout) {
  GraphBuilder b("decoder", options.batch);
  const std::int64_t tokens = *options.seq_len;
  const TensorId ids = b.input("input_ids", {options.batch, tokens}, true);
  TensorId x = b.embedding_layer("embed_in", ids, layout.vocabulary, layout.width);
  const Decoder blocks{b,
                       layout,
                       scalar(b, "constant"),
                       b.buffer("rotary.cos", {1, 1, tokens, layout.rotary}),
                       b.buffer("rotary.sin", {1, 1, tokens, layout.rotary}),
                       integer_table(b, "causal_mask", {1, 1, tokens, tokens}, 1)};
  for (int i = 0; i < layout.layers; ++i) x = blocks.layer("layers." + std::to_string(i), x);
  x = b.layer_norm_layer("final_layer_norm", x);
  b.graph().outputs = {b.linear_layer("embed_out", x, layout.vocabulary, layout.is_gptj)};
  return std::move(b).take();
}

/// The same network as training frameworks with fused kernels shard it.
constexpr TransformerLayout transformer_of(const DecoderLayout& layout) {
  return {.layers = layout.layers,
          .width = layout.width,
          .heads = layout.heads,
          .kv_heads = layout.heads,
          .feed_forward = 4 * layout.width,
          .vocabulary = layout.vocabulary,
          .rotary = true,
          .biases = !layout.is_gptj,
          .tied = false};
}

template <DecoderLayout layout>
ZooEntry entry(std::string_view name, std::string_view title, std::string_view source,
               std::int64_t parameters, std::vector<std::string_view> aliases = {}) {
  return {.name = name,
          .aliases = std::move(aliases),
          .title = title,
          .source = source,
          .parameters = exact(parameters, kCheckpoint),
          .seq_len = 2048,
          .most_tokens = 2048,
          .build = build<decoder, layout>,
          .transformer = transformer_of(layout)};
}

constexpr std::string_view kGptj = "Wang and Komatsuzaki, GPT-J-6B, 2021; transformers 4.40";
constexpr std::string_view kNeox = "Black et al., arXiv 2204.06745; transformers 4.40";
constexpr std::string_view kPythia =
    "Biderman et al., arXiv 2304.01373, table 1; transformers 4.40";

}  // namespace

std::vector<ZooEntry> parallel_decoder_networks() {
  return {
      entry<DecoderLayout{28, 4096, 16, 50400, 64, true}>("gptj_6b", "GPT-J 6B", kGptj,
                                                          6'050'882'784, {"gpt_j_6b", "gptj"}),
      entry<DecoderLayout{44, 6144, 64, 50432, 24}>("gpt_neox_20b", "GPT-NeoX 20B", kNeox,
                                                    20'554'567'680),
      entry<DecoderLayout{6, 512, 8, 50304, 16}>("pythia_70m", "Pythia 70M", kPythia, 70'426'624),
      entry<DecoderLayout{12, 768, 12, 50304, 16}>("pythia_160m", "Pythia 160M", kPythia,
                                                   162'322'944),
      entry<DecoderLayout{24, 1024, 16, 50304, 16}>("pythia_410m", "Pythia 410M", kPythia,
                                                    405'334'016),
      entry<DecoderLayout{16, 2048, 8, 50304, 64}>("pythia_1b", "Pythia 1B", kPythia,
                                                   1'011'781'632),
      entry<DecoderLayout{24, 2048, 16, 50304, 32}>("pythia_1.4b", "Pythia 1.4B", kPythia,
                                                    1'414'647'808),
      entry<DecoderLayout{32, 2560, 32, 50304, 20}>("pythia_2.8b", "Pythia 2.8B", kPythia,
                                                    2'775'208'960),
      entry<DecoderLayout{32, 4096, 32, 50432, 32}>("pythia_6.9b", "Pythia 6.9B", kPythia,
                                                    6'857'302'016),
      entry<DecoderLayout{36, 5120, 40, 50688, 32}>("pythia_12b", "Pythia 12B", kPythia,
                                                    11'846'072'320),
  };
}

}  // namespace tracecast::zoo_builders
