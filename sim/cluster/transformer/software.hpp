#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "models/transformer/shard.hpp"

namespace tracecast {

/// What a training program does around the network, by its documentation and source.
struct TrainingSoftware {
  std::string_view id, name;
  std::string_view framework;  ///< id of the framework profile with its host costs
  LossKernels loss = LossKernels::StepByStep;
  /// Gradients are kept and reduced in fp32, else in the activations' format.
  bool wide_gradients = false;
  bool overlaps_gradients =
      false;                      ///< reduces them while the last micro-batch's backward pass runs
  bool overlaps_weights = false;  ///< gathers updated weights during the next forward pass
  bool adds_gradients = false;    ///< a kernel per weight and micro-batch adds to the kept gradient
  /// Exchanges of sequence-parallel ranks run beside the products that they feed or that feed them, piece by piece.
  bool overlaps_tensor = false;
  bool waits_after_send = false;  ///< the host waits for every send between stages
  /// Bytes that the update of one weight moves: unscaling, norm, optimizer, copy to the 16-bit weight.
  double update_bytes = 0;
  double update_passes = 1;  ///< kernels per group of tensors, for latency
  /// Times of its attention kernel over those of FlashAttention-2, where it has one.
  double attention_time = 1;
  int training_metrics = 0;  ///< cross entropies of every batch's logits beside the loss, in fp32
};

/// Software by id ("megatron", "fsdp", "internevo"). Throws InputError with the nearest word.
[[nodiscard]] const TrainingSoftware& find_training_software(std::string_view id);
[[nodiscard]] std::vector<std::string> training_software_ids();

}  // namespace tracecast
