#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hwspecs/gpu_spec.hpp"
#include "sim/base/ids.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

using TensorId = Id<struct TensorTag>;
using OpId = Id<struct OpTag>;

/// Dimensions, outermost first; activations of images are N, C, H, W whatever layout a framework
/// stores. Every dimension is at least 0 and the GEMM is at most 2^62 - 1 (checked where graphs
/// are built).
using Shape = std::vector<std::int64_t>;
[[nodiscard]] std::int64_t element_count(const Shape& shape);
[[nodiscard]] std::string to_string(const Shape& shape);  ///< "64x3x224x224"; "scalar" for rank 0

/// What a tensor holds; memory classes follow from it.
enum class TensorRole {
  Input,   ///< fed from outside: images, token ids, labels
  Weight,  ///< trainable parameter
  Buffer,  ///< kept but not trained: running statistics, constant tables
  Store,  ///< a data set's rows or edges, more than a GPU holds; where they lie is the job's affair
  Activation,      ///< produced by an op
  Gradient,        ///< gradient of an activation
  WeightGradient,  ///< gradient of a weight
  OptimizerState,  ///< momentum, second moment, master weight
};
[[nodiscard]] std::string_view to_string(TensorRole role);

struct Tensor {
  std::string name;
  Shape shape;
  TensorRole role = TensorRole::Activation;
  bool is_integer = false;  ///< ids, masks, indices: integers whatever the precision mode
  int integer_bytes = 8;    ///< element size when `is_integer`
  bool is_wide = false;     ///< 32 bits although the network runs in 16: its code casts there
};

enum class OpKind {
  Conv,
  ConvTranspose,
  Linear,  ///< y = x W^T + b; inputs: x, weight[, bias]
  MatMul,  ///< batched GEMM of two activations
  /// softmax(Q K^T) V in one kernel that never stores the scores (FlashAttention); inputs: packed Q
  /// K V, or Q, K, V; or Q, K, V, mask; outputs: y, one statistic per query and head
  Attention,
  /// A recurrence over tokens with one state per sequence and head, chunk by chunk; inputs: what
  /// each token brings, then weights; output: y
  Scan,
  TopKeys,  ///< which values of a row are greatest; output: 1 or 0 for each; no gradient
  MaxPool,
  AvgPool,  ///< global pooling: kernel = image
  BatchNorm,
  LayerNorm,
  InstanceNorm,
  GroupNorm,
  Lrn,
  Activation,  ///< one input, one output, same shape
  Binary,      ///< two or more inputs combined element by element, with broadcasting
  Softmax,
  Dropout,
  Concat,
  Split,
  Slice,
  Pad,
  Transpose,
  Reshape,  ///< view: no data moves
  Embedding,
  EmbeddingBag,  ///< sums of rows of a table; inputs: ids (batch x bag), table; gradient: rows, not
                 ///< a table
  Gather,
  Route,  ///< which tokens each expert of an MoE gets; outputs: gate, then ids of tokens per expert
  /// Attention over the edges of a graph from sources to destinations, as in graph attention
  /// networks; inputs: values of sources, of destinations, two vectors that score them, edges;
  /// outputs: y, a weight per edge and head
  EdgeAttention,
  Sample,   ///< in-neighbours drawn for given nodes; inputs: a Store of edges, nodes; output: an id
            ///< per edge; no gradient
  Scatter,  ///< rows written over those of the first input; inputs: rows replaced, ids, new rows
  Recurrent,  ///< a stack of recurrent layers over all time steps: y, what backward needs, states
  Routine,  ///< small ops of the program, one after the other, on few values: choosing and matching
            ///< boxes
  Reduce,
  Resize,
  Cast,
  Loss,       ///< softmax cross-entropy over classes: inputs: logits, labels
  Optimizer,  ///< update of weights; inputs: weight, gradient, states...
  Unknown,    ///< an operator without a cost model: bounded by its bytes, reported, wide interval
};
[[nodiscard]] std::string_view to_string(OpKind kind);

