#pragma once
#include <string_view>

#include "models/transformer/layout.hpp"

namespace tracecast {

/// A mixture of experts by its model card, for training on many GPUs. The zoo has no graph of it.
struct PublishedLayout {
  std::string_view name;
  std::string_view source;
  TransformerLayout layout;
};
/// "qwen3_30b_a3b", "qwen3_235b_a22b", "gpt_oss_120b"; nothing when the name is not known.
[[nodiscard]] const PublishedLayout* find_published_layout(std::string_view name);

}  // namespace tracecast
