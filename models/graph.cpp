#include "models/graph.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

/// Roles of tensors that exist before the step starts.
bool needs_no_producer(TensorRole role) {
  return role == TensorRole::Input || role == TensorRole::Weight || role == TensorRole::Buffer ||
         role == TensorRole::Store || role == TensorRole::OptimizerState;
}

}  // namespace

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape) count *= dim;
  return count;
}

std::string to_string(const Shape& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (const std::int64_t dim : shape) {
    if (!text.empty()) text += 'x';
    text += std::to_string(dim);
  }
  return text;
}

std::string_view to_string(OpKind kind) {
  switch (kind) {
    case OpKind::Conv:
      return "Conv";
    case OpKind::ConvTranspose:
      return "ConvTranspose";
    case OpKind::Linear:
      return "Linear";
    case OpKind::MatMul:
      return "MatMul";
    case OpKind::Attention:
      return "Attention";
    case OpKind::Scan:
      return "Scan";
    case OpKind::TopKeys:
      return "TopKeys";
    case OpKind::MaxPool:
      return "MaxPool";
    case OpKind::AvgPool:
      return "AvgPool";
    case OpKind::BatchNorm:
      return "BatchNorm";
    case OpKind::LayerNorm:
      return "LayerNorm";
    case OpKind::InstanceNorm:
      return "InstanceNorm";
    case OpKind::GroupNorm:
      return "GroupNorm";
    case OpKind::Lrn:
      return "Lrn";
    case OpKind::Activation:
      return "Activation";
    case OpKind::Binary:
      return "Binary";
    case OpKind::Softmax:
      return "Softmax";
    case OpKind::Dropout:
      return "Dropout";
    case OpKind::Concat:
      return "Concat";
    case OpKind::Split:
      return "Split";
    case OpKind::Slice:
      return "Slice";
    case OpKind::Pad:
      return "Pad";
    case OpKind::Transpose:
      return "Transpose";
    case OpKind::Reshape:
      return "Reshape";
    case OpKind::Embedding:
      return "Embedding";
    case OpKind::EmbeddingBag:
      return "EmbeddingBag";
    case OpKind::Gather:
      return "Gather";
    case OpKind::EdgeAttention:
      return "EdgeAttention";
    case OpKind::Sample:
      return "Sample";
    case OpKind::Routine:
      return "Routine";
    case OpKind::Route:
      return "Route";
    case OpKind::Scatter:
      return "Scatter";
    case OpKind::Recurrent:
      return "Recurrent";
    case OpKind::Reduce:
      return "Reduce";
    case OpKind::Resize:
      return "Resize";
    case OpKind::Cast:
      return "Cast";
    case OpKind::Loss:
      return "Loss";
    case OpKind::Optimizer:
      return "Optimizer";
    case OpKind::Unknown:
      return "Unknown";
  }
  return "?";
}

std::string_view to_string(CellKind kind) {
  switch (kind) {
    case CellKind::RnnTanh:
      return "rnn_tanh";
    case CellKind::RnnRelu:
      return "rnn_relu";
    case CellKind::Lstm:
      return "lstm";
    case CellKind::Gru:
      return "gru";
  }
  return "?";
}

std::string_view to_string(ScanRule rule) {
  return rule == ScanRule::StateSpace ? "state_space" : "gated_delta";
}

std::string_view to_string(Pass pass) {
  switch (pass) {
    case Pass::Forward:
      return "forward";
    case Pass::BackwardData:
      return "backward_data";
    case Pass::BackwardWeights:
      return "backward_weights";
    case Pass::Backward:
      return "backward";
    case Pass::Update:
      return "update";
  }
  return "?";
}

std::string_view to_string(TensorRole role) {
  switch (role) {
    case TensorRole::Input:
      return "input";
    case TensorRole::Weight:
      return "weight";
    case TensorRole::Buffer:
      return "buffer";
    case TensorRole::Store:
      return "store";
    case TensorRole::Activation:
      return "activation";
    case TensorRole::Gradient:
      return "gradient";
    case TensorRole::WeightGradient:
      return "weight_gradient";
    case TensorRole::OptimizerState:
      return "optimizer_state";
  }
  return "?";
}

double ConvAttributes::macs() const {
  return static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(p) *
         static_cast<double>(q) * static_cast<double>(c / groups) * static_cast<double>(r) *
         static_cast<double>(s);
}

double MatMulAttributes::macs() const {
  return static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
         static_cast<double>(k);
}

std::int64_t RecurrentAttributes::gates() const {
  return cell == CellKind::Lstm ? 4 : cell == CellKind::Gru ? 3 : 1;
}

std::int64_t RecurrentAttributes::input_of(int layer) const {
  return layer == 0 ? input : directions() * output();
}

std::int64_t RecurrentAttributes::reserved_per_step() const {
  const std::int64_t per_cell = (gates() + (gates() > 1 ? 1 : 0)) * hidden;
  return directions() * (layers * per_cell + (layers - 1) * output());
}

double RecurrentAttributes::macs() const {
  const double h = static_cast<double>(hidden), p = static_cast<double>(output());
  double per_step = 0;
  for (int layer = 0; layer < layers; ++layer) {
    const bool reads_input = layer > 0 || !skip_input;
    const double features = reads_input ? static_cast<double>(input_of(layer)) : 0;
    per_step += static_cast<double>(gates()) * h * (features + p) + (projection > 0 ? h * p : 0);
  }
  return static_cast<double>(steps) * static_cast<double>(batch) *
         static_cast<double>(directions()) * per_step;
}

