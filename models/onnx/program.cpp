#include "models/onnx/program.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "models/onnx/operators.hpp"
#include "models/onnx/reader.hpp"
#include "models/topological_order.hpp"
#include "sim/base/error.hpp"

namespace tracecast::onnx {
namespace {

constexpr std::size_t kMostCallDepth = 64;
constexpr std::size_t kMostNameBytes =
    256;  ///< longer names are cut where expansion makes new ones
/// Nodes, names and attributes that expanding functions and reading subgraphs may visit: expansion
/// can double at every level.
constexpr std::size_t kMostVisits = 4'000'000;

/// Names that can be read at one place: those of its graph, then those of the graphs around it.
struct Scope {
  const Scope* around = nullptr;
  std::unordered_map<std::string_view, ValueIndex> names{};

  [[nodiscard]] std::optional<ValueIndex> find(std::string_view name) const {
    for (const Scope* scope = this; scope; scope = scope->around) {
      const auto at = scope->names.find(name);
      if (at != scope->names.end()) return at->second;
    }
    return std::nullopt;
  }
};

bool is_standard_domain(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

std::string function_key(std::string_view domain, std::string_view name,
                         std::string_view overload) {
  std::string key(is_standard_domain(domain) ? "" : domain);
  key += '\0';
  key += name;
  key += '\0';
  key += overload;
  return key;
}

template <class Opsets>
std::int64_t opset_of(const Opsets& opsets, std::int64_t otherwise) {
  for (const OperatorSetIdProto& opset : opsets) {
    if (is_standard_domain(opset.domain())) return opset.version();
  }
  return otherwise;
}

class Builder {
 public:
  Builder(const ModelProto& model, std::string_view where) : model_(model), where_(where) {
    for (const FunctionProto& function : model.functions()) {
      const auto [at, is_new] = functions_.emplace(
          function_key(function.domain(), function.name(), function.overload()), &function);
      if (!is_new) fail("a second function '" + function.name() + "'", "one function of each name");
    }
  }

  Program run() {
    const GraphProto& graph = model_.graph();
    declare_constants_and_inputs(graph);
    // Standard operators added in opset 18 changed only by new inputs, so a file of custom
    // operators alone is read as one of today.
    constexpr std::int64_t kToday = 18;
    const std::int64_t opset = opset_of(model_.opset_import(), kToday);
    for (const NodeProto& node : graph.node()) declare_outputs(node, "", scope_);
    for (const NodeProto& node : graph.node())
      add_call({node, opset, nullptr, nullptr, ""}, scope_);
    declare_outputs_of_graph(graph);
    order_nodes();
    return std::move(program_);
  }

 private:
  /// A node and where it stands: in the graph, or in the body of a function being expanded.
  struct Call {
    const NodeProto& node;
    std::int64_t opset;
    const FunctionProto* function;
    const std::vector<NodeAttribute>* attributes;  ///< of the function's caller
    std::string prefix;                            ///< names the expansion; empty in the graph
  };

  [[noreturn]] void fail(std::string_view found, std::string_view expected) const {
    throw InputError(where_, found, expected);
  }

  ValueIndex add_value(std::string name) {
    const auto index = static_cast<ValueIndex>(program_.values.size());
    if (name.size() > kMostNameBytes) name.resize(kMostNameBytes);
    program_.values.push_back({.name = std::move(name)});
    is_written_.push_back(false);
    return index;
  }

  ValueIndex declare(std::string_view name, const std::string& prefix, Scope& scope) {
    const auto [at, is_new] = scope.names.emplace(name, ValueIndex{});
    if (!is_new) fail("'" + std::string(name) + "' written twice", "each name written once");
    at->second = add_value(prefix + std::string(name));
    return at->second;
  }

  void declare_constants_and_inputs(const GraphProto& graph) {
    for (const TensorProto& tensor : graph.initializer()) {
      program_.values[declare(tensor.name(), "", scope_)].initializer = &tensor;
    }
    for (const SparseTensorProto& tensor : graph.sparse_initializer()) {
      program_.values[declare(tensor.values().name(), "", scope_)].sparse_initializer = &tensor;
    }
    std::unordered_set<std::string_view> inputs;
    for (const ValueInfoProto& input : graph.input()) {
      if (!inputs.insert(input.name()).second) {
        fail("input '" + input.name() + "' twice", "each name written once");
      }
      if (scope_.find(input.name())) continue;  // IR 3 lists initializers as inputs
      const ValueIndex index = declare(input.name(), "", scope_);
      program_.values[index].info = &input;
      program_.inputs.push_back(index);
    }
    is_written_.assign(program_.values.size(), true);
  }

  void declare_outputs(const NodeProto& node, const std::string& prefix, Scope& scope) {
    for (const std::string& output : node.output()) {
      if (!output.empty()) declare(output, prefix, scope);
    }
  }

  void declare_outputs_of_graph(const GraphProto& graph) {
    for (const ValueInfoProto& info : graph.value_info()) {
      const std::optional<ValueIndex> at = scope_.find(info.name());
      if (at && !program_.values[*at].info) program_.values[*at].info = &info;
    }
    std::unordered_set<std::string_view> outputs;
    for (const ValueInfoProto& output : graph.output()) {
      const std::optional<ValueIndex> at = scope_.find(output.name());
      if (!at) fail("output '" + output.name() + "' that no node writes", "an output of a node");
      if (!outputs.insert(output.name()).second) {
        fail("output '" + output.name() + "' twice", "each output once");
      }
      NamedValue& value = program_.values[*at];
      if (!value.info) value.info = &output;
      value.is_output = true;
      program_.outputs.push_back(*at);
    }
    if (program_.outputs.empty()) fail("a graph without outputs", "at least one output");
  }

  ValueIndex find(std::string_view name, const Scope& scope, const NodeProto& node) const {
    if (name.empty()) return kAbsent;
    const std::optional<ValueIndex> at = scope.find(name);
    if (!at) {
      fail("'" + std::string(name) + "' read by " + node.op_type() + " node '" + node.name() + "'",
           "a name that an input, initializer or node writes");
    }
    return *at;
  }

  const FunctionProto* find_function(const NodeProto& node) const {
    if (functions_.empty()) return nullptr;
    // A cost model beats a decomposition: what a framework runs as one kernel stays one op.
    if (is_standard_domain(node.domain()) && has_operator(node.op_type())) return nullptr;
    const auto at = functions_.find(function_key(node.domain(), node.op_type(), node.overload()));
    return at == functions_.end() ? nullptr : at->second;
  }

  /// The node's attributes, references to the function's own attributes replaced by the caller's or
  /// the default.
  std::vector<NodeAttribute> attributes_of(const Call& call) const {
    std::vector<NodeAttribute> attributes;
    attributes.reserve(static_cast<std::size_t>(call.node.attribute_size()));
    for (const AttributeProto& attribute : call.node.attribute()) {
      if (attribute.ref_attr_name().empty()) {
        attributes.push_back({attribute.name(), &attribute});
      } else if (const AttributeProto* value = find_reference(call, attribute.ref_attr_name())) {
        attributes.push_back({attribute.name(), value});
      }
    }
    return attributes;
  }

  const AttributeProto* find_reference(const Call& call, std::string_view name) const {
    if (call.attributes) {
      for (const NodeAttribute& attribute : *call.attributes) {
        if (attribute.name == name) return attribute.value;
      }
    }
    if (call.function) {
      for (const AttributeProto& attribute : call.function->attribute_proto()) {
        if (attribute.name() == name) return &attribute;
      }
    }
    return nullptr;
  }

  void add_call(const Call& call, Scope& scope) {
    const NodeProto& proto = call.node;
    Node node{.proto = &proto,
              .name = unique_name(call),
              .opset = call.opset,
              .is_standard = is_standard_domain(proto.domain()),
              .attributes = attributes_of(call)};
    node.inputs.reserve(static_cast<std::size_t>(proto.input_size()));
    for (const std::string& name : proto.input()) node.inputs.push_back(find(name, scope, proto));
    node.outputs.reserve(static_cast<std::size_t>(proto.output_size()));
    for (const std::string& name : proto.output()) {
      node.outputs.push_back(name.empty() ? kAbsent : scope.names.at(name));
    }
    if (const FunctionProto* function = find_function(proto)) {
      expand(*function, node);
      return;
    }
    for (const ValueIndex output : node.outputs) {
      if (output != kAbsent) is_written_[output] = true;
    }
    std::unordered_set<std::string_view> local;
    for (const NodeAttribute& attribute : node.attributes) {
      if (attribute.value->has_g()) capture(attribute.value->g(), scope, local, node.captured);
      for (const GraphProto& graph : attribute.value->graphs()) {
        capture(graph, scope, local, node.captured);
      }
    }
    if (has_operator(node.op_type()) && node.is_standard) {
      for (const NodeAttribute& attribute : node.attributes) {
        if (attribute.value->has_g()) node.bodies.push_back(add_body(call, attribute, node, scope));
      }
    }
    if (program_.nodes.size() + inner_nodes_.size() >= kMostNodes) {
      fail("more than " + std::to_string(kMostNodes) + " nodes once functions are expanded",
           "a smaller graph");
    }
    if (body_nodes_) body_nodes_->push_back(static_cast<std::uint32_t>(inner_nodes_.size()));
    (body_nodes_ ? inner_nodes_ : program_.nodes).push_back(std::move(node));
  }

  /// The graph that an attribute of `owner` holds. Nodes inside are numbered among inner_nodes_,
  /// which come behind the graph's own nodes once all of these are known.
  Body add_body(const Call& call, const NodeAttribute& attribute, const Node& owner,
                const Scope& around) {
    const GraphProto& graph = attribute.value->g();
    const std::string prefix = owner.name + "/";
    Scope scope{.around = &around};
    Body body{.attribute = attribute.name};
    for (const TensorProto& tensor : graph.initializer()) {
      const ValueIndex value = declare(tensor.name(), prefix, scope);
      program_.values[value].initializer = &tensor;
      is_written_[value] = true;
    }
    for (const ValueInfoProto& input : graph.input()) {
      if (scope.names.contains(input.name())) continue;
      body.inputs.push_back(declare(input.name(), prefix, scope));
      program_.values[body.inputs.back()].info = &input;
      is_written_[body.inputs.back()] = true;
    }
    for (const NodeProto& node : graph.node()) declare_outputs(node, prefix, scope);
    std::vector<std::uint32_t>* const outer = std::exchange(body_nodes_, &body.nodes);
    for (const NodeProto& node : graph.node()) {
      add_call({node, call.opset, call.function, call.attributes, prefix}, scope);
    }
    body_nodes_ = outer;
    for (const ValueInfoProto& output : graph.output()) {
      const std::optional<ValueIndex> at = scope.find(output.name());
      if (!at) fail("output '" + output.name() + "' that no node writes", "an output of a node");
      body.outputs.push_back(*at);
    }
    return body;
  }

  /// Names that a subgraph reads from around it. `local` holds the names written inside so far.
  void capture(const GraphProto& graph, const Scope& scope,
               std::unordered_set<std::string_view>& local, std::vector<ValueIndex>& captured) {
    std::vector<std::string_view> added;
    const auto write = [&](std::string_view name) {
      visit(1);
      if (local.insert(name).second) added.push_back(name);
    };
    for (const ValueInfoProto& input : graph.input()) write(input.name());
    for (const TensorProto& tensor : graph.initializer()) write(tensor.name());
    const auto read = [&](const std::string& name) {
      visit(1);
      if (name.empty() || local.contains(name)) return;
      if (const std::optional<ValueIndex> at = scope.find(name)) captured.push_back(*at);
    };
    for (const NodeProto& node : graph.node()) {
      for (const std::string& input : node.input()) read(input);
      for (const AttributeProto& attribute : node.attribute()) {
        if (attribute.has_g()) capture(attribute.g(), scope, local, captured);
        for (const GraphProto& inner : attribute.graphs()) capture(inner, scope, local, captured);
      }
      for (const std::string& output : node.output()) write(output);
    }
    for (const ValueInfoProto& output : graph.output()) read(output.name());
    for (const std::string_view name : added) local.erase(name);
  }

  std::string unique_name(const Call& call) {
    std::string name = call.prefix;
    if (!call.node.name().empty()) {
      name += call.node.name();
    } else if (call.node.output_size() > 0 && !call.node.output(0).empty()) {
      name += call.node.output(0);
    } else {
      name += call.node.op_type();
    }
    if (name.size() > kMostNameBytes) name.resize(kMostNameBytes);
    if (names_.insert(name).second) return name;
    std::string numbered;
    do {
      numbered = name + "#" + std::to_string(++num_repeated_names_);
    } while (!names_.insert(numbered).second);
    return numbered;
  }

  void visit(std::size_t count) {
    num_visits_ += count;
    if (num_visits_ > kMostVisits) {
      fail("more than 4 million nodes and names once functions are expanded", "a smaller graph");
    }
  }

  static std::size_t own_visits(const FunctionProto& function) {
    auto visits = 1 + static_cast<std::size_t>(function.input_size()) +
                  static_cast<std::size_t>(function.output_size());
    for (const NodeProto& node : function.node()) {
      visits += 1 + static_cast<std::size_t>(node.input_size()) +
                static_cast<std::size_t>(node.output_size()) +
                static_cast<std::size_t>(node.attribute_size());
    }
    return visits;
  }

  /// What expanding `function` visits at least, so that one that grows without bound is refused
  /// before it is expanded. Each function is counted once, however often it is called.
  std::size_t visits_of(const FunctionProto& function, std::size_t depth) {
    if (depth >= kMostCallDepth) return 0;
    const auto [at, is_new] = visits_.emplace(&function, 0);  // 0 while it is being counted
    if (!is_new) return at->second;
    std::size_t visits = own_visits(function);
    for (const NodeProto& node : function.node()) {
      if (const FunctionProto* const called = find_function(node)) {
        visits = std::min(visits + visits_of(*called, depth + 1), kMostVisits + 1);
      }
    }
    visits_[&function] = visits;
    return visits;
  }

  void expand(const FunctionProto& function, const Node& caller) {
    if (std::find(calls_.begin(), calls_.end(), &function) != calls_.end()) {
      fail("function '" + function.name() + "' that calls itself", "functions without recursion");
    }
    if (calls_.size() >= kMostCallDepth) {
      fail("functions nested more than " + std::to_string(kMostCallDepth) + " deep",
           "fewer levels");
    }
    if (calls_.empty() && visits_of(function, 0) > kMostVisits) visit(kMostVisits + 1);
    visit(own_visits(function));
    const std::string prefix = caller.name + "/";
    const std::int64_t opset = opset_of(function.opset_import(), caller.opset);
    Scope scope;
    for (int i = 0; i < function.input_size(); ++i) {
      const auto position = static_cast<std::size_t>(i);
      const ValueIndex value = position < caller.inputs.size() ? caller.inputs[position] : kAbsent;
      if (!scope.names.emplace(function.input(i), value).second) {
        fail("input '" + function.input(i) + "' twice in function '" + function.name() + "'",
             "each name once");
      }
    }
    // The function's results are the caller's values; everything else inside gets a value of its
    // own.
    std::unordered_map<std::string_view, ValueIndex> results;
    for (int i = 0; i < function.output_size(); ++i) {
      const auto position = static_cast<std::size_t>(i);
      if (position < caller.outputs.size() && caller.outputs[position] != kAbsent) {
        results.emplace(function.output(i), caller.outputs[position]);
      }
    }
    for (const NodeProto& node : function.node()) {
      for (const std::string& output : node.output()) {
        if (output.empty()) continue;
        const auto result = results.find(output);
        if (result == results.end()) {
          declare(output, prefix, scope);
        } else if (!scope.names.emplace(output, result->second).second) {
          fail("'" + output + "' written twice in function '" + function.name() + "'",
               "each name written once");
        }
      }
    }
    calls_.push_back(&function);
    for (const NodeProto& node : function.node()) {
      add_call({node, opset, &function, &caller.attributes, prefix}, scope);
    }
    calls_.pop_back();
  }

  void order_nodes() {
    std::vector<Node>& nodes = program_.nodes;
    std::vector<std::uint32_t> writer(program_.values.size(), kAbsent);
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
      for (const ValueIndex output : nodes[i].outputs) {
        if (output != kAbsent) writer[output] = i;
      }
    }
    const auto each_read = [&](const Node& node, const auto& visit) {
      for (const ValueIndex input : node.inputs) {
        if (input != kAbsent) visit(input);
      }
      for (const ValueIndex input : node.captured) visit(input);
    };
    std::vector<Precedence> edges;
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
      each_read(nodes[i], [&](ValueIndex value) {
        if (writer[value] != kAbsent) {
          edges.emplace_back(writer[value], i);
        } else if (!is_written_[value]) {
          fail("'" + program_.values[value].name + "' read by '" + nodes[i].name + "'",
               "a name that an input, initializer or node writes");
        }
      });
    }
    const auto [order, cycle] = topological_order(nodes.size(), edges);
    if (!cycle.empty()) {
      fail("a cycle through " + std::to_string(cycle.size()) + " nodes, one of them '" +
               nodes[cycle.front()].name + "'",
           "a graph without cycles");
    }
    // Backwards from the outputs: what no output needs is not run.
    std::vector<bool> is_live(nodes.size(), false);
    for (const ValueIndex output : program_.outputs) {
      if (writer[output] != kAbsent) {
        is_live[writer[output]] = true;
      } else if (!is_written_[output]) {
        fail("output '" + program_.values[output].name + "' that no node writes",
             "an output of a node");
      }
    }
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      if (!is_live[*at]) continue;
      each_read(nodes[*at], [&](ValueIndex value) {
        if (writer[value] != kAbsent) is_live[writer[value]] = true;
      });
    }
    std::vector<Node> kept;
    kept.reserve(nodes.size());
    for (const std::uint32_t i : order) {
      if (!is_live[i]) continue;
      const auto position = static_cast<std::uint32_t>(kept.size());
      each_read(nodes[i],
                [&](ValueIndex value) { program_.values[value].readers.push_back(position); });
      kept.push_back(std::move(nodes[i]));
    }
    program_.num_dead_nodes = nodes.size() - kept.size();
    nodes = std::move(kept);
    append_inner_nodes();
  }

