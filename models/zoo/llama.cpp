#include <array>
#include <string>

#include "models/ops.hpp"
#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kLlama2 = "Touvron et al., arXiv 2307.09288; transformers 4.40";
constexpr std::string_view kLlama3 = "Dubey et al., arXiv 2407.21783; transformers 4.40";

/// Llama 2 and 3: `kv_heads` of keys and values (grouped-query attention), feed-forward of `hidden`,
/// last product tied to the embedding or not.
struct LlamaLayout {
  int layers;
  std::int64_t width, heads, kv_heads, hidden, vocabulary;
  bool tied = false;
};

struct Llama {
  GraphBuilder& b;
  const LlamaLayout& layout;
  TensorId constant, cosine, sine, mask;

  TensorId norm(const std::string& name, TensorId x) const {
    return rms_norm(b, name, x, constant);
  }
  /// Rotary positions: x cos + rotate_half(x) sin.
  TensorId rotate(const std::string& name, TensorId x) const {
    TensorId turned = b.activation(name + ".rotate_half", x, "rotate_half");
    turned = b.mul(name + ".sin", turned, sine);
    return b.add(name + ".rotary", b.mul(name + ".cos", x, cosine), turned);
  }
  /// Each head of keys or values serves several heads of queries, by a copy.
  TensorId repeat(const std::string& name, TensorId x) const {
    if (layout.kv_heads == layout.heads) return x;
    Shape shape = b.shape(x);
    shape[1] = layout.heads;
    return b.append({.name = name + ".repeat_kv",
                     .kind = OpKind::Gather,
                     .attributes = ElementwiseAttributes{.name = "expand"},
                     .inputs = {x}},
                    std::move(shape));
  }
  TensorId attention(const std::string& name, TensorId x) const {
    const std::int64_t width = layout.width / layout.heads;
    const Heads queries{layout.heads, width}, others{layout.kv_heads, width};
    TensorId query = b.linear_layer(name + ".q_proj", x, layout.width, false);
    TensorId key = b.linear_layer(name + ".k_proj", x, layout.kv_heads * width, false);
    TensorId value = b.linear_layer(name + ".v_proj", x, layout.kv_heads * width, false);
    query = rotate(name + ".q_proj", to_heads(b, name + ".q_proj", query, queries));
    key = rotate(name + ".k_proj", to_heads(b, name + ".k_proj", key, others));
    value = to_heads(b, name + ".v_proj", value, others);
    const TensorId context =
        attend(b, name, query, repeat(name + ".k_proj", key), repeat(name + ".v_proj", value),
               {.scale = constant, .mask = mask}, true);
    return b.linear_layer(name + ".o_proj", from_heads(b, name, context), layout.width, false);
  }
  /// SwiGLU: down(silu(gate(x)) * up(x)).
  TensorId feed_forward(const std::string& name, TensorId x) const {
    TensorId gate = b.linear_layer(name + ".gate_proj", x, layout.hidden, false);
    gate = b.activation(name + ".silu", gate, "silu");
    const TensorId up = b.linear_layer(name + ".up_proj", x, layout.hidden, false);
    return b.linear_layer(name + ".down_proj", b.mul(name + ".mul", gate, up), layout.width, false);
  }
  TensorId layer(const std::string& name, TensorId x) const {
    TensorId y = attention(name + ".self_attn", norm(name + ".input_layernorm", x));
    x = b.add(name + ".add_attn", x, y);
    y = feed_forward(name + ".mlp", norm(name + ".post_attention_layernorm", x));
    return b.add(name + ".add_mlp", x, y);
  }
};

// Hugging Face transformers 4.40, modeling_llama.py (eager attention), after Touvron et al., arXiv
// 2307.09288, and Dubey et al., arXiv 2407.21783.
NetworkGraph llama(const BuildOptions& options, const LlamaLayout& layout) {
  GraphBuilder b("llama", options.batch);
  const std::int64_t tokens = *options.seq_len, head_width = layout.width / layout.heads;
  const TensorId ids = b.input("input_ids", {options.batch, tokens}, true);
  const TensorId words = b.weight("embed_tokens.weight", {layout.vocabulary, layout.width});
  TensorId x = b.embedding("embed_tokens", ids, words);
  const Llama blocks{b,
                     layout,
                     scalar(b, "constant"),
                     b.buffer("rotary.cos", {1, 1, tokens, head_width}),
                     b.buffer("rotary.sin", {1, 1, tokens, head_width}),
                     b.buffer("causal_mask", {1, 1, tokens, tokens})};
  for (int i = 0; i < layout.layers; ++i) x = blocks.layer("layers." + std::to_string(i), x);
  x = blocks.norm("norm", x);
  const TensorId head =
      layout.tied ? words : b.weight("lm_head.weight", {layout.vocabulary, layout.width});
  b.graph().outputs = {b.linear("lm_head", x, head, std::nullopt)};
  return std::move(b).take();
}

