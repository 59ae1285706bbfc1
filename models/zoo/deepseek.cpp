#include <string_view>
#include <vector>

#include "models/zoo/parts/language.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kDeepSeek = "DeepSeek-AI, arXiv 2412.19437; transformers 5";
constexpr std::string_view kKimi =
    "Kimi team, arXiv 2507.20534, and config.json of Kimi-K2.5; transformers 5";
constexpr std::string_view kGlm = "Z.ai, config.json of GLM-5, 2026; transformers 5";

enum class LatentFamily { DeepSeekV3, KimiK2, Glm5 };
/// Latent attention; the first layers dense, then experts of which every token takes eight, and one
/// shared.
struct LatentLayout {
  LatentFamily family;
  int layers, dense_layers;
  std::int64_t width, heads, query_rank, nope_width, value_width, hidden, experts, vocabulary;
  std::int64_t prediction_layers = 0;
  bool indexed = false;  ///< a query sees the 2048 keys that an indexer of 32 heads chooses
};

std::string_view model_type(LatentFamily family) {
  switch (family) {
    case LatentFamily::DeepSeekV3:
      return "deepseek_v3";
    case LatentFamily::KimiK2:
      return "kimi_k2";
    case LatentFamily::Glm5:
      break;
  }
  return "glm_moe_dsa";
}

LanguageNetwork latent(const LatentLayout& layout) {
  LanguageNetwork network{.family = std::string(model_type(layout.family)),
                          .width = layout.width,
                          .vocabulary = layout.vocabulary};
  LatentAttention attention{.heads = layout.heads,
                            .query_rank = layout.query_rank,
                            .kv_rank = 512,
                            .nope_width = layout.nope_width,
                            .rope_width = 64,
                            .value_width = layout.value_width};
  if (layout.indexed) attention.indexer = {.heads = 32, .head_width = 128, .top_keys = 2048};
  const ExpertFeedForward experts{.experts = layout.experts,
                                  .per_token = 8,
                                  .width = 2048,
                                  .shared_width = 2048,
                                  .sigmoid_scores = true,
                                  .correction_bias = true};
  for (int i = 0; i < layout.layers; ++i) {
    LanguageLayer layer{.mixer = attention, .feed_forward = experts};
    if (i < layout.dense_layers) layer.feed_forward = DenseFeedForward{.width = layout.hidden};
    add_layer(network, layer);
  }
  network.prediction_layers = layout.prediction_layers;
  if (network.prediction_layers > 0) network.prediction_kind = network.order.back();
  return network;
}

}  // namespace

std::vector<ZooEntry> deepseek_networks() {
  using enum LatentFamily;
  return {
      shardable_entry<
          latent, LatentLayout{DeepSeekV3, 61, 3, 7168, 128, 1536, 128, 128, 18432, 256, 129280, 1},
          163'840>({"deepseek_v3", "DeepSeek-V3, DeepSeek-R1", kDeepSeek, {"deepseek_r1"}},
                   rounded(671e9, 1e9, "model card, main network"), 4096),
      // The card prints "1T".
      shardable_entry<latent,
                      LatentLayout{KimiK2, 61, 1, 7168, 64, 1536, 128, 128, 18432, 384, 163840},
                      262'144>({"kimi_k2", "Kimi K2, text of Kimi K2.5", kKimi, {"kimi_k2.5"}},
                               rounded(1.026e12, 1e9, "checkpoint as llama.cpp counts it"), 4096),
      language_entry<
          latent, LatentLayout{Glm5, 78, 3, 6144, 64, 2048, 192, 256, 12288, 256, 154880, 1, true},
          202'752>({"glm_5", "GLM-5", kGlm}, rounded(744e9, 1e9, "transformers' documentation"),
                   4096),
  };
}

}  // namespace tracecast::zoo_builders
