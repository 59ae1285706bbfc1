#include <string>

#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kAlbert = "Lan et al., arXiv 1909.11942, table 1; transformers 4.30";
constexpr std::int64_t kVocabulary = 30000, kPositions = 512, kTypes = 2, kEmbedding = 128;

/// One layer's weights serve all `layers`.
struct AlbertLayout {
  int layers;
  std::int64_t width, heads;
  bool encoder_alone = false;  ///< trained on its states and its pooled token
};

/// A GEMM's weight and bias.
struct Gemm {
  TensorId weight, bias;
};
struct Norm {
  TensorId scale, bias;
};

/// The weights that all layers share.
struct SharedLayer {
  Gemm query, key, value, dense, ffn, ffn_output;
  Norm attention_norm, full_norm;
};

struct Albert {
  GraphBuilder& b;
  const AlbertLayout& layout;
  TensorId constant, mask;

  Gemm gemm(const std::string& name, std::int64_t in, std::int64_t out) const {
    return {b.weight(name + ".weight", {out, in}), b.weight(name + ".bias", {out})};
  }
  Norm norm(const std::string& name) const {
    return {b.weight(name + ".weight", {layout.width}), b.weight(name + ".bias", {layout.width})};
  }
  SharedLayer shared() const {
    const std::int64_t w = layout.width;
    return {gemm("attention.query", w, w), gemm("attention.key", w, w),
            gemm("attention.value", w, w), gemm("attention.dense", w, w),
            gemm("ffn", w, 4 * w),         gemm("ffn_output", 4 * w, w),
            norm("attention.LayerNorm"),   norm("full_layer_layer_norm")};
  }
  TensorId layer(const std::string& name, TensorId x, const SharedLayer& w) const {
    const Heads heads{layout.heads, layout.width / layout.heads};
    const auto multiply = [&](const char* part, TensorId in, const Gemm& p) {
      return b.linear(name + part, in, p.weight, p.bias);
    };
    const auto normalize = [&](const char* part, TensorId in, const Norm& n) {
      return b.layer_norm(name + part, in, -1, n.scale, n.bias);
    };
    const TensorId context =
        attend(b, name, to_heads(b, name + ".query", multiply(".query", x, w.query), heads),
               to_key_heads(b, name + ".key", multiply(".key", x, w.key), heads),
               to_heads(b, name + ".value", multiply(".value", x, w.value), heads),
               {.scale = constant, .mask = mask});
    TensorId y = multiply(".dense", from_heads(b, name, context), w.dense);
    x = normalize(".LayerNorm", b.add(name + ".add_attention", x, y), w.attention_norm);
    y = gelu_by_tanh(b, name + ".gelu", multiply(".ffn", x, w.ffn), constant);
    y = b.add(name + ".add_ffn", multiply(".ffn_output", y, w.ffn_output), x);
    return normalize(".full_norm", y, w.full_norm);
  }
};

// Hugging Face transformers 4.30, modeling_albert.py (version 2: dropout of probability 0, which
// PyTorch does not run). Inference is the network without a task's head; training predicts words,
// for every token, and the order of two sentences.
NetworkGraph albert(const BuildOptions& options, const AlbertLayout& layout) {
  GraphBuilder b("albert", options.batch);
  const std::int64_t batch = options.batch, tokens = *options.seq_len;
  const TensorId ids = b.input("input_ids", {batch, tokens}, true);
  const TensorId types = b.input("token_type_ids", {batch, tokens}, true);
  const TensorId positions = integer_table(b, "position_ids", {1, tokens}, 8);
  const TensorId mask =
      b.mul("extended_mask", b.input("attention_mask", {batch, 1, 1, tokens}), scalar(b, "lowest"));
  const TensorId words = b.weight("embeddings.word.weight", {kVocabulary, kEmbedding});
  TensorId x = b.add("embeddings.add_type", b.embedding("embeddings.word", ids, words),
                     b.embedding_layer("embeddings.type", types, kTypes, kEmbedding));
  x = b.add("embeddings.add_position", x,
            b.embedding_layer("embeddings.position", positions, kPositions, kEmbedding));
  x = b.layer_norm_layer("embeddings.LayerNorm", x);
  x = b.linear_layer("embedding_hidden_mapping_in", x, layout.width, true);
  const Albert net{b, layout, scalar(b, "constant"), mask};
  const SharedLayer weights = net.shared();
  for (int i = 0; i < layout.layers; ++i) x = net.layer("layer." + std::to_string(i), x, weights);

  TensorId pooled = b.slice("pooler.first", x, {batch, 1, layout.width});
  pooled = b.reshape("pooler.view", pooled, {batch, layout.width});
  pooled = b.linear_layer("pooler", pooled, layout.width, true);
  pooled = b.activation("pooler.tanh", pooled, "tanh");
  b.graph().outputs = {pooled};
  if (!options.training) return std::move(b).take();
  if (layout.encoder_alone) {
    b.graph().outputs = {x, pooled};
    return std::move(b).take();
  }
  x = b.linear_layer("predictions.dense", x, kEmbedding, true);
  x = gelu_by_tanh(b, "predictions.gelu", x, net.constant);
  x = b.layer_norm_layer("predictions.LayerNorm", x);
  x = b.linear("predictions.decoder", x, words,
               b.weight("predictions.decoder.bias", {kVocabulary}));
  b.graph().outputs = {x, b.linear_layer("sop_classifier", pooled, 2, true)};
  return std::move(b).take();
}

template <AlbertLayout layout>
ZooEntry entry(std::string_view name, std::string_view title, std::int64_t parameters) {
  return {.name = name,
          .title = title,
          .source = kAlbert,
          .parameters = exact(parameters, kCheckpoint),
          .seq_len = 512,
          .most_tokens = kPositions,
          .build = build<albert, layout>};
}

}  // namespace

std::vector<ZooEntry> albert_networks() {
  return {
      entry<AlbertLayout{12, 768, 12}>("albert_base", "ALBERT base", 11'683'584),
      entry<AlbertLayout{12, 768, 12, true}>("albert_base_encoder",
                                             "ALBERT base, trained without a head", 11'683'584),
      entry<AlbertLayout{24, 1024, 16}>("albert_large", "ALBERT large", 17'683'968),
      entry<AlbertLayout{24, 2048, 16}>("albert_xlarge", "ALBERT xlarge", 58'724'864),
      entry<AlbertLayout{12, 4096, 64}>("albert_xxlarge", "ALBERT xxlarge", 222'595'584),
  };
}

}  // namespace tracecast::zoo_builders
