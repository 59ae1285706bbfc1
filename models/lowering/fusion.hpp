#pragma once
#include <vector>

#include "models/kernel.hpp"
#include "models/lowering/fusion_graph.hpp"

namespace tracecast::lowering {

/// A kernel that a graph compiler makes of several nodes, by index into FusionGraph::nodes.
struct FusedKernel {
  std::vector<NodeId> nodes;     ///< those whose results it writes; the first says where it runs
  std::vector<ValueRead> reads;  ///< each value once
  std::vector<ValueId> writes;
  int pieces = 1;  ///< nodes in it, those that write nothing included
};

/// Which kernels a compiler makes of a graph, in an executable order. As XLA does on GPUs:
///
///   loops into readers   a loop joins all readers of its result, which then is never written, when
///                        none of them is a library call and no more bytes move:
///                          sum over readers of bytes(operands it does not read yet)
///                            <= bytes(operands) + bytes(result) * (1 + readers)
///                        With one reader that always holds. Expensive loops (over 4 operations per
///                        element) are not repeated, nor run once per element of a larger reader.
///   reductions end it    loops join a reduction, nothing joins its result
///   several results      a reduction joins the loop that writes its operand; two reductions or two
///                        loops over equally many elements that read the same operand become one
///                        (`merges_siblings`): always at the place of the first, when all the
///                        other's operands are there by then
///
/// and never with more than `most_operands` operands and results. What a kernel reads and writes is
/// every operand and result once.
/// Sources: tensorflow/compiler/xla/service/gpu: instruction_fusion, fusion_merger (its header
/// states the rule of bytes), multi_output_fusion, gpu_fusible (64 operands). Left out: fusion into
/// windows of pools, horizontal fusion of unrelated small kernels.
[[nodiscard]] std::vector<FusedKernel> plan_fusion(FusionGraph& graph,
                                                   const GraphCompiler& compiler);

/// `step` with its elementwise ops and reductions replaced by the kernels of `plan_fusion`; each
/// stands with the op of its first node. Ops that were taken in keep an empty candidate.
[[nodiscard]] LoweredStep fuse(const Context& context, LoweredStep step);

/// The graph of the step as its kernels read and write it: an op has the operands and results of
/// the kernels that stand with it, and tensors that fusion keeps in registers have neither writer
/// nor reader. Same ops and tensors, same order. For plans of memory.
[[nodiscard]] NetworkGraph fused_graph(const Context& context, const LoweredStep& step);

}  // namespace tracecast::lowering
