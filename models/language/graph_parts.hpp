#pragma once
#include <map>
#include <string>
#include <utility>

#include "hwspecs/software/attention_kernels.hpp"
#include "models/language/network.hpp"
#include "models/ops.hpp"

namespace tracecast::language {

/// What all parts of a network's graph share while it is built.
struct GraphParts {
  GraphBuilder& b;
  const LanguageNetwork& network;
  std::int64_t tokens;
  TensorId constant;
  AttentionKernels attention = AttentionKernels::Steps;
  AttentionKernels grouped_attention = AttentionKernels::Steps;
  bool casts_as_written = false;
  bool is_compiled = false;
  /// Cosine and sine by the channels that are turned.
  std::map<std::int64_t, std::pair<TensorId, TensorId>> rotary{};
  /// What hides later keys, by window and whether it is a block; 0: causal.
  mutable std::map<std::pair<std::int64_t, bool>, TensorId> masks{};
  /// That mask, made where none has needed it yet.
  [[nodiscard]] TensorId mask(std::int64_t window, bool is_chunk) const;
  std::optional<TensorId> alibi{};
  /// Keys and values of the last layer that made its own; by whether it sees a window.
  mutable std::map<bool, std::pair<TensorId, TensorId>> made_keys{};
  std::optional<TensorId> layer_inputs{};  ///< batch x tokens x layers x layer_input_width
};

/// The network's norm over the last dimension; `learned`: with a weight.
[[nodiscard]] TensorId norm(const GraphParts& parts, const std::string& name, TensorId x,
                            bool learned = true);
/// Root mean square norm whatever the network's is.
[[nodiscard]] TensorId root_mean_square(const GraphParts& parts, const std::string& name,
                                        TensorId x, bool learned = true);
/// The network's activation.
[[nodiscard]] TensorId activate(const GraphParts& parts, const std::string& name, TensorId x);
/// Rotary positions on the first `width` channels of the last dimension.
[[nodiscard]] TensorId rotate(const GraphParts& parts, const std::string& name, TensorId x,
                              std::int64_t width);

/// batch x tokens x width to the same, by what mixes tokens.
[[nodiscard]] TensorId mix(const GraphParts& parts, const std::string& name, TensorId x,
                           const GroupedQueryAttention& attention);
[[nodiscard]] TensorId mix(const GraphParts& parts, const std::string& name, TensorId x,
                           const LatentAttention& attention);
[[nodiscard]] TensorId mix(const GraphParts& parts, const std::string& name, TensorId x,
                           const GatedDeltaNet& delta);
[[nodiscard]] TensorId mix(const GraphParts& parts, const std::string& name, TensorId x,
                           const Mamba2& mamba);
[[nodiscard]] TensorId mix(const GraphParts& parts, const std::string& name, TensorId x,
                           const Mamba& mamba);
[[nodiscard]] TensorId mix(const GraphParts& parts, const std::string& name, TensorId x,
                           const CompressedAttention& attention);

/// Of residual streams side by side, batch x tokens x (streams * width): how they are mixed, and
/// their mean by these weights.
struct StreamWeights {
  TensorId weights, mean;
};
[[nodiscard]] StreamWeights stream_weights(const GraphParts& parts, const std::string& name,
                                           TensorId streams);
/// The streams, mixed, and a result added to each.
[[nodiscard]] TensorId joined_streams(const GraphParts& parts, const std::string& name,
                                      TensorId streams, TensorId y, TensorId weights);
/// Their mean behind the last layer.
[[nodiscard]] TensorId last_stream(const GraphParts& parts, TensorId streams);

[[nodiscard]] TensorId feed_forward(const GraphParts& parts, const std::string& name, TensorId x,
                                    const DenseFeedForward& dense);
[[nodiscard]] TensorId feed_forward(const GraphParts& parts, const std::string& name, TensorId x,
                                    const ExpertFeedForward& experts);

}  // namespace tracecast::language
