#include "models/training.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

/// The derivative follows from the result: f'(x) = g(f(x)).
bool is_result_based(std::string_view function) {
  constexpr std::string_view kFunctions[] = {"relu", "sigmoid", "tanh",       "exp",
                                             "sqrt", "rsqrt",   "reciprocal", "elu"};
  return std::find(std::begin(kFunctions), std::end(kFunctions), function) != std::end(kFunctions);
}

/// Inputs without which an op of this kind has no meaning.
std::size_t least_inputs(OpKind kind) {
  switch (kind) {
    case OpKind::Conv:
    case OpKind::ConvTranspose:
    case OpKind::Linear:
    case OpKind::MatMul:
    case OpKind::Embedding:
    case OpKind::EmbeddingBag:
      return 2;
    case OpKind::Scatter:
      return 3;
    default:
      return 1;
  }
}

/// Appends the backward half of a step to a graph.
class Backward {
 public:
  Backward(NetworkGraph graph, const TrainingOptions& options)
      : graph_(std::move(graph)),
        options_(options),
        num_forward_(static_cast<std::uint32_t>(graph_.ops().size())) {
    std::size_t num_inputs = 0;
    for (const Op& op : graph_.ops()) num_inputs += op.inputs.size();
    graph_.reserve(graph_.tensors().size() + 2 * num_inputs, num_forward_ + 2 * num_inputs);
    gradients_.resize(graph_.tensors().size());
    copied_.resize(graph_.tensors().size());
    mark_what_needs_gradients();
  }

  void attach_losses(bool with_loss) {
    const std::vector<TensorId> outputs = graph_.outputs;
    for (const TensorId output : outputs) {
      const TensorId logits = before_softmax(output);
      if (!needs_gradient(logits)) continue;
      if (with_loss) {
        attach_loss(logits);
      } else {
        const TensorId seed = graph_.add_tensor({.name = "d " + graph_.tensor(logits).name,
                                                 .shape = graph_.tensor(logits).shape,
                                                 .role = TensorRole::Input,
                                                 .is_wide = graph_.tensor(logits).is_wide});
        deliver(logits, seed, *graph_.producer(logits));
      }
    }
    for (const PendingLoss& loss : losses_) {
      const TensorId gradient = new_gradient(loss.logits);
      emit(loss.op, OpKind::Loss, Pass::Backward, {loss.log_probabilities, loss.labels},
           {gradient});
      deliver(loss.logits, gradient, loss.op);
    }
  }

  void differentiate() {
    for (std::uint32_t i = num_forward_; i-- > 0;) differentiate(OpId{i});
  }

  void add_to_kept_gradients() {
    for (std::uint32_t i = 0; i < gradients_.size(); ++i) {
      if (graph_.tensors()[i].role != TensorRole::Weight || !gradients_[i]) continue;
      const TensorId fresh = *gradients_[i];
      const TensorId sum = new_gradient(TensorId{i}, "kept d ");
      graph_.add_op({.name = "add " + graph_.tensor(fresh).name,
                     .kind = OpKind::Binary,
                     .pass = Pass::Backward,
                     .attributes = ElementwiseAttributes{.name = "add", .in_place = true},
                     .inputs = {fresh, fresh},  // as large as the one kept
                     .outputs = {sum},
                     .forward = graph_.op(*graph_.producer(fresh)).forward});
      gradients_[i] = sum;
    }
  }

  void update_weights(OptimizerKind kind) {
    const int states = state_count(kind);
    std::vector<std::optional<OpId>> first_reader(gradients_.size());
    for (std::uint32_t i = num_forward_; i-- > 0;) {
      for (const TensorId input : graph_.op(OpId{i}).inputs) first_reader[input.index] = OpId{i};
    }
    for (std::uint32_t i = 0; i < gradients_.size(); ++i) {
      if (graph_.tensors()[i].role != TensorRole::Weight || !gradients_[i]) continue;
      Op op{
          .name = "update " + graph_.tensors()[i].name,
          .kind = OpKind::Optimizer,
          .pass = Pass::Update,
          .attributes = OptimizerAttributes{.name = std::string(to_string(kind)), .states = states},
          .forward = first_reader[i]};
      op.inputs.reserve(static_cast<std::size_t>(2 + states));
      op.inputs = {TensorId{i}, *gradients_[i]};
      for (int state = 0; state < states; ++state) {
        op.inputs.push_back(graph_.add_tensor(state_of(graph_.tensors()[i], state, kind)));
      }
      graph_.add_op(std::move(op));
    }
  }

