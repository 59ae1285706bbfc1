#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "models/graph.hpp"

namespace tracecast::aten {

/// Where a tensor of a traced forward pass comes from.
enum class Source {
  Input,      ///< given to the forward pass
  Parameter,  ///< trained
  Frozen,     ///< a parameter that stays as it is
  Buffer,     ///< registered, kept, not trained
  Constant,   ///< met while tracing: positions, masks
  Result,     ///< of a call
};

/// How elements are stored.
struct ElementType {
  bool is_integer = false;
  int bytes = 4;
  friend bool operator==(const ElementType&, const ElementType&) = default;
};

/// By PyTorch's name of it in short: f32, bf16, i64, bool. Throws InputError naming `where`:
/// another word, with the nearest one.
[[nodiscard]] ElementType element_type(std::string_view word, std::string_view where);

/// A tensor as it was when the pass was traced.
struct TensorInfo {
  std::string name{};
  Source source = Source::Result;
  ElementType type{};
  Shape shape{};
  /// Elements from one index to the next, dimension by dimension; empty: row by row.
  std::vector<std::int64_t> strides{};
  [[nodiscard]] bool is_contiguous() const { return strides.empty(); }
};

using TensorIndex = std::uint32_t;
inline constexpr TensorIndex kNoTensor = ~TensorIndex{0};

struct TensorReference {
  TensorIndex index = kNoTensor;
};
/// A word that is no text: an element type, a memory format.
struct Word {
  std::string text;
};
/// What a call is given for a parameter of its operator; nothing: none, or a list.
struct Argument {
  using List = std::vector<Argument>;
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Word, TensorReference>
      value{};
  bool is_list = false;
  List parts{};  ///< of a list
  [[nodiscard]] bool is_none() const {
    return !is_list && std::holds_alternative<std::monostate>(value);
  }
};
[[nodiscard]] inline Argument list_argument(Argument::List parts) {
  Argument argument{.is_list = true};
  argument.parts = std::move(parts);
  return argument;
}
/// Null: no list.
[[nodiscard]] inline const Argument::List* list_of(const Argument& argument) {
  return argument.is_list ? &argument.parts : nullptr;
}

/// An operator with its arguments by the names of its schema; those at their default may be left
/// out.
struct Node {
  std::string target{};    ///< "aten.convolution", without overload
  std::string overload{};  ///< "default", "Tensor"
  std::vector<std::pair<std::string, Argument>> arguments{};
  std::vector<TensorIndex> results{};  ///< kNoTensor: no tensor
  std::string scope{};                 ///< module of the network: "layer1.0.conv1"
  std::size_t place = 0;               ///< line or number in its file
};

/// A forward pass as PyTorch dispatched it, in order. A program that exists is valid: every tensor
/// is declared, shapes are in range, every argument's tensor is written before it is read.
struct Program {
  std::string name{};
  std::string place_prefix{};  ///< a node's place behind it, for messages: "mine.graph:" 17
  std::vector<TensorInfo> tensors{};
  std::vector<Node> nodes{};
  std::vector<TensorIndex> outputs{};
  bool is_training_mode = true;  ///< traced with dropout and auxiliary heads at work
  /// The tracing PyTorch, before 2.0, has no function for attention.
  bool writes_attention_out = false;
};

/// The text that `tracecast.graph` of Python writes (README.md has its grammar).
/// Throws InputError with file and line: syntax, a tensor that nobody declared, sizes out of range.
/// `inputs_only`: what stands before the first call.
[[nodiscard]] Program read_graph_file(std::string_view text, std::string_view where,
                                      bool inputs_only = false);

/// A tensor's shape and strides, checked; strides that are those of rows are left out.
/// Throws InputError naming `where`: more than 32 dimensions, a negative one, 2^62 elements or
/// more.
void check_tensor(TensorInfo& tensor, std::string_view where);

}  // namespace tracecast::aten
