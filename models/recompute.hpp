#pragma once
#include <functional>
#include <optional>
#include <string_view>

#include "models/graph.hpp"

namespace tracecast {

/// Which results of the forward pass are computed a second time, when the backward pass needs them,
/// instead of being kept until then.
enum class Recompute {
  None,
  /// All but those of convolutions and of GEMMs with weights: normalisation, activations, pooling,
  /// softmax, dropout, GEMMs of two activations, concatenations. What would take more than 8 ops to
  /// get back is kept. Sources: Chen et al., arXiv 1604.06174, section 4 (drop the results of cheap
  /// ops); Korthikanti et al., arXiv 2205.05198, section 5 (attention only). Guess: 8 ops.
  Selective,
  /// All but what crosses from one segment of the forward pass to the next, and the last segment.
  /// The cuts are those with the least kept + greatest segment among even parallel layouts, each
  /// moved to where little crosses (Chen et al., section 3: about the square root of the number of
  /// layers; residual networks are cut between their blocks).
  Full,
};
[[nodiscard]] std::string_view to_string(Recompute recompute);  ///< "none", "selective", "full"
[[nodiscard]] std::optional<Recompute> find_recompute(std::string_view name);

/// A training step (models/training.hpp) whose backward ops read results computed again. Ops that
/// run again stand right before the first backward op that needs them, in forward order, pass
/// Forward, `forward` being the op they repeat; no op runs more than twice. Ids of forward ops, and
/// of all tensors, stay what they were. Without backward ops the graph comes back as it is.
[[nodiscard]] NetworkGraph recompute_activations(NetworkGraph step, Recompute recompute);

/// The same where the caller says which ops run again: results of forward ops for which
/// `runs_again` are not kept.
[[nodiscard]] NetworkGraph recompute_ops(NetworkGraph step,
                                         const std::function<bool(const Op&)>& runs_again);

}  // namespace tracecast
