#include "models/onnx/operators.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "models/onnx/call.hpp"
#include "models/onnx/resize_shapes.hpp"

namespace tracecast::onnx {
namespace {

const std::unordered_map<std::string_view, NamedHandler>& handlers() {
  static const auto table = [] {
    std::unordered_map<std::string_view, NamedHandler> all;
    for (const auto handlers_of :
         {attention_handlers, layer_handlers, control_handlers, selection_handlers,
          sequence_handlers, quantized_handlers, runtime_handlers, elementwise_handlers,
          movement_handlers, recurrent_handlers, reduction_handlers, shape_handlers}) {
      for (const NamedHandler& named : handlers_of()) all.emplace(named.op_type, named);
    }
    return all;
  }();
  return table;
}

/// The type that the file declares for a value, its named dimensions left at 0; nothing when it is
/// not a tensor of known rank.
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

/// Everything an operator reads, by its subgraphs as well.
std::vector<ValueIndex> read_values(const Call& call) {
  std::vector<ValueIndex> read;
  for (const auto* list : {&call.node.inputs, &call.node.captured}) {
    for (const ValueIndex index : *list) {
      if (index != kAbsent && call.run.is_known(index)) read.push_back(index);
    }
  }
  return read;
}

std::optional<ValueIndex> find_largest(const Call& call, std::span<const ValueIndex> values) {
  std::optional<ValueIndex> largest;
  const auto count = [&](ValueIndex index) { return element_count(call.run.value(index).shape); };
  for (const ValueIndex index : values) {
    if (!largest || count(index) > count(*largest)) largest = index;
  }
  return largest;
}

/// The shape of output `i` of an operator that nobody knows: what the file declares, at the sizes
/// asked for; else that of the largest value it reads.
Shape bounded_shape(const Call& call, std::optional<ValueIndex> largest, std::size_t i) {
  const NamedValue* named =
      call.node.outputs[i] == kAbsent ? nullptr : &call.run.program().values[call.node.outputs[i]];
  const std::optional<Shape> declared = named ? declared_shape(*named) : std::nullopt;
  const Reference* own = call.run.reference();
  if (declared) {
    if (!own || !largest) return *declared;
    return checked_shape(
        follow_input(*declared, own->values[*largest].shape, call.run.value(*largest).shape,
                     own->batch, call.run.sizes().batch),
        "result");
  }
  return largest ? call.run.value(*largest).shape : Shape{1};
}

ElementType declared_type(const Call& call, std::size_t i) {
  if (call.node.outputs[i] != kAbsent) {
    const NamedValue& named = call.run.program().values[call.node.outputs[i]];
    if (named.info) return element_type(named.info->type().tensor_type().elem_type());
  }
  return kReal;
}

/// Whether it reads sizes or places that folding lost: integers of constants that are not known.
bool reads_lost_sizes(const Call& call) {
  for (std::size_t i = 1; i < call.node.inputs.size(); ++i) {
    if (!call.has_input(i)) continue;
    const Value& value = call.input(i);
    if (value.is_constant() && value.type.is_integer && !value.integers()) return true;
  }
  return false;
}

void apply_unknown(const Call& call, bool is_known) {
  if (is_known && reads_lost_sizes(call)) {
    call.assume(
        "the sizes it reads are computed in a way that is not followed: its result is a guess");
  }
  std::string name = call.node.proto->domain();
  if (!name.empty()) name += '.';
  name += call.node.op_type();
  call.run.count_unknown(name);
  const std::vector<ValueIndex> read = read_values(call);
  std::vector<TensorId> inputs;
  for (const ValueIndex index : read) {
    inputs.push_back(call.run.tensor(index, Interpreter::Use::Operand));
  }
  const std::optional<ValueIndex> largest = find_largest(call, read);
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < call.node.outputs.size(); ++i) {
    shapes.push_back(bounded_shape(call, largest, i));
  }
  const std::vector<TensorId> outputs = call.build().unknown(call.name(), name, inputs, shapes);
  for (std::size_t i = 0; i < outputs.size(); ++i) call.set(i, outputs[i], declared_type(call, i));
}

}  // namespace

bool has_operator(std::string_view op_type) { return handlers().contains(op_type); }

/// The name of a call in the table of handlers: operators of ONNX Runtime stand there with their
/// domain.
std::string name_in_table(const Node& node) {
  std::string name(node.op_type());
  return node.is_standard ? name : node.proto->domain() + "." + name;
}

void apply_operator(Interpreter& run, std::uint32_t node_index) {
  const Call call(run, node_index);
  const auto at = handlers().find(name_in_table(call.node));
  // Without its main output only a side result (a mask, indices) is wanted, which few handlers
  // make.
  const bool has_result = !call.node.outputs.empty() && call.node.outputs[0] != kAbsent;
  const bool is_known = at != handlers().end();
  if (is_known && (has_result || at->second.serves_side_results) && at->second.handler(call)) {
    return;
  }
  apply_unknown(call, is_known);
}

}  // namespace tracecast::onnx