/// The same network as training frameworks with fused kernels shard it.
TransformerLayout transformer_of(const LlamaLayout& layout) {
  return {.layers = layout.layers,
          .width = layout.width,
          .heads = layout.heads,
          .kv_heads = layout.kv_heads,
          .feed_forward = layout.hidden,
          .vocabulary = layout.vocabulary,
          .norm = TransformerNorm::RootMeanSquare,
          .rotary = true,
          .gated = true,
          .biases = false,
          .tied = layout.tied};
}

constexpr LlamaLayout kExpand{40, 5120, 40, 40, 13824, 32000};
constexpr LlamaLayout kLlama270b{80, 8192, 64, 8, 28672, 32000};
constexpr LlamaLayout kLlama27b{32, 4096, 32, 32, 11008, 32000};
constexpr LlamaLayout kLlama31b{16, 2048, 32, 8, 8192, 128256, true};
constexpr LlamaLayout kLlama33b{28, 3072, 24, 8, 8192, 128256, true};
constexpr LlamaLayout kLlama3405b{126, 16384, 128, 8, 53248, 128256};
constexpr LlamaLayout kLlama370b{80, 8192, 64, 8, 28672, 128256};
constexpr LlamaLayout kLlama38b{32, 4096, 32, 8, 14336, 128256};
constexpr LlamaLayout kMistral7b{32, 4096, 32, 8, 14336, 32000};

}  // namespace

std::vector<ZooEntry> llama_networks() {
  return {
      {.name = "llama2_13b",
       .title = "Llama 2 13B",
       .source = kLlama2,
       .parameters = exact(13'015'864'320, kCheckpoint),
       .seq_len = 4096,
       .build = build<llama, kExpand>,
       .transformer = transformer_of(kExpand)},
      {.name = "llama2_70b",
       .title = "Llama 2 70B",
       .source = kLlama2,
       .parameters = exact(68'976'648'192, kCheckpoint),
       .seq_len = 4096,
       .build = build<llama, kLlama270b>,
       .transformer = transformer_of(kLlama270b)},
      {.name = "llama2_7b",
       .title = "Llama 2 7B",
       .source = kLlama2,
       .parameters = exact(6'738'415'616, kCheckpoint),
       .seq_len = 4096,
       .build = build<llama, kLlama27b>,
       .transformer = transformer_of(kLlama27b)},
      {.name = "llama3_1b",
       .title = "Llama 3.2 1B",
       .source = kLlama3,
       .parameters = exact(1'235'814'400, kCheckpoint),
       .seq_len = 8192,
       .build = build<llama, kLlama31b>,
       .transformer = transformer_of(kLlama31b)},
      {.name = "llama3_3b",
       .title = "Llama 3.2 3B",
       .source = kLlama3,
       .parameters = exact(3'212'749'824, kCheckpoint),
       .seq_len = 8192,
       .build = build<llama, kLlama33b>,
       .transformer = transformer_of(kLlama33b)},
      {.name = "llama3_405b",
       .title = "Llama 3.1 405B",
       .source = kLlama3,
       .parameters = exact(405'853'388'800, kCheckpoint),
       .seq_len = 8192,
       .build = build<llama, kLlama3405b>,
       .transformer = transformer_of(kLlama3405b)},
      {.name = "llama3_70b",
       .title = "Llama 3 70B",
       .source = kLlama3,
       .parameters = exact(70'553'706'496, kCheckpoint),
       .seq_len = 8192,
       .build = build<llama, kLlama370b>,
       .transformer = transformer_of(kLlama370b)},
      {.name = "llama3_8b",
       .title = "Llama 3 8B",
       .source = kLlama3,
       .parameters = exact(8'030'261'248, kCheckpoint),
       .seq_len = 8192,
       .build = build<llama, kLlama38b>,
       .transformer = transformer_of(kLlama38b)},
      {.name = "mistral_7b",
       .title = "Mistral 7B",
       .source = "Jiang et al., arXiv 2310.06825; transformers 4.40",
       .parameters = exact(7'241'732'096, kCheckpoint),
       .seq_len = 4096,
       .build = build<llama, kMistral7b>,
       .transformer = transformer_of(kMistral7b)},
  };
}

}  // namespace tracecast::zoo_builders
