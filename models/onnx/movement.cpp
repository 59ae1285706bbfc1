// Shapes, constants, and ops that move data without changing it; reductions.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "models/onnx/call.hpp"
#include "models/onnx/fold.hpp"
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
                     "dimensions whose product divides the input's elements");
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
    // The target says the same at both sizes although the input has changed: it was written for the file's own.
    if (std::optional<Shape> shape =
            follow_reshape(own->shape, own_result->shape, from.shape, call.run.reference()->batch,
                           call.run.sizes().batch)) {
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

bool identity(const Call& call) {
  call.pass_through();
  return true;
}

bool transpose(const Call& call) {
  const Value& from = call.input(0);
  std::vector<std::int64_t> permutation = call.node.integers("perm");
  if (permutation.empty()) {
    for (std::size_t i = from.shape.size(); i > 0; --i) {
      permutation.push_back(static_cast<std::int64_t>(i - 1));
    }
  }
  if (!from.is_constant()) {
    call.set(0, call.build().transpose(call.name(), call.tensor(0), permutation));
    return true;
  }
  // A weight under another order of dimensions is still that weight: libraries take both.
  GraphBuilder shapes("transpose", 1);
  Value value = from;
  value.shape = shapes.shape(
      shapes.transpose(call.name(), shapes.buffer(call.name(), from.shape), permutation));
  if (from.shape.size() > 1) value.contents = {};
  call.set_value(0, std::move(value));
  return true;
}

/// Joins parts that agree but for `axis`. A constant part whose size was baked in for other sizes is repeated.
bool concat(const Call& call) {
  const std::size_t rank = call.shape(0).size();
  const std::size_t axis = call.axis(call.node.integer("axis", 1), rank);
  Shape wanted = call.shape(0);
  for (std::size_t i = 0; i < call.node.inputs.size(); ++i) {
    const Value* own = call.reference_input(i);
    if (has_changed(own, call.shape(i)) && call.shape(i).size() == rank) {
      wanted = call.shape(i);
      break;
    }
  }
  std::vector<TensorId> parts;
  parts.reserve(call.node.inputs.size());
  for (std::size_t i = 0; i < call.node.inputs.size(); ++i) {
    TensorId part = call.tensor(i);
    const Value* own = call.reference_input(i);
    Shape shape = call.shape(i);
    if (own && own->shape == shape && shape.size() == rank) {
      for (std::size_t d = 0; d < rank; ++d) {
        if (d != axis) shape[d] = wanted[d];
      }
      if (shape != call.shape(i)) {
        call.assume("part of shape " + to_string(call.shape(i)) + " is repeated to " +
                    to_string(shape));
        part = call.build().append({.name = call.name() + ".part" + std::to_string(i),
                                    .kind = OpKind::Gather,
                                    .attributes = ElementwiseAttributes{.name = "expand"},
                                    .inputs = {part}},
                                   checked_shape(std::move(shape), "part"));
      }
    }
    parts.push_back(part);
  }
  call.set(0, call.build().concat(call.name(), parts, static_cast<std::int64_t>(axis)));
  return true;
}

/// `parts` sizes that differ by at most one chunk: equal ones, the last may be smaller (opset 18).
Integers equal_parts(std::int64_t size, std::int64_t parts) {
  const std::int64_t chunk = size / parts + (size % parts != 0);
  Integers sizes;
  for (std::int64_t left = size, i = 0; i < parts; ++i) {
    sizes.push_back(std::min(chunk, left));
    left -= sizes.back();
  }
  return sizes;
}

bool split(const Call& call) {
  const Value& from = call.input(0);
  const std::size_t axis = call.axis(call.node.integer("axis", 0), from.shape.size());
  const auto parts = static_cast<std::int64_t>(call.node.outputs.size());
  bool is_unknown = false;
  std::optional<Integers> sizes = call.integers("split", 1, is_unknown);
  if (is_unknown || parts == 0) return false;
  const Value* own = call.reference_input(0);
  if (!sizes) {
    sizes = equal_parts(from.shape[axis], parts);
  } else if (has_changed(own, from.shape) && own->shape[axis] > 0) {
    // Baked-in sizes of a dimension that has changed: the same shares of it.
    const std::int64_t before = own->shape[axis], now = from.shape[axis];
    Integers shares = *sizes;
    bool is_even = true;
    for (std::int64_t& size : shares) {
      std::int64_t scaled = 0;
      is_even = is_even && !__builtin_mul_overflow(size, now, &scaled) && scaled % before == 0;
      size = scaled / before;
    }
    if (is_even) sizes = std::move(shares);
  }
  if (static_cast<std::int64_t>(sizes->size()) != parts) {
    throw InputError("split", std::to_string(sizes->size()) + " sizes",
                     number(parts) + " as there are outputs");
  }
  const std::vector<TensorId> ids =
      call.build().split(call.name(), call.tensor(0), static_cast<std::int64_t>(axis), *sizes);
  const Integers* contents = from.shape.size() == 1 ? from.integers() : nullptr;
  const bool follows_input = from.follows_input;
  const ElementType type = from.type;
  std::size_t start = 0;
  const Integers all = contents ? *contents : Integers{};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (all.empty()) {
      call.set(i, ids[i], type);
      continue;
    }
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(start);
    start += static_cast<std::size_t>((*sizes)[i]);
    call.set_value(i,
                   {.shape = {(*sizes)[i]},
                    .type = type,
                    .contents = Integers(first, all.begin() + static_cast<std::ptrdiff_t>(start)),
                    .follows_input = follows_input});
  }
  return true;
}

