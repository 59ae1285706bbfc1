#include <string>
#include <utility>
#include <vector>

#include "models/ops.hpp"
#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kLlama = "Touvron et al., arXiv 2302.13971; transformers 4.40";
constexpr std::string_view kLlama2 = "Touvron et al., arXiv 2307.09288; transformers 4.40";
constexpr std::string_view kLlama3 = "Dubey et al., arXiv 2407.21783; transformers 4.40";
constexpr std::string_view kMistral = "Jiang et al., arXiv 2310.06825; transformers 4.40";
constexpr std::string_view kMixtral = "Jiang et al., arXiv 2401.04088; transformers 4.40";
constexpr std::string_view kQwen2 = "Qwen team, arXiv 2407.10671 and 2412.15115; transformers 4.40";

/// Llama and what was built like it: `kv_heads` of keys and values (grouped-query attention), feed-forward of `hidden`.
struct LlamaLayout {
  int layers;
  std::int64_t width, heads, kv_heads, hidden, vocabulary;
  bool tied = false;         ///< the last product's weight is the embedding's table
  bool biased = false;       ///< products for queries, keys and values have biases (Qwen2)
  std::int64_t experts = 1;  ///< every token takes two of them (Mixtral), where there are any
};
constexpr std::int64_t kExpertsPerToken = 2;

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
    const bool bias = layout.biased;
    TensorId query = b.linear_layer(name + ".q_proj", x, layout.width, bias);
    TensorId key = b.linear_layer(name + ".k_proj", x, layout.kv_heads * width, bias);
    TensorId value = b.linear_layer(name + ".v_proj", x, layout.kv_heads * width, bias);
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
  /// Expert by expert, each on its tokens; nothing is dropped.
  TensorId mixture(const std::string& name, TensorId x) const {
    const MixtureOptions options{
        .experts = layout.experts, .per_token = kExpertsPerToken, .capacity = b.shape(x)[1]};
    return mixture_of_experts(b, name, x, options, [&](const std::string& expert, TensorId tokens) {
      return feed_forward(expert, tokens);
    });
  }
  TensorId layer(const std::string& name, TensorId x) const {
    TensorId y = attention(name + ".self_attn", norm(name + ".input_layernorm", x));
    x = b.add(name + ".add_attn", x, y);
    y = norm(name + ".post_attention_layernorm", x);
    y = layout.experts > 1 ? mixture(name + ".moe", y) : feed_forward(name + ".mlp", y);
    return b.add(name + ".add_mlp", x, y);
  }
};

// Hugging Face transformers 4.40, modeling_llama.py, modeling_qwen2.py and modeling_mixtral.py (eager attention).
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

/// The same network as training frameworks with fused kernels shard it. Biases of Qwen2's products are left out.
constexpr TransformerLayout transformer_of(const LlamaLayout& layout) {
  TransformerLayout result{.layers = layout.layers,
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
  if (layout.experts > 1) {
    result.experts = ExpertLayout{
        .count = layout.experts, .per_token = kExpertsPerToken, .feed_forward = layout.hidden};
  }
  return result;
}

template <LlamaLayout layout>
ZooEntry entry(std::string_view name, std::string_view title, std::string_view source,
               std::int64_t parameters, std::int64_t tokens,
               std::vector<std::string_view> aliases = {}) {
  return {.name = name,
          .aliases = std::move(aliases),
          .title = title,
          .source = source,
          .parameters = exact(parameters, kCheckpoint),
          .seq_len = tokens,
          .build = build<llama, layout>,
          .transformer = transformer_of(layout)};
}

}  // namespace

