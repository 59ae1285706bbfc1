#include "models/onnx/fold.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "models/onnx/fold_arithmetic.hpp"
#include "models/onnx/reader.hpp"
#include "models/ops.hpp"

namespace tracecast::onnx {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

/// Along the first dimension, where rows lie one after the other in memory.
template <class T>
std::optional<Value> fold_concat(const Node& node, std::span<const Value* const> inputs) {
  const Shape& first = inputs[0]->shape;
  const std::int64_t axis = node.integer("axis", 0);
  if (first.empty() || (axis != 0 && axis != -static_cast<std::int64_t>(first.size()))) {
    return std::nullopt;
  }
  Value value{.shape = first, .type = inputs[0]->type};
  std::vector<T> result;
  value.shape[0] = 0;
  for (const Value* input : inputs) {
    if (input->shape.size() != first.size() ||
        !std::equal(first.begin() + 1, first.end(), input->shape.begin() + 1)) {
      return std::nullopt;
    }
    const std::vector<T> part = elements<T>(*input);
    if (result.size() + part.size() > static_cast<std::size_t>(kMostValues)) return std::nullopt;
    result.insert(result.end(), part.begin(), part.end());
    value.shape[0] += input->shape[0];
  }
  value.contents = std::move(result);
  return value;
}

template <class T>
std::optional<Value> fold_gather(const Node& node, std::span<const Value* const> inputs) {
  if (inputs.size() != 2 || !inputs[1]->integers()) return std::nullopt;
  const Value& data = *inputs[0];
  const std::int64_t axis = node.integer("axis", 0);
  if (data.shape.empty() || (axis != 0 && axis != -static_cast<std::int64_t>(data.shape.size()))) {
    return std::nullopt;
  }
  Shape shape = inputs[1]->shape;
  shape.insert(shape.end(), data.shape.begin() + 1, data.shape.end());
  const std::optional<std::int64_t> count = checked_element_count(shape);
  if (!count || *count > kMostValues || data.shape[0] == 0) return std::nullopt;
  const std::vector<T> from = elements<T>(data);
  const std::size_t row = from.size() / static_cast<std::size_t>(data.shape[0]);
  std::vector<T> result;
  result.reserve(static_cast<std::size_t>(*count));
  for (std::int64_t index : *inputs[1]->integers()) {
    if (index < 0) index += data.shape[0];
    if (index < 0 || index >= data.shape[0]) return std::nullopt;
    const auto start =
        from.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(index) * row);
    result.insert(result.end(), start, start + static_cast<std::ptrdiff_t>(row));
  }
  return Value{.shape = std::move(shape), .type = data.type, .contents = std::move(result)};
}

/// Elements of `from` picked along each dimension: position = sum over d of (start + index * step)
/// * stride.
struct Walk {
  std::int64_t start, step, count, stride;
};

template <class T>
std::vector<T> gather_elements(const std::vector<T>& from, std::span<const Walk> walks) {
  std::size_t count = 1;
  for (const Walk& walk : walks) count *= static_cast<std::size_t>(walk.count);
  std::vector<T> result;
  result.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t rest = i;
    std::int64_t at = 0;
    for (std::size_t d = walks.size(); d-- > 0;) {
      const auto size = static_cast<std::size_t>(walks[d].count);
      at += (walks[d].start + static_cast<std::int64_t>(rest % size) * walks[d].step) *
            walks[d].stride;
      rest /= size;
    }
    result.push_back(from[static_cast<std::size_t>(at)]);
  }
  return result;
}

/// Everything, in the order of memory.
std::vector<Walk> whole(const Shape& shape) {
  std::vector<Walk> walks(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    walks[d] = {.start = 0, .step = 1, .count = shape[d], .stride = stride};
    stride *= shape[d];
  }
  return walks;
}

template <class T>
Value gathered(const Value& data, std::span<const Walk> walks) {
  Value value{.shape = {}, .type = data.type};
  for (const Walk& walk : walks) value.shape.push_back(walk.count);
  value.contents = gather_elements(elements<T>(data), walks);
  return value;
}

