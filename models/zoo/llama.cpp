#include <string>
#include <utility>
#include <vector>

#include "models/zoo/parts/language.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kLlama = "Touvron et al., arXiv 2302.13971; transformers 4.40";
constexpr std::string_view kLlama2 = "Touvron et al., arXiv 2307.09288; transformers 4.40";
constexpr std::string_view kLlama3 = "Dubey et al., arXiv 2407.21783; transformers 4.40";
constexpr std::string_view kMistral = "Jiang et al., arXiv 2310.06825; transformers 4.40";
constexpr std::string_view kNemo = "Mistral AI, Mistral NeMo, 2024; transformers 4.43";
constexpr std::string_view kMixtral = "Jiang et al., arXiv 2401.04088; transformers 4.40";
constexpr std::string_view kCodeLlama = "Roziere et al., arXiv 2308.12950; transformers 4.40";
constexpr std::string_view kYi = "01.AI, arXiv 2403.04652; transformers 4.40";
constexpr std::string_view kInternLm = "InternLM team, internlm-20b, 2023; modeling_internlm.py";
constexpr std::string_view kQwen2 = "Qwen team, arXiv 2407.10671 and 2412.15115; transformers 4.40";

/// Llama and what was built like it: `kv_heads` of keys and values (grouped-query attention),
/// feed-forward of `hidden`.
struct LlamaLayout {
  int layers;
  std::int64_t width, heads, kv_heads, hidden, vocabulary;
  bool tied = false;            ///< the last GEMM's weight is the embedding's table
  bool biased = false;          ///< GEMMs for queries, keys and values have biases (Qwen2)
  std::int64_t experts = 1;     ///< every token takes two of them (Mixtral), where there are any
  std::int64_t head_width = 0;  ///< 0: width / heads
  std::int64_t window = 0;      ///< tokens that a query sees; 0: all before it
};
constexpr std::int64_t kExpertsPerToken = 2;

// Hugging Face transformers 4.40, modeling_llama.py, modeling_qwen2.py and modeling_mixtral.py
// (eager attention).
LanguageNetwork llama(const LlamaLayout& layout) {
  const std::int64_t width =
      layout.head_width > 0 ? layout.head_width : layout.width / layout.heads;
  LanguageNetwork network{.family = "llama",
                          .width = layout.width,
                          .vocabulary = layout.vocabulary,
                          .tied = layout.tied};
  LanguageLayer layer{.mixer = GroupedQueryAttention{.heads = layout.heads,
                                                     .kv_heads = layout.kv_heads,
                                                     .head_width = width,
                                                     .rotary_width = width,
                                                     .window = layout.window,
                                                     .input_biases = layout.biased},
                      .feed_forward = DenseFeedForward{.width = layout.hidden}};
  if (layout.experts > 1) {
    layer.feed_forward = ExpertFeedForward{.experts = layout.experts,
                                           .per_token = kExpertsPerToken,
                                           .width = layout.hidden,
                                           .loops = true};
  }
  for (int i = 0; i < layout.layers; ++i) add_layer(network, layer);
  return network;
}

template <LlamaLayout layout, std::int64_t context>
ZooEntry entry(std::string_view name, std::string_view title, std::string_view source,
               std::int64_t parameters, std::int64_t tokens,
               std::vector<std::string_view> aliases = {}) {
  return shardable_entry<llama, layout, context>({name, title, source, std::move(aliases)},
                                                 exact(parameters, kCheckpoint), tokens);
}

}  // namespace