bool slice(const Call& call) {
  const Shape& from = call.shape(0);
  bool is_unknown = false;
  const std::optional<Integers> starts = call.integers("starts", 1, is_unknown);
  const std::optional<Integers> ends = call.integers("ends", 2, is_unknown);
  const std::optional<Integers> axes = call.integers("axes", 3, is_unknown);
  const std::optional<Integers> steps = call.integers("steps", 4, is_unknown);
  if (is_unknown || !starts || !ends) return false;
  if (ends->size() != starts->size() || (axes && axes->size() != starts->size()) ||
      (steps && steps->size() != starts->size()) || starts->size() > from.size()) {
    throw InputError(
        "slice",
        std::to_string(starts->size()) + " starts, " + std::to_string(ends->size()) + " ends",
        "one start and end for each axis");
  }
  const Value* own = call.reference_input(0);
  const Value* own_result = call.reference_output(0);
  Shape shape = from;
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const std::size_t axis =
        call.axis(axes ? (*axes)[i] : static_cast<std::int64_t>(i), from.size());
    const std::int64_t step = steps ? (*steps)[i] : 1;
    if (step == 0) throw InputError("slice", "step 0", "a step other than 0");
    // What took all of a dimension takes all of it at other sizes too, whatever its end was written as.
    const bool took_all = has_changed(own, from) && own_result &&
                          own_result->shape.size() == from.size() &&
                          own_result->shape[axis] == own->shape[axis];
    if (!took_all) shape[axis] = slice_range(from[axis], (*starts)[i], (*ends)[i], step).count;
  }
  if (shape == from && !call.input(0).is_constant()) {
    call.pass_through();
  } else {
    call.set(0, call.build().slice(call.name(), call.tensor(0), std::move(shape)));
  }
  return true;
}

bool pad(const Call& call) {
  const std::size_t rank = call.shape(0).size();
  bool is_unknown = false;
  const std::optional<Integers> pads = call.integers("pads", 1, is_unknown);
  const std::optional<Integers> axes = call.integers("axes", 3, is_unknown);
  if (is_unknown || !pads) return false;
  const std::size_t count = axes ? axes->size() : rank;
  if (pads->size() != 2 * count) {
    throw InputError("pads", std::to_string(pads->size()) + " values",
                     std::to_string(2 * count) + " values");
  }
  Integers before(rank, 0), after(rank, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t axis = axes ? call.axis((*axes)[i], rank) : i;
    before[axis] = (*pads)[i];
    after[axis] = (*pads)[count + i];
  }
  const auto is_zero = [](std::int64_t value) { return value == 0; };
  if (std::all_of(pads->begin(), pads->end(), is_zero)) {
    call.pass_through();
  } else {
    call.set(0, call.build().pad(call.name(), call.tensor(0), before, after));
  }
  return true;
}

/// Rows of a constant table are an embedding, everything else is a gather.
bool gather(const Call& call) {
  const Value& data = call.input(0);
  const std::size_t axis = call.axis(call.node.integer("axis", 0), data.shape.size());
  if (data.is_constant() && data.shape.size() == 2 && axis == 0 && !data.type.is_integer) {
    call.set(0, call.build().embedding(call.name(), call.tensor(1), call.parameter(0)));
  } else {
    call.set(0, call.build().gather(call.name(), call.tensor(0), call.tensor(1),
                                    static_cast<std::int64_t>(axis)));
  }
  return true;
}

