#include "models/onnx/call.hpp"

#include <utility>

#include "sim/base/error.hpp"

namespace tracecast::onnx {

bool Call::wants_output(std::size_t i) const {
  if (i >= node.outputs.size() || node.outputs[i] == kAbsent) return false;
  const NamedValue& value = run.program().values[node.outputs[i]];
  return value.is_output || !value.readers.empty();
}

const Value& Call::input(std::size_t i) const {
  if (!has_input(i)) {
    throw InputError("inputs", "input " + std::to_string(i) + " left out", "a value");
  }
  return run.value(node.inputs[i]);
}

TensorId Call::tensor(std::size_t i, Interpreter::Use use) const {
  static_cast<void>(input(i));
  return run.tensor(node.inputs[i], use);
}

std::optional<TensorId> Call::optional_parameter(std::size_t i) const {
  if (!has_input(i)) return std::nullopt;
  return parameter(i);
}

std::vector<TensorId> Call::tensors() const {
  std::vector<TensorId> ids;
  ids.reserve(node.inputs.size());
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (has_input(i)) ids.push_back(tensor(i));
  }
  return ids;
}

std::optional<Integers> Call::integers(std::string_view attribute, std::size_t i,
                                       bool& is_unknown) const {
  if (node.find_attribute(attribute)) return node.integers(attribute);
  if (!has_input(i)) return std::nullopt;
  if (const Integers* known = input(i).integers()) return *known;
  if (run.program().values[node.inputs[i]].initializer) {
    throw InputError("input '" + run.program().values[node.inputs[i]].name + "'",
                     "a constant of shape " + to_string(shape(i)) + " without values",
                     "the integers that say where or how much, inside the file");
  }
  is_unknown = true;
  return std::nullopt;
}

const Value* Call::reference_input(std::size_t i) const {
  if (!run.reference() || !has_input(i)) return nullptr;
  return &run.reference()->values[node.inputs[i]];
}

const Value* Call::reference_output(std::size_t i) const {
  if (!run.reference() || i >= node.outputs.size() || node.outputs[i] == kAbsent) return nullptr;
  return &run.reference()->values[node.outputs[i]];
}

void Call::set(std::size_t i, TensorId tensor, ElementType type) const {
  if (type.is_integer) build().graph().set_integer(tensor, type.integer_bytes);
  set_value(i, {.shape = build().shape(tensor), .type = type, .tensor = tensor});
}

void Call::set(std::size_t i, TensorId tensor) const { set(i, tensor, input(0).type); }

void Call::set_value(std::size_t i, Value value) const {
  if (i < node.outputs.size() && node.outputs[i] != kAbsent) {
    run.set(node.outputs[i], std::move(value));
  }
}

void Call::set_view(Shape shape) const {
  const Value& from = input(0);
  check_shape(shape, "result");
  if (from.is_constant()) {
    if (element_count(shape) != element_count(from.shape)) {
      throw InputError("constant", to_string(from.shape) + " reshaped to " + to_string(shape),
                       "the same number of elements");
    }
    Value value = from;
    value.shape = std::move(shape);
    set_value(0, std::move(value));
  } else if (shape == from.shape) {
    pass_through();
  } else {
    set(0, build().reshape(name(), *from.tensor, std::move(shape)));
  }
}

void Call::set_bounded(std::string_view what, std::span<const Shape> shapes,
                       std::span<const ElementType> types) const {
  for (const Shape& shape : shapes) check_shape(shape, "result");
  run.count_unknown(std::string(what));
  const std::vector<TensorId> ids = build().unknown(name(), what, tensors(), shapes);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    set(i, ids[i], types.empty() ? input(0).type : types[i]);
  }
}

std::size_t Call::axis(std::int64_t axis, std::size_t rank) const {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    throw InputError("axis", std::to_string(axis),
                     "an axis of a rank " + std::to_string(rank) + " tensor");
  }
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

void Call::assume(std::string_view text) const {
  run.assume(std::string(node.op_type()) + " '" + node.name + "': " + std::string(text));
}

}  // namespace tracecast::onnx
