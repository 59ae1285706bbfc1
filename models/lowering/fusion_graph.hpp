#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/kernel.hpp"
#include "models/lowering/layers.hpp"

namespace tracecast::lowering {

using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;

/// What a graph compiler may do with a node.
enum class NodeKind {
  Library,  ///< calls a library or has a kernel written by hand: fuses with nothing
  Loop,     ///< every result element from a few elements of each operand
  Reduce,   ///< sums or extrema over many elements: the last piece of a kernel
};

/// An operand and how much of it is read.
struct ValueRead {
  ValueId value;
  Bytes bytes{};
};

/// What a node computes: a tensor, or an intermediate result that the network graph has no name
/// for.
struct Value {
  std::optional<TensorId> tensor;  ///< the memory it takes, when it takes any
  Bytes bytes{};
  double elements = 0;
  std::optional<NodeId> writer;
  std::vector<NodeId> readers;  ///< each once
  bool is_result = false;       ///< of the whole step: has to be in memory
};

/// A piece of an op.
struct Node {
  std::uint32_t entry = 0;  ///< index into LoweredStep::ops
  NodeKind kind = NodeKind::Library;
  std::string_view name;
  std::vector<ValueRead> reads;
  std::vector<ValueId> writes;
  double elements = 0;  ///< of the results of a loop, of the operands of a reduction
  double operations_per_element = 1;
  std::int64_t rows = 1;  ///< Reduce: results per sum
  bool strided = false;   ///< Reduce: ReductionWork::strided
  KernelClass kernel_class = KernelClass::Elementwise;
  Precision data = Precision::Fp32;
};

/// A lowered step as a compiler sees it: nodes in an executable order.
struct FusionGraph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  /// Per entry of LoweredStep::ops: runs the kernels it was lowered to.
  std::vector<bool> keeps_kernels;
};

/// Takes the ops of `step` apart. Views rename values. With `expands_normalization`:
///   batch norm   statistics (reduction of x), normalise (loop over x); inference: the loop alone;
///                backward: two sums (reduction of x and dy), dx (loop over x and dy)
///   layer norm   the same by rows, backward with a second reduction, down the rows, for the
///   weights softmax      maximum, sum of exponentials (two reductions), quotient (loop); backward:
///   dot
///                GEMM (reduction of y and dy), dx (loop); loss: softmax, then the label's entry
/// Bias is a loop after its GEMM (or its epilogue), its gradient a reduction of dy; an update is a
/// loop over weight, gradient and states, an L2 loss in front of it a reduction of the weight.
/// Gradients of weights stay in the format of the GEMM that wrote them: the cast is the update's.
/// Sources: tensorflow/compiler/xla/service/batchnorm_expander.cc; softmax and layer norm are
/// compositions of elementary ops in tf2xla (kernels/softmax_op.cc) and in Keras.
/// Needs a framework with a compiler; its GEMMs were lowered without these pieces.
[[nodiscard]] FusionGraph build_fusion_graph(const Context& context, const LoweredStep& step);

}  // namespace tracecast::lowering