/// Moves elements of the first input to an output of another shape.
void move(const Call& call, Shape shape, std::string_view what, OpKind kind = OpKind::Gather) {
  Op op{.name = call.name(), .kind = kind, .inputs = call.tensors()};
  if (kind == OpKind::Gather) op.attributes = ElementwiseAttributes{.name = std::string(what)};
  call.set(0, call.build().append(std::move(op), checked_shape(std::move(shape), "result")));
}

bool gather_elements(const Call& call) {
  move(call, call.shape(1), "gather_elements");
  return true;
}

bool gather_nd(const Call& call) {
  const Shape& data = call.shape(0);
  const Shape& indices = call.shape(1);
  const std::int64_t stacked = call.node.integer("batch_dims", 0);
  if (indices.empty() || stacked < 0 || indices.back() < 0 ||
      stacked + indices.back() > static_cast<std::int64_t>(data.size())) {
    throw InputError("indices", to_string(indices), "indices into " + to_string(data));
  }
  Shape shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), data.begin() + static_cast<std::ptrdiff_t>(stacked + indices.back()),
               data.end());
  move(call, std::move(shape), "gather_nd");
  return true;
}

bool expand(const Call& call) {
  const Value& from = call.input(0);
  bool is_unknown = false;
  const std::optional<Integers> target = call.integers("shape", 1, is_unknown);
  if (!target) return false;
  Shape wanted = checked_shape(*target, "target");
  const Value* own = call.reference_input(0);
  if (has_changed(own, from.shape)) {
    // A baked-in dimension that was the input's own follows it.
    for (std::size_t d = 0; d < std::min(wanted.size(), from.shape.size()); ++d) {
      std::int64_t& dim = wanted[wanted.size() - 1 - d];
      if (dim == own->shape[own->shape.size() - 1 - d]) dim = from.shape[from.shape.size() - 1 - d];
    }
  }
  Shape shape = broadcast_shape("target", from.shape, wanted);
  if (shape == from.shape) {
    call.pass_through();
    return true;
  }
  Op op{.name = call.name(),
        .kind = OpKind::Gather,
        .attributes = ElementwiseAttributes{.name = "expand"},
        .inputs = {call.tensor(0)}};
  call.set(0, call.build().append(std::move(op), std::move(shape)));
  return true;
}

bool tile(const Call& call) {
  bool is_unknown = false;
  const std::optional<Integers> repeats = call.integers("repeats", 1, is_unknown);
  if (!repeats) return false;
  Shape shape = call.shape(0);
  if (repeats->size() != shape.size()) {
    throw InputError("repeats", std::to_string(repeats->size()) + " values",
                     std::to_string(shape.size()) + " values");
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if ((*repeats)[i] < 0 || __builtin_mul_overflow(shape[i], (*repeats)[i], &shape[i])) {
      throw InputError("repeats", number((*repeats)[i]),
                       "a count of at least 0 that keeps the result small");
    }
  }
  Op op{.name = call.name(),
        .kind = OpKind::Gather,
        .attributes = ElementwiseAttributes{.name = "tile"},
        .inputs = {call.tensor(0)}};
  call.set(0, call.build().append(std::move(op), std::move(shape)));
  return true;
}

/// size * factor, rounded down as ONNX says.
std::int64_t scaled(std::int64_t size, double factor) {
  const double result = std::floor(static_cast<double>(size) * factor);
  if (!(result >= 0 && result < 0x1p62)) {
    throw InputError("scale", std::to_string(factor), "a factor that gives a size below 2^62");
  }
  return static_cast<std::int64_t>(result);
}

