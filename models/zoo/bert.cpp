#include <algorithm>
#include <string>

#include "models/ops.hpp"
#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kBert = "Devlin et al., arXiv 1810.04805; transformers 4.30";
constexpr std::string_view kRoberta = "Liu et al., arXiv 1907.11692; transformers 4.30";
constexpr std::string_view kMlperf =
    "mlcommons/training_results, NVIDIA's BERT for PyTorch: --dense_seq_output, --unpad_fmha";
constexpr std::string_view kMlperfUnfused =
    "mlcommons/training_results, NVIDIA's BERT for PyTorch: --dense_seq_output, --unpad";
constexpr std::string_view kElectra = "Clark et al., arXiv 2003.10555; transformers 4.30";
constexpr std::string_view kDistilBert = "Sanh et al., arXiv 1910.01108; transformers 4.30";

/// Words of a sample that are predicted. Source: Devlin et al., arXiv 1810.04805, section 3.1.
constexpr double kMaskedShare = 0.15;

/// What it is trained for. Inference is the network without the head, but for answers.
enum class Task {
  WordsAndNext,        ///< words, and whether two sentences follow each other
  Words,               ///< words, for every token
  MaskedWordsAndNext,  ///< the masked words alone, and whether two sentences follow each other
  Judging,             ///< whether each word was replaced
  Reports,             ///< fine-tuned: where in the text an answer begins and ends (SQuAD)
  None,                ///< the encoder alone, trained on its states and its pooled token
};
enum class Attention {
  StepByStep,  ///< as transformers' eager code
  Strided,     ///< kernels that read the projections where they lie, but keep the scores
  Fused,       ///< scores stay on the chip
};

/// BERT and its relatives; heads of width / heads.
struct BertLayout {
  int layers;
  std::int64_t width, heads;
  Task task = Task::WordsAndNext;
  std::int64_t vocabulary = 30522;  ///< bert-base-uncased's
  std::int64_t position_rows = 512, types = 2;
  std::int64_t embedding_width = 0;  ///< 0: the network's; else a GEMM widens it
  Attention attention = Attention::StepByStep;
  bool pools = true;          ///< there is a pooled first token
  bool scales_query = false;  ///< and not the scores, which the mask selects (DistilBERT)
  /// Every word meets as many keys as the longest sample has, masked beyond its own. Source:
  /// NVIDIA/apex, contrib/csrc/fmha/src/fmha_fprop_kernel_1xN.h: blocks pass over the rows of their
  /// sample, each row over all columns of the tile, 512 where a batch has one such sample; packs of
  /// samples are 512 long.
  bool meets_longest = false;
};

struct Bert {
  GraphBuilder& b;
  const BertLayout& layout;
  bool training;
  TensorId scale, mask;