  /// Puts the nodes inside of others behind those of the graph and lists who reads what in there.
  void append_inner_nodes() {
    std::vector<Node>& nodes = program_.nodes;
    program_.num_graph_nodes = nodes.size();
    const auto base = static_cast<std::uint32_t>(nodes.size());
    std::move(inner_nodes_.begin(), inner_nodes_.end(), std::back_inserter(nodes));
    for (std::uint32_t i = 0; i < base; ++i) list_readers_inside(i, base);
  }

  void list_readers_inside(std::uint32_t owner, std::uint32_t base) {
    for (Body& body : program_.nodes[owner].bodies) {
      for (std::uint32_t& index : body.nodes) {
        index += base;
        for (const ValueIndex value : program_.nodes[index].inputs) {
          if (value != kAbsent) program_.values[value].readers.push_back(index);
        }
        list_readers_inside(index, base);
      }
      for (const ValueIndex value : body.outputs) {
        if (value != kAbsent) program_.values[value].readers.push_back(owner);
      }
    }
  }

  const ModelProto& model_;
  std::string_view where_;
  Program program_;
  Scope scope_;
  std::vector<bool> is_written_;  ///< by value: an input, initializer or node writes it
  std::vector<Node> inner_nodes_;
  std::vector<std::uint32_t>* body_nodes_ = nullptr;  ///< of the body being read
  std::unordered_map<std::string, const FunctionProto*> functions_;
  std::vector<const FunctionProto*> calls_;
  std::unordered_set<std::string> names_;
  std::size_t num_repeated_names_ = 0;
  std::size_t num_visits_ = 0;
  std::unordered_map<const FunctionProto*, std::size_t> visits_;
};

