#include "models/ops.hpp"

#include <utility>

#include "models/shape_checks.hpp"

namespace tracecast {

using namespace shape_checks;

TensorId GraphBuilder::concat(std::string name, std::span<const TensorId> inputs,
                              std::int64_t axis) {
  if (inputs.empty()) throw InputError(name, "no input", "at least one input");
  Shape out = shape(inputs.front());
  const std::size_t along = checked_axis(name, axis, out.size());
  for (const TensorId input : inputs.subspan(1)) {
    const Shape& next = shape(input);
    bool agrees = next.size() == out.size();
    for (std::size_t i = 0; agrees && i < out.size(); ++i) agrees = i == along || next[i] == out[i];
    if (!agrees) {
      throw InputError(name,
                       "shapes " + to_string(shape(inputs.front())) + " and " + to_string(next),
                       "dimensions equal but for axis " + number(axis));
    }
    if (next[along] > kMostElements - out[along]) {
      throw InputError(name, "an axis of more than 2^62", "fewer elements");
    }
    out[along] += next[along];
  }
  return append(
      {.name = std::move(name), .kind = OpKind::Concat, .inputs = {inputs.begin(), inputs.end()}},
      std::move(out));
}

std::vector<TensorId> GraphBuilder::split(std::string name, TensorId x, std::int64_t axis,
                                          std::span<const std::int64_t> sizes) {
  const Shape in = shape(x);
  const std::size_t along = checked_axis(name, axis, in.size());
  std::int64_t left = in[along];
  for (const std::int64_t size : sizes) {
    require_range(name, "part of a split", size, 0, left);
    left -= size;
  }
  if (sizes.empty() || left != 0) {
    throw InputError(name, "parts that leave " + number(left) + " of " + number(in[along]),
                     "parts that add up to the axis");
  }
  Op op{.name = std::move(name), .kind = OpKind::Split, .inputs = {x}};
  op.outputs.reserve(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Shape part = in;
    part[along] = sizes[i];
    op.outputs.push_back(tensor(
        {.name = i == 0 ? op.name : op.name + ":" + std::to_string(i), .shape = std::move(part)}));
  }
  std::vector<TensorId> outputs = op.outputs;
  graph_.add_op(std::move(op));
  return outputs;
}

namespace {

void check_slice(const std::string& name, const Shape& in, const Shape& part) {
  bool fits = part.size() == in.size();
  for (std::size_t i = 0; fits && i < in.size(); ++i) fits = part[i] >= 0 && part[i] <= in[i];
  if (!fits) {
    throw InputError(name, "a part of shape " + to_string(part), "a part of " + to_string(in));
  }
}

}  // namespace

TensorId GraphBuilder::slice(std::string name, TensorId x, Shape output_shape) {
  check_slice(name, shape(x), output_shape);
  return append({.name = std::move(name), .kind = OpKind::Slice, .inputs = {x}},
                std::move(output_shape));
}

TensorId GraphBuilder::slice_view(std::string name, TensorId x, Shape output_shape) {
  check_slice(name, shape(x), output_shape);
  return append({.name = std::move(name),
                 .kind = OpKind::Slice,
                 .inputs = {x},
                 .note = std::string(kViewNote)},
                std::move(output_shape));
}

TensorId GraphBuilder::pad(std::string name, TensorId x, std::span<const std::int64_t> before,
                           std::span<const std::int64_t> after) {
  Shape out = shape(x);
  if (before.size() != out.size() || after.size() != out.size()) {
    throw InputError(name, number(static_cast<std::int64_t>(before.size())) + " pads",
                     "one at either end of each dimension of " + to_string(out));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    require_range(name, "pad", before[i], -kMostExtent, kMostExtent);
    require_range(name, "pad", after[i], -kMostExtent, kMostExtent);
    out[i] += before[i] + after[i];
    require_range(name, "padded dimension", out[i], 0, kMostElements);
  }
  return append({.name = std::move(name), .kind = OpKind::Pad, .inputs = {x}}, std::move(out));
}

TensorId GraphBuilder::transpose(std::string name, TensorId x,
                                 std::span<const std::int64_t> permutation) {
  const Shape& in = shape(x);
  Shape out(in.size());
  std::vector<bool> seen(in.size(), false);
  bool is_permutation = permutation.size() == in.size();
  std::string note;
  for (std::size_t i = 0; is_permutation && i < in.size(); ++i) {
    const std::size_t from = checked_axis(name, permutation[i], in.size());
    note += (i == 0 ? "" : ",") + std::to_string(from);
    is_permutation = !seen[from];
    seen[from] = true;
    out[i] = in[from];
  }
  if (!is_permutation) {
    throw InputError(name, "a permutation that repeats or misses an axis",
                     "each axis of " + to_string(in) + " once");
  }
  return append(
      {.name = std::move(name), .kind = OpKind::Transpose, .inputs = {x}, .note = std::move(note)},
      std::move(out));
}

TensorId GraphBuilder::reshape(std::string name, TensorId x, Shape new_shape) {
  const std::int64_t count = element_count(shape(x));
  std::optional<std::size_t> open;
  Shape known = new_shape;
  bool is_valid = true;
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i] != -1) continue;
    is_valid = is_valid && !open;
    open = i;
    known[i] = 1;
  }
  const std::optional<std::int64_t> rest = checked_element_count(known);
  is_valid = is_valid && rest.has_value();
  if (is_valid && open) {
    is_valid = *rest > 0 && count % *rest == 0;
    if (is_valid) known[*open] = count / *rest;
  } else if (is_valid) {
    is_valid = *rest == count;
  }
  if (!is_valid) {
    throw InputError(name, to_string(shape(x)) + " reshaped to " + to_string(new_shape),
                     "the same number of elements, at most one dimension -1");
  }
  return append({.name = std::move(name), .kind = OpKind::Reshape, .inputs = {x}},
                std::move(known));
}

