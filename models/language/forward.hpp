#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "hwspecs/expert_parameters.hpp"
#include "hwspecs/tensor_gemm_parameters.hpp"
#include "models/kernel.hpp"
#include "models/language/network.hpp"
#include "sim/base/collective.hpp"

/// One step of an inference engine on one rank, as the kernels that it launches: fused as engines
/// fuse them, the words of the last tokens alone. What depends on the number of new tokens, on
/// their attention and on the words asked for are lists of their own, so that a price of each can
/// be kept.
namespace tracecast {

/// What weights are kept and multiplied in. Table of words, head and router keep 16 bits.
struct ServedFormats {
  GemmFormat gemms = GemmFormat::Half;
  ExpertFormat experts = ExpertFormat::Half;
  bool fp8_cache = false;
};

/// How the GPUs of a replica share the network: tensor x pipeline x data of them. `data` ranks
/// attend to sequences of their own; experts are divided among `experts` ranks and each of them
/// among the rest of tensor x data.
struct ModelSharing {
  std::int64_t tensor = 1, pipeline = 1, experts = 1, data = 1;
  [[nodiscard]] std::int64_t gpus() const { return tensor * pipeline * data; }
  [[nodiscard]] std::int64_t expert_tensor() const { return tensor * data / experts; }
};

struct ServedNetwork {
  LanguageNetwork network;
  ServedFormats formats;
  ModelSharing sharing;
  std::optional<GemmEngine> engine;  ///< whose kernels; nothing: what engines have in common
  /// Residuals are added by the norm's kernel, biases by their GEMM's, and attention takes prompts
  /// as they lie; else each by kernels of its own.
  bool fuses_sums = true;
};
/// Throws InputError naming the flag: heads, experts, layers or widths that the sharing does not
/// divide.
void check_sharing(const ServedNetwork& served);

/// activations[m, k] weights[k, n], `batch` of them.
struct ForwardGemm {
  double batch = 1, m = 1, n = 1, k = 1;
  GemmFormat format = GemmFormat::Half;
};
/// A kernel that reads and writes memory once: embedding, activation, rotary, sampling.
struct ForwardPass {
  double elements = 1, read_bytes = 0, written_bytes = 0, operations_per_element = 1;
};
/// Norm of rows, residual added before where `passes` is 4 (two reads, two writes).
struct ForwardNorm {
  double rows = 1, cols = 1, passes = 2;
};
enum class ForwardGroup {
  Tensor,   ///< GPUs that share a layer's GEMMs
  Experts,  ///< all GPUs of a stage
  Stage,    ///< from one stage of the pipeline to the next
};
struct ForwardCommunication {
  Collective collective = Collective::AllReduce;
  double bytes = 0;  ///< as Communicator::plan takes them
  ForwardGroup group = ForwardGroup::Tensor;
};
using ForwardWork = std::variant<ForwardGemm, ForwardPass, ForwardNorm, PrefillWork, DecodeWork,
                                 ExpertsWork, ForwardCommunication>;

struct ForwardKernel {
  std::string_view name;
  ForwardWork work;
  double times = 1;       ///< in a step: layers
  double launches = 1;    ///< kernels that the host launches for it where no graph was captured
  bool is_guess = false;  ///< bounded by its bytes: no cost model
};

/// GEMMs, norms, activations, experts, collectives for `rows` new tokens of this rank.
[[nodiscard]] std::vector<ForwardKernel> row_kernels(const ServedNetwork& served, double rows);

/// New tokens of prompts. Of prompts of several lengths l: sequences = (sum l)^2 / sum l^2 and
/// tokens = sum l^2 / sum l, which keep both the tokens and the pairs of query and key.
struct PrefillShape {
  double sequences = 1, tokens = 1;
  double keys = 0;  ///< that a token sees on average, where some are cached already; 0: its own
                    ///< prompt's before it
};
[[nodiscard]] std::vector<ForwardKernel> prefill_kernels(const ServedNetwork& served,
                                                         const PrefillShape& shape);

/// One new token of each of `sequences` with `keys` tokens on average, the new one included.
struct DecodeShape {
  double sequences = 1, keys = 1;
};
[[nodiscard]] std::vector<ForwardKernel> decode_kernels(const ServedNetwork& served,
                                                        const DecodeShape& shape);

/// Last norm, words and their choice for `sequences` tokens.
[[nodiscard]] std::vector<ForwardKernel> logit_kernels(const ServedNetwork& served,
                                                       double sequences);

/// Tokens that choose `per_token` of `experts` evenly at random: those of one of `ranks`. Expected
/// values of a binomial distribution of each expert's tokens, for many of them of the normal one.
/// Leaves out: ranks that get more than others.
[[nodiscard]] ExpertLoad random_expert_load(double tokens, double per_token, double experts,
                                            double ranks);

/// Weights of the GPU that holds most. Norms, router and what heads of keys cannot be divided are
/// held by every rank.
[[nodiscard]] Bytes served_weight_bytes(const ServedNetwork& served);
/// What a token's cache takes on that GPU, of layers that keep all tokens; and what a sequence
/// takes whatever its length: windows and states.
struct ServedCache {
  Bytes token{};
  Bytes window_token{};  ///< of layers with a window, up to `window` tokens
  std::int64_t window = 0;
  Bytes sequence{};
};
[[nodiscard]] ServedCache served_cache(const ServedNetwork& served);

}  // namespace tracecast