std::vector<ZooEntry> llama_networks() {
  return {
      entry<LlamaLayout{32, 4096, 32, 32, 11008, 32000}>("llama_7b", "Llama 7B", kLlama,
                                                         6'738'415'616, 2048, {"llama1_7b"}),
      entry<LlamaLayout{40, 5120, 40, 40, 13824, 32000}>("llama_13b", "Llama 13B", kLlama,
                                                         13'015'864'320, 2048, {"llama1_13b"}),
      entry<LlamaLayout{60, 6656, 52, 52, 17920, 32000}>(
          "llama_30b", "Llama 33B", kLlama, 32'528'943'616, 2048, {"llama1_30b", "llama_33b"}),
      entry<LlamaLayout{80, 8192, 64, 64, 22016, 32000}>("llama_65b", "Llama 65B", kLlama,
                                                         65'285'660'672, 2048, {"llama1_65b"}),
      entry<LlamaLayout{40, 5120, 40, 40, 13824, 32000}>("llama2_13b", "Llama 2 13B", kLlama2,
                                                         13'015'864'320, 4096),
      entry<LlamaLayout{80, 8192, 64, 8, 28672, 32000}>("llama2_70b", "Llama 2 70B", kLlama2,
                                                        68'976'648'192, 4096),
      entry<LlamaLayout{32, 4096, 32, 32, 11008, 32000}>("llama2_7b", "Llama 2 7B", kLlama2,
                                                         6'738'415'616, 4096),
      entry<LlamaLayout{16, 2048, 32, 8, 8192, 128256, true}>("llama3_1b", "Llama 3.2 1B", kLlama3,
                                                              1'235'814'400, 8192),
      entry<LlamaLayout{28, 3072, 24, 8, 8192, 128256, true}>("llama3_3b", "Llama 3.2 3B", kLlama3,
                                                              3'212'749'824, 8192),
      entry<LlamaLayout{126, 16384, 128, 8, 53248, 128256}>("llama3_405b", "Llama 3.1 405B",
                                                            kLlama3, 405'853'388'800, 8192),
      entry<LlamaLayout{80, 8192, 64, 8, 28672, 128256}>("llama3_70b", "Llama 3 70B", kLlama3,
                                                         70'553'706'496, 8192),
      entry<LlamaLayout{32, 4096, 32, 8, 14336, 128256}>("llama3_8b", "Llama 3 8B", kLlama3,
                                                         8'030'261'248, 8192),
      entry<LlamaLayout{32, 4096, 32, 8, 14336, 32000}>("mistral_7b", "Mistral 7B", kMistral,
                                                        7'241'732'096, 4096),
      entry<LlamaLayout{32, 4096, 32, 8, 14336, 32000, false, false, 8}>(
          "mixtral_8x7b", "Mixtral 8x7B", kMixtral, 46'702'792'704, 4096),
      entry<LlamaLayout{56, 6144, 48, 8, 16384, 32768, false, false, 8}>(
          "mixtral_8x22b", "Mixtral 8x22B", kMixtral, 140'630'071'296, 4096),
      entry<LlamaLayout{24, 896, 14, 2, 4864, 151936, true, true}>(
          "qwen2_0.5b", "Qwen2 and Qwen2.5 0.5B", kQwen2, 494'032'768, 4096, {"qwen2.5_0.5b"}),
      entry<LlamaLayout{28, 1536, 12, 2, 8960, 151936, true, true}>(
          "qwen2_1.5b", "Qwen2 and Qwen2.5 1.5B", kQwen2, 1'543'714'304, 4096, {"qwen2.5_1.5b"}),
      entry<LlamaLayout{36, 2048, 16, 2, 11008, 151936, true, true}>("qwen2.5_3b", "Qwen2.5 3B",
                                                                     kQwen2, 3'085'938'688, 4096),
      entry<LlamaLayout{28, 3584, 28, 4, 18944, 152064, false, true}>(
          "qwen2_7b", "Qwen2 and Qwen2.5 7B", kQwen2, 7'615'616'512, 4096, {"qwen2.5_7b"}),
      entry<LlamaLayout{48, 5120, 40, 8, 13824, 152064, false, true}>("qwen2.5_14b", "Qwen2.5 14B",
                                                                      kQwen2, 14'770'033'664, 4096),
      entry<LlamaLayout{64, 5120, 40, 8, 27648, 152064, false, true}>("qwen2.5_32b", "Qwen2.5 32B",
                                                                      kQwen2, 32'763'876'352, 4096),
      entry<LlamaLayout{80, 8192, 64, 8, 29568, 152064, false, true}>(
          "qwen2_72b", "Qwen2 and Qwen2.5 72B", kQwen2, 72'706'203'648, 4096, {"qwen2.5_72b"}),
  };
}

}  // namespace tracecast::zoo_builders
