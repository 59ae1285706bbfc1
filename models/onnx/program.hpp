#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/onnx/onnx.pb.h"

namespace tracecast::onnx {

/// A named value of the graph: an index into Program::values.
using ValueIndex = std::uint32_t;
inline constexpr ValueIndex kAbsent =
    std::numeric_limits<ValueIndex>::max();  ///< optional input left out

/// An attribute as a node sees it: inside an expanded function the caller's may stand in.
struct NodeAttribute {
  std::string_view name;
  const AttributeProto* value;
};

/// A graph inside an operator (a branch of If, what Loop and Scan repeat): nodes in the order of
/// the file, which the format promises to be executable. Its values are numbered with those of the
/// graph around it.
struct Body {
  std::string_view attribute;  ///< "then_branch", "else_branch", "body"
  std::vector<ValueIndex> inputs{};
  std::vector<std::uint32_t> nodes{};  ///< indices into Program::nodes
  std::vector<ValueIndex> outputs{};
};

/// One operator call, functions expanded.
struct Node {
  const NodeProto* proto = nullptr;
  std::string name;                    ///< unique: the file's, else that of its first output
  std::int64_t opset = 0;              ///< version of the standard operators that it means
  bool is_standard = true;             ///< of the standard domain
  std::vector<ValueIndex> inputs{};    ///< kAbsent where left out
  std::vector<ValueIndex> outputs{};   ///< kAbsent where not wanted
  std::vector<ValueIndex> captured{};  ///< read by its subgraphs from the graph around them
  std::vector<NodeAttribute> attributes{};
  std::vector<Body> bodies{};
  bool is_replaced = false;  ///< another node does its work (framework_ops.hpp): it does not run

  [[nodiscard]] std::string_view op_type() const { return proto->op_type(); }
  // Attributes by name. Throw InputError when the file gives another type.
  [[nodiscard]] const AttributeProto* find_attribute(std::string_view attribute) const;
  [[nodiscard]] std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const;
  [[nodiscard]] double real(std::string_view attribute, double otherwise) const;
  [[nodiscard]] std::string_view text(std::string_view attribute, std::string_view otherwise) const;
  [[nodiscard]] const Body* find_body(std::string_view attribute) const;
  /// Empty when the attribute is absent.
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view attribute) const;
  [[nodiscard]] std::vector<double> reals(std::string_view attribute) const;
};

/// What is known about a named value from the file itself.
struct NamedValue {
  std::string name;
  const TensorProto* initializer = nullptr;
  const SparseTensorProto* sparse_initializer = nullptr;
  const ValueInfoProto* info = nullptr;  ///< declared type, also of inputs and outputs
  std::vector<std::uint32_t> readers{};  ///< nodes, once per read
  bool is_output = false;
};

/// A model file as a list of operator calls in an executable order. Points into the ModelProto.
struct Program {
  std::vector<NamedValue> values;
  std::vector<Node> nodes;  ///< the graph's own, then those inside of them
  std::size_t num_graph_nodes = 0;
  std::vector<ValueIndex> inputs;  ///< fed from outside (initializers are not)
  std::vector<ValueIndex> outputs;
  std::size_t num_dead_nodes = 0;                ///< left out: they reach no output
  std::vector<std::unique_ptr<NodeProto>> made;  ///< of nodes that stand for several of the file's
};

/// Expands functions, resolves names, orders nodes (the file's order when it is executable) and
/// leaves out what reaches no output. Throws InputError: a name written twice, a name nobody
/// writes, a cycle, a function that calls itself, more than kMostNodes nodes.
[[nodiscard]] Program build_program(const ModelProto& model, std::string_view where);

}  // namespace tracecast::onnx