/// Which part of a training step an op belongs to.
enum class Pass {
  Forward,
  BackwardData,     ///< gradient with respect to the input
  BackwardWeights,  ///< gradient with respect to weight and bias
  Backward,         ///< of ops without that distinction
  Update,           ///< optimizer
};
[[nodiscard]] std::string_view to_string(Pass pass);

/// A convolution: input N,C,H,W, filter K, C/groups, R, S. Pads may differ at both ends ("same" of
/// TensorFlow). Output height p = floor((h + pad_top + pad_bottom - dilation_h * (r - 1) - 1) /
/// stride_h) + 1; width alike. Over volumes h, p, r and stride_h are those of depth times those of
/// height: elements of input, output and filter, multiply-adds and inputs per output are then what
/// they are.
struct ConvAttributes {
  std::int64_t n = 1, c = 1, h = 1, w = 1, k = 1, r = 1, s = 1, p = 1, q = 1;
  int stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  std::int64_t groups = 1;
  bool has_bias = false;
  bool is_volume =
      false;  ///< over depth, height and width; libraries have fewer algorithms for these
  /// The network's own code leaves its image with the channels innermost, whatever layout the
  /// framework keeps.
  bool channels_last = false;
  /// Multiply-adds of the direct method: n * k * p * q * (c / groups) * r * s.
  [[nodiscard]] double macs() const;
  friend bool operator==(const ConvAttributes&, const ConvAttributes&) = default;
};
/// Pooling window over H, W of an N,C,H,W input; of volumes see ConvAttributes.
struct PoolAttributes {
  int kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1;
  int pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  bool ceil_mode = false;
  bool count_include_pad = false;
};
/// C[batch, m, n] = A[batch, m, k] B[batch, k, n]. For Linear: m = rows of x, n = features out, k =
/// features in.
struct MatMulAttributes {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false;
  bool has_bias = false;
  [[nodiscard]] double macs() const;
};
/// `name` is the ONNX operator or PyTorch function in lower case: "relu", "sigmoid", "gelu", "add",
/// "mul".
struct ElementwiseAttributes {
  std::string name;
  bool in_place = false;  ///< writes over its input (torchvision's ReLU(inplace=True))
};
/// Normalisation over rows x cols: batch norm: rows = channels, cols = n*h*w; layer norm: rows =
/// tokens, cols = width.
struct NormAttributes {
  std::int64_t rows = 1, cols = 1;
  int lrn_size = 0;  ///< channels in the window (Lrn only)
};
struct ReduceAttributes {
  std::int64_t rows = 1, cols = 1;  ///< `rows` results, each over `cols` elements
};
struct OptimizerAttributes {
  std::string name;  ///< "sgd", "momentum", "adam", ...; "none": the gradient is kept, no update
  int states = 0;    ///< tensors of the weight's size besides weight and gradient
};
/// What a recurrent layer computes at each time step.
enum class CellKind { RnnTanh, RnnRelu, Lstm, Gru };
[[nodiscard]] std::string_view to_string(CellKind kind);  ///< "rnn_tanh", "lstm" ...
/// A stack of recurrent layers, as cuDNN and ONNX define them. With G gates (1, LSTM 4, GRU 3), H =
/// hidden, P = output():
///   per layer and direction: weights G*H x (input of the layer), G*H x P, biases * G*H, and H x P
///   when projected
/// The first layer reads `input` features, the others directions() * P.
struct RecurrentAttributes {
  CellKind cell = CellKind::Lstm;
  std::int64_t steps = 1, batch = 1, input = 1, hidden = 1;
  std::int64_t projection = 0;  ///< LSTM only: h is projected to this width; 0 = not
  int layers = 1;
  bool bidirectional = false;
  int biases =
      2;  ///< vectors per gate: 2 in cuDNN and PyTorch, 1 in Keras and TensorFlow, 0 = none
  bool dropout = false;  ///< between layers, in training
  bool skip_input =
      false;  ///< the first layer has no input weights (CUDNN_SKIP_INPUT); input = hidden
  [[nodiscard]] std::int64_t gates() const;
  [[nodiscard]] std::int64_t output() const { return projection > 0 ? projection : hidden; }
  [[nodiscard]] std::int64_t directions() const { return bidirectional ? 2 : 1; }
  /// Features that layer `layer` (from 0) reads.
  [[nodiscard]] std::int64_t input_of(int layer) const;
  /// Elements per sequence and step that stay in memory for backward besides x and y: gates, and
  /// the cell state (LSTM) or the recurrent part of the candidate (GRU), and h of all layers but
  /// the last.
  [[nodiscard]] std::int64_t reserved_per_step() const;
  /// Multiply-adds of the GEMMs: steps * batch * sum over layers and directions of
  /// G*H * (input of the layer + P) + (H * P when projected).
  [[nodiscard]] double macs() const;
};
/// Attention of `queries` to `keys` positions per sequence and head; several query heads may share
/// a head of keys and values.
struct AttentionAttributes {
  std::int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1;
  std::int64_t width = 1;        ///< of a head
  bool causal = false;           ///< a query sees the keys up to its own position only
  std::int64_t value_width = 0;  ///< of a head's values; 0: width
  std::int64_t window = 0;  ///< keys that a causal query sees, its own the last; 0: all before it
  std::int64_t chosen = 0;  ///< keys that each query reads by its own choice; 0: all that it sees
  [[nodiscard]] std::int64_t width_of_values() const {
    return value_width > 0 ? value_width : width;
  }
  /// Keys per query on average: keys; half of them when causal, window - window^2 / (2 keys) with a
  /// window; no more than `chosen`.
  [[nodiscard]] double keys_per_query() const;
  /// Scores that are computed: batch * heads * queries * keys per query.
  [[nodiscard]] double scores() const;
  /// Multiply-adds of the two forward GEMMs: scores * (width + width_of_values()).
  [[nodiscard]] double macs() const;
  friend bool operator==(const AttentionAttributes&, const AttentionAttributes&) = default;
};
/// How a state follows from a token's key k, value v and decay a.
enum class ScanRule {
  StateSpace,  ///< S = a S + k v^T                  (Mamba 2: Dao and Gu, arXiv 2405.21060, section
               ///< 6)
  GatedDelta,  ///< S = a S + b k (v - a k^T S)^T    (Yang et al., arXiv 2412.06464)
};
[[nodiscard]] std::string_view to_string(ScanRule rule);
/// y = q^T S token by token; S is key_width x value_width, one per sequence and head. Heads of a
/// group share q and k.
struct ScanAttributes {
  ScanRule rule = ScanRule::StateSpace;
  std::int64_t batch = 1, tokens = 1, heads = 1, groups = 1, key_width = 1, value_width = 1;
  std::int64_t chunk = 64;  ///< tokens that are multiplied with each other at once
  /// Multiply-adds of the recurrence itself: 2 (StateSpace) or 3 GEMMs of a state with a vector per
  /// token and head.
  [[nodiscard]] double macs() const;
  friend bool operator==(const ScanAttributes&, const ScanAttributes&) = default;
};
/// Every destination adds up the values of its edges' sources, each times a softmax over its edges
/// of leaky_relu(a . source + b . destination), head by head.
struct EdgeAttributes {
  std::int64_t sources = 1, destinations = 1, edges = 1;
  std::int64_t heads = 1, width = 1;  ///< of a head
  friend bool operator==(const EdgeAttributes&, const EdgeAttributes&) = default;
};
/// The `chosen` greatest of each row.
struct TopKeysAttributes {
  std::int64_t rows = 1, cols = 1, chosen = 1;
};
/// Ops that work on so few values that only their number counts: the host dispatches them one by
/// one.
struct RoutineAttributes {
  std::int64_t ops = 1;
  bool waits = false;  ///< the host reads results in between: it starts when the GPU is done, and
                       ///< waits for the end
  /// Copied while the host waits: to the GPU from the program's own, pageable memory; back into
  /// pinned memory.
  std::int64_t fed_bytes = 0, fetched_bytes = 0;
  /// Device memory besides inputs and outputs: while it runs, and from then on until the backward
  /// pass begins with the loss.
  std::int64_t scratch_bytes = 0, kept_bytes = 0;
};
struct NoAttributes {};
using Attributes =
    std::variant<NoAttributes, ConvAttributes, PoolAttributes, MatMulAttributes,
                 ElementwiseAttributes, NormAttributes, ReduceAttributes, OptimizerAttributes,
                 RecurrentAttributes, AttentionAttributes, RoutineAttributes, ScanAttributes,
                 TopKeysAttributes, EdgeAttributes>;