template <class T>
std::optional<Value> fold_slice(const Node& node, std::span<const Value* const> inputs) {
  const Value& data = *inputs[0];
  if (data.shape.size() != 1 && !data.integers()) return std::nullopt;  // a weight stays one
  Integers starts = node.integers("starts"), ends = node.integers("ends"),
           axes = node.integers("axes"), steps;
  if (inputs.size() >= 3) {
    for (const Value* input : inputs.subspan(1)) {
      if (input && !input->integers()) return std::nullopt;
    }
    if (!inputs[1] || !inputs[2]) return std::nullopt;
    starts = *inputs[1]->integers();
    ends = *inputs[2]->integers();
    if (inputs.size() >= 4 && inputs[3]) axes = *inputs[3]->integers();
    if (inputs.size() >= 5 && inputs[4]) steps = *inputs[4]->integers();
  }
  if (axes.empty()) {
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    return std::nullopt;
  }
  std::vector<Walk> walks = whole(data.shape);
  const auto rank = static_cast<std::int64_t>(walks.size());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank || steps[i] == 0) return std::nullopt;
    Walk& walk = walks[static_cast<std::size_t>(axis)];
    const SliceRange range =
        slice_range(data.shape[static_cast<std::size_t>(axis)], starts[i], ends[i], steps[i]);
    walk.start = range.start;
    walk.step = range.step;
    walk.count = range.count;
  }
  return gathered<T>(data, walks);
}

template <class T>
std::optional<Value> fold_transpose(const Node& node, const Value& data) {
  if (!data.integers()) return std::nullopt;  // a weight stays one
  const std::vector<Walk> from = whole(data.shape);
  Integers order = node.integers("perm");
  if (order.empty()) {
    for (std::size_t d = from.size(); d-- > 0;) order.push_back(static_cast<std::int64_t>(d));
  }
  std::vector<bool> is_taken(from.size(), false);
  std::vector<Walk> walks;
  for (const std::int64_t d : order) {
    if (d < 0 || d >= static_cast<std::int64_t>(from.size()) ||
        is_taken[static_cast<std::size_t>(d)])
      return std::nullopt;
    is_taken[static_cast<std::size_t>(d)] = true;
    walks.push_back(from[static_cast<std::size_t>(d)]);
  }
  if (walks.size() != from.size()) return std::nullopt;
  return gathered<T>(data, walks);
}

template <class T>
std::optional<Value> fold_expand(std::span<const Value* const> inputs) {
  if (inputs.size() != 2 || !inputs[1]->integers()) return std::nullopt;
  const Value target{.shape = *inputs[1]->integers()};
  if (!checked_element_count(target.shape)) return std::nullopt;
  const Value* both[] = {inputs[0], &target};
  const std::optional<Shape> shape = small_broadcast(both);
  if (!shape) return std::nullopt;
  const std::vector<T> from = elements<T>(*inputs[0]);
  std::vector<T> result(static_cast<std::size_t>(element_count(*shape)));
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = from[broadcast_position(inputs[0]->shape, *shape, i)];
  }
  return Value{.shape = *shape, .type = inputs[0]->type, .contents = std::move(result)};
}

/// Of vectors.
template <class T>
std::optional<Value> fold_tile(std::span<const Value* const> inputs) {
  if (inputs.size() != 2 || !inputs[1]->integers() || inputs[0]->shape.size() != 1 ||
      inputs[1]->integers()->size() != 1) {
    return std::nullopt;
  }
  const std::int64_t repeats = inputs[1]->integers()->front();
  const std::vector<T> from = elements<T>(*inputs[0]);
  if (repeats < 0 || repeats > kMostValues ||
      from.size() * static_cast<std::size_t>(repeats) > static_cast<std::size_t>(kMostValues)) {
    return std::nullopt;
  }
  std::vector<T> result;
  for (std::int64_t i = 0; i < repeats; ++i) result.insert(result.end(), from.begin(), from.end());
  return Value{.shape = {static_cast<std::int64_t>(result.size())},
               .type = inputs[0]->type,
               .contents = std::move(result)};
}

std::optional<Value> fold_range(std::span<const Value* const> inputs) {
  if (inputs.size() != 3) return std::nullopt;
  for (const Value* input : inputs) {
    if (!input->integers() || input->integers()->size() != 1) return std::nullopt;
  }
  const std::int64_t start = inputs[0]->integers()->front();
  const std::int64_t limit = inputs[1]->integers()->front();
  const std::int64_t delta = inputs[2]->integers()->front();
  std::int64_t span = 0;
  if (delta == 0 || delta == kLeast || __builtin_sub_overflow(limit, start, &span)) {
    return std::nullopt;
  }
  Integers result;
  const std::int64_t count = (span > 0) == (delta > 0) ? span / delta + (span % delta != 0) : 0;
  if (count > kMostValues) return std::nullopt;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(start + i * delta);
  return Value{.shape = {count}, .type = inputs[0]->type, .contents = std::move(result)};
}

std::optional<Value> fold_cast(const Node& node, const Value& input) {
  Value value = input;
  value.type = element_type(static_cast<std::int32_t>(node.integer("to", 0)));
  if (value.type.is_integer == input.type.is_integer) return value;
  if (const Integers* integers = input.integers()) {
    value.contents = Reals(integers->begin(), integers->end());
    return value;
  }
  Integers result;
  for (const double real : *input.reals()) {
    if (!(std::fabs(real) < 0x1p62)) return std::nullopt;
    result.push_back(static_cast<std::int64_t>(real));
  }
  value.contents = std::move(result);
  return value;
}

