#include "models/onnx/fold_arithmetic.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "models/onnx/reader.hpp"
#include "models/ops.hpp"

namespace tracecast::onnx {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

constexpr std::pair<std::string_view, Function> kFunctions[] = {
    {"Add", Function::Add},
    {"Sub", Function::Sub},
    {"Mul", Function::Mul},
    {"Div", Function::Div},
    {"Mod", Function::Mod},
    {"Min", Function::Min},
    {"Max", Function::Max},
    {"Pow", Function::Pow},
    {"Sum", Function::Sum},
    {"Mean", Function::Mean},
    {"Equal", Function::Equal},
    {"Less", Function::Less},
    {"LessOrEqual", Function::LessOrEqual},
    {"Greater", Function::Greater},
    {"GreaterOrEqual", Function::GreaterOrEqual},
    {"And", Function::And},
    {"Or", Function::Or},
    {"Xor", Function::Xor},
    {"Floor", Function::Floor},
    {"Ceil", Function::Ceil},
    {"Round", Function::Round},
    {"Neg", Function::Neg},
    {"Abs", Function::Abs},
    {"Sqrt", Function::Sqrt},
    {"Reciprocal", Function::Reciprocal},
    {"Relu", Function::Relu},
    {"Sign", Function::Sign},
    {"Exp", Function::Exp},
    {"Log", Function::Log},
    {"Not", Function::Not},
    {"Clip", Function::Clip},
    {"Where", Function::Where},
    {"Concat", Function::Concat},
    {"Gather", Function::Gather},
    {"Slice", Function::Slice},
    {"Expand", Function::Expand},
    {"Tile", Function::Tile},
    {"Range", Function::Range},
    {"CumSum", Function::CumSum},
    {"Cast", Function::Cast},
    {"ReduceProd", Function::ReduceProd},
    {"ReduceSum", Function::ReduceSum},
    {"ReduceMin", Function::ReduceMin},
    {"ReduceMax", Function::ReduceMax},
    {"NonZero", Function::NonZero},
    {"Transpose", Function::Transpose},
    {"ScatterND", Function::ScatterND},
    {"ScatterElements", Function::ScatterElements},
};

bool is_comparison(Function f) { return f >= Function::Equal && f <= Function::Xor; }

template <class T>
std::optional<T> compare(Function f, T a, T b) {
  switch (f) {
    case Function::Equal:
      return static_cast<T>(a == b);
    case Function::Less:
      return static_cast<T>(a < b);
    case Function::LessOrEqual:
      return static_cast<T>(a <= b);
    case Function::Greater:
      return static_cast<T>(a > b);
    case Function::GreaterOrEqual:
      return static_cast<T>(a >= b);
    case Function::And:
      return static_cast<T>(a != T{} && b != T{});
    case Function::Or:
      return static_cast<T>(a != T{} || b != T{});
    case Function::Xor:
      return static_cast<T>((a != T{}) != (b != T{}));
    case Function::Min:
      return std::min(a, b);
    case Function::Max:
      return std::max(a, b);
    default:
      return std::nullopt;
  }
}

std::optional<std::int64_t> transform(Function f, std::int64_t a) {
  switch (f) {
    case Function::Floor:
    case Function::Ceil:
    case Function::Round:
      return a;
    case Function::Neg:
      return a == kLeast ? std::nullopt : std::optional<std::int64_t>(-a);
    case Function::Abs:
      return a == kLeast ? std::nullopt : std::optional<std::int64_t>(a < 0 ? -a : a);
    case Function::Relu:
      return std::max<std::int64_t>(a, 0);
    case Function::Sign:
      return a == 0 ? 0 : a < 0 ? -1 : 1;
    case Function::Not:
      return a == 0;
    default:
      return std::nullopt;
  }
}

std::optional<double> transform(Function f, double a) {
  switch (f) {
    case Function::Floor:
      return std::floor(a);
    case Function::Ceil:
      return std::ceil(a);
    case Function::Round:
      return std::nearbyint(a);
    case Function::Neg:
      return -a;
    case Function::Abs:
      return std::fabs(a);
    case Function::Sqrt:
      return a < 0 ? std::nullopt : std::optional<double>(std::sqrt(a));
    case Function::Reciprocal:
      return a == 0 ? std::nullopt : std::optional<double>(1 / a);
    case Function::Relu:
      return std::max(a, 0.0);
    case Function::Sign:
      return a == 0 ? 0.0 : std::copysign(1.0, a);
    case Function::Exp:
      return std::exp(a);
    case Function::Log:
      return a > 0 ? std::optional<double>(std::log(a)) : std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Function> find_function(std::string_view name) {
  for (const auto& [candidate, function] : kFunctions) {
    if (candidate == name) return function;
  }
  return std::nullopt;
}

std::optional<std::int64_t> combine(Function f, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (f) {
    case Function::Add:
    case Function::Sum:
      if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
      return result;
    case Function::Sub:
      if (__builtin_sub_overflow(a, b, &result)) return std::nullopt;
      return result;
    case Function::Mul:
      if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
      return result;
    case Function::Div:
      if (b == 0 || (a == kLeast && b == -1)) return std::nullopt;
      return a / b;
    case Function::Mod:  // the sign of the divisor, as ONNX says for fmod = 0
      if (b == 0 || b == -1) return b == 0 ? std::nullopt : std::optional<std::int64_t>(0);
      result = a % b;
      return result != 0 && (result < 0) != (b < 0) ? result + b : result;
    case Function::Pow:
      if (b < 0 || b > 62) return std::nullopt;
      result = 1;
      for (std::int64_t i = 0; i < b; ++i) {
        if (__builtin_mul_overflow(result, a, &result)) return std::nullopt;
      }
      return result;
    default:
      return compare(f, a, b);
  }
}

std::optional<double> combine(Function f, double a, double b) {
  switch (f) {
    case Function::Add:
    case Function::Sum:
    case Function::Mean:  // divided by how many there are when all are added
      return a + b;
    case Function::Sub:
      return a - b;
    case Function::Mul:
      return a * b;
    case Function::Div:
      return b == 0 ? std::nullopt : std::optional<double>(a / b);
    case Function::Mod:
      return b == 0 ? std::nullopt : std::optional<double>(std::fmod(a, b));
    case Function::Pow:
      return std::pow(a, b);
    default:
      return compare(f, a, b);
  }
}

std::optional<Shape> small_broadcast(std::span<const Value* const> inputs) {
  Shape out;
  for (const Value* input : inputs) {
    const Shape& longer = input->shape.size() > out.size() ? input->shape : out;
    const Shape& shorter = input->shape.size() > out.size() ? out : input->shape;
    Shape merged = longer;
    for (std::size_t i = 0; i < shorter.size(); ++i) {
      std::int64_t& dim = merged[longer.size() - shorter.size() + i];
      if (dim == 1) {
        dim = shorter[i];
      } else if (shorter[i] != 1 && shorter[i] != dim) {
        return std::nullopt;
      }
    }
    out = std::move(merged);
  }
  const std::optional<std::int64_t> count = checked_element_count(out);
  if (!count || *count > kMostValues) return std::nullopt;
  return out;
}

std::size_t broadcast_position(const Shape& shape, const Shape& out, std::size_t index) {
  std::size_t position = 0, stride = 1;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto dim = static_cast<std::size_t>(out[out.size() - 1 - i]);
    const std::size_t at = index % dim;
    index /= dim;
    if (i >= shape.size()) continue;
    const auto own = static_cast<std::size_t>(shape[shape.size() - 1 - i]);
    if (own != 1) position += at * stride;
    stride *= own;
  }
  return position;
}

template <class T>
std::optional<Value> fold_binary(Function f, std::span<const Value* const> inputs) {
  const std::optional<Shape> shape = small_broadcast(inputs);
  if (!shape) return std::nullopt;
  const auto count = static_cast<std::size_t>(element_count(*shape));
  std::vector<T> result(count);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const std::vector<T> operand = elements<T>(*inputs[k]);
    for (std::size_t i = 0; i < count; ++i) {
      const T b = operand[broadcast_position(inputs[k]->shape, *shape, i)];
      if (k == 0) {
        result[i] = b;
      } else if (const std::optional<T> combined = combine(f, result[i], b)) {
        result[i] = *combined;
      } else {
        return std::nullopt;
      }
    }
  }
  if constexpr (std::is_same_v<T, double>) {
    if (f == Function::Mean) {
      for (T& element : result) element /= static_cast<double>(inputs.size());
    }
  }
  Value value{.shape = *shape, .type = inputs[0]->type};
  if (is_comparison(f)) {
    value.type = kBool;
    value.contents = Integers(result.begin(), result.end());
  } else {
    value.contents = std::move(result);
  }
  return value;
}

template <class T>
std::optional<Value> fold_unary(Function f, const Value& input) {
  std::vector<T> result = elements<T>(input);
  for (T& element : result) {
    const std::optional<T> changed = transform(f, element);
    if (!changed) return std::nullopt;
    element = *changed;
  }
  return Value{.shape = input.shape, .type = input.type, .contents = std::move(result)};
}

template <class T>
std::optional<Value> fold_clip(const Value& input, std::optional<T> least, std::optional<T> most) {
  std::vector<T> result = elements<T>(input);
  for (T& element : result) {
    if (least) element = std::max(element, *least);
    if (most) element = std::min(element, *most);
  }
  return Value{.shape = input.shape, .type = input.type, .contents = std::move(result)};
}

template <class T>
std::optional<Value> fold_where(std::span<const Value* const> inputs) {
  if (inputs.size() != 3 || !inputs[0]->integers()) return std::nullopt;
  const std::optional<Shape> shape = small_broadcast(inputs);
  if (!shape) return std::nullopt;
  const std::vector<T> yes = elements<T>(*inputs[1]), no = elements<T>(*inputs[2]);
  const Integers& condition = *inputs[0]->integers();
  std::vector<T> result(static_cast<std::size_t>(element_count(*shape)));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const bool chosen = condition[broadcast_position(inputs[0]->shape, *shape, i)] != 0;
    result[i] = chosen ? yes[broadcast_position(inputs[1]->shape, *shape, i)]
                       : no[broadcast_position(inputs[2]->shape, *shape, i)];
  }
  return Value{.shape = *shape, .type = inputs[1]->type, .contents = std::move(result)};
}

template std::optional<Value> fold_binary<std::int64_t>(Function, std::span<const Value* const>);
template std::optional<Value> fold_binary<double>(Function, std::span<const Value* const>);
template std::optional<Value> fold_unary<std::int64_t>(Function, const Value&);
template std::optional<Value> fold_unary<double>(Function, const Value&);
template std::optional<Value> fold_clip<std::int64_t>(const Value&, std::optional<std::int64_t>,
                                                      std::optional<std::int64_t>);
template std::optional<Value> fold_clip<double>(const Value&, std::optional<double>,
                                                std::optional<double>);
template std::optional<Value> fold_where<std::int64_t>(std::span<const Value* const>);
template std::optional<Value> fold_where<double>(std::span<const Value* const>);

}  // namespace tracecast::onnx
