#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "hwspecs/software/framework_profile.hpp"
#include "models/graph.hpp"
#include "models/kernel.hpp"
#include "models/lowering/formats.hpp"

namespace tracecast::lowering {

/// What every layer's lowering reads. Outlives the calls.
struct Context {
  const NetworkGraph& graph;
  const FrameworkProfile& framework;
  Formats formats;
  bool is_training =
      false;  ///< the graph has backward or update ops: batch norm computes statistics

  [[nodiscard]] Bytes bytes(TensorId id) const { return tensor_bytes(graph.tensor(id), formats); }
  [[nodiscard]] double elements(TensorId id) const {
    return static_cast<double>(element_count(graph.tensor(id).shape));
  }
  [[nodiscard]] Bytes input_bytes(const Op& op) const;
  [[nodiscard]] Bytes output_bytes(const Op& op) const;
  [[nodiscard]] double output_elements(const Op& op) const;
  /// The gradient that flows into a backward op: its first input with that role, else its last
  /// input.
  [[nodiscard]] TensorId incoming_gradient(const Op& op) const;
};

/// Kernels of each kind of op, in launch order. Bytes are compulsory ones: every operand once.
/// Convolution and bias: see convolution.hpp; these are the small kernels round it.

/// Linear and MatMul, all passes: the attributes describe the GEMM that is computed
/// (models/training.hpp).
[[nodiscard]] std::vector<Kernel> lower_gemm(const Context& context, const Op& op);
/// Attention in one kernel. Forward: Q, K, V in, Y out. Backward: rows of dY and Y multiplied and
/// summed first, then the scores again and five GEMMs. Source: Dao, "FlashAttention-2", arXiv
/// 2307.08691, algorithms 1 and 2.
[[nodiscard]] std::vector<Kernel> lower_attention(const Context& context, const Op& op);
/// Recurrences over tokens, chunk by chunk. Per chunk of C tokens and head, multiply-adds of the
/// GEMMs:
///   state space, as mamba_ssm runs it (ssd_combined.py): states C K V, scores C C K per group,
///   outputs C V (K + C/2); backward the first two again, then 4 of C K V, 2 of C C V / 2 and 2 of
///   C C K per group gated delta rule, as flash-linear-attention runs it (chunk.py): C C K, an
///   inverse, C C (K + V), 2 of C K V in a chain over chunks, C C K, C V (K + C); backward the
///   first four again, then about twice the rest
/// One token: the state read and written.
[[nodiscard]] std::vector<Kernel> lower_scan(const Context& context, const Op& op);
[[nodiscard]] std::vector<Kernel> lower_top_keys(const Context& context, const Op& op);
/// y += bias, y of `elements`.
[[nodiscard]] Kernel bias_add(const Context& context, Pass pass, double elements, double channels);
/// db = sum of dy over everything but its `channels`.
[[nodiscard]] Kernel bias_gradient(const Context& context, double elements, std::int64_t channels);
/// Weights kept wider than used: one cast before the forward use, one after the gradient.
[[nodiscard]] Kernel weight_cast(const Context& context, Pass pass, double elements);

/// Data changed from one format to another: half to float, float to 8-bit integers.
[[nodiscard]] Kernel cast(Pass pass, Precision from, Precision to, double elements);

/// Batch norm, layer norm, instance and group norm, LRN, softmax, loss.
[[nodiscard]] std::vector<Kernel> lower_normalization(const Context& context, const Op& op);
/// Whether a batch norm of these formats goes to the framework's own kernels.
[[nodiscard]] bool runs_own_batch_norm(const Context& context);
/// Everything that streams: pools, activations, combinations, dropout, copies, embeddings,
/// reductions, unknown ops.
[[nodiscard]] std::vector<Kernel> lower_streaming(const Context& context, const Op& op);

/// Tables whose rows are looked up and summed, an MoE's routing, rows scattered back; attention
/// over edges and the drawing of edges (sparse.cpp). Edge attention in one kernel each way
/// (FrameworkFusion::edge_attention): every edge reads its source's values; backward it adds to the
/// source's gradient, in 32 bits, which are cleared before and cast afterwards. Else op by op, as
/// DGL's GATConv runs it: vectors times values, sums per head, one score per edge, leaky ReLU, a
/// softmax of five kernels, sums of rows; backward likewise. Sources: NVIDIA's RGAT of
/// mlcommons/training_results_v4.0, dgl/model/dgl_model.py (pylibcugraphops mha_gat_n2n,
/// high_precision_dgrad); DGL 2.1, python/dgl/nn/pytorch/conv/gatconv.py and
/// backend/pytorch/sparse.py.
[[nodiscard]] std::vector<Kernel> lower_sparse(const Context& context, const Op& op);

/// Ops of the framework in an edge attention that is not one kernel.
inline constexpr double kEdgeAttentionOps = 8;

/// What dynamic loss scaling runs over all gradients before the updates; nothing without it.
[[nodiscard]] std::vector<Kernel> lower_loss_scaling(const Context& context,
                                                     std::span<const Op* const> updates);

/// The update of one parameter (of the rows that a sparse gradient has), or of `ops` together when
/// the framework launches for many at once. Terms of a rule as the framework's own loop runs them,
/// in tensors of the weight's size:
///   sgd       update (2 read, 1 written)
///   momentum  scale (1, 1), add (2, 1), update (2, 1)
///   adam      scale, add, scale, addcmul, sqrt, divide, add (1 or 2, 1 each), update (3, 1)
///   others    per state scale (1, 1) and add (2, 1), then update (2 + states, 1)
/// Fused: one kernel, 2 + states read, 1 + states written. Before them accumulation and weight
/// decay, after them zeroing, where the framework has them.
/// Sources: PyTorch 1.8 torch/optim/_functional.py; TensorFlow 1.15
/// core/kernels/training_ops_gpu.cu.cc.
[[nodiscard]] std::vector<Kernel> lower_update(const Context& context,
                                               std::span<const Op* const> ops);

}  // namespace tracecast::lowering
