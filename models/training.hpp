#pragma once
#include "models/graph.hpp"
#include "models/optimizer.hpp"

namespace tracecast {

struct TrainingOptions {
  OptimizerKind optimizer = OptimizerKind::Momentum;
  bool with_loss = true;       ///< false: gradients of the outputs are fed from outside
  bool with_optimizer = true;  ///< false: forward and backward only
  /// Each weight's gradient is added in place to the one kept from earlier micro-batches.
  bool adds_gradients = false;
  bool differentiates_input = false;  ///< the gradient of what comes in from outside as well
  /// Where a tensor has several readers, the first of its gradients is copied, the others are added
  /// to the copy.
  bool copies_first_gradient = false;
};

/// A whole training step: the forward ops, the loss on every output (auxiliary heads too), the
/// backward ops in reverse order, and one update per weight. A gradient is computed only where some
/// weight needs it, so the first convolution has no BackwardData unless `differentiates_input`.
///
/// What backward ops read is what has to stay in memory until then:
/// - Conv, Linear: BackwardData: dY, W -> dX; BackwardWeights: X, dY -> dW[, dbias]
/// - Recurrent: BackwardData: reserve, dY and dstates, weights -> gates' gradients (in the
/// reserve's place), dX;
///   BackwardWeights: X, Y, gates' gradients -> all weight gradients
/// - MatMul: one GEMM per operand (BackwardWeights where the operand is a weight)
/// - Attention: Q, K, V, Y, the statistics, dY -> gradients of the inputs, the scores computed
/// again
/// - Scan: all that the forward op read, dY -> gradients of it, states computed again; TopKeys:
/// none
/// - BatchNorm, LayerNorm, InstanceNorm, GroupNorm: X, dY, scale -> dX, dscale, dbias
/// - Lrn and MaxPool: X, Y, dY -> dX (cuDNN's pooling: no tensor of indices)
/// - Activation: Y, dY where the derivative follows from the result (relu, sigmoid ...) or the op
///   is in place, else X, dY
/// - Binary: add and sum pass dY on without work; others read dY and operands; an operand that
///   broadcasting stretched gets its gradient from a Reduce
/// - AvgPool, Transpose, Reshape, Resize, Cast, sums and means: dY
/// - Softmax: Y, dY; Dropout: dY, mask; Embedding: ids, dY
/// - EmbeddingBag: ids, dY -> one row of gradient per id (sparse); the update touches these rows
/// alone
/// - Route: probabilities, gate, its gradient; Scatter: ids, dY -> a copy without the rows written
/// over,
///   and a Slice of those
/// - Gather: indices, dY; of one input (expand, tile) a Reduce over the copies
/// - Concat: one Slice per input; Split: a Concat; Slice: a Pad; Pad: a Slice
/// - Loss: forward logits, labels -> loss, log-probabilities; backward log-probabilities, labels
///
/// Where a tensor has several readers its gradients are summed by Binary "add" as they come, as
/// autograd does; Torch7's containers copy the first one before.
///
/// Attributes of backward ops are those of the forward op, except Linear and MatMul: there they
/// describe the GEMM that is computed, inputs[0] and inputs[1] being its operands as stored.
/// Conv with `has_bias` also sums dY into the bias's gradient (the last output). An output that is
/// a Softmax gets its loss on the logits before it. Optimizer ops write in place and have no
/// outputs; `forward` of an update is the first op that reads the weight.
[[nodiscard]] NetworkGraph make_training_graph(NetworkGraph forward,
                                               const TrainingOptions& options);

}  // namespace tracecast