/// A node of the network graph.
struct Op {
  std::string name{};
  OpKind kind = OpKind::Unknown;
  Pass pass = Pass::Forward;
  Attributes attributes{};
  std::vector<TensorId> inputs{};   ///< tensors read, weights included
  std::vector<TensorId> outputs{};  ///< tensors written
  std::optional<OpId> forward{};    ///< of backward and update ops: the forward op they belong to
  std::string note{};               ///< of Unknown ops: the operator's name in its file
};
/// Note of a slice that all its readers take as it lies, and of a split whose parts they do,
/// whatever the framework.
inline constexpr std::string_view kViewNote = "view";
class NetworkGraph;
/// What a step's ops take out of stores that no GPU's memory holds: their results.
[[nodiscard]] Bytes bytes_from_stores(const NetworkGraph& step);
/// Multiply-adds of an op whose attributes are those of a convolution, GEMM, attention, scan or
/// recurrent layer, whatever its pass; else 0.
[[nodiscard]] double macs(const Op& op);

/// A network at one batch size and image size: ops in an executable order over tensors.
/// Invariant: every input of an op is a graph input, weight or buffer, or an output of an earlier
/// op; each tensor has at most one producer. A graph that exists is valid.
class NetworkGraph {
 public:
  std::string name;
  std::int64_t batch = 1;  ///< samples in one step on one GPU
  /// Runs as while training, backward ops or not: batch norm takes the batch's statistics.
  bool training_mode = false;
  /// Of weights that stay as they are while adapters beside them are trained (models/adapters.hpp);
  /// tensors of the role Buffer.
  std::int64_t frozen_parameters = 0;

