#include <string>

#include "models/language/layout.hpp"
#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kBloom = "BigScience, arXiv 2211.05100, table 3; transformers 4.46";
constexpr std::int64_t kVocabulary = 250880;

struct BloomLayout {
  int layers;
  std::int64_t width, heads;
};

struct Bloom {
  GraphBuilder& b;
  const BloomLayout& layout;
  bool casts;  ///< softmax is in 32 bits
  TensorId constant, mask, alibi;

  /// Scores are added to a bias per head that grows with the distance (ALiBi), then masked.
  TensorId attention(const std::string& name, TensorId x) const {
    const Heads heads{layout.heads, layout.width / layout.heads};
    x = b.linear_layer(name + ".query_key_value", x, 3 * layout.width, true);
    const auto [query, key, value] = split_heads(b, name, x, heads);
    TensorId y = b.matmul(name + ".scores", query, key, false, true);
    y = b.add(name + ".alibi", y, alibi);
    y = softmax_in(b, name, b.add(name + ".mask", y, mask), casts);
    y = from_heads(b, name, b.matmul(name + ".context", y, value));
    return b.linear_layer(name + ".dense", y, layout.width, true);
  }
  TensorId layer(const std::string& name, TensorId x) const {
    TensorId y = b.layer_norm_layer(name + ".input_layernorm", x);
    x = b.add(name + ".add_attention", x, attention(name + ".self_attention", y));
    y = b.layer_norm_layer(name + ".post_attention_layernorm", x);
    y = b.linear_layer(name + ".mlp.dense_h_to_4h", y, 4 * layout.width, true);
    y = gelu_by_tanh(b, name + ".mlp.gelu", y, constant);
    y = b.linear_layer(name + ".mlp.dense_4h_to_h", y, layout.width, true);
    return b.add(name + ".add_mlp", x, y);
  }
};

// Hugging Face transformers 4.46, modeling_bloom.py. Its dropout has probability 0, which PyTorch
// does not run.
NetworkGraph bloom(const BuildOptions& options, const BloomLayout& layout) {
  GraphBuilder b("bloom", options.batch);
  const std::int64_t tokens = *options.seq_len;
  const TensorId ids = b.input("input_ids", {options.batch, tokens}, true);
  const TensorId words = b.weight("word_embeddings.weight", {kVocabulary, layout.width});
  TensorId x = b.embedding("word_embeddings", ids, words);
  x = b.layer_norm_layer("word_embeddings_layernorm", x);
  const Bloom blocks{b,
                     layout,
                     options.casts_as_written,
                     scalar(b, "constant"),
                     b.buffer("causal_mask", {options.batch, 1, tokens, tokens}),
                     b.buffer("alibi", {options.batch, layout.heads, 1, tokens})};
  for (int i = 0; i < layout.layers; ++i) x = blocks.layer("h." + std::to_string(i), x);
  x = b.layer_norm_layer("ln_f", x);
  x = b.linear("lm_head", x, words, std::nullopt);
  b.graph().outputs = {loss_logits(b, x, options.training, options.casts_as_written)};
  return std::move(b).take();
}

/// The same network as training frameworks with fused kernels shard it.
constexpr TransformerLayout transformer_of(const BloomLayout& layout) {
  return {.layers = layout.layers,
          .width = layout.width,
          .heads = layout.heads,
          .kv_heads = layout.heads,
          .feed_forward = 4 * layout.width,
          .vocabulary = kVocabulary};
}

/// The same network as engines serve it. Its context is the length of the sequences it was trained
/// on (table 3).
template <BloomLayout layout>
LanguageNetwork bloom_language() {
  LanguageNetwork network{.family = "bloom",
                          .width = layout.width,
                          .vocabulary = kVocabulary,
                          .tied = true,
                          .positions = LanguagePositions::Alibi,
                          .context = 2048,
                          .norm = LanguageNorm::Layer,
                          .norm_biases = true,
                          .embedding_norm = true,
                          .activation = LanguageActivation::GeluTanhInSteps};
  const LanguageLayer layer{
      .mixer = GroupedQueryAttention{.heads = layout.heads,
                                     .kv_heads = layout.heads,
                                     .head_width = layout.width / layout.heads,
                                     .packed = true,
                                     .input_biases = true,
                                     .output_bias = true},
      .feed_forward = DenseFeedForward{.width = 4 * layout.width, .gated = false, .biases = true}};
  for (int i = 0; i < layout.layers; ++i) add_layer(network, layer);
  return network;
}

template <BloomLayout layout>
ZooEntry entry(std::string_view name, std::string_view title, std::int64_t parameters) {
  return {.name = name,
          .title = title,
          .source = kBloom,
          .parameters = exact(parameters, kCheckpoint),
          .seq_len = 2048,
          .build = build<bloom, layout>,
          .transformer = transformer_of(layout),
          .language = bloom_language<layout>};
}

}  // namespace

std::vector<ZooEntry> bloom_networks() {
  return {
      entry<BloomLayout{24, 1024, 16}>("bloom_560m", "BLOOM 560M", 559'214'592),
      entry<BloomLayout{24, 1536, 16}>("bloom_1.1b", "BLOOM 1.1B", 1'065'314'304),
      entry<BloomLayout{24, 2048, 16}>("bloom_1.7b", "BLOOM 1.7B", 1'722'408'960),
      entry<BloomLayout{30, 2560, 32}>("bloom_3b", "BLOOM 3B", 3'002'557'440),
      entry<BloomLayout{30, 4096, 32}>("bloom_7.1b", "BLOOM 7.1B", 7'069'016'064),
      entry<BloomLayout{70, 14336, 112}>("bloom_176b", "BLOOM 176B", 176'247'271'424),
  };
}

}  // namespace tracecast::zoo_builders
