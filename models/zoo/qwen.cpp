#include <string_view>
#include <vector>

#include "models/zoo/parts/language.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kQwen = "Bai et al., arXiv 2309.16609; Qwen's modeling_qwen.py";
constexpr std::string_view kQwen3 = "Qwen team, arXiv 2505.09388; transformers 4.51";
constexpr std::string_view kQwen35 =
    "Qwen team, config.json of Qwen3.5-397B-A17B, 2026; transformers 5";
constexpr std::string_view kCard = "model card";

/// Dense, or with experts of which every token takes eight; `hidden` is then one expert's.
struct Qwen3Layout {
  int layers;
  std::int64_t width, heads, kv_heads, hidden;
  std::int64_t experts = 0;
};
LanguageNetwork qwen3(const Qwen3Layout& layout) {
  constexpr std::int64_t kHeadWidth = 128, kPerToken = 8;
  LanguageNetwork network{.family = layout.experts > 0 ? "qwen3_moe" : "qwen3",
                          .width = layout.width,
                          .vocabulary = 151936};
  LanguageLayer layer{.mixer = GroupedQueryAttention{.heads = layout.heads,
                                                     .kv_heads = layout.kv_heads,
                                                     .head_width = kHeadWidth,
                                                     .rotary_width = kHeadWidth,
                                                     .head_norm = HeadNorm::PerHead},
                      .feed_forward = DenseFeedForward{.width = layout.hidden}};
  if (layout.experts > 0) {
    layer.feed_forward = ExpertFeedForward{
        .experts = layout.experts, .per_token = kPerToken, .width = layout.hidden};
  }
  for (int i = 0; i < layout.layers; ++i) add_layer(network, layer);
  return network;
}

struct QwenLayout {
  int layers;
  std::int64_t width, heads, hidden, vocabulary;
};
/// The first Qwen: one GEMM for queries, keys and values, with a bias.
LanguageNetwork qwen(const QwenLayout& layout) {
  const std::int64_t head = layout.width / layout.heads;
  LanguageNetwork network{.family = "qwen", .width = layout.width, .vocabulary = layout.vocabulary};
  for (int i = 0; i < layout.layers; ++i) {
    add_layer(network, {.mixer = GroupedQueryAttention{.heads = layout.heads,
                                                       .kv_heads = layout.heads,
                                                       .head_width = head,
                                                       .rotary_width = head,
                                                       .packed = true,
                                                       .input_biases = true},
                        .feed_forward = DenseFeedForward{.width = layout.hidden}});
  }
  return network;
}

struct HybridLayout {
  int layers;
  std::int64_t width, heads, kv_heads, key_heads, value_heads, experts, per_token, hidden;
};
/// Every fourth layer attends to everything, the others are gated delta nets; all have experts.
LanguageNetwork hybrid(const HybridLayout& layout) {
  LanguageNetwork network{
      .family = "qwen3_5_moe_text", .width = layout.width, .vocabulary = 248320};
  const ExpertFeedForward experts{.experts = layout.experts,
                                  .per_token = layout.per_token,
                                  .width = layout.hidden,
                                  .shared_width = layout.hidden,
                                  .shared_gate = true};
  const LanguageLayer whole{.mixer = GroupedQueryAttention{.heads = layout.heads,
                                                           .kv_heads = layout.kv_heads,
                                                           .head_width = 256,
                                                           .rotary_width = 64,
                                                           .head_norm = HeadNorm::PerHead,
                                                           .output_gate = true},
                            .feed_forward = experts};
  const LanguageLayer delta{.mixer = GatedDeltaNet{.key_heads = layout.key_heads,
                                                   .value_heads = layout.value_heads,
                                                   .key_width = 128,
                                                   .value_width = 128,
                                                   .convolution = 4},
                            .feed_forward = experts};
  for (int i = 1; i <= layout.layers; ++i) add_layer(network, i % 4 == 0 ? whole : delta);
  network.prediction_layers = 1;
  network.prediction_kind = network.order.back();
  return network;
}

}  // namespace

std::vector<ZooEntry> qwen_networks() {
  return {
      shardable_entry<qwen, QwenLayout{80, 8192, 64, 24576, 152064}, 32'768>(
          {"qwen_72b", "Qwen 72B", kQwen}, exact(72'287'920'128, kCheckpoint), 4096),
      shardable_entry<qwen3, Qwen3Layout{40, 5120, 40, 8, 17408}, 40'960>(
          {"qwen3_14b", "Qwen3 14B", kQwen3}, rounded(14.8e9, 0.1e9, kCard), 4096),
      shardable_entry<qwen3, Qwen3Layout{64, 5120, 64, 8, 25600}, 40'960>(
          {"qwen3_32b", "Qwen3 32B", kQwen3}, rounded(32.8e9, 0.1e9, kCard), 4096),
      shardable_entry<qwen3, Qwen3Layout{48, 2048, 32, 4, 768, 128}, 262'144>(
          {"qwen3_30b_a3b", "Qwen3 30B-A3B", kQwen3}, rounded(30.5e9, 0.1e9, kCard), 4096),
      shardable_entry<qwen3, Qwen3Layout{94, 4096, 64, 4, 1536, 128}, 262'144>(
          {"qwen3_235b_a22b", "Qwen3 235B-A22B", kQwen3}, rounded(235e9, 1e9, kCard), 4096),
      language_entry<hybrid, HybridLayout{60, 4096, 32, 2, 16, 64, 512, 10, 1024}, 262'144>(
          {"qwen3.5_397b_a17b", "Qwen3.5 397B-A17B", kQwen35}, rounded(397e9, 1e9, kCard), 4096),
  };
}

}  // namespace tracecast::zoo_builders
