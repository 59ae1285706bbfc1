#include <string_view>
#include <vector>

#include "models/zoo/parts/language.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kOss = "OpenAI, arXiv 2508.10925; transformers 5";
constexpr std::string_view kMiniMax = "MiniMax, config.json of MiniMax-M2.5, 2026; transformers 5";
constexpr std::string_view kLlama4 =
    "Meta, config.json of Llama-4-Scout-17B-16E, 2025; transformers 5";

struct OssLayout {
  int layers;
  std::int64_t experts;
};
/// gpt-oss: biases everywhere, a sink per head, every second layer sees a window.
LanguageNetwork gpt_oss(const OssLayout& layout) {
  LanguageNetwork network{
      .family = "gpt_oss", .width = 2880, .vocabulary = 201088, .scales_rotation = true};
  for (int i = 0; i < layout.layers; ++i) {
    add_layer(network, {.mixer = GroupedQueryAttention{.heads = 64,
                                                       .kv_heads = 8,
                                                       .head_width = 64,
                                                       .rotary_width = 64,
                                                       .window = i % 2 == 0 ? 128 : 0,
                                                       .input_biases = true,
                                                       .output_bias = true,
                                                       .sinks = true},
                        .feed_forward = ExpertFeedForward{.experts = layout.experts,
                                                          .per_token = 4,
                                                          .width = 2880,
                                                          .biases = true,
                                                          .clamped = true}});
  }
  return network;
}

/// MiniMax-M2: one norm over all heads of queries, one over all of keys.
LanguageNetwork minimax(int layers) {
  LanguageNetwork network{.family = "minimax_m2", .width = 3072, .vocabulary = 200064};
  for (int i = 0; i < layers; ++i) {
    add_layer(network, {.mixer = GroupedQueryAttention{.heads = 48,
                                                       .kv_heads = 8,
                                                       .head_width = 128,
                                                       .rotary_width = 64,
                                                       .head_norm = HeadNorm::OverAllHeads},
                        .feed_forward = ExpertFeedForward{.experts = 256,
                                                          .per_token = 8,
                                                          .width = 1536,
                                                          .sigmoid_scores = true,
                                                          .correction_bias = true}});
  }
  network.prediction_layers = 3;
  return network;
}

/// Llama 4's text: one expert a token and a shared one; three of four layers turn their heads and
/// see a block.
LanguageNetwork llama4(int layers) {
  LanguageNetwork network{.family = "llama4_text", .width = 5120, .vocabulary = 202048};
  for (int i = 1; i <= layers; ++i) {
    const bool turns = i % 4 != 0;
    add_layer(network, {.mixer = GroupedQueryAttention{.heads = 40,
                                                       .kv_heads = 8,
                                                       .head_width = 128,
                                                       .rotary_width = turns ? 128 : 0,
                                                       .window = turns ? 8192 : 0,
                                                       .is_chunk = turns,
                                                       .head_norm = turns ? HeadNorm::PerHead
                                                                          : HeadNorm::None,
                                                       .head_norm_learned = false},
                        .feed_forward = ExpertFeedForward{.experts = 16,
                                                          .per_token = 1,
                                                          .width = 8192,
                                                          .shared_width = 8192,
                                                          .sigmoid_scores = true}});
  }
  return network;
}

}  // namespace

std::vector<ZooEntry> expert_decoder_networks() {
  return {
      shardable_entry<gpt_oss, OssLayout{36, 128}, 131'072>(
          {"gpt_oss_120b", "gpt-oss-120b", kOss}, rounded(116.83e9, 0.01e9, "model card, table 1"),
          4096),
      shardable_entry<gpt_oss, OssLayout{24, 32}, 131'072>(
          {"gpt_oss_20b", "gpt-oss-20b", kOss}, rounded(20.91e9, 0.01e9, "model card, table 1"),
          4096),
      shardable_entry<minimax, 62, 196'608>(
          {"minimax_m2.5", "MiniMax-M2.5", kMiniMax, {"minimax_m2"}},
          rounded(229e9, 1e9, "Hugging Face, size of the checkpoint"), 4096),
      // The checkpoint has 108,641,793,536 with its encoder of images, which is not in the graph.
      shardable_entry<llama4, 48, 10'485'760>(
          {"llama4_scout", "Llama 4 Scout, text", kLlama4},
          exact(107'769'861'120, "checkpoint less its encoder of images"), 4096),
  };
}

}  // namespace tracecast::zoo_builders
