#include "models/transformer/published_layouts.hpp"

#include <algorithm>
#include <array>

namespace tracecast {
namespace {

/// RMS norms, rotary positions, gated experts, no biases: what these networks share.
TransformerLayout mixture(int layers, std::int64_t width, std::int64_t heads, std::int64_t kv_heads,
                          std::int64_t head_width, std::int64_t vocabulary, ExpertLayout experts) {
  return {.layers = layers,
          .width = width,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_width = head_width,
          .feed_forward = experts.feed_forward,
          .vocabulary = vocabulary,
          .norm = TransformerNorm::RootMeanSquare,
          .rotary = true,
          .gated = true,
          .biases = false,
          .tied = false,
          .experts = experts};
}

const std::array<PublishedLayout, 3>& layouts() {
  static const std::array<PublishedLayout, 3> kLayouts{{
      {"qwen3_30b_a3b", "Qwen team, config.json of Qwen3-30B-A3B, 2025",
       mixture(48, 2048, 32, 4, 128, 151936, {.count = 128, .per_token = 8, .feed_forward = 768})},
      {"qwen3_235b_a22b", "Qwen team, config.json of Qwen3-235B-A22B, 2025",
       mixture(94, 4096, 64, 4, 128, 151936, {.count = 128, .per_token = 8, .feed_forward = 1536})},
      {"gpt_oss_120b", "OpenAI, config.json of gpt-oss-120b, 2025",
       mixture(36, 2880, 64, 8, 64, 201088, {.count = 128, .per_token = 4, .feed_forward = 2880})},
  }};
  return kLayouts;
}

}  // namespace

const PublishedLayout* find_published_layout(std::string_view name) {
  const auto& all = layouts();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const PublishedLayout& l) { return l.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace tracecast