  NetworkGraph take() && { return std::move(graph_); }

 private:
  /// Packed states are bytes, their scales among them.
  static Tensor state_of(const Tensor& weight, int state, OptimizerKind kind) {
    Tensor tensor{.name = weight.name + (state == 0 ? ".moment1" : ".moment2"),
                  .shape = weight.shape,
                  .role = TensorRole::OptimizerState,
                  .is_wide = weight.is_wide};
    const double bytes = state_bytes(kind) / state_count(kind);
    if (bytes >= 4) return tensor;
    const double count = static_cast<double>(element_count(weight.shape));
    tensor.shape = {static_cast<std::int64_t>(std::ceil(count * bytes))};
    tensor.is_integer = true;
    tensor.integer_bytes = 1;
    tensor.is_wide = false;
    return tensor;
  }

  struct PendingLoss {
    OpId op;
    TensorId logits, log_probabilities, labels;
  };

  /// A tensor needs a gradient when a weight lies behind it, or an input that is to be
  /// differentiated; integers never do.
  void mark_what_needs_gradients() {
    needs_gradient_.resize(graph_.tensors().size());
    for (std::size_t i = 0; i < needs_gradient_.size(); ++i) {
      const Tensor& tensor = graph_.tensors()[i];
      needs_gradient_[i] =
          tensor.role == TensorRole::Weight ||
          (options_.differentiates_input && tensor.role == TensorRole::Input && !tensor.is_integer);
    }
    for (const Op& op : graph_.ops()) {
      const bool needed = std::any_of(op.inputs.begin(), op.inputs.end(),
                                      [&](TensorId id) { return needs_gradient_[id.index] != 0; });
      for (const TensorId output : op.outputs) {
        needs_gradient_[output.index] = needed && !graph_.tensor(output).is_integer;
      }
    }
  }

  [[nodiscard]] bool needs_gradient(TensorId id) const { return needs_gradient_[id.index] != 0; }

  [[nodiscard]] TensorId before_softmax(TensorId output) const {
    const std::optional<OpId> producer = graph_.producer(output);
    const bool is_softmax = producer && graph_.op(*producer).kind == OpKind::Softmax;
    return is_softmax ? graph_.op(*producer).inputs.front() : output;
  }

