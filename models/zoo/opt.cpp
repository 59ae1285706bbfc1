#include <string>

#include "models/ops.hpp"
#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kOpt = "Zhang et al., arXiv 2205.01068, table 1; transformers 4.30";

/// OPT. An embedding width other than 0 is projected to the network's; the 350M network has its
/// layer norms after each part instead of before.
struct OptLayout {
  int layers;
  std::int64_t width, heads;
  std::int64_t embedding_width = 0;
  bool norm_after = false;
};

constexpr std::int64_t kVocabulary = 50272;
constexpr std::int64_t kPositionRows = 2050;  // positions start at 2

struct Opt {
  GraphBuilder& b;
  const OptLayout& layout;
  bool training;
  bool is_fused;
  TensorId scale, lowest, mask;

  TensorId dropout(const std::string& name, TensorId x) const {
    return training ? b.dropout(name, x) : x;
  }
  TensorId attention(const std::string& name, TensorId x) const {
    const Heads heads{layout.heads, layout.width / layout.heads};
    TensorId query = b.linear_layer(name + ".q_proj", x, layout.width, true);
    query = b.mul(name + ".scale", query, scale);
    const TensorId key = b.linear_layer(name + ".k_proj", x, layout.width, true);
    const TensorId value = b.linear_layer(name + ".v_proj", x, layout.width, true);
    if (is_fused) {
      const Shape shape = b.shape(x);
      const TensorId context = attend_fused(b, name, {query, key, value},
                                            {.batch = shape[0],
                                             .heads = heads.count,
                                             .kv_heads = heads.count,
                                             .queries = shape[1],
                                             .keys = shape[1],
                                             .width = heads.width,
                                             .causal = true});
      return dropout(name + ".dropout",
                     b.linear_layer(name + ".out_proj", context, layout.width, true));
    }
    TensorId y = b.matmul(name + ".scores", to_heads(b, name + ".q_proj", query, heads),
                          to_heads(b, name + ".k_proj", key, heads), false, true);
    y = b.add(name + ".mask", y, mask);
    const TensorId operands[] = {y, lowest};
    y = b.binary(name + ".clamp", "max", operands);
    y = b.softmax(name + ".softmax", y);
    y = b.matmul(name + ".context", y, to_heads(b, name + ".v_proj", value, heads));
    y = b.linear_layer(name + ".out_proj", from_heads(b, name, y), layout.width, true);
    return dropout(name + ".dropout", y);
  }
  TensorId feed_forward(const std::string& name, TensorId x) const {
    x = b.linear_layer(name + ".fc1", x, 4 * layout.width, true);
    x = b.activation(name + ".relu", x, "relu");
    x = b.linear_layer(name + ".fc2", x, layout.width, true);
    return dropout(name + ".dropout", x);
  }
  TensorId layer(const std::string& name, TensorId x) const {
    const auto norm = [&](const char* part, bool here, TensorId y) {
      return here ? b.layer_norm_layer(name + part, y) : y;
    };
    const bool before = !layout.norm_after;
    TensorId y = attention(name + ".self_attn", norm(".self_attn_layer_norm", before, x));
    x = norm(".self_attn_layer_norm", !before, b.add(name + ".add_attn", x, y));
    y = feed_forward(name, norm(".final_layer_norm", before, x));
    return norm(".final_layer_norm", !before, b.add(name + ".add_ffn", x, y));
  }
};

// Hugging Face transformers 4.30, modeling_opt.py, after Zhang et al., arXiv 2205.01068; attention
// in one kernel as from 4.46 on (OPTSdpaAttention).
NetworkGraph opt(const BuildOptions& options, const OptLayout& layout) {
  GraphBuilder b("opt", options.batch);
  const std::int64_t batch = options.batch, tokens = *options.seq_len;
  const bool projects = layout.embedding_width != layout.width && layout.embedding_width > 0;
  const std::int64_t embedding_width = projects ? layout.embedding_width : layout.width;
  const TensorId ids = b.input("input_ids", {batch, tokens}, true);
  const TensorId positions = integer_table(b, "position_ids", {batch, tokens}, 8);
  const TensorId mask = b.buffer("causal_mask", {batch, 1, tokens, tokens});
  const TensorId words = b.weight("embed_tokens.weight", {kVocabulary, embedding_width});
  TensorId x = b.embedding("embed_tokens", ids, words);
  if (projects) x = b.linear_layer("project_in", x, layout.width, false);
  const TensorId position =
      b.embedding_layer("embed_positions", positions, kPositionRows, layout.width);
  x = b.add("add_position", x, position);
  const Opt blocks{b,
                   layout,
                   options.training,
                   options.attention != AttentionKernels::Steps,
                   scalar(b, "scale"),
                   scalar(b, "lowest"),
                   mask};
  for (int i = 0; i < layout.layers; ++i) x = blocks.layer("layers." + std::to_string(i), x);
  if (!layout.norm_after) x = b.layer_norm_layer("final_layer_norm", x);
  if (projects) x = b.linear_layer("project_out", x, embedding_width, false);
  b.graph().outputs = {loss_logits(b, b.linear("lm_head", x, words, std::nullopt), options.training,
                                   options.casts_as_written)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> opt_networks() {
  return {
      {.name = "opt_1.3b",
       .title = "OPT-1.3B",
       .source = kOpt,
       .parameters = exact(1'315'758'080, kCheckpoint),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = "opt",
       .build = build<opt, OptLayout{24, 2048, 32}>},
      {.name = "opt_125m",
       .title = "OPT-125M",
       .source = kOpt,
       .parameters = exact(125'239'296, kCheckpoint),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = "opt",
       .build = build<opt, OptLayout{12, 768, 12}>},
      {.name = "opt_13b",
       .title = "OPT-13B",
       .source = kOpt,
       .parameters = exact(12'853'473'280, kCheckpoint),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = "opt",
       .build = build<opt, OptLayout{40, 5120, 40}>},
      {.name = "opt_175b",
       .title = "OPT-175B",
       .source = kOpt,
       .parameters = rounded(175e9, 1e9, kOpt),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = "opt",
       .build = build<opt, OptLayout{96, 12288, 96}>},
      {.name = "opt_2.7b",
       .title = "OPT-2.7B",
       .source = kOpt,
       .parameters = exact(2'651'596'800, kCheckpoint),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = "opt",
       .build = build<opt, OptLayout{32, 2560, 32}>},
      {.name = "opt_30b",
       .title = "OPT-30B",
       .source = kOpt,
       .parameters = rounded(30e9, 1e9, kOpt),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = "opt",
       .build = build<opt, OptLayout{48, 7168, 56}>},
      {.name = "opt_350m",
       .title = "OPT-350M",
       .source = kOpt,
       .parameters = exact(331'196'416, kCheckpoint),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = "opt",
       .build = build<opt, OptLayout{24, 1024, 16, 512, true}>},
      {.name = "opt_6.7b",
       .title = "OPT-6.7B",
       .source = kOpt,
       .parameters = exact(6'658'473'984, kCheckpoint),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = "opt",
       .build = build<opt, OptLayout{32, 4096, 32}>},
      {.name = "opt_66b",
       .title = "OPT-66B",
       .source = kOpt,
       .parameters = rounded(66e9, 1e9, kOpt),
       .seq_len = 2048,
       .most_tokens = 2048,
       .code = "opt",
       .build = build<opt, OptLayout{64, 9216, 72}>},
  };
}

}  // namespace tracecast::zoo_builders
