#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "models/onnx/value.hpp"

/// Arithmetic on known contents, element by element: what fold.cpp uses for everything that
/// computes rather than moves.
namespace tracecast::onnx {

/// Operators that folding follows. The order matters: two operands, then one, then the rest.
enum class Function {
  Add,
  Sub,
  Mul,
  Div,
  Mod,
  Min,
  Max,
  Pow,
  Sum,
  Mean,
  Equal,
  Less,
  LessOrEqual,
  Greater,
  GreaterOrEqual,
  And,
  Or,
  Xor,
  Floor,
  Ceil,
  Round,
  Neg,
  Abs,
  Sqrt,
  Reciprocal,
  Relu,
  Sign,
  Exp,
  Log,
  Not,
  Clip,
  Where,
  Concat,
  Gather,
  Slice,
  Expand,
  Tile,
  Range,
  CumSum,
  Cast,
  ReduceProd,
  ReduceSum,
  ReduceMin,
  ReduceMax,
  NonZero,
  Transpose,
  ScatterND,
  ScatterElements,
};
[[nodiscard]] std::optional<Function> find_function(std::string_view op_type);
[[nodiscard]] inline bool is_binary(Function f) { return f <= Function::Xor; }
[[nodiscard]] inline bool is_unary(Function f) {
  return f >= Function::Floor && f <= Function::Not;
}

/// f(a, b); nothing when it overflows, divides by zero or is no function of two operands.
[[nodiscard]] std::optional<std::int64_t> combine(Function f, std::int64_t a, std::int64_t b);
[[nodiscard]] std::optional<double> combine(Function f, double a, double b);

/// Elements as T, integers widened.
template <class T>
[[nodiscard]] std::vector<T> elements(const Value& value) {
  if (const Integers* integers = value.integers()) return {integers->begin(), integers->end()};
  const Reals* reals = value.reals();
  return {reals->begin(), reals->end()};
}
template <>
inline std::vector<std::int64_t> elements<std::int64_t>(const Value& value) {
  return *value.integers();
}

/// The broadcast of all shapes when it exists and is small.
[[nodiscard]] std::optional<Shape> small_broadcast(std::span<const Value* const> inputs);
/// Position in an operand of `shape` of the element at `index` of the broadcast result `out`.
[[nodiscard]] std::size_t broadcast_position(const Shape& shape, const Shape& out,
                                             std::size_t index);

/// For T = std::int64_t and double; nothing when the broadcast does not exist or is too large to
/// keep, or an element has no result.
template <class T>
[[nodiscard]] std::optional<Value> fold_binary(Function f, std::span<const Value* const> inputs);
template <class T>
[[nodiscard]] std::optional<Value> fold_unary(Function f, const Value& input);
/// min(max(x, least), most); a bound that is not there does not bind.
template <class T>
[[nodiscard]] std::optional<Value> fold_clip(const Value& input, std::optional<T> least,
                                             std::optional<T> most);
template <class T>
[[nodiscard]] std::optional<Value> fold_where(std::span<const Value* const> inputs);

}  // namespace tracecast::onnx
