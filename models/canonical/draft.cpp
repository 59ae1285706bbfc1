#include "models/canonical/draft.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace tracecast::canonical {

std::string_view function_of(const Op& op) {
  if (const auto* attributes = std::get_if<ElementwiseAttributes>(&op.attributes))
    return attributes->name;
  if (op.kind == OpKind::Reduce) return op.note;
  struct Name {
    OpKind kind;
    std::string_view name;
  };
  constexpr std::array<Name, 8> kNames{{{OpKind::Softmax, "softmax"},
                                        {OpKind::MatMul, "matmul"},
                                        {OpKind::Linear, "linear"},
                                        {OpKind::Reshape, "reshape"},
                                        {OpKind::Transpose, "transpose"},
                                        {OpKind::InstanceNorm, "instance_norm"},
                                        {OpKind::BatchNorm, "batch_norm"},
                                        {OpKind::Dropout, "dropout"}}};
  for (const Name& known : kNames) {
    if (known.kind == op.kind) return known.name;
  }
  return "";
}

Draft::Draft(const NetworkGraph& graph)
    : name_(graph.name),
      batch_(graph.batch),
      frozen_parameters_(graph.frozen_parameters),
      training_mode_(graph.training_mode),
      tensors_(graph.tensors().begin(), graph.tensors().end()),
      ops_(graph.ops().begin(), graph.ops().end()),
      outputs_(graph.outputs) {
  index();
}

void Draft::index() {
  producer_.assign(tensors_.size(), std::nullopt);
  readers_.assign(tensors_.size(), {});
  is_output_.assign(tensors_.size(), false);
  for (OpIndex i = 0; i < ops_.size(); ++i) {
    for (const TensorId id : ops_[i].outputs) producer_[id.index] = i;
    for (const TensorId id : ops_[i].inputs) readers_[id.index].push_back(i);
  }
  for (const TensorId id : outputs_) is_output_[id.index] = true;
  is_gone_.assign(ops_.size(), false);
  brought_.assign(ops_.size() + 1, {});
}

bool Draft::is_number(TensorId id) const {
  const Tensor& t = tensors_[id.index];
  return t.role == TensorRole::Buffer && element_count(t.shape) == 1;
}

std::vector<TensorId> Draft::operands(const Op& op) const {
  std::vector<TensorId> found;
  std::copy_if(op.inputs.begin(), op.inputs.end(), std::back_inserter(found),
               [this](TensorId id) { return !is_number(id); });
  return found;
}

TensorId Draft::add_tensor(Tensor tensor) {
  tensors_.push_back(std::move(tensor));
  producer_.emplace_back();
  readers_.emplace_back();
  is_output_.push_back(false);
  return TensorId{static_cast<std::uint32_t>(tensors_.size() - 1)};
}

void Draft::replace(std::span<const OpIndex> gone, std::vector<Op> ops) {
  const OpIndex last = *std::max_element(gone.begin(), gone.end());
  for (const OpIndex i : gone) is_gone_[i] = true;
  insert(last, std::move(ops));
}

void Draft::insert(OpIndex next, std::vector<Op> ops) {
  std::vector<Op>& before = brought_[next];
  before.insert(before.end(), std::make_move_iterator(ops.begin()),
                std::make_move_iterator(ops.end()));
}

void Draft::reroute(TensorId before, TensorId now) {
  for (const OpIndex i : readers_[before.index]) {
    std::replace(ops_[i].inputs.begin(), ops_[i].inputs.end(), before, now);
  }
}

void Draft::settle() {
  std::vector<Op> settled;
  settled.reserve(ops_.size());
  for (OpIndex i = 0; i < ops_.size(); ++i) {
    for (Op& op : brought_[i]) settled.push_back(std::move(op));
    if (!is_gone_[i]) settled.push_back(std::move(ops_[i]));
  }
  ops_ = std::move(settled);
  index();
}

NetworkGraph Draft::take() && {
  settle();
  NetworkGraph graph;
  graph.name = std::move(name_);
  graph.batch = batch_;
  graph.training_mode = training_mode_;
  graph.frozen_parameters = frozen_parameters_;
  graph.reserve(tensors_.size(), ops_.size());
  std::vector<TensorId> now(tensors_.size());
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const bool is_used = tensors_[t].role == TensorRole::Input || producer_[t] ||
                         !readers_[t].empty() || is_output_[t];
    if (is_used) now[t] = graph.add_tensor(std::move(tensors_[t]));
  }
  for (Op& op : ops_) {
    for (TensorId& id : op.inputs) id = now[id.index];
    for (TensorId& id : op.outputs) id = now[id.index];
    graph.add_op(std::move(op));
  }
  for (const TensorId id : outputs_) graph.outputs.push_back(now[id.index]);
  return graph;
}

}  // namespace tracecast::canonical