/// Of vectors, over all elements.
template <class T>
std::optional<Value> fold_reduce(Function f, const Node& node, const Value& input) {
  if (input.shape.size() > 1) return std::nullopt;
  const Function step = f == Function::ReduceProd  ? Function::Mul
                        : f == Function::ReduceSum ? Function::Add
                        : f == Function::ReduceMin ? Function::Min
                                                   : Function::Max;
  const std::vector<T> from = elements<T>(input);
  if (from.empty() && f != Function::ReduceProd && f != Function::ReduceSum) return std::nullopt;
  T result = !from.empty() ? from.front() : static_cast<T>(f == Function::ReduceProd ? 1 : 0);
  for (std::size_t i = 1; i < from.size(); ++i) {
    const std::optional<T> next = combine(step, result, from[i]);
    if (!next) return std::nullopt;
    result = *next;
  }
  const bool keeps = node.integer("keepdims", 1) != 0 && input.shape.size() == 1;
  return Value{
      .shape = keeps ? Shape{1} : Shape{}, .type = input.type, .contents = std::vector<T>{result}};
}

/// Of vectors: one row of indices.
template <class T>
std::optional<Value> fold_nonzero(const Value& input) {
  if (input.shape.size() != 1) return std::nullopt;
  const std::vector<T> from = elements<T>(input);
  Integers result;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] != T{}) result.push_back(static_cast<std::int64_t>(i));
  }
  const auto count = static_cast<std::int64_t>(result.size());
  return Value{.shape = {1, count}, .type = kInt64, .contents = std::move(result)};
}

/// Bounds are inputs, or attributes up to opset 10.
template <class T>
std::optional<Value> fold_clipped(const Node& node, std::span<const Value* const> inputs) {
  const auto bound = [&](std::size_t i, std::string_view attribute) -> std::optional<T> {
    if (node.find_attribute(attribute)) return static_cast<T>(node.real(attribute, 0));
    if (i >= inputs.size() || !inputs[i]) return std::nullopt;
    return elements<T>(*inputs[i]).front();
  };
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i] && element_count(inputs[i]->shape) != 1) return std::nullopt;
  }
  return fold_clip<T>(*inputs[0], bound(1, "min"), bound(2, "max"));
}

/// Of vectors: each element and those before it, or behind it with `reverse`.
template <class T>
std::optional<Value> fold_cumulated(const Node& node, const Value& input) {
  if (input.shape.size() != 1) return std::nullopt;
  std::vector<T> result = elements<T>(input);
  const bool is_reversed = node.integer("reverse", 0) != 0;
  const bool is_exclusive = node.integer("exclusive", 0) != 0;
  if (is_reversed) std::reverse(result.begin(), result.end());
  T sum{};
  for (T& element : result) {
    const std::optional<T> next = combine(Function::Add, sum, element);
    if (!next) return std::nullopt;
    element = is_exclusive ? sum : *next;
    sum = *next;
  }
  if (is_reversed) std::reverse(result.begin(), result.end());
  return Value{.shape = input.shape, .type = input.type, .contents = std::move(result)};
}

/// Data, rows of indices into its leading dimensions, what is written there.
template <class T>
std::optional<Value> fold_scatter_nd(const Node& node, std::span<const Value* const> inputs) {
  if (inputs.size() != 3 || !inputs[1]->integers() || node.text("reduction", "none") != "none") {
    return std::nullopt;
  }
  const Shape& data = inputs[0]->shape;
  const Shape& where = inputs[1]->shape;
  if (where.empty() || where.back() < 1 || where.back() > static_cast<std::int64_t>(data.size())) {
    return std::nullopt;
  }
  const auto depth = static_cast<std::size_t>(where.back());
  const std::vector<Walk> walks = whole(data);
  const auto slice = static_cast<std::size_t>(walks[depth - 1].stride);
  std::vector<T> result = elements<T>(*inputs[0]);
  const std::vector<T> updates = elements<T>(*inputs[2]);
  const Integers& indices = *inputs[1]->integers();
  const std::size_t rows = indices.size() / depth;
  if (updates.size() != rows * slice) return std::nullopt;
  for (std::size_t row = 0; row < rows; ++row) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < depth; ++d) {
      std::int64_t index = indices[row * depth + d];
      if (index < 0) index += data[d];
      if (index < 0 || index >= data[d]) return std::nullopt;
      at += index * walks[d].stride;
    }
    std::copy_n(updates.begin() + static_cast<std::ptrdiff_t>(row * slice), slice,
                result.begin() + at);
  }
  return Value{.shape = data, .type = inputs[0]->type, .contents = std::move(result)};
}