double AttentionAttributes::keys_per_query() const {
  const double all = static_cast<double>(keys), seen = static_cast<double>(window);
  double result = causal ? 0.5 * all : all;
  if (causal && seen > 0 && seen < all) result = seen - seen * seen / (2 * all);
  return chosen > 0 ? std::min(result, static_cast<double>(chosen)) : result;
}

double AttentionAttributes::scores() const {
  return static_cast<double>(batch) * static_cast<double>(heads) * static_cast<double>(queries) *
         keys_per_query();
}

double AttentionAttributes::macs() const {
  return scores() * static_cast<double>(width + width_of_values());
}

double ScanAttributes::macs() const {
  const double per_token = (rule == ScanRule::StateSpace ? 2.0 : 3.0) * static_cast<double>(heads) *
                           static_cast<double>(key_width) * static_cast<double>(value_width);
  return static_cast<double>(batch) * static_cast<double>(tokens) * per_token;
}

double macs(const Op& op) {
  if (const auto* conv = std::get_if<ConvAttributes>(&op.attributes)) return conv->macs();
  if (const auto* gemm = std::get_if<MatMulAttributes>(&op.attributes)) return gemm->macs();
  if (const auto* layer = std::get_if<RecurrentAttributes>(&op.attributes)) return layer->macs();
  if (const auto* layer = std::get_if<AttentionAttributes>(&op.attributes)) return layer->macs();
  if (const auto* layer = std::get_if<ScanAttributes>(&op.attributes)) return layer->macs();
  return 0;
}

Bytes bytes_from_stores(const NetworkGraph& step) {
  Bytes sum{};
  for (const Op& op : step.ops()) {
    const bool takes = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
      return step.tensor(input).role == TensorRole::Store;
    });
    if (!takes) continue;
    for (const TensorId output : op.outputs) {
      const Tensor& rows = step.tensor(output);
      sum += Bytes(static_cast<double>(element_count(rows.shape)) * rows.integer_bytes);
    }
  }
  return sum;
}

void NetworkGraph::reserve(std::size_t num_tensors, std::size_t num_ops) {
  tensors_.reserve(num_tensors);
  producers_.reserve(num_tensors);
  ops_.reserve(num_ops);
}

TensorId NetworkGraph::add_tensor(Tensor tensor) {
  TRACECAST_CHECK(tensors_.size() < std::numeric_limits<std::uint32_t>::max(),
                  "a tensor id fits into 32 bits");
  const TensorId id{static_cast<std::uint32_t>(tensors_.size())};
  tensors_.push_back(std::move(tensor));
  producers_.emplace_back();
  return id;
}

OpId NetworkGraph::add_op(Op op) {
  const OpId id{static_cast<std::uint32_t>(ops_.size())};
  for (const TensorId input : op.inputs) {
    TRACECAST_CHECK(input.index < tensors_.size(), "an op reads a tensor of its own graph");
    TRACECAST_CHECK(
        producers_[input.index].has_value() || needs_no_producer(tensors_[input.index].role),
        "an op reads what an earlier op has written or what exists from the start");
  }
  for (const TensorId output : op.outputs) {
    TRACECAST_CHECK(output.index < tensors_.size(), "an op writes a tensor of its own graph");
    TRACECAST_CHECK(
        !producers_[output.index].has_value() && !needs_no_producer(tensors_[output.index].role),
        "a tensor has one producer");
    producers_[output.index] = id;
  }
  if (op.forward) {
    TRACECAST_CHECK(op.forward->index < ops_.size(), "a backward op follows its forward op");
  }
  ops_.push_back(std::move(op));
  return id;
}

void NetworkGraph::set_integer(TensorId id, int bytes) {
  TRACECAST_CHECK(id.index < tensors_.size(), "the tensor is one of this graph");
  tensors_[id.index].is_integer = true;
  tensors_[id.index].integer_bytes = bytes;
}

void NetworkGraph::set_channels_last(OpId id) {
  TRACECAST_CHECK(id.index < ops_.size() && ops_[id.index].kind == OpKind::Conv,
                  "the op is a convolution of this graph");
  std::get<ConvAttributes>(ops_[id.index].attributes).channels_last = true;
}

void NetworkGraph::place_store(TensorId id, std::int64_t rows) {
  TRACECAST_CHECK(id.index < tensors_.size() && tensors_[id.index].role == TensorRole::Store,
                  "the tensor is a store of this graph");
  tensors_[id.index].role = TensorRole::Buffer;
  tensors_[id.index].shape.front() = rows;
}

void NetworkGraph::set_untrained(TensorId id) {
  TRACECAST_CHECK(id.index < tensors_.size() && tensors_[id.index].role == TensorRole::Weight,
                  "the tensor is a weight of this graph");
  tensors_[id.index].role = TensorRole::Buffer;
}

std::int64_t NetworkGraph::parameter_count() const {
  // Each tensor has at most 2^62 elements, so no addition overflows before the cap is seen.
  constexpr std::int64_t kMost = (std::int64_t{1} << 62) - 1;
  std::int64_t count = std::min(kMost, frozen_parameters);
  for (const Tensor& tensor : tensors_) {
    if (tensor.role != TensorRole::Weight) continue;
    count = std::min(kMost, count + element_count(tensor.shape));
  }
  return count;
}

double NetworkGraph::forward_macs() const {
  double sum = 0;
  for (const Op& op : ops_) {
    if (op.pass == Pass::Forward) sum += macs(op);
  }
  return sum;
}

}  // namespace tracecast