bool resize(const Call& call) {
  const Shape& from = call.shape(0);
  // Upsample and Resize of opset 10: x, scales. Later: x, roi, scales, sizes.
  const bool is_early = call.node.op_type() == "Upsample" || call.node.opset < 11;
  const std::size_t scales_at = is_early ? 1 : 2;
  std::vector<double> scales = call.node.reals("scales");
  if (scales.empty() && call.has_input(scales_at)) {
    const Reals* known = call.input(scales_at).reals();
    if (!known && element_count(call.shape(scales_at)) != 0) return false;
    if (known) scales = *known;
  }
  bool is_unknown = false;
  std::optional<Integers> sizes;
  if (scales.empty() && !is_early) sizes = call.integers("sizes", 3, is_unknown);
  if (scales.empty() && !sizes) return false;
  std::vector<std::int64_t> axes = call.node.integers("axes");
  const std::size_t count = sizes ? sizes->size() : scales.size();
  if (axes.empty()) {
    for (std::size_t i = 0; i < from.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  if (count != axes.size()) {
    throw InputError("sizes or scales", std::to_string(count) + " values",
                     std::to_string(axes.size()) + " values");
  }
  const Value* own = call.reference_input(0);
  const Value* own_sizes = call.reference_input(3);
  const bool is_baked_in = sizes && has_changed(own, from) && own_sizes && own_sizes->integers() &&
                           *own_sizes->integers() == *sizes;
  Shape shape = from;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t axis = call.axis(axes[i], from.size());
    if (!sizes) {
      shape[axis] = scaled(from[axis], scales[i]);
    } else if (is_baked_in && own->shape[axis] > 0) {
      shape[axis] = scaled(
          from[axis], static_cast<double>((*sizes)[i]) / static_cast<double>(own->shape[axis]));
    } else {
      shape[axis] = (*sizes)[i];
    }
  }
  check_shape(shape, "result");
  call.set(0, call.build().resize(call.name(), call.tensor(0), std::move(shape),
                                  call.node.text("mode", "nearest")));
  return true;
}

bool space_depth(const Call& call, bool to_space) {
  Shape shape = call.shape(0);
  const std::int64_t block = call.node.integer("blocksize", 1);
  if (shape.size() != 4 || block < 1 || block > (1 << 15)) {
    throw InputError("input " + to_string(shape), "block size " + number(block),
                     "N,C,H,W and a block of at least 1");
  }
  const bool fits =
      to_space ? shape[1] % (block * block) == 0 : shape[2] % block == 0 && shape[3] % block == 0;
  if (!fits)
    throw InputError("input " + to_string(shape), "block size " + number(block), "a divisor");
  if (to_space) {
    shape = {shape[0], shape[1] / (block * block), shape[2] * block, shape[3] * block};
  } else {
    shape = {shape[0], shape[1] * block * block, shape[2] / block, shape[3] / block};
  }
  move(call, std::move(shape), "", OpKind::Transpose);
  return true;
}
bool depth_to_space(const Call& call) { return space_depth(call, true); }
bool space_to_depth(const Call& call) { return space_depth(call, false); }

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

/// Of a shape written in the file: a weight (some files replace each of theirs by such a node). Of a shape computed
/// from an input: zeros to start from, no weight.
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

bool reduce(const Call& call) {
  bool is_unknown = false;
  std::optional<Integers> axes = call.integers("axes", 1, is_unknown);
  if (is_unknown) return false;
  if ((!axes || axes->empty()) && call.node.integer("noop_with_empty_axes", 0) != 0) {
    call.pass_through();
    return true;
  }
  std::string_view function = call.node.op_type();
  function.remove_prefix(std::string_view("Reduce").size());
  std::string lower(function);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  call.set(0, call.build().reduce(call.name(), call.tensor(0), axes.value_or(Integers{}),
                                  call.node.integer("keepdims", 1) != 0, lower));
  return true;
}

bool arg_extreme(const Call& call) {
  const std::int64_t axes[] = {call.node.integer("axis", 0)};
  call.set(
      0,
      call.build().reduce(call.name(), call.tensor(0), axes, call.node.integer("keepdims", 1) != 0,
                          call.node.op_type() == "ArgMax" ? "argmax" : "argmin"),
      kInt64);
  return true;
}

constexpr NamedHandler kHandlers[] = {
    {"Reshape", reshape},
    {"Flatten", flatten},
    {"Squeeze", squeeze},
    {"Unsqueeze", unsqueeze},
    {"Identity", identity},
    {"Transpose", transpose},
    {"Concat", concat},
    {"Split", split},
    {"Slice", slice},
    {"Pad", pad},
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"Expand", expand},
    {"Tile", tile},
    {"Resize", resize},
    {"Upsample", resize},
    {"DepthToSpace", depth_to_space},
    {"SpaceToDepth", space_to_depth},
    {"Shape", shape},
    {"Size", size},
    {"Constant", constant},
    {"ConstantOfShape", constant_of_shape},
    {"Range", range},
    {"ReduceMean", reduce},
    {"ReduceSum", reduce},
    {"ReduceMax", reduce},
    {"ReduceMin", reduce},
    {"ReduceProd", reduce},
    {"ReduceL1", reduce},
    {"ReduceL2", reduce},
    {"ReduceSumSquare", reduce},
    {"ReduceLogSum", reduce},
    {"ReduceLogSumExp", reduce},
    {"ArgMax", arg_extreme},
    {"ArgMin", arg_extreme},
};

}  // namespace

std::span<const NamedHandler> movement_handlers() { return kHandlers; }

}  // namespace tracecast::onnx
