#include <optional>
#include <string>

#include "models/ops.hpp"
#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kDefinition = "Radford et al., 2019; transformers 4.30";
constexpr std::string_view kCode = "gpt2";
constexpr std::string_view kGpt3 = "Brown et al., arXiv 2005.14165, table 2.1";

/// GPT-2 and GPT-3.
struct GptLayout {
  int layers;
  std::int64_t width, heads;
  std::int64_t positions = 1024;
};

constexpr std::int64_t kGptVocabulary = 50257;

struct Gpt {
  GraphBuilder& b;
  const GptLayout& layout;
  bool training;
  TensorId constant;
  std::optional<TensorId> mask;  ///< of composed attention; nothing: one kernel, which needs none

  /// Conv1D of the source: a GEMM by a weight stored in x out.
  TensorId conv1d(const std::string& name, TensorId x, std::int64_t out) const {
    const TensorId weight = b.weight(name + ".weight", {b.shape(x).back(), out});
    return b.linear(name, x, weight, b.weight(name + ".bias", {out}),
                    GraphBuilder::WeightLayout::InOut);
  }
  TensorId dropout(const std::string& name, TensorId x) const {
    return training ? b.dropout(name, x) : x;
  }
  TensorId attention(const std::string& name, TensorId x) const {
    const std::int64_t batch = b.shape(x)[0], tokens = b.shape(x)[1], heads = layout.heads;
    const std::int64_t width = layout.width / heads;
    x = conv1d(name + ".c_attn", x, 3 * layout.width);
    if (!mask) {
      // GPT2SdpaAttention: heads are views, the kernel's dropout is its own.
      const TensorId context = attend_fused(b, name, x,
                                            {.batch = batch,
                                             .heads = heads,
                                             .kv_heads = heads,
                                             .queries = tokens,
                                             .keys = tokens,
                                             .width = width,
                                             .causal = true});
      return dropout(name + ".resid_dropout", conv1d(name + ".c_proj", context, layout.width));
    }
    // Splitting and permuting are views; the copy each GEMM's operand needs does both at once.
    Op split{.name = name + ".split", .kind = OpKind::Split, .inputs = {x}};
    const TensorId query =
        b.tensor({.name = name + ".query", .shape = {batch, heads, tokens, width}});
    const TensorId key = b.tensor({.name = name + ".key", .shape = {batch, heads, width, tokens}});
    const TensorId value =
        b.tensor({.name = name + ".value", .shape = {batch, heads, tokens, width}});
    split.outputs = {query, key, value};
    b.graph().add_op(std::move(split));
    const TensorId context =
        attend(b, name, query, key, value,
               {.scale = constant, .mask = mask, .mask_selects = true, .dropout = training});
    x = conv1d(name + ".c_proj", from_heads(b, name, context), layout.width);
    return dropout(name + ".resid_dropout", x);
  }
  TensorId layer(const std::string& name, TensorId x) const {
    TensorId y = b.layer_norm_layer(name + ".ln_1", x);
    x = b.add(name + ".add_attn", attention(name + ".attn", y), x);
    y = b.layer_norm_layer(name + ".ln_2", x);
    y = conv1d(name + ".mlp.c_fc", y, 4 * layout.width);
    y = gelu_by_tanh(b, name + ".mlp.gelu", y, constant);
    y = conv1d(name + ".mlp.c_proj", y, layout.width);
    return b.add(name + ".add_mlp", x, dropout(name + ".mlp.dropout", y));
  }
};

// Hugging Face transformers 4.30, modeling_gpt2.py, after Radford et al., "Language models are
// unsupervised multitask learners", 2019: attention step by step, or in one kernel as from 4.43 on.
// GPT-3's sizes are the same network, its sparse attention layers taken as dense ones.
NetworkGraph gpt(const BuildOptions& options, const GptLayout& layout) {
  GraphBuilder b("gpt", options.batch);
  const std::int64_t tokens = *options.seq_len;
  const TensorId ids = b.input("input_ids", {options.batch, tokens}, true);
  const TensorId positions = integer_table(b, "position_ids", {1, tokens}, 8);
  std::optional<TensorId> mask;
  if (options.attention == AttentionKernels::Steps) {
    mask = integer_table(b, "causal_mask", {1, 1, tokens, tokens}, 1);
  }
  const TensorId words = b.weight("wte.weight", {kGptVocabulary, layout.width});
  TensorId x = b.embedding("wte", ids, words);
  const TensorId position = b.embedding_layer("wpe", positions, layout.positions, layout.width);
  x = b.add("add_position", x, position);
  const Gpt blocks{b, layout, options.training, scalar(b, "constant"), mask};
  x = blocks.dropout("drop", x);
  for (int i = 0; i < layout.layers; ++i) x = blocks.layer("h." + std::to_string(i), x);
  x = b.layer_norm_layer("ln_f", x);
  b.graph().outputs = {loss_logits(b, b.linear("lm_head", x, words, std::nullopt), options.training,
                                   options.casts_as_written)};
  return std::move(b).take();
}

/// The same network as training frameworks with fused kernels shard it.
TransformerLayout transformer_of(const GptLayout& layout) {
  return {.layers = layout.layers,
          .width = layout.width,
          .heads = layout.heads,
          .kv_heads = layout.heads,
          .feed_forward = 4 * layout.width,
          .vocabulary = kGptVocabulary,
          .positions = layout.positions,
          .dropout = true};
}

