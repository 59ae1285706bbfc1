// Views, shapes as data, constants.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "models/onnx/call.hpp"
#include "models/onnx/reader.hpp"
#include "models/onnx/resize_shapes.hpp"
#include "sim/base/error.hpp"

namespace tracecast::onnx {
namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

bool has_changed(const Value* own, const Shape& now) {
  return own && own->shape.size() == now.size() && own->shape != now;
}

/// Elements 0 and -1 of a Reshape target filled in.
Shape resolve_target(const Shape& from, const Integers& target, bool zero_is_zero) {
  Shape shape = target;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !zero_is_zero) {
      if (i >= from.size()) {
        throw InputError("target " + to_string(target), "a 0 beyond the input's rank",
                         "0 where the input has a dimension to copy");
      }
      shape[i] = from[i];
    } else if (shape[i] == -1) {
      if (open)
        throw InputError("target " + to_string(target), "two dimensions of -1", "at most one");
      open = i;
    }
  }
  if (!open) return shape;
  shape[*open] = 1;
  const std::optional<std::int64_t> rest = checked_element_count(shape);
  const std::int64_t count = element_count(from);
  if (rest && *rest > 0 && count % *rest == 0) {
    shape[*open] = count / *rest;
  } else if (rest && *rest == 0 && count == 0) {
    shape[*open] = 0;
  } else {
    throw InputError("target " + to_string(target), "an input of " + to_string(from),
                     "dimensions whose GEMM divides the input's elements");
  }
  return shape;
}

bool reshape(const Call& call) {
  const Value& from = call.input(0);
  bool is_unknown = false;
  const std::optional<Integers> target = call.integers("shape", 1, is_unknown);
  if (!target) return false;
  if (target->size() > kMostRank) {
    throw InputError("target", "rank " + std::to_string(target->size()),
                     "at most " + std::to_string(kMostRank) + " dimensions");
  }
  const Value* own = call.reference_input(0);
  const Value* own_target = call.reference_input(1);
  const Value* own_result = call.reference_output(0);
  const bool is_baked_in =
      !from.is_constant() && own_result && has_changed(own, from.shape) &&
      (!own_target || (own_target->integers() && *own_target->integers() == *target));
  if (is_baked_in) {
    // The target says the same at both sizes although the input has changed: it was written for the
    // file's own.
    const auto at = std::find(target->begin(), target->end(), -1);
    const std::optional<std::size_t> open =
        at == target->end() ? std::nullopt
                            : std::optional(static_cast<std::size_t>(at - target->begin()));
    if (std::optional<Shape> shape =
            follow_reshape(own->shape, own_result->shape, from.shape, call.run.reference()->batch,
                           call.run.sizes().batch, open)) {
      call.set_view(std::move(*shape));
      return true;
    }
  }
  Shape shape = resolve_target(from.shape, *target, call.node.integer("allowzero", 0) != 0);
  const std::optional<std::int64_t> count = checked_element_count(shape);
  if (!count || *count != element_count(from.shape)) {
    throw InputError("target " + to_string(shape), "an input of " + to_string(from.shape),
                     "the same number of elements");
  }
  call.set_view(std::move(shape));
  return true;
}

bool flatten(const Call& call) {
  const Shape& from = call.shape(0);
  const auto rank = static_cast<std::int64_t>(from.size());
  const std::int64_t axis = call.node.integer("axis", 1);
  if (axis < -rank || axis > rank) {
    throw InputError("axis", number(axis), "an axis of a rank " + number(rank) + " tensor");
  }
  const auto split = from.begin() + static_cast<std::ptrdiff_t>(axis < 0 ? axis + rank : axis);
  call.set_view({element_count({from.begin(), split}), element_count({split, from.end()})});
  return true;
}

bool squeeze(const Call& call) {
  const Shape& from = call.shape(0);
  bool is_unknown = false;
  const std::optional<Integers> axes = call.integers("axes", 1, is_unknown);
  if (is_unknown) return false;
  // Without axes every 1 goes, but at a batch of 1 only those that the file's own sizes say.
  const Value* own = call.reference_input(0);
  const Shape& ones = own && own->shape.size() == from.size() ? own->shape : from;
  std::vector<bool> goes(from.size(), false);
  if (axes) {
    for (const std::int64_t axis : *axes) goes[call.axis(axis, from.size())] = true;
  } else {
    for (std::size_t i = 0; i < from.size(); ++i) goes[i] = ones[i] == 1 && from[i] == 1;
  }
  Shape shape;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!goes[i]) {
      shape.push_back(from[i]);
    } else if (from[i] != 1) {
      throw InputError("axis " + std::to_string(i), "size " + number(from[i]), "size 1");
    }
  }
  call.set_view(std::move(shape));
  return true;
}

bool unsqueeze(const Call& call) {
  const Shape& from = call.shape(0);
  bool is_unknown = false;
  const std::optional<Integers> axes = call.integers("axes", 1, is_unknown);
  if (!axes) return false;
  if (from.size() + axes->size() > kMostRank) {
    throw InputError("axes", std::to_string(axes->size()) + " new dimensions",
                     "at most " + std::to_string(kMostRank) + " dimensions");
  }
  std::vector<bool> is_new(from.size() + axes->size(), false);
  for (const std::int64_t axis : *axes) {
    const std::size_t at = call.axis(axis, is_new.size());
    if (is_new[at]) throw InputError("axes", number(axis) + " twice", "each axis once");
    is_new[at] = true;
  }
  Shape shape;
  std::size_t next = 0;
  for (const bool one : is_new) shape.push_back(one ? 1 : from[next++]);
  call.set_view(std::move(shape));
  return true;
}

