#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/graph.hpp"

namespace tracecast {

/// Product of the dimensions, or nothing when one is negative or the GEMM is 2^62 or more.
/// For importers, before a shape from outside becomes a tensor.
[[nodiscard]] std::optional<std::int64_t> checked_element_count(const Shape& shape);

/// Rows and columns added around an image, planes around a volume.
struct Pads {
  std::int64_t top = 0, left = 0, bottom = 0, right = 0, front = 0, back = 0;
};

/// The sliding window of a convolution or pooling: everything about it that is not a channel.
struct Window {
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t dilation_h = 1, dilation_w = 1;
  Pads pads{};
  std::int64_t kernel_d = 1, stride_d = 1, dilation_d = 1;  ///< over the depth of volumes
  /// A square window with equal pads.
  [[nodiscard]] static Window square(std::int64_t kernel, std::int64_t stride = 1,
                                     std::int64_t pad = 0, std::int64_t dilation = 1);
};

/// Places a window has on `size` cells:
///   floor or ceil((size + pads - dilation * (kernel - 1) - 1) / stride) + 1
/// With `ceil_mode`, as in PyTorch and ONNX, the last window may reach beyond the padded image, but
/// one that would start in the far pad is dropped.
/// Throws InputError naming `where` when a parameter is out of range or the window does not fit.
[[nodiscard]] std::int64_t window_count(std::string_view where, std::int64_t size,
                                        std::int64_t kernel, std::int64_t stride,
                                        std::int64_t pad_before, std::int64_t pad_after,
                                        std::int64_t dilation = 1, bool ceil_mode = false);

/// TensorFlow's "SAME" (ONNX SAME_UPPER): output = ceil(size / stride); the total pad is
/// max((output - 1) * stride + dilation * (kernel - 1) + 1 - size, 0), the odd cell after the image
/// (`extra_first`: before it, ONNX SAME_LOWER). Pads already in `window` are ignored.
[[nodiscard]] Pads same_padding(std::int64_t height, std::int64_t width, const Window& window,
                                bool extra_first = false);

/// The shape of an element-by-element combination, aligned at the last dimension; a dimension of 1
/// stretches. Throws InputError naming `where` when dimensions disagree.
[[nodiscard]] Shape broadcast_shape(std::string_view where, const Shape& a, const Shape& b);

/// True when the first output of `op` lives in the memory of its first input: Reshape, what is done
/// in place, and the gates' gradients of recurrent layers. Such an output costs no memory of its
/// own, and the memory lives until the last reader of either.
[[nodiscard]] bool shares_memory_with_input(const Op& op);

/// Builds a network graph op by op and infers every output shape. Used by the zoo and by ONNX
/// import alike.
///
/// Which attributes an op carries, by kind:
/// - Conv, ConvTranspose: ConvAttributes (see conv_transpose)
/// - Linear, MatMul: MatMulAttributes
/// - MaxPool, AvgPool: PoolAttributes
/// - BatchNorm, LayerNorm, InstanceNorm, GroupNorm, Lrn, Softmax, Loss: NormAttributes
/// - Activation, Binary, Dropout, Cast, Gather, Scatter, Resize: ElementwiseAttributes
/// - Recurrent: RecurrentAttributes
/// - Reduce: ReduceAttributes
/// - Routine: RoutineAttributes
/// - EdgeAttention, Sample: EdgeAttributes
/// - Optimizer: OptimizerAttributes
/// - the others: NoAttributes
///
/// An op's first output tensor has the op's name. Functions whose name ends in `_layer` also create
/// the weights, named NAME.weight and NAME.bias; the others take tensors that exist already. Every
/// function throws InputError, naming the op, when its geometry is impossible: a window larger than
/// the padded image, dimensions that disagree, a result of 2^62 elements or more.
class GraphBuilder {
 public:
  /// A stack of recurrent layers before it meets its input; see RecurrentAttributes.
  struct RecurrentLayers {
    CellKind cell = CellKind::Lstm;
    std::int64_t hidden = 1;
    int layers = 1;
    bool bidirectional = false;
    int biases = 2;
    std::int64_t projection = 0;
    bool dropout = false;
    bool skip_input = false;
  };
  /// Results of recurrent layers.
  struct RecurrentResult {
    TensorId y;                      ///< steps, batch, directions * output: h of the last layer
    TensorId last_h;                 ///< layers * directions, batch, output
    std::optional<TensorId> last_c;  ///< LSTM: layers * directions, batch, hidden
  };

