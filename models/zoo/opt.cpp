#include <string>

#include "models/ops.hpp"
#include "models/zoo/attention.hpp"
#include "models/zoo/builders.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::int64_t kVocabulary = 50272;
constexpr std::int64_t kPositionRows = 2050;  // positions start at 2

struct Opt {
  GraphBuilder& b;
  const OptLayout& layout;
  bool training;
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

}  // namespace

// Hugging Face transformers 4.30, modeling_opt.py, after Zhang et al., arXiv 2205.01068.
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
  const Opt blocks{b, layout, options.training, scalar(b, "scale"), scalar(b, "lowest"), mask};
  for (int i = 0; i < layout.layers; ++i) x = blocks.layer("layers." + std::to_string(i), x);
  if (!layout.norm_after) x = b.layer_norm_layer("final_layer_norm", x);
  if (projects) x = b.linear_layer("project_out", x, embedding_width, false);
  b.graph().outputs = {b.linear("lm_head", x, words, std::nullopt)};
  return std::move(b).take();
}

}  // namespace tracecast::zoo_builders
