#include "models/onnx/operators.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "models/onnx/call.hpp"
#include "models/onnx/resize_shapes.hpp"

namespace tracecast::onnx {
namespace {

const std::unordered_map<std::string_view, Handler>& handlers() {
  static const auto table = [] {
    std::unordered_map<std::string_view, Handler> all;
    for (const auto handlers_of : {layer_handlers, elementwise_handlers, movement_handlers}) {
      for (const NamedHandler& named : handlers_of()) all.emplace(named.op_type, named.handler);
    }
    return all;
  }();
  return table;
}

/// The type that the file declares for a value, its named dimensions left at 0; nothing when it is not a tensor of
/// known rank.
std::optional<Shape> declared_shape(const NamedValue& value) {
  if (!value.info || !value.info->type().tensor_type().has_shape()) return std::nullopt;
  Shape shape;
  for (const auto& dim : value.info->type().tensor_type().shape().dim()) {
    if (!dim.has_dim_value() || dim.dim_value() < 0) return std::nullopt;
    shape.push_back(dim.dim_value());
  }
  if (shape.size() > kMostRank || !checked_element_count(shape)) return std::nullopt;
  return shape;
}

/// The shape of output `i` of an operator that nobody knows: what the file declares, at the sizes asked for; else
/// that of the operator's largest input.
Shape bounded_shape(const Call& call, std::size_t i) {
  std::optional<std::size_t> largest;
  for (std::size_t k = 0; k < call.node.inputs.size(); ++k) {
    if (!call.has_input(k)) continue;
    if (!largest || element_count(call.shape(k)) > element_count(call.shape(*largest))) largest = k;
  }
  const NamedValue* named =
      call.node.outputs[i] == kAbsent ? nullptr : &call.run.program().values[call.node.outputs[i]];
  const std::optional<Shape> declared = named ? declared_shape(*named) : std::nullopt;
  if (declared) {
    if (!call.run.reference() || !largest) return *declared;
    return checked_shape(
        follow_input(*declared, call.reference_input(*largest)->shape, call.shape(*largest),
                     call.run.reference()->batch, call.run.sizes().batch),
        "result");
  }
  return largest ? call.shape(*largest) : Shape{1};
}

ElementType declared_type(const Call& call, std::size_t i) {
  if (call.node.outputs[i] != kAbsent) {
    const NamedValue& named = call.run.program().values[call.node.outputs[i]];
    if (named.info) return element_type(named.info->type().tensor_type().elem_type());
  }
  return kReal;
}

void apply_unknown(const Call& call) {
  std::string name = call.node.proto->domain();
  if (!name.empty()) name += '.';
  name += call.node.op_type();
  call.run.count_unknown(name);
  std::vector<TensorId> inputs = call.tensors();
  for (const ValueIndex captured : call.node.captured) {
    if (call.run.is_known(captured)) {
      inputs.push_back(call.run.tensor(captured, Interpreter::Use::Operand));
    }
  }
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < call.node.outputs.size(); ++i)
    shapes.push_back(bounded_shape(call, i));
  const std::vector<TensorId> outputs = call.build().unknown(call.name(), name, inputs, shapes);
  for (std::size_t i = 0; i < outputs.size(); ++i) call.set(i, outputs[i], declared_type(call, i));
}

}  // namespace

bool has_operator(std::string_view op_type) { return handlers().contains(op_type); }

void apply_operator(Interpreter& run, std::uint32_t node_index) {
  const Call call(run, node_index);
  if (call.node.is_standard) {
    const auto at = handlers().find(call.node.op_type());
    if (at != handlers().end() && !call.node.outputs.empty() && at->second(call)) return;
  }
  apply_unknown(call);
}

}  // namespace tracecast::onnx
