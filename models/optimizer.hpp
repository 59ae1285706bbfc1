#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tracecast {

enum class OptimizerKind {
  Sgd,       ///< w -= lr * g; no state
  Momentum,  ///< v = mu * v + g, w -= lr * v; one state
  Adam,      ///< two moments (Kingma and Ba, arXiv 1412.6980); two states
  AdamW,  ///< Adam, weights decayed beside it (Loshchilov and Hutter, arXiv 1711.05101); two states
  /// Adam's direction with decay, each weight tensor's step scaled by |w| / |direction| (You et
  /// al., arXiv 1904.00962, algorithm 2); two states
  Lamb,
  Adagrad,   ///< sum of squares (Duchi et al., JMLR 12, 2011); one state
  RmsProp,   ///< mean square and momentum (Tieleman and Hinton, 2012); two states
  Adadelta,  ///< mean squares of gradients and updates (Zeiler, arXiv 1212.5701); two states
  /// AdamW with both moments in blocks of 8 bits, an fp32 scale for each 256 (Dettmers et al.,
  /// arXiv 2110.02861; bitsandbytes, AdamW8bit)
  Adam8bit,
  /// Second moment as one number for each row and column, no first moment (Shazeer and Stern, arXiv
  /// 1804.04235); the update's direction is a tensor of its own
  Adafactor,
  None,  ///< gradients are kept and nothing is updated, as benchmarks do that run no optimizer
};
[[nodiscard]] std::string_view to_string(OptimizerKind kind);  ///< "sgd", "rmsprop", ...
[[nodiscard]] std::optional<OptimizerKind> find_optimizer(std::string_view name);
[[nodiscard]] std::vector<std::string> optimizer_names();
/// Tensors of the weight's size that it keeps besides weight and gradient.
[[nodiscard]] int state_count(OptimizerKind kind);
/// Bytes of these states per weight, beside a copy of the weight in fp32.
[[nodiscard]] double state_bytes(OptimizerKind kind);
/// Tensors of the weight's size that one update reads and writes in as few passes as the rule
/// allows, gradient read:
///   3 + 2 states: gradient, weight and states read, weight and states written
///   LAMB 12: norm of the weight (1); direction from gradient, weight, moments, with new moments (4
///   + 3); its norm (1);
///     the step (2 + 1). Source: NVIDIA apex, csrc/multi_tensor_lamb.cu
///   Adam in 8 bits 4: gradient and weight read, weight written, a quarter each for four of states
///   Adafactor 7: gradient twice (rows and columns), direction written, read for its norm and for
///   the step, weight read and written
///   none 0
[[nodiscard]] double update_accesses(OptimizerKind kind);

}  // namespace tracecast
