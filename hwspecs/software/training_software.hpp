#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/loaders/spec_identity.hpp"
#include "hwspecs/loaders/spec_text.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// How a loss over the vocabulary is computed.
enum class LossKernels {
  /// Logits cast to fp32; maximum, difference, exponential, sum, quotient, each over memory;
  /// backward scale and cast.
  /// Source: Megatron-LM, core/tensor_parallel/cross_entropy.py.
  StepByStep,
  /// Logits cast to fp32, log-softmax and its gradient. Source: PyTorch, aten LogSoftmax, Loss.
  LogSoftmax,
  /// One kernel forward, one that writes the gradient over the logits. Source: flash-attention,
  /// xentropy_kernel.cu.
  Fused,
};

/// What "selective" recomputation repeats.
enum class SelectiveRecompute {
  AttentionCore,  ///< the attention between its GEMMs (Korthikanti et al., arXiv 2205.05198,
                  ///< section 5)
  /// All of a layer but attention and every other GEMM. Source: torchtitan, parallelize_llama.py,
  /// _save_list.
  OtherGemms,
  /// Norms, and what lies between the two GEMMs of experts (recompute_modules layernorm, moe_act).
  /// Source: Megatron-LM, core/transformer/transformer_config.py.
  NormsAndActivations,
};

/// What of a layer the host launches as CUDA graphs.
enum class LayerGraphs {
  None,
  AllButExperts,  ///< whose GEMMs take as many rows as the router sends them
  Step,           ///< the whole step
};

/// What a training program does for MoE networks.
struct MoeProgram {
  /// Ops that the host dispatches besides the layer's own, forward and backward: the router's
  /// choice, and what counts, sorts, pads and sends tokens. Each passes over a number per token and
  /// expert.
  double router_ops = 0, router_backward_ops = 0;
  double communication_ops = 0, communication_backward_ops = 0;
  /// The host reads how many tokens go where before it launches the experts.
  bool reads_counts = false;
  /// Launches of every GEMM of experts, for each of a rank's; 0: one for all. In 8 bits twice as
  /// many: each quantizes.
  double launches_per_expert = 0;
  bool sorts_twice =
      false;  ///< tokens are sorted by rank before they are sent, and by expert when they are there
  bool sends_once = false;  ///< a token goes to a rank once, however many of its experts are there
  /// Collectives of tokens run beside the kernels of another micro-batch, on so many SMs; 0:
  /// nothing hides them.
  double hidden_communication_sms = 0;
  bool fuses_activation = false;  ///< and the cast of its result, in the GEMMs before it, both ways
};

/// What a training program holds on a rank beside model states and activations.
struct ProgramMemory {
  /// Copies of a rank's gradients that its collectives read or write, bytes per weight.
  double gradient_copies = 0;
  /// While the optimizer runs, bytes per weight that the rank updates: gradients in fp32, terms of
  /// the rule that are tensors of their own.
  double update_copies = 0;
  double bucket_elements = 0;  ///< of the buffers that gradients are reduced in, all together
  /// ZeRO 3: layers whose weights, and whose gradients before they are scattered, are whole at a
  /// time.
  double gathered_layers = 2, gathered_gradients = 0;
  double gathered_elements = 0;  ///< ZeRO 3: whole weights that are not given back, at most
  bool keeps_root = false;       ///< ZeRO 3: embedding and head stay whole through a step
  double loss_bytes = 0;       ///< per logit at the loss's peak, logits and their gradient counted
  double allocator_share = 0;  ///< that the allocator holds beyond all of this, of all of it
  Bytes communicator{};        ///< of every group of ranks that communicate
  double log_sd = 0.1;         ///< standard deviation of ln(needed / predicted)
};

/// What a training program does around a divided transformer, by its documentation and source;
/// hwspecs/training_software/*.textproto. One that exists is valid.
struct TrainingSoftware {
  std::string id, name;
  std::vector<std::string> aliases;
  std::string framework;  ///< id of the framework profile with its host costs
  LossKernels loss = LossKernels::StepByStep;
  /// Gradients are kept and reduced in fp32, else in the activations' format.
  bool wide_gradients = false;
  bool overlaps_gradients =
      false;                      ///< reduces them while the last micro-batch's backward pass runs
  bool overlaps_weights = false;  ///< gathers updated weights during the next forward pass
  bool adds_gradients = false;    ///< a kernel per weight and micro-batch adds to the kept gradient
  /// Collectives of sequence-parallel ranks run beside the GEMMs that they feed or that feed them,
  /// piece by piece.
  bool overlaps_tensor = false;
  bool waits_after_send = false;  ///< the host waits for every send between stages
  /// Bytes that the update of one weight moves: unscaling, norm, optimizer, copy to the 16-bit
  /// weight.
  double update_bytes = 0;
  double update_passes = 1;  ///< kernels per group of tensors, for latency
  /// Times of its attention kernel over those of FlashAttention-2, where it has one.
  double attention_time = 1;
  int training_metrics = 0;  ///< cross entropies of every batch's logits beside the loss, in fp32
  double metric_passes = 0;  ///< further reads or writes of every batch's logits, in 16 bits
  /// Gate and feed-forward are two GEMMs, their activation and their GEMM two kernels.
  bool separate_gate = false;
  /// In place of its framework's (FrameworkKernels); nothing: as that says.
  std::optional<bool> casts_as_written;
  /// Bytes that copies of a rank's gradients move, per weight and step, besides the update.
  double gradient_copy_bytes = 0;
  SelectiveRecompute selective = SelectiveRecompute::AttentionCore;
  LayerGraphs graphs = LayerGraphs::None;
  MoeProgram moe;
  ProgramMemory memory;
  /// Standard deviation of ln(step time) among releases of the program that train the same MoE by
  /// the same plan.
  double moe_log_sd = 0;
  std::vector<SpecSource> sources;
  std::vector<SpecValue> values;
};

/// Reads text format (hwspecs/proto/training_software.proto); `where` names it in errors. `find`
/// has the files that one may be based on. Throws InputError: syntax, a missing or absurd value, a
/// value without a source, no such base.
[[nodiscard]] TrainingSoftware parse_training_software(std::string_view text,
                                                       std::string_view where,
                                                       const FindSpecText& find);

}  // namespace tracecast
