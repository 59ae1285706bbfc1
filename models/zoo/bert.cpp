#include <string>

#include "models/ops.hpp"
#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kDefinition = "Devlin et al., arXiv 1810.04805; transformers 4.30";

/// BERT; heads of width / heads.
struct BertLayout {
  int layers;
  std::int64_t width, heads;
};

constexpr std::int64_t kVocabulary = 30522;  // bert-base-uncased and bert-large-uncased
constexpr std::int64_t kPositions = 512;

struct Bert {
  GraphBuilder& b;
  const BertLayout& layout;
  bool training;
  TensorId scale, mask;

  TensorId dropout(const std::string& name, TensorId x) const {
    return training ? b.dropout(name, x) : x;
  }
  TensorId self_attention(const std::string& name, TensorId x) const {
    const Heads heads{layout.heads, layout.width / layout.heads};
    const TensorId query = b.linear_layer(name + ".self.query", x, layout.width, true);
    const TensorId key = b.linear_layer(name + ".self.key", x, layout.width, true);
    const TensorId value = b.linear_layer(name + ".self.value", x, layout.width, true);
    const TensorId context =
        attend(b, name + ".self", to_heads(b, name + ".self.query", query, heads),
               to_key_heads(b, name + ".self.key", key, heads),
               to_heads(b, name + ".self.value", value, heads),
               {.scale = scale, .mask = mask, .dropout = training});
    return from_heads(b, name + ".self", context);
  }
  /// Linear, dropout, residual, layer norm.
  TensorId output(const std::string& name, TensorId x, TensorId residual) const {
    x = b.linear_layer(name + ".dense", x, layout.width, true);
    x = dropout(name + ".dropout", x);
    x = b.add(name + ".add", x, residual);
    return b.layer_norm_layer(name + ".LayerNorm", x);
  }
  TensorId layer(const std::string& name, TensorId x) const {
    const TensorId context = self_attention(name + ".attention", x);
    x = output(name + ".attention.output", context, x);
    TensorId wide = b.linear_layer(name + ".intermediate.dense", x, 4 * layout.width, true);
    wide = b.activation(name + ".intermediate.gelu", wide, "gelu");
    return output(name + ".output", wide, x);
  }
};

// Hugging Face transformers 4.30, modeling_bert.py (eager attention), after Devlin et al., arXiv
// 1810.04805. Inference is BertModel with its pooler; training is BertForPreTraining, whose
// language head reads every token.
NetworkGraph bert(const BuildOptions& options, const BertLayout& layout) {
  GraphBuilder b("bert", options.batch);
  const std::int64_t batch = options.batch, tokens = *options.seq_len;
  const TensorId ids = b.input("input_ids", {batch, tokens}, true);
  const TensorId types = b.input("token_type_ids", {batch, tokens}, true);
  TensorId mask = b.input("attention_mask", {batch, 1, 1, tokens});
  const TensorId positions = integer_table(b, "position_ids", {1, tokens}, 8);
  mask = b.mul("extended_mask", mask, scalar(b, "lowest"));

  const TensorId words = b.weight("embeddings.word.weight", {kVocabulary, layout.width});
  TensorId x = b.embedding("embeddings.word", ids, words);
  const TensorId type = b.embedding_layer("embeddings.token_type", types, 2, layout.width);
  x = b.add("embeddings.add_type", x, type);
  const TensorId position =
      b.embedding_layer("embeddings.position", positions, kPositions, layout.width);
  x = b.add("embeddings.add_position", x, position);
  x = b.layer_norm_layer("embeddings.LayerNorm", x);
  const Bert blocks{b, layout, options.training, scalar(b, "scale"), mask};
  x = blocks.dropout("embeddings.dropout", x);
  for (int i = 0; i < layout.layers; ++i) x = blocks.layer("layer." + std::to_string(i), x);

  TensorId pooled = b.slice("pooler.first", x, {batch, 1, layout.width});
  pooled = b.reshape("pooler.view", pooled, {batch, layout.width});
  pooled = b.linear_layer("pooler.dense", pooled, layout.width, true);
  pooled = b.activation("pooler.tanh", pooled, "tanh");
  if (!options.training) {
    b.graph().outputs = {pooled};
    return std::move(b).take();
  }
  x = b.linear_layer("cls.transform.dense", x, layout.width, true);
  x = b.activation("cls.transform.gelu", x, "gelu");
  x = b.layer_norm_layer("cls.transform.LayerNorm", x);
  x = b.linear("cls.decoder", x, words, b.weight("cls.decoder.bias", {kVocabulary}));
  const TensorId next = b.linear_layer("cls.seq_relationship", pooled, 2, true);
  b.graph().outputs = {x, next};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> bert_networks() {
  return {
      {.name = "bert_base",
       .title = "BERT base",
       .source = kDefinition,
       .parameters = exact(109'482'240, kCheckpoint),
       .seq_len = 512,
       .most_tokens = 512,
       .build = build<bert, BertLayout{12, 768, 12}>},
      {.name = "bert_large",
       .title = "BERT large",
       .source = kDefinition,
       .parameters = exact(335'141'888, kCheckpoint),
       .seq_len = 512,
       .most_tokens = 512,
       .build = build<bert, BertLayout{24, 1024, 16}>},
  };
}

}  // namespace tracecast::zoo_builders
