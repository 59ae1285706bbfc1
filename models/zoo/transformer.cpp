#include <optional>
#include <string>

#include "models/ops.hpp"
#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Encoder and decoder of `layers` each; a source vocabulary of 0 shares the target's table.
struct TransformerLayout {
  std::int64_t width, heads, hidden, target_vocabulary;
  std::int64_t source_vocabulary = 0;
  bool attention_dropout = false;
  /// The feed-forward part convolves channels over positions, and padded positions are set to zero
  /// after every part.
  bool convolves = false;
  int layers = 6;
};

struct Transformer {
  GraphBuilder& b;
  const TransformerLayout& layout;
  bool training;
  TensorId scale;
  std::optional<TensorId> kept;  ///< 1 for words, 0 for padding; nothing: padding is left as it is

  TensorId dropout(const std::string& name, TensorId x) const {
    return training ? b.dropout(name, x) : x;
  }
  /// Dropout, residual, layer norm: what ends every part of a layer.
  TensorId finish(const std::string& name, TensorId x, TensorId residual) const {
    x = b.add(name + ".add", dropout(name + ".dropout", x), residual);
    x = b.layer_norm_layer(name + ".layer_norm", x);
    return kept ? b.mul(name + ".unpad", x, *kept) : x;
  }
  TensorId attention(const std::string& name, TensorId x, TensorId memory, TensorId mask) const {
    const Heads heads{layout.heads, layout.width / layout.heads};
    TensorId query = b.linear_layer(name + ".q_proj", x, layout.width, true);
    query = b.mul(name + ".scale", query, scale);
    const TensorId key = b.linear_layer(name + ".k_proj", memory, layout.width, true);
    const TensorId value = b.linear_layer(name + ".v_proj", memory, layout.width, true);
    const TensorId context = attend(b, name, to_heads(b, name + ".q_proj", query, heads),
                                    to_heads(b, name + ".k_proj", key, heads),
                                    to_heads(b, name + ".v_proj", value, heads),
                                    {.scale = scale,
                                     .mask = mask,
                                     .scale_query = true,
                                     .dropout = training && layout.attention_dropout},
                                    true);
    TensorId y =
        b.linear_layer(name + ".out_proj", from_heads(b, name, context), layout.width, true);
    return finish(name, y, x);
  }
  /// Convolutions of width 1 over (batch, width, positions).
  TensorId convolve(const std::string& name, TensorId x) const {
    const std::int64_t turned[] = {0, 2, 1};
    TensorId y = b.transpose(name + ".to_channels", x, turned);
    y = b.conv_layer(name + ".fc1", y, layout.hidden, Window::square(1), true);
    y = b.activation(name + ".relu", y, "relu");
    y = b.conv_layer(name + ".fc2", y, layout.width, Window::square(1), true);
    return finish(name, b.transpose(name + ".to_positions", y, turned), x);
  }
  TensorId feed_forward(const std::string& name, TensorId x) const {
    if (layout.convolves) return convolve(name, x);
    TensorId y = b.linear_layer(name + ".fc1", x, layout.hidden, true);
    y = b.activation(name + ".relu", y, "relu");
    y = b.linear_layer(name + ".fc2", y, layout.width, true);
    return finish(name, y, x);
  }
  TensorId embed(const std::string& name, TensorId ids, TensorId table) const {
    TensorId x = b.mul(name + ".scale", b.embedding(name, ids, table), scale);
    x = b.add(name + ".position", x,
              b.buffer(name + ".sinusoids", {1, b.shape(ids)[1], layout.width}));
    return dropout(name + ".dropout", x);
  }
};

// Vaswani et al., arXiv 1706.03762: encoder and decoder, layer norm after each part; ops as in
// fairseq 0.10 (fairseq/modules/transformer_layer.py). Source and target have the same length, and
// the target's table is also the last GEMM's weight.
NetworkGraph transformer(const BuildOptions& options, const TransformerLayout& layout) {
  GraphBuilder b("transformer", options.batch);
  const std::int64_t batch = options.batch, tokens = *options.seq_len;
  const TensorId source = b.input("source_ids", {batch, tokens}, true);
  const TensorId target = b.input("target_ids", {batch, tokens}, true);
  const TensorId padding = b.input("padding_mask", {batch, 1, 1, tokens});
  const TensorId causal = b.buffer("causal_mask", {1, 1, tokens, tokens});
  const TensorId target_table =
      b.weight("decoder.embedding.weight", {layout.target_vocabulary, layout.width});
  const TensorId source_table =
      layout.source_vocabulary > 0
          ? b.weight("encoder.embedding.weight", {layout.source_vocabulary, layout.width})
          : target_table;
  Transformer blocks{b, layout, options.training, scalar(b, "scale"), std::nullopt};
  if (layout.convolves) blocks.kept = b.input("words_mask", {batch, tokens, 1});

  TensorId memory = blocks.embed("encoder.embedding", source, source_table);
  for (int i = 0; i < layout.layers; ++i) {
    const std::string name = "encoder.layers." + std::to_string(i);
    memory = blocks.attention(name + ".self_attn", memory, memory, padding);
    memory = blocks.feed_forward(name, memory);
  }
  TensorId x = blocks.embed("decoder.embedding", target, target_table);
  for (int i = 0; i < layout.layers; ++i) {
    const std::string name = "decoder.layers." + std::to_string(i);
    x = blocks.attention(name + ".self_attn", x, x, causal);
    x = blocks.attention(name + ".encoder_attn", x, memory, padding);
    x = blocks.feed_forward(name, x);
  }
  b.graph().outputs = {b.linear("decoder.output", x, target_table, std::nullopt)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> transformer_networks() {
  return {
      {.name = "transformer",
       .title = "Transformer base, English to German",
       .source = "Vaswani et al., arXiv 1706.03762, table 3",
       .seq_len = 32,
       .build = build<transformer, TransformerLayout{512, 8, 2048, 37000}>},
      {.name = "transformer_big",
       .title = "Transformer big, English to German",
       .source = "Vaswani et al., arXiv 1706.03762, table 3",
       .seq_len = 32,
       .build = build<transformer, TransformerLayout{1024, 16, 4096, 37000}>},
      // Guess: the vocabularies are the words that occur five times or more in Multi30k.
      {.name = "transformer_multi30k",
       .title = "Transformer base on Multi30k",
       .source = "github.com/jadore801120/attention-is-all-you-need-pytorch",
       .seq_len = 32,
       .build = build<transformer, TransformerLayout{512, 8, 2048, 3149, 2911, true, true}>},
  };
}

}  // namespace tracecast::zoo_builders
