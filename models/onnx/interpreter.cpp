#include "models/onnx/interpreter.hpp"

#include <algorithm>
#include <utility>

#include "models/onnx/fold.hpp"
#include "models/onnx/operators.hpp"
#include "models/onnx/reader.hpp"
#include "sim/base/error.hpp"

namespace tracecast::onnx {
namespace {

/// Elements of folded constants kept in all; beyond it only shapes are followed.
constexpr std::size_t kMostContents = 4'000'000;
/// Activations of one forward pass, fp32: far beyond any machine.
constexpr double kMostActivationBytes = 1e15;
constexpr std::size_t kMostWarnings = 40;
/// Operator calls in the bodies of loops and branches.
constexpr std::size_t kMostCalls = 200'000;

std::size_t contents_size(const Contents& contents) {
  if (const auto* integers = std::get_if<Integers>(&contents)) return integers->size();
  if (const auto* reals = std::get_if<Reals>(&contents)) return reals->size();
  return 0;
}

}  // namespace

Interpreter::Interpreter(const Program& program, std::string_view where, std::string name,
                         const Sizes& sizes, const Reference* reference, bool training,
                         AttentionKernels attention)
    : program_(program),
      where_(where),
      sizes_(sizes),
      reference_(reference),
      training_(training),
      attention_(attention),
      builder_(std::move(name), sizes.batch),
      values_(program.values.size()),
      is_known_(program.values.size(), false),
      is_merged_(program.nodes.size(), false) {
  builder_.graph().reserve(program.values.size(), program.nodes.size());
}

void Interpreter::run() {
  declare_initializers_and_inputs();
  for (std::uint32_t i = 0; i < program_.num_graph_nodes; ++i) {
    if (program_.nodes[i].is_replaced) continue;
    evaluate_checked(i, std::string(where_) + ", ");
  }
  set_outputs();
}

void Interpreter::evaluate_checked(std::uint32_t index, std::string_view where) {
  const Node& node = program_.nodes[index];
  try {
    evaluate(index);
    check_activations(node);
  } catch (const InputError& error) {
    std::string place(where);
    place += std::string(node.op_type()) + " node";
    // What the graph builder refuses carries the node's name already.
    if (!std::string_view(error.what()).starts_with(node.name)) place += " '" + node.name + "'";
    throw InputError(place, error);
  }
}

const Value& Interpreter::value_written(ValueIndex index) const {
  if (index == kAbsent || !is_known_[index]) {
    throw InputError("'" + (index == kAbsent ? std::string() : program_.values[index].name) + "'",
                     "an output that its operator never writes", "a value");
  }
  return values_[index];
}

void Interpreter::run_body(const Body& body, std::string_view pass) {
  num_calls_ += body.nodes.size() + 1;
  if (num_calls_ > kMostCalls) {
    throw InputError("body", "more than " + std::to_string(kMostCalls) + " operator calls in loops",
                     "shorter loops, or a network exported without them");
  }
  const std::string outer = pass_;
  pass_ += pass;
  for (const std::uint32_t index : body.nodes) evaluate_checked(index, "");
  pass_ = outer;
}

void Interpreter::declare_initializers_and_inputs() {
  for (ValueIndex i = 0; i < program_.values.size(); ++i) {
    const NamedValue& named = program_.values[i];
    if (!named.initializer && !named.sparse_initializer) continue;
    const std::string place = std::string(where_) + ", initializer '" + named.name + "'";
    Value value;
    if (named.initializer) {
      value = decode_tensor(*named.initializer, place);
    } else {
      const auto& dims = named.sparse_initializer->dims();
      value.shape = checked_shape({dims.begin(), dims.end()}, place);
    }
    value.root = add_root(named.name, !value.type.is_integer);
    set(i, std::move(value));
  }
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    const ValueIndex index = program_.inputs[i];
    const NamedValue& named = program_.values[index];
    const ElementType type = element_type(named.info->type().tensor_type().elem_type());
    const TensorId id = builder_.tensor({.name = named.name,
                                         .shape = sizes_.inputs[i],
                                         .role = TensorRole::Input,
                                         .is_integer = type.is_integer,
                                         .integer_bytes = type.integer_bytes});
    set(index, {.shape = sizes_.inputs[i], .type = type, .tensor = id});
  }
}

