// Ops that move data without changing it.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "models/canonical/canonical.hpp"
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

/// Joins parts that agree but for `axis`. A constant part whose size was baked in for other sizes
/// is repeated.
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
  std::string note;
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const std::size_t axis =
        call.axis(axes ? (*axes)[i] : static_cast<std::int64_t>(i), from.size());
    const std::int64_t step = steps ? (*steps)[i] : 1;
    if (step == 0) throw InputError("slice", "step 0", "a step other than 0");
    if (starts->size() == 1 && step == 1) {
      const std::int64_t start = (*starts)[i] + ((*starts)[i] < 0 ? from[axis] : 0);
      note = part_note(axis, std::max<std::int64_t>(start, 0));
    }
    // What took all of a dimension takes all of it at other sizes too, whatever its end was written
    // as.
    const bool took_all = has_changed(own, from) && own_result &&
                          own_result->shape.size() == from.size() &&
                          own_result->shape[axis] == own->shape[axis];
    if (!took_all) shape[axis] = slice_range(from[axis], (*starts)[i], (*ends)[i], step).count;
  }
  if (shape == from && !call.input(0).is_constant()) {
    call.pass_through();
  } else {
    call.set(0, call.build().append({.name = call.name(),
                                     .kind = OpKind::Slice,
                                     .inputs = {call.tensor(0)},
                                     .note = std::move(note)},
                                    std::move(shape)));
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

constexpr NamedHandler kMovementHandlers[] = {
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
};

}  // namespace

std::span<const NamedHandler> movement_handlers() { return kMovementHandlers; }

}  // namespace tracecast::onnx