/// Another name. Of a trained vector it is another vector: exporters write equal contents, such as
/// the ones of every fresh scale, once; tables that layers share on purpose are matrices.
bool identity(const Call& call) {
  Value value = call.input(0);
  if (call.run.is_parameter(value) && value.shape.size() == 1) {
    value.root = call.run.add_root(call.name_of_output(0), true);
  }
  call.set_value(0, std::move(value));
  return true;
}

bool shape(const Call& call) {
  const Value& from = call.input(0);
  const auto rank = static_cast<std::int64_t>(from.shape.size());
  const auto clamp = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? std::max(at, -rank) + rank : at, 0, rank);
  };
  const std::int64_t start = clamp(call.node.integer("start", 0));
  const std::int64_t end = std::max(start, clamp(call.node.integer("end", rank)));
  Integers dims(from.shape.begin() + static_cast<std::ptrdiff_t>(start),
                from.shape.begin() + static_cast<std::ptrdiff_t>(end));
  call.set_value(0, {.shape = {end - start},
                     .type = kInt64,
                     .contents = std::move(dims),
                     .follows_input = !from.is_constant() || from.follows_input});
  return true;
}

bool size(const Call& call) {
  const Value& from = call.input(0);
  call.set_value(0, {.shape = {},
                     .type = kInt64,
                     .contents = Integers{element_count(from.shape)},
                     .follows_input = !from.is_constant() || from.follows_input});
  return true;
}

bool constant(const Call& call) {
  const Node& node = call.node;
  Value value;
  if (const AttributeProto* tensor = node.find_attribute("value"); tensor && tensor->has_t()) {
    value = decode_tensor(tensor->t(), "value");
  } else if (const AttributeProto* sparse = node.find_attribute("sparse_value")) {
    static_cast<void>(sparse);
    return false;
  } else if (node.find_attribute("value_int")) {
    value = {.shape = {}, .type = kInt64, .contents = Integers{node.integer("value_int", 0)}};
  } else if (node.find_attribute("value_float")) {
    value = {.shape = {}, .contents = Reals{node.real("value_float", 0)}};
  } else if (node.find_attribute("value_ints")) {
    Integers integers = node.integers("value_ints");
    value = {.shape = {static_cast<std::int64_t>(integers.size())}, .type = kInt64};
    if (integers.size() <= static_cast<std::size_t>(kMostValues))
      value.contents = std::move(integers);
  } else if (node.find_attribute("value_floats")) {
    Reals reals = node.reals("value_floats");
    value = {.shape = {static_cast<std::int64_t>(reals.size())}};
    if (reals.size() <= static_cast<std::size_t>(kMostValues)) value.contents = std::move(reals);
  } else {
    throw InputError("constant", "no value", "a value attribute");
  }
  call.set_value(0, std::move(value));
  return true;
}

/// Of a shape written in the file: a weight (some files replace each of theirs by such a node). Of
/// a shape computed from an input: zeros to start from, no weight.
bool constant_of_shape(const Call& call) {
  const Value& target = call.input(0);
  if (!target.integers()) return false;
  Value value;
  value.shape = checked_shape(*target.integers(), "shape");
  value.follows_input = target.follows_input;
  double fill = 0;
  if (const AttributeProto* attribute = call.node.find_attribute("value");
      attribute && attribute->has_t()) {
    const Value element = decode_tensor(attribute->t(), "value");
    value.type = element.type;
    if (element.integers() && element.integers()->size() == 1)
      fill = static_cast<double>(element.integers()->front());
    if (element.reals() && element.reals()->size() == 1) fill = element.reals()->front();
  }
  // Of reals only what may be a scale or an exponent is worth keeping.
  constexpr std::int64_t kMostReals = 8;
  const std::int64_t count = element_count(value.shape);
  if (value.type.is_integer && count <= kMostValues && std::fabs(fill) < 0x1p53) {
    value.contents = Integers(static_cast<std::size_t>(count), static_cast<std::int64_t>(fill));
  } else if (!value.type.is_integer && count <= kMostReals) {
    value.contents = Reals(static_cast<std::size_t>(count), fill);
  }
  if (!value.follows_input) {
    const std::string& name = call.run.program().values[call.node.outputs[0]].name;
    value.root = call.run.add_root(name, !value.type.is_integer);
  }
  call.set_value(0, std::move(value));
  return true;
}

/// The only element of a constant, whatever its type.
std::optional<double> scalar(const Value& value) {
  if (value.integers() && value.integers()->size() == 1) {
    return static_cast<double>(value.integers()->front());
  }
  if (value.reals() && value.reals()->size() == 1) return value.reals()->front();
  return std::nullopt;
}

/// A range too long to be kept: its length is.
bool range(const Call& call) {
  const std::optional<double> start = scalar(call.input(0)), limit = scalar(call.input(1)),
                              delta = scalar(call.input(2));
  if (!start || !limit || !delta || *delta == 0) return false;
  const double count = std::max(0.0, std::ceil((*limit - *start) / *delta));
  if (!(count < 0x1p53))
    throw InputError("range", std::to_string(count) + " elements", "fewer than 2^53");
  call.set_value(0, {.shape = {static_cast<std::int64_t>(count)},
                     .type = call.input(0).type,
                     .follows_input = call.input(1).follows_input});
  return true;
}

constexpr NamedHandler kShapeHandlers[] = {
    {"Reshape", reshape},     {"Flatten", flatten},   {"Squeeze", squeeze},
    {"Unsqueeze", unsqueeze}, {"Identity", identity}, {"Shape", shape},
    {"Size", size},           {"Constant", constant}, {"ConstantOfShape", constant_of_shape},
    {"Range", range},
};

}  // namespace

std::span<const NamedHandler> shape_handlers() { return kShapeHandlers; }

}  // namespace tracecast::onnx
