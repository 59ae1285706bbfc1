#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "models/graph.hpp"

namespace tracecast {

/// Which GEMMs get low-rank adapters.
enum class AdapterTargets {
  Attention,  ///< those into queries, keys and values, and the one out of the attention
  Linear,     ///< all GEMMs of the layers with weights; not the last one of the network
};
[[nodiscard]] std::string_view to_string(AdapterTargets targets);  ///< "attention", "linear"
[[nodiscard]] std::optional<AdapterTargets> find_adapter_targets(std::string_view name);

/// How the weights under adapters lie in memory.
enum class BaseFormat {
  Same,       ///< as GEMMs read them
  Int8,       ///< 8 bits, an fp32 scale for each row (LLM.int8; Dettmers et al., arXiv 2208.07339)
  Nf4,        ///< 4 bits, an fp32 scale for each 64 (QLoRA; Dettmers et al., arXiv 2305.14314)
  Nf4Double,  ///< scales in 8 bits themselves, an fp32 one for each 256 of them
};
[[nodiscard]] std::string_view to_string(BaseFormat format);  ///< "same", "int8", "nf4", ...
[[nodiscard]] std::optional<BaseFormat> find_base_format(std::string_view name);
[[nodiscard]] inline bool is_packed(BaseFormat format) { return format != BaseFormat::Same; }
/// Of a packed format, scales counted.
[[nodiscard]] double bytes_per_weight(BaseFormat format);

/// Fine-tuning by low-rank adapters (LoRA; Hu et al., arXiv 2106.09685, section 4.1): the network's
/// weights W stay as they are, y = W x + s B A x, and A (rank x inputs) and B (outputs x rank)
/// alone are trained.
struct LowRankAdapters {
  std::int64_t rank = 0;  ///< 0: none, all weights are trained
  AdapterTargets targets = AdapterTargets::Attention;
  BaseFormat base =
      BaseFormat::Same;  ///< of the layers' GEMMs; the network's last one is not packed
  [[nodiscard]] bool any() const { return rank > 0; }
};

/// A forward graph whose weights are constants (TensorRole::Buffer) but for adapters beside its
/// GEMMs: dropout of the input, two GEMMs, the scale s, and a sum in place of the old result. Ids
/// of tensors stay; new ones follow. Source of the order of ops: Hugging Face peft,
/// tuners/lora/layer.py. What belongs to attention is reported by the graph: the last GEMMs before
/// an attention, or before a GEMM of two activations, and the first behind it. Packed weights are
/// bytes that a Cast writes out in 16 bits before each GEMM that reads them, in the backward pass
/// again. Throws InputError: a rank below 1 or above 65536; a network in which no GEMM is a target.
[[nodiscard]] NetworkGraph add_adapters(const NetworkGraph& forward,
                                        const LowRankAdapters& adapters);

/// States that all weights of a graph but those of adapters, and those named `source`, are
/// constants.
void freeze_all_but_adapters(NetworkGraph& graph, std::string_view source);

/// What names of adapters' tensors contain.
inline constexpr std::string_view kAdapterMark = ".lora_";

}  // namespace tracecast