// AttributeProto.AttributeType of the public format.
enum AttributeType : std::int32_t {
  kRealAttribute = 1,
  kIntegerAttribute = 2,
  kTextAttribute = 3,
  kRealsAttribute = 6,
  kIntegersAttribute = 7,
};

/// The attribute when it is there; files older than the `type` field leave it out.
const AttributeProto* find_typed(const Node& node, std::string_view name, AttributeType type,
                                 std::string_view expected) {
  const AttributeProto* value = node.find_attribute(name);
  if (value && value->has_type() && value->type() != type) {
    throw InputError("attribute '" + std::string(name) + "'",
                     "attribute type " + std::to_string(value->type()), expected);
  }
  return value;
}

}  // namespace

const AttributeProto* Node::find_attribute(std::string_view attribute) const {
  for (const NodeAttribute& candidate : attributes) {
    if (candidate.name == attribute) return candidate.value;
  }
  return nullptr;
}

const Body* Node::find_body(std::string_view attribute) const {
  for (const Body& body : bodies) {
    if (body.attribute == attribute) return &body;
  }
  return nullptr;
}

std::int64_t Node::integer(std::string_view attribute, std::int64_t otherwise) const {
  const AttributeProto* value = find_typed(*this, attribute, kIntegerAttribute, "an integer");
  return value && value->has_i() ? value->i() : otherwise;
}

double Node::real(std::string_view attribute, double otherwise) const {
  const AttributeProto* value = find_typed(*this, attribute, kRealAttribute, "a real number");
  return value && value->has_f() ? value->f() : otherwise;
}

std::string_view Node::text(std::string_view attribute, std::string_view otherwise) const {
  const AttributeProto* value = find_typed(*this, attribute, kTextAttribute, "text");
  return value && value->has_s() ? std::string_view(value->s()) : otherwise;
}

std::vector<std::int64_t> Node::integers(std::string_view attribute) const {
  const AttributeProto* value = find_typed(*this, attribute, kIntegersAttribute, "integers");
  if (!value) return {};
  return {value->ints().begin(), value->ints().end()};
}

std::vector<double> Node::reals(std::string_view attribute) const {
  const AttributeProto* value = find_typed(*this, attribute, kRealsAttribute, "real numbers");
  if (!value) return {};
  return {value->floats().begin(), value->floats().end()};
}

Program build_program(const ModelProto& model, std::string_view where) {
  return Builder(model, where).run();
}

}  // namespace tracecast::onnx
