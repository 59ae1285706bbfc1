// What moves no data: PyTorch's views, and the copies that it makes where a view cannot be had.
#include <algorithm>
#include <numeric>
#include <utility>

#include "models/aten/walk.hpp"
#include "models/onnx/resize_shapes.hpp"
#include "sim/base/error.hpp"

namespace tracecast::aten {
namespace {

/// The shape that a view gives at the sizes asked for.
Shape reshaped(const Call& call, TensorIndex x) {
  const Shape& out = call.own_result(0);
  if (!call.run.is_resized()) return out;
  const auto shape = onnx::follow_reshape(call.own(x).shape, out, call.shape(x),
                                          call.run.own_batch(), call.run.batch());
  if (!shape) {
    throw InputError(call.node.target,
                     to_string(call.shape(x)) + " as " + to_string(out) + ", as it was traced",
                     "sizes that fit, or those of the trace");
  }
  return *shape;
}

/// Whether a tensor can be seen as another shape as it lies: the dimensions that become one, or
/// parts of one, follow each other (ATen/TensorUtils.cpp, computeStride).
bool is_viewable(const TensorInfo& x, const Shape& as) {
  if (x.is_contiguous() || element_count(x.shape) == 0) return true;
  std::size_t done = as.size();
  std::int64_t chunk = 1, seen = 1, step = x.strides.back();
  for (std::size_t d = x.shape.size(); d-- > 0;) {
    chunk *= x.shape[d];
    const bool ends = d == 0 || (x.shape[d - 1] != 1 && x.strides[d - 1] != chunk * step);
    if (!ends) continue;
    while (done > 0 && (seen < chunk || as[done - 1] == 1)) seen *= as[--done];
    if (seen != chunk) return false;
    if (d > 0) {
      step = x.strides[d - 1];
      chunk = seen = 1;
    }
  }
  return done == 0;
}

TensorId copied(const Call& call, TensorId x, const char* part = ".contiguous") {
  return call.build().slice(call.name + part, x, call.build().shape(x));
}

bool reshape(Call& call, bool may_copy) {
  const TensorIndex x = call.x();
  if (element_count(call.own(x).shape) != element_count(call.own_result(0))) return false;
  const bool was_expanded = call.run.value(x).is_expanded;
  TensorId id = call.whole(x);
  if (may_copy && !was_expanded && !is_viewable(call.own(x), call.own_result(0)))
    id = copied(call, id);
  call.set(0, call.build().reshape(call.name, id, reshaped(call, x)));
  return true;
}
bool view(Call& call) { return reshape(call, false); }
bool reshape_or_copy(Call& call) { return reshape(call, true); }

bool permuted(Call& call, const Integers& axes) {
  const TensorIndex x = call.x();
  const Shape in = call.shape(x);
  const std::size_t rank = in.size();
  if (axes.size() != rank) {
    throw InputError(call.node.target, std::to_string(axes.size()) + " axes",
                     "each axis of " + to_string(in) + " once");
  }
  Shape shape;
  std::vector<bool> seen(rank, false);
  bool is_same = true, is_swap = rank >= 2;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t from = axis_of(axes[i], rank, call.node.target);
    if (seen[from]) {
      throw InputError(call.node.target, "axis " + std::to_string(from) + " twice", "each once");
    }
    seen[from] = true;
    shape.push_back(in[from]);
    is_same = is_same && from == i;
    const std::size_t swapped = i + 2 < rank ? i : i + 1 == rank ? rank - 2 : rank - 1;
    is_swap = is_swap && from == swapped;
  }
  if (is_same) {
    call.pass_through();
    return true;
  }
  const Value value = call.run.value(x);
  if (is_swap && !value.is_expanded) {
    const TensorId id = value.id ? *value.id : call.plain(x);
    call.set_value(0, {.id = id, .shape = std::move(shape), .is_swapped = !value.is_swapped});
    return true;
  }
  call.set(0, call.run.view(call.name, call.whole(x), std::move(shape)));
  return true;
}

bool permute(Call& call) { return permuted(call, call.integers("dims")); }
bool transpose(Call& call) {
  const std::size_t rank = call.shape(call.x()).size();
  Integers axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (rank > 0) {
    std::swap(axes[axis_of(call.integer("dim0", 0), rank, call.node.target)],
              axes[axis_of(call.integer("dim1", 1), rank, call.node.target)]);
  }
  return permuted(call, axes);
}
/// Of a matrix, or of the matrices of a stack.
bool turn(Call& call) {
  const std::size_t rank = call.shape(call.x()).size();
  Integers axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (rank >= 2) std::swap(axes[rank - 2], axes[rank - 1]);
  return permuted(call, axes);
}

bool expand(Call& call) {
  const TensorIndex x = call.x();
  const Shape own_out = call.own_result(0), own_in = call.own(x).shape, in = call.shape(x);
  if (own_in.size() > own_out.size() || in.size() != own_in.size()) return false;
  const std::size_t new_dims = own_out.size() - own_in.size();
  Shape shape = call.run.resized(own_out);
  for (std::size_t d = 0; d < own_in.size(); ++d) {
    if (own_in[d] == own_out[new_dims + d]) {
      shape[new_dims + d] = in[d];
    } else if (own_in[d] != 1 || in[d] != 1) {
      throw InputError(call.node.target, to_string(own_in) + " to " + to_string(own_out),
                       "dimensions that are equal or 1");
    }
  }
  if (shape == in) {
    call.pass_through();
    return true;
  }
  if (!checked_element_count(shape)) {
    throw InputError(call.node.target, to_string(shape), "fewer than 2^62 elements");
  }
  const TensorId id = call.run.value(x).is_expanded ? call.whole(x) : call.plain(x);
  call.set_value(0, {.id = id, .shape = std::move(shape), .is_expanded = true});
  return true;
}

/// The dimensions of a part at the sizes asked for: what the trace has not cut follows the tensor.
Shape part_shape(const Call& call, TensorIndex x, const Shape& own_part, std::size_t axis) {
  Shape shape = call.shape(x);
  if (own_part.size() != shape.size()) {
    throw InputError(call.node.target, "a part of shape " + to_string(own_part),
                     "the rank of " + to_string(shape));
  }
  const std::int64_t own = call.own(x).shape[axis], now = shape[axis], part = own_part[axis];
  const bool scales =
      own != now && own > 0 && part > 0 && part * (now / own) <= now && now % own == 0;
  shape[axis] = part == own  ? now
                : own == now ? part
                : scales     ? part * (now / own)
                             : std::min(part, now);
  return shape;
}

TensorId cut(const Call& call, TensorId x, Shape shape) {
  return call.build().append(
      {.name = call.name, .kind = OpKind::Slice, .inputs = {x}, .note = std::string(kViewNote)},
      std::move(shape));
}

void check_part(const Call& call, const Shape& part, const Shape& whole) {
  bool fits = part.size() == whole.size();
  for (std::size_t i = 0; fits && i < part.size(); ++i) fits = part[i] <= whole[i];
  if (!fits) {
    throw InputError(call.node.target, "a part of shape " + to_string(part),
                     "a part of " + to_string(whole));
  }
}

bool slice(Call& call) {
  const TensorIndex x = call.x();
  const std::size_t rank = call.shape(x).size();
  if (rank == 0) return false;
  const std::size_t axis = axis_of(call.integer("dim", 0), rank, call.node.target);
  Shape shape = part_shape(call, x, call.own_result(0), axis);
  check_part(call, shape, call.shape(x));
  if (shape == call.shape(x)) {
    call.pass_through();
    return true;
  }
  call.set(0, cut(call, call.whole(x), std::move(shape)));
  return true;
}

bool select(Call& call) {
  const TensorIndex x = call.x();
  Shape shape = call.shape(x);
  if (shape.empty()) return false;
  const std::size_t axis = axis_of(call.integer("dim", 0), shape.size(), call.node.target);
  if (shape[axis] == 0) throw InputError(call.node.target, "a dimension of 0", "one of at least 1");
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  call.set(0, cut(call, call.whole(x), std::move(shape)));
  return true;
}

/// Parts along a dimension, which all are views; `drops`: of one index each, without the dimension.
bool into_parts(Call& call, bool drops) {
  const TensorIndex x = call.x();
  const Shape whole = call.shape(x);
  if (whole.empty() || call.node.results.empty()) return false;
  const std::size_t axis = axis_of(call.integer("dim", 0), whole.size(), call.node.target);
  std::vector<Shape> shapes;
  std::int64_t left = whole[axis];
  for (std::size_t i = 0; i < call.node.results.size(); ++i) {
    if (!call.has_result(i)) return false;
    Shape part = call.own_result(i);
    if (drops) {
      if (part.size() + 1 != whole.size()) return false;
      part.insert(part.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    }
    Shape shape = part_shape(call, x, part, axis);
    left -= shape[axis];
    if (left < 0) throw InputError(call.node.target, "parts beyond " + to_string(whole), "fewer");
    if (drops) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    shapes.push_back(std::move(shape));
  }
  if (left != 0) {
    throw InputError(call.node.target,
                     "parts that leave " + std::to_string(left) + " of " + to_string(whole),
                     "parts that add up");
  }
  Op op{.name = call.name,
        .kind = OpKind::Split,
        .inputs = {call.whole(x)},
        .note = std::string(kViewNote)};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    op.outputs.push_back(call.build().tensor(
        {.name = i == 0 ? op.name : op.name + ":" + std::to_string(i), .shape = shapes[i]}));
  }
  const std::vector<TensorId> parts = op.outputs;
  call.build().graph().add_op(std::move(op));
  for (std::size_t i = 0; i < parts.size(); ++i) call.set(i, parts[i]);
  return true;
}
bool split(Call& call) { return into_parts(call, false); }
bool unbind(Call& call) { return into_parts(call, true); }

/// A copy, where the tensor is expanded the one that makes it whole.
bool clone(Call& call) {
  const TensorIndex x = call.x();
  const bool was_expanded = call.run.value(x).is_expanded;
  const TensorId id = call.whole(x);
  call.set(0, was_expanded ? id : copied(call, id, ""));
  return true;
}
bool contiguous(Call& call) {
  const TensorIndex x = call.x();
  if (call.own(x).is_contiguous() && !call.run.value(x).is_expanded) {
    call.pass_through();
    return true;
  }
  return clone(call);
}
bool same(Call& call) {
  call.pass_through();
  return true;
}

constexpr Row kViewRows[] = {
    {"aten.view", view},
    {"aten._unsafe_view", view},
    {"aten._reshape_alias", view},
    {"aten.as_strided", view},
    {"aten.unsqueeze", view},
    {"aten.squeeze", view},
    {"aten.unflatten", view},
    {"aten.reshape", reshape_or_copy},
    {"aten.view_as", reshape_or_copy},
    {"aten.reshape_as", reshape_or_copy},
    {"aten.flatten", reshape_or_copy},
    {"aten.permute", permute},
    {"aten.transpose", transpose},
    {"aten.swapaxes", transpose},
    {"aten.t", turn},
    {"aten.mT", turn},
    {"aten.adjoint", turn},
    {"aten.numpy_T", turn},
    {"aten.expand", expand},
    {"aten.expand_as", expand},
    {"aten.broadcast_to", expand},
    {"aten.slice", slice},
    {"aten.select", select},
    {"aten.split", split},
    {"aten.split_with_sizes", split},
    {"aten.chunk", split},
    {"aten.tensor_split", split},
    {"aten.unsafe_split", split},
    {"aten.unsafe_chunk", split},
    {"aten.unbind", unbind},
    {"aten.clone", clone},
    {"aten.contiguous", contiguous},
    {"aten.alias", same},
    {"aten.detach", same},
    {"aten.lift_fresh_copy", same},
    {"aten.lift_fresh", same},
    {"aten.requires_grad", same},
};

}  // namespace

std::span<const Row> view_rows() { return kViewRows; }

}  // namespace tracecast::aten