TensorId GraphBuilder::flatten(std::string name, TensorId x, std::int64_t axis) {
  const Shape& in = shape(x);
  const auto rank = static_cast<std::int64_t>(in.size());
  require_range(name, "axis", axis, -rank, rank);  // the rank itself is allowed: N x 1
  const auto first = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  return reshape(std::move(name), x,
                 {count_between(in, 0, first), count_between(in, first, in.size())});
}

TensorId GraphBuilder::resize(std::string name, TensorId x, Shape output_shape,
                              std::string_view mode) {
  if (output_shape.size() != shape(x).size()) {
    throw InputError(name, "a result of shape " + to_string(output_shape),
                     "the rank of " + to_string(shape(x)));
  }
  return append({.name = std::move(name),
                 .kind = OpKind::Resize,
                 .attributes = ElementwiseAttributes{.name = std::string(mode)},
                 .inputs = {x}},
                std::move(output_shape));
}

TensorId GraphBuilder::embedding(std::string name, TensorId ids, TensorId table) {
  if (shape(table).size() != 2) {
    throw InputError(name, "a table of shape " + to_string(shape(table)), "rows x width");
  }
  Shape out = shape(ids);
  out.push_back(shape(table)[1]);
  return append({.name = std::move(name), .kind = OpKind::Embedding, .inputs = {ids, table}},
                std::move(out));
}

TensorId GraphBuilder::embedding_layer(std::string name, TensorId ids, std::int64_t rows,
                                       std::int64_t width) {
  const TensorId table = weight(name + ".weight", {rows, width});
  return embedding(std::move(name), ids, table);
}

TensorId GraphBuilder::gather(std::string name, TensorId data, TensorId indices,
                              std::int64_t axis) {
  const Shape& in = shape(data);
  const Shape& picked = shape(indices);
  const std::size_t along = checked_axis(name, axis, in.size());
  Shape out(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(along));
  out.insert(out.end(), picked.begin(), picked.end());
  out.insert(out.end(), in.begin() + static_cast<std::ptrdiff_t>(along) + 1, in.end());
  return append({.name = std::move(name),
                 .kind = OpKind::Gather,
                 .attributes = ElementwiseAttributes{.name = "gather"},
                 .inputs = {data, indices}},
                std::move(out));
}

}  // namespace tracecast