void Interpreter::evaluate(std::uint32_t index) {
  const Node& node = program_.nodes[index];
  std::vector<const Value*> inputs;
  inputs.reserve(node.inputs.size());
  bool all_constant = node.bodies.empty() && node.captured.empty();
  bool is_any_present = false;
  for (const ValueIndex input : node.inputs) {
    inputs.push_back(input == kAbsent ? nullptr : &value_written(input));
    is_any_present = is_any_present || input != kAbsent;
    all_constant = all_constant && (input == kAbsent || values_[input].is_constant());
  }
  all_constant = all_constant && is_any_present;
  if (all_constant) {
    if (std::optional<Value> folded = fold_constants(node, inputs)) {
      if (node.outputs[0] != kAbsent) set(node.outputs[0], std::move(*folded));
      return;
    }
  }
  // Rows picked from a trained table are work of every step, even when the ids are constants.
  const bool is_lookup = node.op_type() == "Gather" && inputs.size() == 2 && inputs[0] &&
                         inputs[1] && is_parameter(*inputs[0]) && inputs[0]->shape.size() == 2 &&
                         !inputs[1]->shape.empty();
  if (all_constant && !is_lookup) {
    evaluate_on_constants(node, index);
  } else {
    apply_operator(*this, index);
  }
}

void Interpreter::evaluate_on_constants(const Node& node, std::uint32_t index) {
  // What has the size of an input (a weight times zeros for each sample) or is larger than the
  // weights in it (a table repeated) is no weight of its own.
  bool follows_input = false;
  std::int64_t num_trained = 0;
  for (const ValueIndex input : node.inputs) {
    if (input == kAbsent) continue;
    if (is_parameter(values_[input])) num_trained += element_count(values_[input].shape);
    follows_input = follows_input || values_[input].follows_input;
  }
  GraphBuilder scratch("constants", 1);
  scratch_ = &scratch;
  apply_operator(*this, index);
  scratch_ = nullptr;
  for (const ValueIndex output : node.outputs) {
    if (output == kAbsent || !is_known_[output]) continue;
    Value& value = values_[output];
    if (!value.tensor) continue;
    value.tensor.reset();
    value.follows_input = follows_input;
    const bool is_trained =
        !follows_input && !value.type.is_integer && element_count(value.shape) <= num_trained;
    value.root = add_root(program_.values[output].name, is_trained && num_trained > 0);
  }
}

void Interpreter::set(ValueIndex index, Value value) {
  num_contents_ += contents_size(value.contents);
  if (num_contents_ > kMostContents) value.contents = {};
  values_[index] = std::move(value);
  is_known_[index] = true;
}

RootIndex Interpreter::add_root(std::string name, bool is_parameter) {
  roots_.push_back({.name = std::move(name), .is_parameter = is_parameter, .tensor = {}});
  return static_cast<RootIndex>(roots_.size() - 1);
}

bool Interpreter::is_parameter(const Value& value) const {
  return value.is_constant() && value.root && roots_[*value.root].is_parameter;
}

TensorId Interpreter::tensor(ValueIndex index, Use use) {
  Value& value = values_[index];
  if (value.tensor) return *value.tensor;
  if (!value.root) value.root = add_root(program_.values[index].name, false);
  Root& root = roots_[*value.root];
  if (use == Use::Parameter && value.type.is_integer) {
    value.type = kReal;
    root.is_parameter = true;
  }
  const bool is_made = is_made_each_step(value);
  const bool is_trained = !is_made && !value.type.is_integer &&
                          (use == Use::Parameter || (use == Use::Operand && root.is_parameter &&
                                                     element_count(value.shape) > 1));
  Tensor made{.name = root.name,
              .shape = value.shape,
              .role = is_trained ? TensorRole::Weight : TensorRole::Buffer,
              .is_integer = value.type.is_integer,
              .integer_bytes = value.type.integer_bytes};
  if (scratch_) return scratch_->tensor(std::move(made));
  if (!root.tensor && is_made) {
    made.role = TensorRole::Activation;
    root.tensor = add_made(std::move(made));
    return *root.tensor;
  }
  if (!root.tensor) {
    root.tensor = builder_.tensor(std::move(made));
    return *root.tensor;
  }
  if (builder_.shape(*root.tensor) == value.shape) return *root.tensor;
  if (element_count(builder_.shape(*root.tensor)) == element_count(value.shape)) {
    const Shape shape = value.shape;
    return builder_.reshape(program_.values[index].name, *root.tensor, shape);
  }
  return builder_.tensor(std::move(made));
}