constexpr GptLayout kGpt2{12, 768, 12};
constexpr GptLayout kGpt2Large{36, 1280, 20};
constexpr GptLayout kGpt2Medium{24, 1024, 16};
constexpr GptLayout kGpt2Xl{48, 1600, 25};
constexpr GptLayout kGpt3Of1300m{24, 2048, 16, 2048};
constexpr GptLayout kGpt3Of125m{12, 768, 12, 2048};
constexpr GptLayout kGpt3Of13b{40, 5120, 40, 2048};
constexpr GptLayout kGpt3Of175b{96, 12288, 96, 2048};
constexpr GptLayout kGpt3Of2700m{32, 2560, 32, 2048};
constexpr GptLayout kGpt3Of350m{24, 1024, 16, 2048};
constexpr GptLayout kGpt3Of6700m{32, 4096, 32, 2048};
constexpr GptLayout kGpt3Of760m{24, 1536, 16, 2048};

}  // namespace

std::vector<ZooEntry> gpt_networks() {
  return {
      {.name = "gpt2",
       .aliases = {"gpt2_small"},
       .title = "GPT-2 small",
       .source = kDefinition,
       .parameters = exact(124'439'808, kCheckpoint),
       .seq_len = 1024,
       .most_tokens = 1024,
       .code = kCode,
       .build = build<gpt, kGpt2>,
       .transformer = transformer_of(kGpt2)},
      {.name = "gpt2_large",
       .title = "GPT-2 large",
       .source = kDefinition,
       .parameters = exact(774'030'080, kCheckpoint),
       .seq_len = 1024,
       .most_tokens = 1024,
       .code = kCode,
       .build = build<gpt, kGpt2Large>,
       .transformer = transformer_of(kGpt2Large)},
      {.name = "gpt2_medium",
       .title = "GPT-2 medium",
       .source = kDefinition,
       .parameters = exact(354'823'168, kCheckpoint),
       .seq_len = 1024,
       .most_tokens = 1024,
       .code = kCode,
       .build = build<gpt, kGpt2Medium>,
       .transformer = transformer_of(kGpt2Medium)},
      {.name = "gpt2_xl",
       .title = "GPT-2 XL",
       .source = kDefinition,
       .parameters = exact(1'557'611'200, kCheckpoint),
       .seq_len = 1024,
       .most_tokens = 1024,
       .code = kCode,
       .build = build<gpt, kGpt2Xl>,
       .transformer = transformer_of(kGpt2Xl)},
      // The table's 24 heads of 128 are not 2048 wide; 16 are.
      {.name = "gpt3_1.3b",
       .title = "GPT-3 1.3B, dense attention",
       .source = kGpt3,
       .parameters = rounded(1.3e9, 0.1e9, kGpt3),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = kCode,
       .build = build<gpt, kGpt3Of1300m>,
       .transformer = transformer_of(kGpt3Of1300m)},
      {.name = "gpt3_125m",
       .title = "GPT-3 125M, dense attention",
       .source = kGpt3,
       .parameters = rounded(125e6, 1e6, kGpt3),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = kCode,
       .build = build<gpt, kGpt3Of125m>,
       .transformer = transformer_of(kGpt3Of125m)},
      // The table's width of 5140 is not 40 heads of 128; 5120 is.
      {.name = "gpt3_13b",
       .title = "GPT-3 13B, dense attention",
       .source = kGpt3,
       .parameters = rounded(13e9, 1e9, kGpt3),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = kCode,
       .build = build<gpt, kGpt3Of13b>,
       .transformer = transformer_of(kGpt3Of13b)},
      {.name = "gpt3_175b",
       .title = "GPT-3 175B, dense attention",
       .source = kGpt3,
       .parameters = rounded(175e9, 1e9, kGpt3),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = kCode,
       .build = build<gpt, kGpt3Of175b>,
       .transformer = transformer_of(kGpt3Of175b)},
      {.name = "gpt3_2.7b",
       .title = "GPT-3 2.7B, dense attention",
       .source = kGpt3,
       .parameters = rounded(2.7e9, 0.1e9, kGpt3),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = kCode,
       .build = build<gpt, kGpt3Of2700m>,
       .transformer = transformer_of(kGpt3Of2700m)},
      {.name = "gpt3_350m",
       .title = "GPT-3 350M, dense attention",
       .source = kGpt3,
       .parameters = rounded(350e6, 10e6, kGpt3),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = kCode,
       .build = build<gpt, kGpt3Of350m>,
       .transformer = transformer_of(kGpt3Of350m)},
      {.name = "gpt3_6.7b",
       .title = "GPT-3 6.7B, dense attention",
       .source = kGpt3,
       .parameters = rounded(6.7e9, 0.1e9, kGpt3),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = kCode,
       .build = build<gpt, kGpt3Of6700m>,
       .transformer = transformer_of(kGpt3Of6700m)},
      {.name = "gpt3_760m",
       .title = "GPT-3 760M, dense attention",
       .source = kGpt3,
       .parameters = rounded(760e6, 1e6, kGpt3),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = kCode,
       .build = build<gpt, kGpt3Of760m>,
       .transformer = transformer_of(kGpt3Of760m)},
  };
}

}  // namespace tracecast::zoo_builders
