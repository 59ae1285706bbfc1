#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/graph.hpp"
#include "models/onnx/onnx.pb.h"

namespace tracecast::onnx {

/// How elements are stored, as far as the network graph tells them apart.
struct ElementType {
  bool is_integer = false;
  int integer_bytes = 8;
};
inline constexpr ElementType kReal{};
inline constexpr ElementType kInt64{.is_integer = true, .integer_bytes = 8};
inline constexpr ElementType kBool{.is_integer = true, .integer_bytes = 1};

/// The element type of TensorProto.DataType's number (1 float, 7 int64, 9 bool ...; unknown numbers
/// are real).
[[nodiscard]] ElementType element_type(std::int32_t data_type);

/// Elements of a small constant in row-major order; nothing when there are too many or nobody knows
/// them.
using Integers = std::vector<std::int64_t>;
using Reals = std::vector<double>;
using Contents = std::variant<std::monostate, Integers, Reals>;

/// Where constants that were made from one weight by renaming its dimensions lead back to.
using RootIndex = std::uint32_t;

/// What the importer knows about a named value at the sizes asked for: on the data path a tensor of
/// the graph, else a constant, which becomes a tensor when an op reads it.
struct Value {
  Shape shape{};
  ElementType type{};
  Contents contents{};
  std::optional<TensorId> tensor{};  ///< on the data path
  std::optional<RootIndex> root{};   ///< of constants: the weight it is a view of
  bool follows_input =
      false;  ///< contents computed from the shape of an input, not written in the file
  bool is_sequence = false;
  std::vector<Value> elements{};  ///< of sequences; shape and contents are then empty

  [[nodiscard]] bool is_constant() const { return !tensor.has_value() && !is_sequence; }
  [[nodiscard]] const Integers* integers() const { return std::get_if<Integers>(&contents); }
  [[nodiscard]] const Reals* reals() const { return std::get_if<Reals>(&contents); }
};

/// A tensor of the file: shape, type and, when it is small and inside the file, contents.
/// Throws InputError naming `where`: dimensions as check_shape says, an element type that does not
/// exist.
[[nodiscard]] Value decode_tensor(const TensorProto& tensor, std::string_view where);

inline constexpr std::size_t kMostRank = 32;

/// The dimensions of a tensor from outside, checked.
/// Throws InputError: more than kMostRank dimensions, a negative one, 2^62 elements or more.
void check_shape(const Shape& shape, std::string_view where);
[[nodiscard]] Shape checked_shape(Shape shape, std::string_view where);

}  // namespace tracecast::onnx