  GraphBuilder(std::string name, std::int64_t batch);

  /// The graph built so far; set `outputs` before taking it.
  [[nodiscard]] NetworkGraph& graph() { return graph_; }
  [[nodiscard]] const Shape& shape(TensorId id) const { return graph_.tensor(id).shape; }
  [[nodiscard]] NetworkGraph take() && { return std::move(graph_); }

  // Tensors without a producer.
  TensorId input(std::string name, Shape shape, bool is_integer = false);
  TensorId weight(std::string name, Shape shape);
  TensorId buffer(std::string name, Shape shape);
  /// Any tensor, its shape checked.
  TensorId tensor(Tensor tensor);

  /// Appends any op with one new output of `shape`; for what has no function of its own below.
  TensorId append(Op op, Shape output_shape);

  // Convolution. Inputs N,C,H,W (or N,C,W: height 1; N,C,D,H,W: volumes, filters with the cells
  // over depth first).
  /// weight: K, C/groups, R, S (rank of x); the window's kernel is taken from the weight.
  TensorId conv(std::string name, TensorId x, TensorId weight, std::optional<TensorId> bias,
                Window window, std::int64_t groups = 1);
  /// States of the convolution that made `y` that its image lies channels last.
  void lay_channels_last(TensorId y);
  TensorId conv_layer(std::string name, TensorId x, std::int64_t out_channels, const Window& window,
                      bool with_bias, std::int64_t groups = 1);
  /// weight: C, K/groups, R, S. Output h = (h - 1) * stride - pads + dilation * (kernel - 1) +
  /// output_padding + 1. The attributes are those of the convolution whose data gradient it is: c,
  /// h, w describe the *output* and k, p, q the *input*, so that macs() is right and BackwardData
  /// kernels of the same shape compute it.
  TensorId conv_transpose(std::string name, TensorId x, TensorId weight,
                          std::optional<TensorId> bias, Window window, std::int64_t groups = 1,
                          std::int64_t output_padding_h = 0, std::int64_t output_padding_w = 0,
                          std::int64_t output_padding_d = 0);

  // GEMMs.
  enum class WeightLayout {
    OutIn,
    InOut
  };  ///< N x K (PyTorch, Gemm transB=1) or K x N (MatMul by a constant)
  /// x: ..., K with m = GEMM of the leading dimensions. transpose_b of the attributes is set for
  /// OutIn.
  TensorId linear(std::string name, TensorId x, TensorId weight, std::optional<TensorId> bias,
                  WeightLayout layout = WeightLayout::OutIn);
  TensorId linear_layer(std::string name, TensorId x, std::int64_t out_features, bool with_bias);
  /// a: ..., M, K and b: ..., K, N (or their last two swapped when transposed); leading dimensions
  /// broadcast.
  TensorId matmul(std::string name, TensorId a, TensorId b, bool transpose_a = false,
                  bool transpose_b = false);

