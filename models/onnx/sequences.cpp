// Lists of tensors, which exporters write for chunks of a tensor and for results of loops. They are
// followed element by element while the network is walked and leave no ops of their own.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "models/onnx/call.hpp"
#include "sim/base/error.hpp"

namespace tracecast::onnx {
namespace {

std::vector<Value> elements_of(const Call& call, std::size_t i) {
  const Value& value = call.input(i);
  if (!value.is_sequence) throw InputError("input", "a tensor", "a sequence");
  return value.elements;
}

void set_sequence(const Call& call, std::vector<Value> elements) {
  Value value;
  value.is_sequence = true;
  value.elements = std::move(elements);
  call.set_value(0, std::move(value));
}

/// The place that input `i` names among `count`, `otherwise` where it is left out or the data
/// decide.
std::size_t place(const Call& call, std::size_t i, std::size_t count, std::size_t otherwise) {
  if (!call.has_input(i)) return otherwise;
  const Integers* known = call.input(i).integers();
  if (!known || known->size() != 1) {
    call.assume("the data say which element: one is taken");
    return otherwise;
  }
  return call.axis(known->front(), count);
}

bool sequence_empty(const Call& call) {
  set_sequence(call, {});
  return true;
}

bool sequence_construct(const Call& call) {
  std::vector<Value> elements;
  for (std::size_t i = 0; i < call.node.inputs.size(); ++i) elements.push_back(call.input(i));
  set_sequence(call, std::move(elements));
  return true;
}

/// At the end unless a place is given.
bool sequence_insert(const Call& call) {
  std::vector<Value> elements = elements_of(call, 0);
  const std::size_t at = place(call, 2, elements.size() + 1, elements.size());
  elements.insert(elements.begin() + static_cast<std::ptrdiff_t>(at), call.input(1));
  set_sequence(call, std::move(elements));
  return true;
}

bool sequence_erase(const Call& call) {
  std::vector<Value> elements = elements_of(call, 0);
  if (elements.empty()) throw InputError("sequence", "no element", "at least one");
  const std::size_t at = place(call, 1, elements.size(), elements.size() - 1);
  elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(at));
  set_sequence(call, std::move(elements));
  return true;
}

bool sequence_at(const Call& call) {
  const std::vector<Value> elements = elements_of(call, 0);
  if (elements.empty()) throw InputError("sequence", "no element", "at least one");
  call.set_value(0, elements[place(call, 1, elements.size(), 0)]);
  return true;
}

bool sequence_length(const Call& call) {
  const auto count = static_cast<std::int64_t>(elements_of(call, 0).size());
  call.set_value(0, {.shape = {}, .type = kInt64, .contents = Integers{count}});
  return true;
}

bool concat_from_sequence(const Call& call) {
  const std::vector<Value> elements = elements_of(call, 0);
  if (elements.empty()) throw InputError("sequence", "no element", "at least one");
  const std::int64_t axis = call.node.integer("axis", 0);
  const bool is_stacked = call.node.integer("new_axis", 0) != 0;
  std::vector<TensorId> parts;
  for (const Value& element : elements) {
    const std::string name = call.name() + ".part" + std::to_string(parts.size());
    TensorId part = element.tensor ? *element.tensor : call.build().buffer(name, element.shape);
    if (is_stacked) {
      Shape shape = element.shape;
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(call.axis(axis, shape.size() + 1)),
                   1);
      part = call.build().reshape(name, part, std::move(shape));
    }
    parts.push_back(part);
  }
  call.set(0, call.build().concat(call.name(), parts, axis), elements.front().type);
  return true;
}

/// Chunks along an axis: sizes, or one size of all; without either single ones, which then lose the
/// dimension unless `keepdims` says otherwise.
bool split_to_sequence(const Call& call) {
  const Shape x = call.shape(0);
  const ElementType type = call.input(0).type;
  const std::size_t axis = call.axis(call.node.integer("axis", 0), x.size());
  std::vector<std::int64_t> sizes;
  const bool is_single = !call.has_input(1);
  if (!is_single && !call.input(1).integers()) return false;
  std::int64_t chunk = 1;
  if (!is_single && call.shape(1).size() == 1) {
    sizes = *call.input(1).integers();
  } else {
    if (!is_single) chunk = call.input(1).integers()->front();
    constexpr std::int64_t kMostChunks = 4096;
    if (chunk < 1 || x[axis] / chunk > kMostChunks) return false;
    for (std::int64_t left = x[axis]; left > 0; left -= chunk) {
      sizes.push_back(std::min(left, chunk));
    }
  }
  const std::vector<TensorId> parts =
      call.build().split(call.name(), call.tensor(0), static_cast<std::int64_t>(axis), sizes);
  std::vector<Value> elements;
  for (TensorId part : parts) {
    Shape shape = call.build().shape(part);
    if (is_single && call.node.integer("keepdims", 1) == 0) {
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
      const std::string name = call.name() + ".element" + std::to_string(elements.size());
      part = call.build().reshape(name, part, shape);
    }
    elements.push_back({.shape = std::move(shape), .type = type, .tensor = part});
  }
  set_sequence(call, std::move(elements));
  return true;
}

constexpr NamedHandler kSequenceHandlers[] = {
    {"SequenceEmpty", sequence_empty},
    {"SequenceConstruct", sequence_construct},
    {"SequenceInsert", sequence_insert},
    {"SequenceErase", sequence_erase},
    {"SequenceAt", sequence_at},
    {"SequenceLength", sequence_length},
    {"ConcatFromSequence", concat_from_sequence},
    {"SplitToSequence", split_to_sequence},
};

}  // namespace

std::span<const NamedHandler> sequence_handlers() { return kSequenceHandlers; }

}  // namespace tracecast::onnx
