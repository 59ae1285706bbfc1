#include <array>
#include <string>

#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kT5 = "Raffel et al., arXiv 1910.10683; transformers 4.35";
constexpr std::string_view kSwitch = "Fedus et al., arXiv 2101.03961; transformers 4.35";
constexpr std::int64_t kT5Vocabulary = 32128;
constexpr std::int64_t kBuckets = 32;  ///< of relative positions

/// Encoder and decoder of `layers` each. With `experts`, every second feed-forward is a top-1 MoE
/// of them, of which each takes at most `capacity` tokens of a sequence.
struct T5Layout {
  int layers;
  std::int64_t width, heads, head_width, hidden;
  std::int64_t experts = 0, capacity = 64;
};

/// One of the two stacks.
struct Stack {
  GraphBuilder& b;
  const T5Layout& layout;
  bool training;
  bool casts;     ///< squares, softmax and composed attention are in 32 bits
  bool is_fused;  ///< torch.nn.functional.scaled_dot_product_attention (transformers 5)
  TensorId constant;

  TensorId norm(const std::string& name, TensorId x) const {
    return rms_norm(b, name, x, constant, casts ? WideNorm::Squares : WideNorm::None);
  }
  TensorId dropout(const std::string& name, TensorId x) const {
    return training ? b.dropout(name, x) : x;
  }
  /// Learned bias per head of the distance of two tokens, and the mask where there is one.
  TensorId position_bias(const std::string& name, std::optional<TensorId> mask,
                         std::int64_t tokens) const {
    constexpr std::array<std::int64_t, 3> kHeadsFirst{2, 0, 1};
    const TensorId buckets = integer_table(b, name + ".buckets", {tokens, tokens}, 8);
    TensorId bias = b.embedding_layer(name, buckets, kBuckets, layout.heads);
    bias = b.transpose(name + ".heads", bias, kHeadsFirst);
    bias = b.reshape(name + ".view", bias, {1, layout.heads, tokens, tokens});
    return mask ? b.add(name + ".mask", bias, *mask) : bias;
  }
  /// Which of PyTorch's ways a bias lets through. One that is a view with the heads innermost, as
  /// the table's rows are, goes through no kernel (sdp_utils.cpp asks for a last stride of 1);
  /// where(causal, bias, lowest) is whole again.
  struct Bias {
    TensorId tensor;
    std::optional<TensorId> causal{};
  };
  TensorId attend_by_pytorch(const std::string& name, TensorId query, TensorId key, TensorId value,
                             const Bias& bias) const {
    const Shape q = b.shape(query), k = b.shape(key);
    const Heads heads{layout.heads, layout.head_width};
    if (!bias.causal) {
      const TensorId y = attend_composed(
          b, name, view_heads(b, name + ".q", query, heads), view_heads(b, name + ".k", key, heads),
          view_heads(b, name + ".v", value, heads),
          {.constant = constant, .mask = bias.tensor, .upcasts = casts, .dropout = training});
      return from_heads(b, name, y);
    }
    const TensorId operands[] = {*bias.causal, bias.tensor, constant};
    return attend_fused(b, name, {query, key, value, b.binary(name + ".bias", "where", operands)},
                        {.batch = q[0],
                         .heads = layout.heads,
                         .kv_heads = layout.heads,
                         .queries = q[1],
                         .keys = k[1],
                         .width = layout.head_width});
  }
  /// Norm, attention without scaling, residual. Without `memory` the tokens attend to each other.
  TensorId attention(const std::string& name, TensorId x, std::optional<TensorId> memory,
                     const Bias& bias) const {
    const Heads heads{layout.heads, layout.head_width};
    const std::int64_t inner = layout.heads * layout.head_width;
    const TensorId query_side = norm(name + ".layer_norm", x);
    const TensorId key_side = memory.value_or(query_side);
    const auto project = [&](const char* part, TensorId from) {
      const TensorId y = b.linear_layer(name + part, from, inner, false);
      return is_fused ? y : to_heads(b, name + part, y, heads);
    };
    const TensorId query = project(".q", query_side);
    const TensorId key = project(".k", key_side), value = project(".v", key_side);
    TensorId y;
    if (is_fused) {
      y = attend_by_pytorch(name, query, key, value, bias);
    } else {
      y = b.matmul(name + ".scores", query, key, false, true);
      y = b.add(name + ".bias", y, bias.tensor, true);
      y = softmax_in(b, name, y, casts);
      y = b.matmul(name + ".context", dropout(name + ".weights_dropout", y), value);
      y = from_heads(b, name, y);
    }
    y = b.linear_layer(name + ".o", y, layout.width, false);
    return b.add(name + ".add", x, dropout(name + ".dropout", y));
  }
  TensorId dense(const std::string& name, TensorId x) const {
    x = b.linear_layer(name + ".wi", x, layout.hidden, false);
    x = b.activation(name + ".relu", x, "relu");
    x = dropout(name + ".inner_dropout", x);
    return b.linear_layer(name + ".wo", x, layout.width, false);
  }
  TensorId moe(const std::string& name, TensorId x) const {
    return mixture_of_experts(
        b, name, x, {.experts = layout.experts, .per_token = 1, .capacity = layout.capacity},
        [&](const std::string& expert, TensorId tokens) { return dense(expert, tokens); });
  }
  TensorId feed_forward(const std::string& name, TensorId x, int layer) const {
    const TensorId y = norm(name + ".layer_norm", x);
    const bool is_moe = layout.experts > 0 && layer % 2 == 1;
    return b.add(name + ".add", x,
                 dropout(name + ".dropout", is_moe ? moe(name, y) : dense(name, y)));
  }
};