  // Recurrence. x: steps, batch, features. Outputs of the op: y, what backward needs ("reserve"),
  // last h, last c.
  /// With the weights that the attributes call for, in any grouping (their sizes are not checked);
  /// then the initial states, when they are not zero.
  RecurrentResult recurrent(std::string name, TensorId x, const RecurrentLayers& layers,
                            std::span<const TensorId> weights,
                            std::span<const TensorId> initial_states = {});
  /// Weights per layer and direction as in PyTorch: NAME.weight_ih_l0, weight_hh_l0, bias_ih_l0,
  /// bias_hh_l0 (one bias: bias_l0), weight_hr_l0; the backward direction's end in `_reverse`.
  RecurrentResult recurrent_layer(std::string name, TensorId x, const RecurrentLayers& layers,
                                  std::span<const TensorId> initial_states = {});

  // Pooling.
  TensorId max_pool(std::string name, TensorId x, const Window& window, bool ceil_mode = false);
  TensorId avg_pool(std::string name, TensorId x, const Window& window, bool ceil_mode = false,
                    bool count_include_pad = true);
  TensorId global_avg_pool(std::string name, TensorId x);
  TensorId global_max_pool(std::string name, TensorId x);
  /// PyTorch's adaptive average: output cell i covers floor(i*h/out) to ceil((i+1)*h/out). An
  /// output larger than the image repeats cells, so the output size follows from the tensor and not
  /// from the attributes.
  TensorId adaptive_avg_pool(std::string name, TensorId x, std::int64_t out_h, std::int64_t out_w);

  // Normalisation. scale, bias, mean, variance: one value per channel (layer norm: per normalised
  // element).
  TensorId batch_norm(std::string name, TensorId x, TensorId scale, TensorId bias, TensorId mean,
                      TensorId variance);
  TensorId batch_norm_layer(std::string name, TensorId x);  ///< 2 weights, 2 buffers
  /// Over the dimensions from `axis` (negative: from the end) on.
  TensorId layer_norm(std::string name, TensorId x, std::int64_t axis,
                      std::optional<TensorId> scale, std::optional<TensorId> bias);
  TensorId layer_norm_layer(std::string name, TensorId x);  ///< over the last dimension
  TensorId instance_norm(std::string name, TensorId x, std::optional<TensorId> scale = {},
                         std::optional<TensorId> bias = {});
  TensorId group_norm(std::string name, TensorId x, std::int64_t groups, TensorId scale,
                      TensorId bias);
  TensorId lrn(std::string name, TensorId x, std::int64_t size);

  // Element by element.
  /// `function` as in ElementwiseAttributes: "relu", "sigmoid", "gelu". Extra inputs (PReLU's
  /// slope) follow x.
  TensorId activation(std::string name, TensorId x, std::string_view function,
                      bool in_place = false, std::span<const TensorId> extra_inputs = {});
  /// `function`: "add", "mul", "where"; at least one input.
  TensorId binary(std::string name, std::string_view function, std::span<const TensorId> inputs,
                  bool in_place = false);
  TensorId add(std::string name, TensorId a, TensorId b, bool in_place = false);
  TensorId mul(std::string name, TensorId a, TensorId b);
  TensorId softmax(std::string name, TensorId x, std::int64_t axis = -1);
  /// Training only: outputs y and a mask of one byte per element. Returns y.
  TensorId dropout(std::string name, TensorId x, bool in_place = false);
  TensorId cast(std::string name, TensorId x, bool to_integer, int integer_bytes = 8);
  /// To 32 bits in a network that runs in 16, and back. What ops make of wide tensors is wide, as
  /// types promote.
  TensorId upcast(std::string name, TensorId x);
  TensorId low_precision(std::string name, TensorId x);