  /// Classes are dimension 1 of N,C,H,W and the last dimension otherwise.
  void attach_loss(TensorId logits) {
    const Shape shape = graph_.tensor(logits).shape;
    const std::size_t axis = shape.size() == 4 ? 1 : shape.empty() ? 0 : shape.size() - 1;
    NormAttributes attributes;
    Shape label_shape;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      (i == axis ? attributes.cols : attributes.rows) *= shape[i];
      if (i != axis) label_shape.push_back(shape[i]);
    }
    const std::string name = losses_.empty() ? "loss" : "loss" + std::to_string(losses_.size() + 1);
    std::optional<TensorId> labels;
    for (const PendingLoss& loss : losses_) {
      if (graph_.tensor(loss.labels).shape == label_shape) labels = loss.labels;
    }
    if (!labels) {
      labels = graph_.add_tensor({.name = "labels",
                                  .shape = std::move(label_shape),
                                  .role = TensorRole::Input,
                                  .is_integer = true});
    }
    const bool is_wide = graph_.tensor(logits).is_wide;
    const TensorId value = graph_.add_tensor({.name = name, .shape = {}, .is_wide = is_wide});
    const TensorId log_probabilities = graph_.add_tensor(
        {.name = name + ".log_probabilities", .shape = shape, .is_wide = is_wide});
    const OpId op = graph_.add_op({.name = name,
                                   .kind = OpKind::Loss,
                                   .attributes = attributes,
                                   .inputs = {logits, *labels},
                                   .outputs = {value, log_probabilities}});
    losses_.push_back({op, logits, log_probabilities, *labels});
  }

  TensorId new_gradient(TensorId of, const char* prefix = "d ") {
    const bool is_weight = graph_.tensor(of).role == TensorRole::Weight;
    return new_gradient(of, graph_.tensor(of).shape,
                        is_weight ? TensorRole::WeightGradient : TensorRole::Gradient, prefix);
  }
  TensorId new_gradient(TensorId of, Shape shape, TensorRole role, const char* prefix = "d ") {
    return graph_.add_tensor({.name = prefix + graph_.tensor(of).name,
                              .shape = std::move(shape),
                              .role = role,
                              .is_wide = graph_.tensor(of).is_wide});
  }

  /// Appends a backward op with the attributes of its forward op.
  void emit(OpId forward, OpKind kind, Pass pass, std::vector<TensorId> inputs,
            std::vector<TensorId> outputs) {
    emit(forward, kind, pass, graph_.op(forward).attributes, std::move(inputs), std::move(outputs));
  }
  void emit(OpId forward, OpKind kind, Pass pass, Attributes attributes,
            std::vector<TensorId> inputs, std::vector<TensorId> outputs) {
    const char* suffix = pass == Pass::BackwardData      ? " dgrad"
                         : pass == Pass::BackwardWeights ? " wgrad"
                                                         : " bwd";
    if (auto* elementwise = std::get_if<ElementwiseAttributes>(&attributes)) {
      elementwise->in_place = false;  // dX is a new tensor also where Y was not
    }
    if (kind == OpKind::Linear) {
      for (TensorId& input : inputs) input = unpacked_again(input);
    }
    graph_.add_op({.name = graph_.op(forward).name + suffix,
                   .kind = kind,
                   .pass = pass,
                   .attributes = std::move(attributes),
                   .inputs = std::move(inputs),
                   .outputs = std::move(outputs),
                   .forward = forward,
                   .note = graph_.op(forward).note});
  }

  /// A constant that the forward pass wrote out of packed weights is written out anew, not kept.
  TensorId unpacked_again(TensorId input) {
    const std::optional<OpId> producer = graph_.producer(input);
    if (!producer || graph_.op(*producer).kind != OpKind::Cast) return input;
    const TensorId packed = graph_.op(*producer).inputs.front();
    const Tensor& from = graph_.tensor(packed);
    if (from.role != TensorRole::Buffer || !from.is_integer) return input;
    const TensorId again = graph_.add_tensor({.name = graph_.tensor(input).name + " again",
                                              .shape = graph_.tensor(input).shape,
                                              .is_wide = graph_.tensor(input).is_wide});
    graph_.add_op({.name = graph_.op(*producer).name + " again",
                   .kind = OpKind::Cast,
                   .pass = Pass::Backward,
                   .inputs = {packed},
                   .outputs = {again},
                   .forward = producer});
    return again;
  }

  /// One more contribution to the gradient of `to`; the second and later ones are added.
  void deliver(TensorId to, TensorId gradient, OpId forward) {
    std::optional<TensorId>& known = gradients_[to.index];
    if (!known) {
      known = gradient;
      return;
    }
    const bool in_place = options_.copies_first_gradient;
    if (in_place && !copied_[to.index]) {
      copied_[to.index] = 1;
      const TensorId copy = new_gradient(to, "copy d ");
      graph_.add_op({.name = "copy d " + graph_.tensor(to).name,
                     .kind = OpKind::Slice,  // of the whole
                     .pass = Pass::Backward,
                     .inputs = {*known},
                     .outputs = {copy},
                     .forward = forward});
      known = copy;
    }
    const TensorId sum = new_gradient(to, "sum d ");
    graph_.add_op({.name = "accumulate d " + graph_.tensor(to).name,
                   .kind = OpKind::Binary,
                   .pass = Pass::Backward,
                   .attributes = ElementwiseAttributes{.name = "add", .in_place = in_place},
                   .inputs = {*known, gradient},
                   .outputs = {sum},
                   .forward = forward});
    known = sum;
  }

  /// An op whose one result is the gradient of `to`.
  void emit_for(TensorId to, OpId forward, OpKind kind, Pass pass, std::vector<TensorId> inputs) {
    emit_for(to, forward, kind, pass, graph_.op(forward).attributes, std::move(inputs));
  }
  void emit_for(TensorId to, OpId forward, OpKind kind, Pass pass, Attributes attributes,
                std::vector<TensorId> inputs) {
    const TensorId gradient = new_gradient(to);
    emit(forward, kind, pass, std::move(attributes), std::move(inputs), {gradient});
    deliver(to, gradient, forward);
  }

  /// An op that computes the gradients of all of `candidates` that need one.
  void emit_for_all(std::span<const TensorId> candidates, OpId forward, Pass pass,
                    std::vector<TensorId> inputs) {
    std::vector<TensorId> targets, gradients;
    for (const TensorId candidate : candidates) {
      if (!needs_gradient(candidate)) continue;
      targets.push_back(candidate);
      gradients.push_back(new_gradient(candidate));
    }
    if (targets.empty()) return;
    const std::vector<TensorId> outputs = gradients;
    emit(forward, graph_.op(forward).kind, pass, std::move(inputs), std::move(gradients));
    for (std::size_t i = 0; i < targets.size(); ++i) deliver(targets[i], outputs[i], forward);
  }

  void differentiate(OpId id) {
    const OpKind kind = graph_.op(id).kind;
    const std::vector<TensorId> in = graph_.op(id).inputs;
    const std::vector<TensorId> out = graph_.op(id).outputs;
    if (kind == OpKind::Recurrent) return recurrent(id, in, out);
    if (kind == OpKind::Split || kind == OpKind::Unknown) {
      differentiate_many_outputs(id, kind, in, out);
      return;
    }
    if (out.empty() || !gradients_[out.front().index]) return;
    TRACECAST_CHECK(in.size() >= least_inputs(kind), "an op has the inputs that its kind needs");
    const TensorId x = in.front(), y = out.front(), dy = *gradients_[y.index];
    const auto for_x = [&](OpKind backward_kind, std::vector<TensorId> inputs) {
      if (needs_gradient(x)) emit_for(x, id, backward_kind, Pass::Backward, std::move(inputs));
    };
    switch (kind) {
      case OpKind::Conv:
      case OpKind::ConvTranspose:
        if (needs_gradient(x)) emit_for(x, id, kind, Pass::BackwardData, {dy, in[1]});
        emit_for_all(std::span(in).subspan(1), id, Pass::BackwardWeights, {x, dy});
        break;
      case OpKind::Linear:
        linear(id, in, dy);
        break;
      case OpKind::MatMul:
        matmul(id, in, dy);
        break;
      case OpKind::Attention:
      case OpKind::EdgeAttention:
      case OpKind::Scan: {
        std::vector<TensorId> reads = in;
        if (kind != OpKind::Scan) reads.insert(reads.end(), out.begin(), out.end());
        reads.push_back(dy);
        emit_for_all(in, id, Pass::Backward, std::move(reads));
        break;
      }
      case OpKind::BatchNorm:
      case OpKind::LayerNorm:
      case OpKind::InstanceNorm:
      case OpKind::GroupNorm: {
        std::vector<TensorId> reads = {x, dy};
        if (in.size() > 1) reads.push_back(in[1]);
        emit_for_all(in, id, Pass::Backward, std::move(reads));
        break;
      }
      case OpKind::MaxPool:
      case OpKind::Lrn:
        for_x(kind, {x, y, dy});
        break;
      case OpKind::AvgPool:
      case OpKind::Reshape:
      case OpKind::Transpose:
      case OpKind::Resize:
      case OpKind::Cast:
        for_x(kind, {dy});
        break;
      case OpKind::Reduce:
        // The gradient of an extremum goes where the extremum was.
        if (graph_.op(id).note == "max" || graph_.op(id).note == "min") {
          for_x(kind, {x, y, dy});
        } else {
          for_x(kind, {dy});
        }
        break;
      case OpKind::Activation:
        activation(id, in, y, dy);
        break;
      case OpKind::Binary:
        binary(id, in, y, dy);
        break;
      case OpKind::Softmax:
        for_x(kind, {y, dy});
        break;
      case OpKind::Dropout:
        for_x(kind, out.size() > 1 ? std::vector{dy, out[1]} : std::vector{dy});
        break;
      case OpKind::Concat:
        for (const TensorId input : in) {
          if (needs_gradient(input)) emit_for(input, id, OpKind::Slice, Pass::Backward, {dy});
        }
        break;
      case OpKind::Slice:
        for_x(OpKind::Pad, {dy});
        break;
      case OpKind::Pad:
        for_x(OpKind::Slice, {dy});
        break;
      case OpKind::Embedding:
        if (needs_gradient(in[1])) emit_for(in[1], id, kind, Pass::Backward, {x, dy});
        break;
      case OpKind::EmbeddingBag:
        if (needs_gradient(in[1])) embedding_bag(id, in, dy);
        break;
      case OpKind::Gather:
        gather(id, in, y, dy);
        break;
      case OpKind::Route:
        // The gate is the greatest probability; the choice itself has no gradient.
        for_x(kind, {x, y, dy});
        break;
      case OpKind::Scatter:
        // Rows written over pass nothing on; what replaced them gets its rows of the gradient.
        for_x(kind, {dy, in[1]});
        if (needs_gradient(in[2])) {
          emit_for(in[2], id, OpKind::Slice, Pass::Backward, {dy, in[1]});
        }
        break;
      case OpKind::Loss:
      case OpKind::Optimizer:
      case OpKind::Split:
      case OpKind::Recurrent:
      case OpKind::Routine:
      case OpKind::TopKeys:
      case OpKind::Sample:
      case OpKind::Unknown:
        break;
    }
  }

  void differentiate_many_outputs(OpId id, OpKind kind, const std::vector<TensorId>& in,
                                  const std::vector<TensorId>& out) {
    std::vector<TensorId> reads;
    for (const TensorId output : out) {
      if (gradients_[output.index]) reads.push_back(*gradients_[output.index]);
    }
    if (reads.empty() || in.empty()) return;
    if (kind == OpKind::Split) {
      if (needs_gradient(in.front())) {
        emit_for(in.front(), id, OpKind::Concat, Pass::Backward, std::move(reads));
      }
      return;
    }
    reads.insert(reads.begin(), in.begin(), in.end());
    emit_for_all(in, id, Pass::Backward, std::move(reads));
  }

  /// y[m,n] = x[m,k] W, with W stored n x k (transpose_b) or k x n.
  void linear(OpId id, const std::vector<TensorId>& in, TensorId dy) {
    const MatMulAttributes f = std::get<MatMulAttributes>(graph_.op(id).attributes);
    const TensorId x = in[0], w = in[1];
    if (needs_gradient(x)) {
      const MatMulAttributes gemm{.m = f.m, .n = f.k, .k = f.n, .transpose_b = !f.transpose_b};
      emit_for(x, id, OpKind::Linear, Pass::BackwardData, gemm, {dy, w});
    }
    const bool with_bias = in.size() > 2 && needs_gradient(in[2]);
    if (!needs_gradient(w)) return;
    MatMulAttributes gemm{.m = f.transpose_b ? f.n : f.k,
                          .n = f.transpose_b ? f.k : f.n,
                          .k = f.m,
                          .transpose_a = true,
                          .has_bias = with_bias};
    const TensorId dw = new_gradient(w);
    std::vector<TensorId> outputs = {dw};
    if (with_bias) outputs.push_back(new_gradient(in[2]));
    const std::vector<TensorId> gradients = outputs;
    emit(id, OpKind::Linear, Pass::BackwardWeights, gemm,
         f.transpose_b ? std::vector{dy, x} : std::vector{x, dy}, std::move(outputs));
    deliver(w, dw, id);
    if (with_bias) deliver(in[2], gradients[1], id);
  }

  /// C = op(A) op(B): dA = dC op(B)^T and dB = op(A)^T dC, each as its operand is stored.
  void matmul(OpId id, const std::vector<TensorId>& in, TensorId dc) {
    const MatMulAttributes f = std::get<MatMulAttributes>(graph_.op(id).attributes);
    const TensorId a = in[0], b = in[1];
    const auto pass_for = [&](TensorId operand) {
      return graph_.tensor(operand).role == TensorRole::Weight ? Pass::BackwardWeights
                                                               : Pass::BackwardData;
    };
    if (needs_gradient(a)) {
      MatMulAttributes gemm{.batch = f.batch, .m = f.m, .n = f.k, .k = f.n};
      if (f.transpose_a) std::swap(gemm.m, gemm.n);
      gemm.transpose_a = f.transpose_a && f.transpose_b;
      gemm.transpose_b = f.transpose_a || !f.transpose_b;
      emit_for(a, id, OpKind::MatMul, pass_for(a), gemm,
               f.transpose_a ? std::vector{b, dc} : std::vector{dc, b});
    }
    if (needs_gradient(b)) {
      MatMulAttributes gemm{.batch = f.batch, .m = f.k, .n = f.n, .k = f.m};
      if (f.transpose_b) std::swap(gemm.m, gemm.n);
      gemm.transpose_a = f.transpose_b || !f.transpose_a;
      gemm.transpose_b = f.transpose_b && f.transpose_a;
      emit_for(b, id, OpKind::MatMul, pass_for(b), gemm,
               f.transpose_b ? std::vector{dc, a} : std::vector{a, dc});
    }
  }

  /// Back through time: the gates' gradients in place of the gates, then dX and those of the
  /// initial states; then all weight gradients at once.
  void recurrent(OpId id, const std::vector<TensorId>& in, const std::vector<TensorId>& out) {
    const TensorId x = in[0], y = out[0], reserve = out[1];
    std::vector<TensorId> reads = {reserve};
    for (const TensorId output : out) {
      if (gradients_[output.index]) reads.push_back(*gradients_[output.index]);
    }
    if (reads.size() == 1) return;
    std::vector<TensorId> weights, others;
    for (const TensorId input : in) {
      const bool is_weight = graph_.tensor(input).role == TensorRole::Weight;
      if (is_weight && input != x) weights.push_back(input);
      if (!is_weight || input == x) others.push_back(input);
    }
    std::erase_if(others, [&](TensorId input) { return !needs_gradient(input); });
    reads.insert(reads.end(), weights.begin(), weights.end());

    const TensorId gates =
        new_gradient(reserve, graph_.tensor(reserve).shape, TensorRole::Gradient);
    std::vector<TensorId> outputs = {gates};
    for (const TensorId input : others) outputs.push_back(new_gradient(input));
    const std::vector<TensorId> gradients = outputs;
    emit(id, OpKind::Recurrent, Pass::BackwardData, std::move(reads), std::move(outputs));
    for (std::size_t i = 0; i < others.size(); ++i) deliver(others[i], gradients[i + 1], id);
    emit_for_all(weights, id, Pass::BackwardWeights, {x, y, gates});
  }

  /// Picked elements send their gradient back to where they came from; repeated ones (one input:
  /// expand, tile) sum it.
  void gather(OpId id, const std::vector<TensorId>& in, TensorId y, TensorId dy) {
    if (in.size() == 1) {
      if (needs_gradient(in[0])) sum_over_copies(in[0], y, dy, id);
      return;
    }
    std::vector<TensorId> reads;
    for (const TensorId input : in) {
      if (graph_.tensor(input).is_integer) reads.push_back(input);
    }
    reads.push_back(dy);
    emit_for_all(in, id, Pass::Backward, std::move(reads));
  }

  /// A row of gradient for every id, as PyTorch's sparse embeddings have it; the update then
  /// touches these rows alone.
  void embedding_bag(OpId id, const std::vector<TensorId>& in, TensorId dy) {
    const std::int64_t ids = element_count(graph_.tensor(in[0]).shape);
    const TensorId gradient =
        new_gradient(in[1], {ids, graph_.tensor(in[1]).shape[1]}, TensorRole::WeightGradient);
    emit(id, OpKind::EmbeddingBag, Pass::Backward, {in[0], dy}, {gradient});
    deliver(in[1], gradient, id);
  }

  /// The gradient of `to`, whose elements stand in `y` several times.
  void sum_over_copies(TensorId to, TensorId y, TensorId dy, OpId forward) {
    const std::int64_t rows = element_count(graph_.tensor(to).shape);
    const std::int64_t all = element_count(graph_.tensor(y).shape);
    const ReduceAttributes reduction{.rows = rows, .cols = rows > 0 ? all / rows : 0};
    emit_for(to, forward, OpKind::Reduce, Pass::Backward, reduction, {dy});
  }

  void activation(OpId id, const std::vector<TensorId>& in, TensorId y, TensorId dy) {
    const auto* attributes = std::get_if<ElementwiseAttributes>(&graph_.op(id).attributes);
    const bool saves_result =
        attributes != nullptr && (attributes->in_place || is_result_based(attributes->name));
    std::vector<TensorId> reads = {saves_result ? y : in.front(), dy};
    reads.insert(reads.end(), in.begin() + 1, in.end());
    emit_for_all(in, id, Pass::Backward, std::move(reads));
  }

  void binary(OpId id, const std::vector<TensorId>& in, TensorId y, TensorId dy) {
    const auto* attributes = std::get_if<ElementwiseAttributes>(&graph_.op(id).attributes);
    const std::string function = attributes != nullptr ? attributes->name : "";
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!needs_gradient(in[i])) continue;
      const bool passes_on =
          function == "add" || function == "sum" || (function == "sub" && i == 0);
      const bool is_stretched = graph_.tensor(in[i]).shape != graph_.tensor(y).shape;
      TensorId gradient = dy;
      if (!passes_on) {
        std::vector<TensorId> reads = {dy};
        // d(a*b)/da reads b alone; a choice its condition; subtraction and means no operand; the
        // rest may read all.
        if (function == "mul") {
          for (std::size_t j = 0; j < in.size(); ++j) {
            if (j != i || in.size() == 1) reads.push_back(in[j]);
          }
        } else if (function == "where") {
          reads.push_back(in.front());
        } else if (function != "sub" && function != "mean") {
          reads.insert(reads.end(), in.begin(), in.end());
        }
        gradient = is_stretched ? new_gradient(in[i], graph_.tensor(y).shape, TensorRole::Gradient)
                                : new_gradient(in[i]);
        emit(id, OpKind::Binary, Pass::Backward, std::move(reads), {gradient});
      }
      if (is_stretched) sum_over_copies(in[i], y, gradient, id);
      if (!is_stretched) deliver(in[i], as_wide_as(in[i], gradient, id), id);
    }
  }
  /// What was added to a wide tensor gets a gradient of its own width, cast by the framework.
  TensorId as_wide_as(TensorId of, TensorId gradient, OpId id) {
    if (graph_.tensor(of).is_wide || !graph_.tensor(gradient).is_wide) return gradient;
    const TensorId low_precision = new_gradient(of);
    emit(id, OpKind::Cast, Pass::Backward, {gradient}, {low_precision});
    return low_precision;
  }

  NetworkGraph graph_;
  TrainingOptions options_;
  std::uint32_t num_forward_;
  std::vector<char> needs_gradient_;                ///< by tensor of the forward graph
  std::vector<std::optional<TensorId>> gradients_;  ///< by tensor of the forward graph
  std::vector<char> copied_;                        ///< by tensor of the forward graph
  std::vector<PendingLoss> losses_;
};

}  // namespace

NetworkGraph make_training_graph(NetworkGraph forward, const TrainingOptions& options) {
  Backward backward(std::move(forward), options);
  backward.attach_losses(options.with_loss);
  backward.differentiate();
  if (options.adds_gradients) backward.add_to_kept_gradients();
  if (options.with_optimizer) backward.update_weights(options.optimizer);
  return std::move(backward).take();
}

}  // namespace tracecast