  /// Room for this many; a matter of speed only.
  void reserve(std::size_t num_tensors, std::size_t num_ops);
  TensorId add_tensor(Tensor tensor);
  /// The id of the op, added. Throws InternalError when the invariant would break.
  OpId add_op(Op op);
  /// States that a tensor holds integers (ids, masks, indices), for builders that learn it
  /// afterwards.
  void set_integer(TensorId id, int bytes);
  /// States of a convolution that its image lies channels last (ConvAttributes).
  void set_channels_last(OpId id);
  /// States that `rows` of a store lie in the GPU's memory.
  void place_store(TensorId id, std::int64_t rows);
  /// States that a weight is a constant which training leaves alone, for builders that learn it
  /// afterwards.
  void set_untrained(TensorId id);

  [[nodiscard]] const Tensor& tensor(TensorId id) const { return tensors_[id.index]; }
  [[nodiscard]] const Op& op(OpId id) const { return ops_[id.index]; }
  [[nodiscard]] std::span<const Tensor> tensors() const { return tensors_; }
  [[nodiscard]] std::span<const Op> ops() const { return ops_; }
  [[nodiscard]] std::optional<OpId> producer(TensorId id) const { return producers_[id.index]; }
  /// The network's results (logits, auxiliary logits); where the loss attaches.
  std::vector<TensorId> outputs;

  /// Elements of all Weight tensors, and of frozen ones: the published "parameters".
  [[nodiscard]] std::int64_t parameter_count() const;
  /// Multiply-adds of Conv, ConvTranspose, Linear, MatMul, Attention and Recurrent ops of the
  /// forward pass, whole batch.
  [[nodiscard]] double forward_macs() const;

 private:
  std::vector<Tensor> tensors_;
  std::vector<Op> ops_;
  std::vector<std::optional<OpId>> producers_;
};

}  // namespace tracecast