  // Moving data. Axes may be negative: from the end.
  TensorId concat(std::string name, std::span<const TensorId> inputs, std::int64_t axis);
  std::vector<TensorId> split(std::string name, TensorId x, std::int64_t axis,
                              std::span<const std::int64_t> sizes);
  /// Any box or strided selection: no dimension of `output_shape` exceeds that of x.
  TensorId slice(std::string name, TensorId x, Shape output_shape);
  /// The same where all readers take it as it lies: where a framework's slices are views, no data
  /// moves.
  TensorId slice_view(std::string name, TensorId x, Shape output_shape);
  TensorId pad(std::string name, TensorId x, std::span<const std::int64_t> before,
               std::span<const std::int64_t> after);
  TensorId transpose(std::string name, TensorId x, std::span<const std::int64_t> permutation);
  /// One dimension may be -1: what is left.
  TensorId reshape(std::string name, TensorId x, Shape shape);
  /// Two dimensions: the GEMM before `axis`, the GEMM from it on.
  TensorId flatten(std::string name, TensorId x, std::int64_t axis = 1);
  TensorId resize(std::string name, TensorId x, Shape output_shape, std::string_view mode);

  /// table: rows x width; ids of any shape; output: ids' shape, width.
  TensorId embedding(std::string name, TensorId ids, TensorId table);
  TensorId embedding_layer(std::string name, TensorId ids, std::int64_t rows, std::int64_t width);
  /// ids: batch x bag; output: batch x width, each the sum of a bag's rows (PyTorch's EmbeddingBag,
  /// mode "sum"). The table's gradient is sparse: one row per id.
  TensorId embedding_bag(std::string name, TensorId ids, TensorId table);
  /// An MoE's routing: every token goes to its `per_token` most probable experts, at most
  /// `capacity` tokens of a sequence to each. probabilities: batch, tokens, experts. Which tokens
  /// those are depends on the data; all experts are taken to get their even share, or their
  /// capacity where that is less.
  struct Routing {
    TensorId gate;                 ///< batch, tokens, 1: probability of the chosen experts
    std::vector<TensorId> tokens;  ///< per expert: ids of its tokens among all batch * tokens
  };
  Routing route(std::string name, TensorId probabilities, std::int64_t capacity,
                std::int64_t per_token = 1);
  /// Rows of a data set, or edges of its graph, each of integers of so many bytes: more than a GPU
  /// holds.
  TensorId store(std::string name, Shape shape, int bytes);
  /// Rows of a store by their ids, as they are stored.
  TensorId stored_rows(std::string name, TensorId store, TensorId ids);
  /// `count` in-neighbours of `nodes` destinations, drawn from a store of edges.
  TensorId sample(std::string name, TensorId edges, std::int64_t nodes, std::int64_t count);
  /// sources, destinations: nodes x (heads * width); scores: two vectors of that width; edges: an
  /// id each.
  TensorId edge_attention(std::string name, TensorId sources, TensorId destinations,
                          TensorId scores, TensorId edges, std::int64_t heads);
  /// Small ops of the program on `inputs`, without a gradient; what they give is left out.
  void routine(std::string name, std::span<const TensorId> inputs,
               const RoutineAttributes& attributes);
  /// Writes `rows` over the rows `ids` of `data`, in place.
  TensorId scatter_rows(std::string name, TensorId data, TensorId ids, TensorId rows);
  /// ONNX Gather: data's shape with `axis` replaced by the shape of indices.
  TensorId gather(std::string name, TensorId data, TensorId indices, std::int64_t axis);
  /// `axes` empty: over all dimensions. `function`: "mean", "sum", "max" (kept in the op's note).
  TensorId reduce(std::string name, TensorId x, std::span<const std::int64_t> axes, bool keep_dims,
                  std::string_view function);

  /// An operator without a cost model, its outputs' shapes as well as they are known.
  std::vector<TensorId> unknown(std::string name, std::string_view operator_name,
                                std::span<const TensorId> inputs, std::span<const Shape> outputs);

 private:
  TensorId pool(OpKind kind, std::string name, TensorId x, const Window& window, bool ceil_mode,
                bool count_include_pad);
  TensorId norm(OpKind kind, std::string name,
                std::initializer_list<std::optional<TensorId>> inputs, std::int64_t rows,
                std::int64_t cols);
  TensorId to_width(std::string name, TensorId x, bool is_wide);

  NetworkGraph graph_;
};

}  // namespace tracecast