/// Of vectors: each element's index tells where it goes.
template <class T>
std::optional<Value> fold_scatter_elements(const Node& node, std::span<const Value* const> inputs) {
  if (inputs.size() != 3 || inputs[0]->shape.size() != 1) return std::nullopt;
  Value rows = *inputs[1];
  rows.shape.push_back(1);
  const Value* of_rows[] = {inputs[0], &rows, inputs[2]};
  return fold_scatter_nd<T>(node, of_rows);
}

template <class T>
std::optional<Value> fold_as(Function f, const Node& node, std::span<const Value* const> inputs) {
  if (f == Function::Mean && std::is_same_v<T, std::int64_t>) return std::nullopt;
  if (is_binary(f)) return fold_binary<T>(f, inputs);
  if (is_unary(f)) return fold_unary<T>(f, *inputs[0]);
  switch (f) {
    case Function::Clip:
      return fold_clipped<T>(node, inputs);
    case Function::CumSum:
      return fold_cumulated<T>(node, *inputs[0]);
    case Function::ScatterND:
      return fold_scatter_nd<T>(node, inputs);
    case Function::ScatterElements:
      return fold_scatter_elements<T>(node, inputs);
    case Function::Where:
      return fold_where<T>(inputs);
    case Function::Concat:
      return fold_concat<T>(node, inputs);
    case Function::Gather:
      return fold_gather<T>(node, inputs);
    case Function::Slice:
      return fold_slice<T>(node, inputs);
    case Function::Expand:
      return fold_expand<T>(inputs);
    case Function::Tile:
      return fold_tile<T>(inputs);
    case Function::Range:
      return fold_range(inputs);
    case Function::Cast:
      return fold_cast(node, *inputs[0]);
    case Function::NonZero:
      return fold_nonzero<T>(*inputs[0]);
    case Function::Transpose:
      return fold_transpose<T>(node, *inputs[0]);
    default:
      return fold_reduce<T>(f, node, *inputs[0]);
  }
}

/// Inputs that say where rather than what: their integers do not make the result an integer.
bool selects(Function f, std::size_t input) {
  switch (f) {
    case Function::Where:
      return input == 0;
    case Function::ScatterND:
    case Function::ScatterElements:
      return input == 1;
    case Function::Gather:
    case Function::Slice:
    case Function::Expand:
    case Function::Tile:
    case Function::CumSum:
    case Function::ReduceProd:
    case Function::ReduceSum:
    case Function::ReduceMin:
    case Function::ReduceMax:
      return input > 0;
    default:
      return false;
  }
}

/// Inputs that an operator does without.
bool is_optional(Function f, std::size_t input) {
  return (f == Function::Clip && input > 0) || (f == Function::Slice && input > 2);
}

}  // namespace

SliceRange slice_range(std::int64_t size, std::int64_t start, std::int64_t end, std::int64_t step) {
  const std::int64_t least = step > 0 ? 0 : -1;
  const std::int64_t most = step > 0 ? size : size - 1;
  const auto clamp = [&](std::int64_t at) {
    return std::clamp(at < 0 ? std::max(at, -size - 1) + size : at, least, most);
  };
  start = clamp(start);
  end = clamp(end);
  if (step < 0) start = std::max<std::int64_t>(start, 0);
  SliceRange range{.start = start, .step = step};
  if (size == 0) return range;
  const std::int64_t span = end - start;
  if (step > 0 && span > 0) range.count = (span - 1) / step + 1;
  if (step < 0 && span < 0) range.count = (span + 1) / step + 1;
  return range;
}

std::optional<Value> fold_constants(const Node& node, std::span<const Value* const> inputs) {
  if (!node.is_standard || inputs.empty() || node.outputs.size() != 1) return std::nullopt;
  bool is_real = false, follows_input = false;
  const std::optional<Function> function = find_function(node.op_type());
  if (!function) return std::nullopt;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] && is_optional(*function, i)) continue;
    if (!inputs[i] || std::holds_alternative<std::monostate>(inputs[i]->contents)) {
      return std::nullopt;
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    is_real = is_real || (inputs[i]->reals() != nullptr && !selects(*function, i));
    follows_input = follows_input || inputs[i]->follows_input;
  }
  std::optional<Value> value = is_real ? fold_as<double>(*function, node, inputs)
                                       : fold_as<std::int64_t>(*function, node, inputs);
  if (value) {
    value->follows_input = follows_input;
    value->tensor.reset();
    value->root.reset();
  }
  return value;
}

}  // namespace tracecast::onnx