std::vector<ZooEntry> llama_networks() {
  return {
      entry<LlamaLayout{32, 4096, 32, 32, 11008, 32000}, 2048>("llama_7b", "Llama 7B", kLlama,
                                                               6'738'415'616, 2048, {"llama1_7b"}),
      entry<LlamaLayout{40, 5120, 40, 40, 13824, 32000}, 2048>(
          "llama_13b", "Llama 13B", kLlama, 13'015'864'320, 2048, {"llama1_13b"}),
      entry<LlamaLayout{60, 6656, 52, 52, 17920, 32000}, 2048>(
          "llama_30b", "Llama 33B", kLlama, 32'528'943'616, 2048, {"llama1_30b", "llama_33b"}),
      entry<LlamaLayout{80, 8192, 64, 64, 22016, 32000}, 2048>(
          "llama_65b", "Llama 65B", kLlama, 65'285'660'672, 2048, {"llama1_65b"}),
      entry<LlamaLayout{40, 5120, 40, 40, 13824, 32000}, 4096>("llama2_13b", "Llama 2 13B", kLlama2,
                                                               13'015'864'320, 4096),
      entry<LlamaLayout{80, 8192, 64, 8, 28672, 32000}, 4096>("llama2_70b", "Llama 2 70B", kLlama2,
                                                              68'976'648'192, 4096),
      entry<LlamaLayout{32, 4096, 32, 32, 11008, 32000}, 4096>("llama2_7b", "Llama 2 7B", kLlama2,
                                                               6'738'415'616, 4096),
      entry<LlamaLayout{16, 2048, 32, 8, 8192, 128256, true}, 131'072>(
          "llama3_1b", "Llama 3.2 1B", kLlama3, 1'235'814'400, 8192),
      entry<LlamaLayout{28, 3072, 24, 8, 8192, 128256, true}, 131'072>(
          "llama3_3b", "Llama 3.2 3B", kLlama3, 3'212'749'824, 8192),
      entry<LlamaLayout{126, 16384, 128, 8, 53248, 128256}, 131'072>(
          "llama3_405b", "Llama 3.1 405B", kLlama3, 405'853'388'800, 8192),
      entry<LlamaLayout{80, 8192, 64, 8, 28672, 128256}, 131'072>("llama3_70b", "Llama 3 70B",
                                                                  kLlama3, 70'553'706'496, 8192),
      entry<LlamaLayout{32, 4096, 32, 8, 14336, 128256}, 131'072>("llama3_8b", "Llama 3 8B",
                                                                  kLlama3, 8'030'261'248, 8192),
      entry<LlamaLayout{.layers = 32,
                        .width = 4096,
                        .heads = 32,
                        .kv_heads = 8,
                        .hidden = 14336,
                        .vocabulary = 32000,
                        .window = 4096},
            32'768>("mistral_7b", "Mistral 7B", kMistral, 7'241'732'096, 4096),
      entry<LlamaLayout{32, 4096, 32, 8, 14336, 32000, false, false, 8}, 32'768>(
          "mixtral_8x7b", "Mixtral 8x7B", kMixtral, 46'702'792'704, 4096),
      entry<LlamaLayout{56, 6144, 48, 8, 16384, 32768, false, false, 8}, 65'536>(
          "mixtral_8x22b", "Mixtral 8x22B", kMixtral, 140'630'071'296, 4096),
      entry<LlamaLayout{24, 896, 14, 2, 4864, 151936, true, true}, 131'072>(
          "qwen2_0.5b", "Qwen2 and Qwen2.5 0.5B", kQwen2, 494'032'768, 4096, {"qwen2.5_0.5b"}),
      entry<LlamaLayout{28, 1536, 12, 2, 8960, 151936, true, true}, 131'072>(
          "qwen2_1.5b", "Qwen2 and Qwen2.5 1.5B", kQwen2, 1'543'714'304, 4096, {"qwen2.5_1.5b"}),
      entry<LlamaLayout{36, 2048, 16, 2, 11008, 151936, true, true}, 32'768>(
          "qwen2.5_3b", "Qwen2.5 3B", kQwen2, 3'085'938'688, 4096),
      entry<LlamaLayout{28, 3584, 28, 4, 18944, 152064, false, true}, 131'072>(
          "qwen2_7b", "Qwen2 and Qwen2.5 7B", kQwen2, 7'615'616'512, 4096, {"qwen2.5_7b"}),
      entry<LlamaLayout{48, 5120, 40, 8, 13824, 152064, false, true}, 131'072>(
          "qwen2.5_14b", "Qwen2.5 14B", kQwen2, 14'770'033'664, 4096),
      entry<LlamaLayout{64, 5120, 40, 8, 27648, 152064, false, true}, 131'072>(
          "qwen2.5_32b", "Qwen2.5 32B", kQwen2, 32'763'876'352, 4096),
      entry<LlamaLayout{80, 8192, 64, 8, 29568, 152064, false, true}, 131'072>(
          "qwen2_72b", "Qwen2 and Qwen2.5 72B", kQwen2, 72'706'203'648, 4096, {"qwen2.5_72b"}),
      entry<LlamaLayout{48, 8192, 64, 8, 22016, 32000}, 16'384>("codellama_34b", "Code Llama 34B",
                                                                kCodeLlama, 33'743'970'304, 4096),
      entry<LlamaLayout{60, 7168, 56, 8, 20480, 64000}, 200'000>("yi_34b", "Yi 34B", kYi,
                                                                 34'388'917'248, 4096),
      entry<LlamaLayout{.layers = 40,
                        .width = 5120,
                        .heads = 32,
                        .kv_heads = 8,
                        .hidden = 14336,
                        .vocabulary = 131072,
                        .head_width = 128},
            131'072>("mistral_nemo_12b", "Mistral NeMo 12B", kNemo, 12'247'782'400, 4096),
      shardable_entry<llama, LlamaLayout{60, 5120, 40, 40, 13824, 103168}, 4096>(
          {"internlm_20b", "InternLM 20B", kInternLm}, rounded(20e9, 1e9, "model card"), 4096),
  };
}

}  // namespace tracecast::zoo_builders