/// More elements than an importer keeps, as many as an input's sizes say: nothing that lies in
/// memory from one step to the next.
bool Interpreter::is_made_each_step(const Value& value) {
  return value.follows_input && std::holds_alternative<std::monostate>(value.contents) &&
         element_count(value.shape) > kMostValues;
}

TensorId Interpreter::add_made(Tensor made) {
  const TensorId element = builder_.tensor({.name = made.name + ".element",
                                            .shape = {},
                                            .role = TensorRole::Buffer,
                                            .is_integer = made.is_integer,
                                            .integer_bytes = made.integer_bytes});
  const std::string name = made.name + ".made";
  const TensorId id = builder_.tensor(std::move(made));
  builder_.graph().add_op({.name = name,
                           .kind = OpKind::Gather,
                           .attributes = ElementwiseAttributes{.name = "expand"},
                           .inputs = {element},
                           .outputs = {id}});
  return id;
}

void Interpreter::check_activations(const Node& node) {
  for (const ValueIndex output : node.outputs) {
    if (output == kAbsent || !is_known_[output]) continue;
    const Value& value = values_[output];
    check_shape(value.shape, "output '" + program_.values[output].name + "'");
    if (value.tensor) activation_bytes_ += 4.0 * static_cast<double>(element_count(value.shape));
  }
  if (activation_bytes_ > kMostActivationBytes) {
    throw InputError("activations", "more than 1 PB", "a smaller batch or image");
  }
}

void Interpreter::set_outputs() {
  NetworkGraph& graph = builder_.graph();
  std::vector<bool> is_listed(graph.tensors().size(), false);
  for (const ValueIndex output : program_.outputs) {
    const std::string& name = program_.values[output].name;
    if (!is_known_[output]) {
      throw InputError(std::string(where_) + ", output '" + name + "'",
                       "an output that its operator never writes", "a value");
    }
    if (values_[output].is_constant()) {
      assume("output '" + name + "' does not depend on the data and is left out");
    } else if (const TensorId id = *values_[output].tensor; !is_listed[id.index]) {
      is_listed[id.index] = true;
      graph.outputs.push_back(id);
    }
  }
  if (graph.outputs.empty()) {
    throw InputError(where_, "only constant outputs", "an output that depends on an input");
  }
}

void Interpreter::assume(std::string text) {
  if (assumptions_.size() > kMostWarnings) return;
  if (std::find(assumptions_.begin(), assumptions_.end(), text) != assumptions_.end()) return;
  if (assumptions_.size() == kMostWarnings) text = "more assumptions of the same kinds";
  assumptions_.push_back(std::move(text));
}

void Interpreter::count_unknown(std::string name) { ++unknown_[std::move(name)]; }

std::vector<std::string> Interpreter::warnings() const {
  std::vector<std::string> lines;
  for (const auto& [name, count] : unknown_) {
    if (lines.size() == kMostWarnings) {
      lines.push_back("and " + std::to_string(unknown_.size() - kMostWarnings) +
                      " more operators without a cost model");
      break;
    }
    lines.push_back("operator " + name + " (" + std::to_string(count) +
                    "x) has no cost model: bounded by the bytes it moves");
  }
  lines.insert(lines.end(), assumptions_.begin(), assumptions_.end());
  return lines;
}

}  // namespace tracecast::onnx