  TensorId dropout(const std::string& name, TensorId x) const {
    return training ? b.dropout(name, x) : x;
  }
  TensorId fused_attention(const std::string& name, TensorId x) const {
    const Shape shape = b.shape(x);
    const TensorId packed = b.linear_layer(name + ".self.qkv", x, 3 * layout.width, true);
    return attend_fused(b, name + ".self", packed,
                        {.batch = shape[0],
                         .heads = layout.heads,
                         .kv_heads = layout.heads,
                         .queries = shape[1],
                         .keys = layout.meets_longest ? layout.position_rows : shape[1],
                         .width = layout.width / layout.heads});
  }
  /// As a library of kernels that read the projections where they lie and scale and mask by the
  /// way, but keep the scores.
  TensorId strided_attention(const std::string& name, TensorId x) const {
    const Shape shape = b.shape(x);
    const auto heads_of = [&](const std::string& part) {
      const TensorId y = b.linear_layer(name + part, x, layout.width, true);
      return b.reshape(name + part + ".heads", y,
                       {shape[0], layout.heads, shape[1], layout.width / layout.heads});
    };
    const TensorId query = heads_of(".self.query"), key = heads_of(".self.key"),
                   value = heads_of(".self.value");
    const TensorId context =
        attend(b, name + ".self", query, key, value,
               {.scale = scale, .scale_query = true, .dropout = training}, true);
    return b.reshape(name + ".self.merge", context, {shape[0], shape[1], layout.width});
  }
  TensorId self_attention(const std::string& name, TensorId x) const {
    if (layout.attention == Attention::Fused) return fused_attention(name, x);
    if (layout.attention == Attention::Strided) return strided_attention(name, x);
    const Heads heads{layout.heads, layout.width / layout.heads};
    TensorId query = b.linear_layer(name + ".self.query", x, layout.width, true);
    if (layout.scales_query) query = b.mul(name + ".self.scale", query, scale);
    const TensorId key = b.linear_layer(name + ".self.key", x, layout.width, true);
    const TensorId value = b.linear_layer(name + ".self.value", x, layout.width, true);
    const TensorId context =
        attend(b, name + ".self", to_heads(b, name + ".self.query", query, heads),
               to_key_heads(b, name + ".self.key", key, heads),
               to_heads(b, name + ".self.value", value, heads),
               {.scale = scale,
                .mask = mask,
                .mask_selects = layout.scales_query,
                .scale_query = layout.scales_query,
                .dropout = training});
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

TensorId embeddings(GraphBuilder& b, const BertLayout& layout, TensorId words, std::int64_t batch,
                    std::int64_t tokens) {
  const std::int64_t width = b.graph().tensor(words).shape[1];
  const TensorId ids = b.input("input_ids", {batch, tokens}, true);
  TensorId x = b.embedding("embeddings.word", ids, words);
  if (layout.types > 0) {
    const TensorId types = b.input("token_type_ids", {batch, tokens}, true);
    const TensorId type = b.embedding_layer("embeddings.token_type", types, layout.types, width);
    x = b.add("embeddings.add_type", x, type);
  }
  const TensorId positions = integer_table(b, "position_ids", {1, tokens}, 8);
  const TensorId position =
      b.embedding_layer("embeddings.position", positions, layout.position_rows, width);
  x = b.add("embeddings.add_position", x, position);
  return b.layer_norm_layer("embeddings.LayerNorm", x);
}

TensorId pooled_token(GraphBuilder& b, TensorId x) {
  const Shape shape = b.shape(x);
  TensorId pooled = b.slice("pooler.first", x, {shape[0], 1, shape[2]});
  pooled = b.reshape("pooler.view", pooled, {shape[0], shape[2]});
  pooled = b.linear_layer("pooler.dense", pooled, shape[2], true);
  return b.activation("pooler.tanh", pooled, "tanh");
}

// Hugging Face transformers 4.30, modeling_bert.py, modeling_roberta.py, modeling_distilbert.py and
// modeling_electra.py (eager attention). BertForQuestionAnswering has its head in inference too.
NetworkGraph bert(const BuildOptions& options, const BertLayout& layout) {
  GraphBuilder b("bert", options.batch);
  const std::int64_t batch = options.batch, tokens = *options.seq_len;
  TensorId mask = b.input("attention_mask", {batch, 1, 1, tokens});
  if (!layout.scales_query && layout.attention == Attention::StepByStep) {
    mask = b.mul("extended_mask", mask, scalar(b, "lowest"));
  }
  const bool upcasts = layout.embedding_width > 0;
  const std::int64_t embedding_width = upcasts ? layout.embedding_width : layout.width;
  const TensorId words = b.weight("embeddings.word.weight", {layout.vocabulary, embedding_width});
  TensorId x = embeddings(b, layout, words, batch, tokens);
  const Bert blocks{b, layout, options.training, scalar(b, "scale"), mask};
  x = blocks.dropout("embeddings.dropout", x);
  if (upcasts) x = b.linear_layer("embeddings_project", x, layout.width, true);
  for (int i = 0; i < layout.layers; ++i) x = blocks.layer("layer." + std::to_string(i), x);

  if (layout.task == Task::Reports) {
    b.graph().outputs = {b.linear_layer("qa_outputs", x, 2, true)};
    return std::move(b).take();
  }
  if (!options.training) {
    b.graph().outputs = {layout.pools ? pooled_token(b, x) : x};
    return std::move(b).take();
  }
  if (layout.task == Task::None) {
    b.graph().outputs = {x};
    if (layout.pools) b.graph().outputs.push_back(pooled_token(b, x));
    return std::move(b).take();
  }
  if (layout.task == Task::Judging) {
    x = b.linear_layer("discriminator_predictions.dense", x, layout.width, true);
    x = b.activation("discriminator_predictions.gelu", x, "gelu");
    b.graph().outputs = {b.linear_layer("discriminator_predictions.logit", x, 1, true)};
    return std::move(b).take();
  }
  std::optional<TensorId> next;
  if (layout.task == Task::WordsAndNext || layout.task == Task::MaskedWordsAndNext) {
    next = b.linear_layer("cls.seq_relationship", pooled_token(b, x), 2, true);
  }
  if (layout.task == Task::MaskedWordsAndNext) {
    const auto masked = static_cast<std::int64_t>(kMaskedShare * static_cast<double>(tokens));
    x = b.slice("cls.masked", x, {batch, std::max<std::int64_t>(masked, 1), layout.width});
  }
  x = b.linear_layer("cls.transform.dense", x, layout.width, true);
  x = b.activation("cls.transform.gelu", x, "gelu");
  x = b.layer_norm_layer("cls.transform.LayerNorm", x);
  x = b.linear("cls.decoder", x, words, b.weight("cls.decoder.bias", {layout.vocabulary}));
  b.graph().outputs = {x};
  if (next) b.graph().outputs.push_back(*next);
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> bert_networks() {
  return {
      {.name = "bert_base",
       .title = "BERT base",
       .source = kBert,
       .parameters = exact(109'482'240, kCheckpoint),
       .seq_len = 512,
       .most_tokens = 512,
       .build = build<bert, BertLayout{12, 768, 12}>},
      {.name = "bert_large",
       .title = "BERT large",
       .source = kBert,
       .parameters = exact(335'141'888, kCheckpoint),
       .seq_len = 512,
       .most_tokens = 512,
       .build = build<bert, BertLayout{24, 1024, 16}>},
      {.name = "bert_large_encoder",
       .title = "BERT large, trained without a head",
       .source = kBert,
       .parameters = exact(335'141'888, kCheckpoint),
       .seq_len = 512,
       .most_tokens = 512,
       .build = build<bert, BertLayout{24, 1024, 16, Task::None}>},
      {.name = "bert_large_mlperf",
       .title = "BERT large, MLPerf's: masked words, fused attention",
       .source = kMlperf,
       .parameters = exact(335'141'888, kCheckpoint),
       .seq_len = 512,
       .most_tokens = 512,
       .build = build<bert, BertLayout{.layers = 24,
                                       .width = 1024,
                                       .heads = 16,
                                       .task = Task::MaskedWordsAndNext,
                                       .attention = Attention::Fused,
                                       .meets_longest = true}>},
      {.name = "bert_large_mlperf_unfused",
       .title = "BERT large, MLPerf's without fused attention",
       .source = kMlperfUnfused,
       .parameters = exact(335'141'888, kCheckpoint),
       .seq_len = 512,
       .most_tokens = 512,
       .build = build<bert, BertLayout{.layers = 24,
                                       .width = 1024,
                                       .heads = 16,
                                       .task = Task::MaskedWordsAndNext,
                                       .attention = Attention::Strided}>},
      {.name = "bert_base_squad",
       .title = "BERT base, answers questions",
       .source = kBert,
       .parameters = exact(108'893'186, kCheckpoint),
       .seq_len = 384,
       .most_tokens = 512,
       .build = build<bert, BertLayout{12, 768, 12, Task::Reports}>},
      {.name = "bert_large_squad",
       .title = "BERT large, answers questions",
       .source = kBert,
       .parameters = exact(334'094'338, kCheckpoint),
       .seq_len = 384,
       .most_tokens = 512,
       .build = build<bert, BertLayout{24, 1024, 16, Task::Reports}>},
      {.name = "distilbert_base",
       .aliases = {"distilbert"},
       .title = "DistilBERT base",
       .source = kDistilBert,
       .parameters = exact(66'362'880, kCheckpoint),
       .seq_len = 512,
       .most_tokens = 512,
       .build = build<bert, BertLayout{.layers = 6,
                                       .width = 768,
                                       .heads = 12,
                                       .task = Task::Words,
                                       .types = 0,
                                       .pools = false,
                                       .scales_query = true}>},
      {.name = "distilbert_base_encoder",
       .title = "DistilBERT base, trained without a head",
       .source = kDistilBert,
       .parameters = exact(66'362'880, kCheckpoint),
       .seq_len = 512,
       .most_tokens = 512,
       .build = build<bert, BertLayout{.layers = 6,
                                       .width = 768,
                                       .heads = 12,
                                       .task = Task::None,
                                       .types = 0,
                                       .pools = false,
                                       .scales_query = true}>},
      {.name = "electra_small",
       .title = "ELECTRA small, discriminator",
       .source = kElectra,
       .parameters = rounded(14e6, 1e6, "Clark et al., arXiv 2003.10555, table 1"),
       .seq_len = 512,
       .most_tokens = 512,
       .build = build<bert, BertLayout{.layers = 12,
                                       .width = 256,
                                       .heads = 4,
                                       .task = Task::Judging,
                                       .embedding_width = 128,
                                       .pools = false}>},
      {.name = "electra_base",
       .title = "ELECTRA base, discriminator",
       .source = kElectra,
       .parameters = exact(108'891'648, kCheckpoint),
       .seq_len = 512,
       .most_tokens = 512,
       .build = build<
           bert,
           BertLayout{
               .layers = 12, .width = 768, .heads = 12, .task = Task::Judging, .pools = false}>},
      {.name = "electra_large",
       .title = "ELECTRA large, discriminator",
       .source = kElectra,
       .parameters = exact(334'092'288, kCheckpoint),
       .seq_len = 512,
       .most_tokens = 512,
       .build = build<
           bert,
           BertLayout{
               .layers = 24, .width = 1024, .heads = 16, .task = Task::Judging, .pools = false}>},
      {.name = "roberta_base",
       .title = "RoBERTa base",
       .source = kRoberta,
       .parameters = exact(124'645'632, kCheckpoint),
       .seq_len = 512,
       .most_tokens = 512,
       .build = build<bert, BertLayout{12, 768, 12, Task::Words, 50265, 514, 1}>},
      {.name = "roberta_base_encoder",
       .title = "RoBERTa base, trained without a head",
       .source = kRoberta,
       .parameters = exact(124'645'632, kCheckpoint),
       .seq_len = 512,
       .most_tokens = 512,
       .build = build<bert, BertLayout{12, 768, 12, Task::None, 50265, 514, 1}>},
      {.name = "roberta_large",
       .title = "RoBERTa large",
       .source = kRoberta,
       .parameters = exact(355'359'744, kCheckpoint),
       .seq_len = 512,
       .most_tokens = 512,
       .build = build<bert, BertLayout{24, 1024, 16, Task::Words, 50265, 514, 1}>},
  };
}

}  // namespace tracecast::zoo_builders
