#include <array>
#include <string>

#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kXlnet = "Yang et al., arXiv 1906.08237; transformers 4.30";
constexpr std::int64_t kXlnetVocabulary = 32000;

struct XlnetLayout {
  int layers;
  std::int64_t width, heads;
};

struct Xlnet {
  GraphBuilder& b;
  const XlnetLayout& layout;
  bool training;
  TensorId scale, mask, distances, segments;

  TensorId dropout(const std::string& name, TensorId x) const {
    return training ? b.dropout(name, x) : x;
  }
  [[nodiscard]] Heads heads() const { return {layout.heads, layout.width / layout.heads}; }

  TensorId project(const std::string& name, TensorId x) const {
    return to_heads(b, name, b.linear_layer(name, x, layout.width, false), heads());
  }
  /// The queries with a learned bias per head and channel.
  TensorId biased(const std::string& name, TensorId query) const {
    return b.add(name, query, b.weight(name + ".bias", {layout.heads, 1, heads().width}));
  }
  /// Scores of every distance, row by row moved to the key at that distance, and copied.
  TensorId scores_of_distances(const std::string& name, TensorId query, TensorId x) const {
    const Shape tokens = b.shape(x);
    const TensorId key = project(name + ".r", distances);
    TensorId y = b.matmul(name + ".bd", biased(name + ".r_r", query), key, false, true);
    const Shape all = b.shape(y);
    y = b.reshape(name + ".shift.view", y, {all[0], all[1], all[3], all[2]});
    y = b.slice(name + ".shift.cut", y, {all[0], all[1], all[3] - 1, all[2]});
    y = b.reshape(name + ".shift.back", y, {all[0], all[1], all[2], all[3] - 1});
    return b.slice(name + ".shift", y, {all[0], all[1], all[2], tokens[1]});
  }
  /// Scores of being in the same segment or not.
  TensorId scores_of_segments(const std::string& name, TensorId query) const {
    constexpr std::array<std::int64_t, 4> kSwap{0, 2, 1, 3};
    const TensorId table = b.weight(name + ".seg_embed", {layout.heads, 2, heads().width});
    TensorId y = b.matmul(name + ".ef", biased(name + ".r_s", query), table, false, true);
    y = b.transpose(name + ".ef.queries", y, kSwap);
    y = b.matmul(name + ".ef.pairs", y, segments);
    return b.transpose(name + ".ef.heads", y, kSwap);
  }
  TensorId attention(const std::string& name, TensorId x) const {
    const TensorId query = project(name + ".q", x), key = project(name + ".k", x);
    const TensorId value = project(name + ".v", x);
    TensorId y = b.matmul(name + ".ac", biased(name + ".r_w", query), key, false, true);
    y = b.add(name + ".add_bd", y, scores_of_distances(name, query, x));
    y = b.add(name + ".add_ef", y, scores_of_segments(name, query));
    y = b.mul(name + ".scale", y, scale);
    y = b.add(name + ".mask", y, mask);
    y = dropout(name + ".dropout", b.softmax(name + ".softmax", y));
    y = from_heads(b, name, b.matmul(name + ".context", y, value));
    y = dropout(name + ".o.dropout", b.linear_layer(name + ".o", y, layout.width, false));
    return b.layer_norm_layer(name + ".layer_norm", b.add(name + ".add", y, x));
  }
  TensorId layer(const std::string& name, TensorId x) const {
    x = attention(name + ".rel_attn", x);
    TensorId y = b.linear_layer(name + ".ff.layer_1", x, 4 * layout.width, true);
    y = dropout(name + ".ff.dropout1", b.activation(name + ".ff.gelu", y, "gelu"));
    y = b.linear_layer(name + ".ff.layer_2", y, layout.width, true);
    y = b.add(name + ".ff.add", dropout(name + ".ff.dropout2", y), x);
    return b.layer_norm_layer(name + ".ff.layer_norm", y);
  }
};

// Hugging Face transformers 4.30, modeling_xlnet.py, with segments and without memory. Training is
// fine-tuning: two logits a token, where an answer begins and ends
// (XLNetForQuestionAnsweringSimple). The second stream of pretraining is left out, and what makes
// the tables of distances and segments, once per pass.
NetworkGraph xlnet(const BuildOptions& options, const XlnetLayout& layout) {
  GraphBuilder b("xlnet", options.batch);
  const std::int64_t batch = options.batch, tokens = *options.seq_len;
  const TensorId ids = b.input("input_ids", {batch, tokens}, true);
  TensorId x = b.embedding_layer("word_embedding", ids, kXlnetVocabulary, layout.width);
  const Xlnet net{b,
                  layout,
                  options.training,
                  scalar(b, "scale"),
                  b.buffer("attention_mask", {batch, 1, tokens, tokens}),
                  b.buffer("pos_emb", {batch, 2 * tokens, layout.width}),
                  b.buffer("seg_mat", {batch, tokens, 2, tokens})};
  x = net.dropout("dropout", x);
  for (int i = 0; i < layout.layers; ++i) x = net.layer("layer." + std::to_string(i), x);
  x = net.dropout("final_dropout", x);
  b.graph().outputs = {options.training ? b.linear_layer("qa_outputs", x, 2, true) : x};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> xlnet_networks() {
  return {
      {.name = "xlnet_base",
       .title = "XLNet base",
       .source = kXlnet,
       .parameters = rounded(116.7e6, 0.1e6, kCheckpoint),
       .seq_len = 512,
       .build = build<xlnet, XlnetLayout{12, 768, 12}>},
      {.name = "xlnet_large",
       .title = "XLNet large",
       .source = kXlnet,
       .parameters = rounded(360.3e6, 0.1e6, kCheckpoint),
       .seq_len = 512,
       .build = build<xlnet, XlnetLayout{24, 1024, 16}>},
  };
}

}  // namespace tracecast::zoo_builders
