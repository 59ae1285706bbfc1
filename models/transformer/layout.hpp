#pragma once
#include <cstdint>
#include <optional>

#include "models/adapters.hpp"

namespace tracecast {

enum class TransformerNorm { LayerNorm, RootMeanSquare };

/// MoE in place of a feed-forward: every token goes to `per_token` of `count` experts, and to
/// `shared` ones that all tokens take.
struct ExpertLayout {
  std::int64_t count = 1, per_token = 1;
  std::int64_t feed_forward = 1;         ///< width of one expert
  std::int64_t shared_feed_forward = 0;  ///< of the shared ones together; 0: none
  int dense_layers = 0;                  ///< the first layers have no experts
  double capacity_factor =
      1;  ///< tokens an expert takes at most, over its even share; 1: dropless, evenly routed
  bool biases = false;   ///< of experts' GEMMs
  bool clamped = false;  ///< what goes into their activation
};

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): queries come from a
/// vector of query_rank per token, keys and values of all heads from one of kv_rank; rope_width
/// channels of a key carry its position, alike in all heads.
struct LatentHeads {
  std::int64_t query_rank = 0;  ///< 0: queries by one GEMM
  std::int64_t kv_rank = 1, nope_width = 1, rope_width = 1, value_width = 1;

  [[nodiscard]] std::int64_t key_width() const { return nope_width + rope_width; }
  /// Elements a token leaves between the GEMMs down and up, which every tensor-parallel rank needs.
  [[nodiscard]] std::int64_t ranks(std::int64_t width) const {
    return (query_rank > 0 ? query_rank : width) + kv_rank + rope_width;
  }
  friend bool operator==(const LatentHeads&, const LatentHeads&) = default;
};

/// What a decoder or encoder of alike layers is made of: all that its sharded graphs, parameters
/// and bytes follow from.
struct TransformerLayout {
  int layers = 1;
  std::int64_t width = 1, heads = 1, kv_heads = 1;
  std::int64_t head_width = 0;    ///< 0: width / heads
  std::int64_t feed_forward = 1;  ///< of layers without experts
  std::int64_t vocabulary = 1;
  std::int64_t positions = 0;  ///< rows of a learned table; 0: rotary or none
  TransformerNorm norm = TransformerNorm::LayerNorm;
  bool rotary = false;
  bool norms_heads =
      false;  ///< queries and keys are normalised, head by head, before they are turned
  bool scales_rotation = false;  ///< cosines and sines carry a factor (LanguageNetwork)
  bool gated = false;            ///< feed-forward of two GEMMs in, their gated GEMM, one out
  bool biases = true;            ///< of GEMMs and norms
  bool tied = true;              ///< the head is the embedding's table
  bool causal = true;            ///< queries see earlier positions only
  std::int64_t window = 0;  ///< keys that a query of `windowed_layers` of the layers sees at most
  int windowed_layers = 0;
  bool dropout = false;  ///< in training: embeddings, attention, residuals
  std::optional<ExpertLayout> experts{};
  std::optional<LatentHeads>
      latent{};  ///< then kv_heads = heads, and nothing of attention has biases

  /// Of queries and keys.
  [[nodiscard]] std::int64_t width_of_head() const {
    if (latent) return latent->key_width();
    return head_width > 0 ? head_width : width / heads;
  }
  [[nodiscard]] std::int64_t width_of_value() const {
    return latent ? latent->value_width : width_of_head();
  }
  /// The window of layers that are alike and see as many of `tokens` keys together, by
  /// AttentionAttributes' window - window^2 / (2 keys) a query; 0: all.
  [[nodiscard]] std::int64_t mean_window(std::int64_t tokens) const;
  /// Parameters of attention and norms of one layer: GEMMs
  ///   width x (heads + 2 kv_heads) head_width + heads head_width x width, biases, two norms;
  /// of latent attention GEMMs down and up with a norm between, and the GEMM out. Norms of heads:
  /// two of head_width.
  [[nodiscard]] double attention_parameters() const;
  /// Parameters of one dense feed-forward: (gated ? 3 : 2) width x feed_forward, biases.
  [[nodiscard]] double feed_forward_parameters() const;
  /// Parameters of all experts of a layer; 0 without.
  [[nodiscard]] double expert_parameters() const;
  /// What a layer with experts has besides them: router and shared experts.
  [[nodiscard]] double router_parameters() const;
  [[nodiscard]] bool has_experts(int layer) const {
    return experts && layer >= experts->dense_layers;
  }
  [[nodiscard]] double embedding_parameters() const;  ///< tokens and positions
  [[nodiscard]] double head_parameters() const;       ///< last norm, and the table when not tied
  [[nodiscard]] double parameters() const;
  /// Multiply-adds of one sequence's forward pass: GEMMs with weights, attention (half of it when
  /// causal is not taken off: published model FLOPs count all of it), head.
  [[nodiscard]] double forward_macs(std::int64_t tokens) const;
  /// Of these, the GEMMs with weights, for one token.
  [[nodiscard]] double weight_macs() const;
  /// Elements of A and B beside all of a layer's GEMMs that have adapters, all layers; packed GEMMs
  /// have one.
  [[nodiscard]] double adapter_parameters(const LowRankAdapters& adapters) const;
};

}  // namespace tracecast