// transformers' modeling_t5.py and modeling_switch_transformers.py. Source and target have the same
// length. What turns token distances into buckets, once per stack and of the mask's size, is not in
// the graph.
NetworkGraph t5(const BuildOptions& options, const T5Layout& layout) {
  GraphBuilder b("t5", options.batch);
  const std::int64_t batch = options.batch, tokens = *options.seq_len;
  const TensorId source = b.input("input_ids", {batch, tokens}, true);
  const TensorId target = b.input("decoder_input_ids", {batch, tokens}, true);
  const bool is_fused = options.attention != AttentionKernels::Steps;
  std::optional<TensorId>
      mask;  // of padding; by PyTorch's attention none is made where none is given
  if (!is_fused) mask = b.input("attention_mask", {batch, 1, 1, tokens});
  const TensorId causal = is_fused ? integer_table(b, "causal_mask", {1, 1, tokens, tokens}, 1)
                                   : b.buffer("causal_mask", {batch, 1, tokens, tokens});
  const TensorId words = b.weight("shared.weight", {kT5Vocabulary, layout.width});
  const Stack stack{
      b, layout, options.training, options.casts_as_written, is_fused, scalar(b, "constant")};

  TensorId memory = stack.dropout("encoder.dropout", b.embedding("encoder.embed", source, words));
  const TensorId encoder_bias = stack.position_bias("encoder.position_bias", mask, tokens);
  for (int i = 0; i < layout.layers; ++i) {
    const std::string name = "encoder.block." + std::to_string(i);
    memory = stack.attention(name + ".attention", memory, {}, {encoder_bias});
    memory = stack.feed_forward(name + ".mlp", memory, i);
  }
  memory = stack.dropout("encoder.final_dropout", stack.norm("encoder.final_layer_norm", memory));

  TensorId x = stack.dropout("decoder.dropout", b.embedding("decoder.embed", target, words));
  const TensorId decoder_bias = stack.position_bias(
      "decoder.position_bias", is_fused ? std::nullopt : std::optional(causal), tokens);
  const Stack::Bias own{decoder_bias, is_fused ? std::optional(causal) : std::nullopt};
  // By PyTorch's attention the decoder's bias goes to both (recorded with transformers 5).
  TensorId cross_bias = decoder_bias;
  if (!is_fused) {
    const TensorId no_bias = b.buffer("decoder.no_bias", {1, layout.heads, tokens, tokens});
    cross_bias = b.add("decoder.cross_mask", no_bias, *mask);
  }
  for (int i = 0; i < layout.layers; ++i) {
    const std::string name = "decoder.block." + std::to_string(i);
    x = stack.attention(name + ".attention", x, {}, own);
    x = stack.attention(name + ".cross_attention", x, memory, {cross_bias});
    x = stack.feed_forward(name + ".mlp", x, i);
  }
  x = stack.dropout("decoder.final_dropout", stack.norm("decoder.final_layer_norm", x));
  x = b.mul("lm_head.scale", x, scalar(b, "scale"));
  b.graph().outputs = {b.linear("lm_head", x, words, std::nullopt)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> t5_networks() {
  return {
      {.name = "t5_small",
       .title = "T5 small",
       .source = kT5,
       .parameters = exact(60'506'624, kCheckpoint),
       .seq_len = 512,
       .code = "t5",
       .build = build<t5, T5Layout{6, 512, 8, 64, 2048}>},
      {.name = "t5_base",
       .title = "T5 base",
       .source = kT5,
       .parameters = exact(222'903'552, kCheckpoint),
       .seq_len = 512,
       .code = "t5",
       .build = build<t5, T5Layout{12, 768, 12, 64, 3072}>},
      {.name = "t5_large",
       .title = "T5 large",
       .source = kT5,
       .parameters = exact(737'668'096, kCheckpoint),
       .seq_len = 512,
       .code = "t5",
       .build = build<t5, T5Layout{24, 1024, 16, 64, 4096}>},
      {.name = "t5_3b",
       .title = "T5 3B",
       .source = kT5,
       .parameters = exact(2'851'598'336, kCheckpoint),
       .seq_len = 512,
       .code = "t5",
       .build = build<t5, T5Layout{24, 1024, 32, 128, 16384}>},
      // Switch-XL's widths with four experts instead of 64.
      {.name = "switchxl4",
       .aliases = {"switch_xl4"},
       .title = "Switch Transformer XL, 4 experts",
       .source = kSwitch,
       .seq_len = 512,
       .code = "t5",
       .build = build<t5, T5Layout{24, 1024, 32, 128, 16384, 4}>},
  };
}

}  // namespace tracecast::zoo_builders
