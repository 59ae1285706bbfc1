// Graphs inside of operators: If, Loop and Scan.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "models/onnx/call.hpp"
#include "models/onnx/reader.hpp"
#include "sim/base/error.hpp"

namespace tracecast::onnx {
namespace {

using Use = Interpreter::Use;

/// The only element of a constant whose contents are known.
std::optional<std::int64_t> known_number(const Value& value) {
  const Integers* integers = value.integers();
  if (!integers || integers->size() != 1) return std::nullopt;
  return integers->front();
}

const Body& body_of(const Call& call, std::string_view attribute) {
  const Body* body = call.node.find_body(attribute);
  if (!body) throw InputError(attribute, "no graph", "the graph to run");
  return *body;
}

void check_count(std::string_view what, std::size_t found, std::size_t expected) {
  if (found == expected) return;
  throw InputError(what, std::to_string(found) + " values", std::to_string(expected) + " values");
}

/// The branch that the condition takes where it follows from shapes and constants, else the longer
/// one.
bool if_else(const Call& call) {
  const Body& then_branch = body_of(call, "then_branch");
  const Body& else_branch = body_of(call, "else_branch");
  const std::optional<std::int64_t> condition = known_number(call.input(0));
  const bool is_taken =
      condition ? *condition != 0 : then_branch.nodes.size() >= else_branch.nodes.size();
  if (!condition) {
    call.assume("the data decide: its " + std::string(is_taken ? "then" : "else") +
                " branch is taken, the longer one");
  }
  const Body& branch = is_taken ? then_branch : else_branch;
  check_count("outputs of the branch", branch.outputs.size(), call.node.outputs.size());
  call.run.run_body(branch, "");
  for (std::size_t i = 0; i < branch.outputs.size(); ++i) {
    call.set_value(i, call.run.value_written(branch.outputs[i]));
  }
  return true;
}

/// Results of each repetition, stacked along a new first dimension.
class Stack {
 public:
  void push(const Call& call, ValueIndex index, std::string_view pass) {
    const Value& value = call.run.value_written(index);
    type_ = value.type;
    Shape shape = value.shape;
    shape.insert(shape.begin(), 1);
    const std::string name = call.name() + ".result" + std::string(pass);
    parts_.push_back(
        call.build().reshape(name, call.run.tensor(index, Use::Operand), std::move(shape)));
  }
  void set(const Call& call, std::size_t output) const {
    call.set(output, call.build().concat(call.name() + ".stack", parts_, 0), type_);
  }

 private:
  ElementType type_{};
  std::vector<TensorId> parts_;
};

/// What Loop and Scan share: states that go from one repetition to the next, and results that are
/// stacked.
struct Repetition {
  const Body& body;
  std::size_t first_state_in, first_state_out, num_states;  ///< among the body's inputs and outputs
  std::vector<Value> states;
  std::vector<Stack> stacks;

  void run(const Call& call, std::int64_t number) {
    const std::string pass = "#" + std::to_string(number + 1);
    for (std::size_t i = 0; i < num_states; ++i) {
      call.run.set(body.inputs[first_state_in + i], states[i]);
    }
    call.run.run_body(body, pass);
    for (std::size_t i = 0; i < num_states; ++i) {
      states[i] = call.run.value_written(body.outputs[first_state_out + i]);
    }
    for (std::size_t i = 0; i < stacks.size(); ++i) {
      stacks[i].push(call, body.outputs[first_state_out + num_states + i], pass);
    }
  }
  void set_outputs(const Call& call) const {
    for (std::size_t i = 0; i < num_states; ++i) call.set_value(i, states[i]);
    for (std::size_t i = 0; i < stacks.size(); ++i) stacks[i].set(call, num_states + i);
  }
};

/// The node of a body that writes a value.
const Node* find_writer(const Call& call, const Body& body, ValueIndex value,
                        std::string_view op_type) {
  for (const std::uint32_t index : body.nodes) {
    const Node& node = call.run.program().nodes[index];
    if (!node.outputs.empty() && node.outputs[0] == value) {
      return node.op_type() == op_type && !node.inputs.empty() && node.inputs[0] != kAbsent
                 ? &node
                 : nullptr;
    }
  }
  return nullptr;
}

/// PyTorch's EmbeddingBag, which its exporter writes as a loop over the bags: a slice of the ids,
/// their rows of a table, the sum of them. One kernel in every framework. Bags are taken to be of
/// one size.
bool embedding_bag(const Call& call, const Body& body, std::int64_t bags) {
  if (body.inputs.size() != 2 || body.outputs.size() != 2) return false;
  const Node* sum = find_writer(call, body, body.outputs[1], "ReduceSum");
  if (!sum) sum = find_writer(call, body, body.outputs[1], "ReduceMean");
  const Node* rows = sum ? find_writer(call, body, sum->inputs[0], "Gather") : nullptr;
  if (!rows || rows->inputs.size() != 2 || !call.run.is_known(rows->inputs[0])) return false;
  const Node* slice = find_writer(call, body, rows->inputs[1], "Slice");
  if (!slice || !call.run.is_known(slice->inputs[0])) return false;
  const Value& table = call.run.value(rows->inputs[0]);
  const Value& ids = call.run.value(slice->inputs[0]);
  if (!call.run.is_parameter(table) || table.shape.size() != 2 || ids.shape.size() != 1) {
    return false;
  }
  const Reference* own = call.run.reference();
  if (own && known_number(own->values[call.node.inputs[0]]) == bags) {
    // The number of bags was written for the file's own sizes: it grows as the ids do.
    const Shape& before = own->values[slice->inputs[0]].shape;
    constexpr std::int64_t kMostIds = std::int64_t{1} << 40;
    if (before.size() == 1 && before[0] > 0 && bags <= kMostValues && ids.shape[0] <= kMostIds) {
      bags = bags * ids.shape[0] / before[0];
    }
  }
  if (bags < 1 || ids.shape[0] % bags != 0) return false;
  GraphBuilder& build = call.build();
  const TensorId bagged =
      build.reshape(call.name() + ".bags", call.run.tensor(slice->inputs[0], Use::Operand),
                    {bags, ids.shape[0] / bags});
  call.set(
      0, build.embedding_bag(call.name(), bagged, call.run.tensor(rows->inputs[0], Use::Parameter)),
      kReal);
  return true;
}

/// Inputs: count, condition, states. The body's inputs: number, condition, states; its outputs:
/// condition, states, results to stack. Repeated as often as constants and shapes say; once where
/// the data decide.
bool loop(const Call& call) {
  const Body& body = body_of(call, "body");
  if (call.node.inputs.size() < 2) return false;
  const std::size_t num_states = call.node.inputs.size() - 2;
  check_count("inputs of the body", body.inputs.size(), num_states + 2);
  if (body.outputs.size() < num_states + 1) {
    throw InputError("outputs of the body", std::to_string(body.outputs.size()) + " values",
                     "at least " + std::to_string(num_states + 1));
  }
  check_count("outputs", call.node.outputs.size(), body.outputs.size() - 1);
  constexpr std::int64_t kEndless = std::int64_t{1} << 31;  // what exporters write for `while`
  const std::optional<std::int64_t> written =
      call.has_input(0) ? known_number(call.input(0)) : std::nullopt;
  const bool is_open = call.has_input(0) && !written;
  const std::int64_t count = written.value_or(kEndless);
  const bool is_counted = count < kEndless;
  if (is_counted && embedding_bag(call, body, count)) return true;

  Repetition repetition{.body = body,
                        .first_state_in = 2,
                        .first_state_out = 1,
                        .num_states = num_states,
                        .states = {},
                        .stacks = std::vector<Stack>(body.outputs.size() - 1 - num_states)};
  for (std::size_t i = 0; i < num_states; ++i) repetition.states.push_back(call.input(2 + i));
  const bool starts = !call.has_input(1) || known_number(call.input(1)) != 0;
  if ((!starts || count < 1) && !repetition.stacks.empty()) return false;
  bool goes_on = starts;
  for (std::int64_t i = 0; goes_on && i < count; ++i) {
    call.run.set(body.inputs[0], {.shape = {}, .type = kInt64, .contents = Integers{i}});
    call.run.set(body.inputs[1], {.shape = {}, .type = kBool, .contents = Integers{1}});
    repetition.run(call, i);
    const std::optional<std::int64_t> condition =
        known_number(call.run.value_written(body.outputs[0]));
    if (is_open || (!condition && !is_counted)) {
      call.assume("the data decide how often it repeats: once is assumed");
      goes_on = false;
    } else if (condition) {
      goes_on = *condition != 0;
    } else if (i == 0) {
      call.assume("the data may end it: all " + std::to_string(count) + " repetitions are taken");
    }
  }
  repetition.set_outputs(call);
  return true;
}

/// Inputs: states, sequences along their first dimension. The body's inputs: states, one element of
/// each sequence; its outputs: states, results to stack.
bool scan(const Call& call) {
  const Body& body = body_of(call, "body");
  const auto num_sequences = call.node.integer("num_scan_inputs", 0);
  const std::size_t num_inputs = call.node.inputs.size();
  const bool has_other_axes = !call.node.integers("scan_input_axes").empty() ||
                              !call.node.integers("scan_output_axes").empty();
  if (call.node.opset < 9 || has_other_axes || num_sequences < 1 ||
      static_cast<std::size_t>(num_sequences) > num_inputs) {
    return false;
  }
  const std::size_t num_states = num_inputs - static_cast<std::size_t>(num_sequences);
  check_count("inputs of the body", body.inputs.size(), num_inputs);
  check_count("outputs of the body", body.outputs.size(), call.node.outputs.size());
  if (body.outputs.size() < num_states) return false;
  Repetition repetition{.body = body,
                        .first_state_in = 0,
                        .first_state_out = 0,
                        .num_states = num_states,
                        .states = {},
                        .stacks = std::vector<Stack>(body.outputs.size() - num_states)};
  for (std::size_t i = 0; i < num_states; ++i) repetition.states.push_back(call.input(i));
  const Shape& first = call.shape(num_states);
  if (first.empty() || first[0] < 1) return false;
  const std::int64_t count = first[0];
  for (std::int64_t step = 0; step < count; ++step) {
    for (std::size_t i = num_states; i < num_inputs; ++i) {
      const Value& sequence = call.input(i);
      if (sequence.shape.empty() || sequence.shape[0] != count) {
        throw InputError("sequence", to_string(sequence.shape),
                         std::to_string(count) + " elements, as the first one has");
      }
      const ElementType type = sequence.type;
      Shape shape = sequence.shape, element(sequence.shape.begin() + 1, sequence.shape.end());
      shape[0] = 1;
      const std::string name = call.name() + ".element#" + std::to_string(step + 1);
      const TensorId one = call.build().slice(name, call.tensor(i), std::move(shape));
      const TensorId id = call.build().reshape(name, one, element);
      call.run.set(body.inputs[i], {.shape = element, .type = type, .tensor = id});
    }
    repetition.run(call, step);
  }
  repetition.set_outputs(call);
  return true;
}

constexpr NamedHandler kControlHandlers[] = {
    {"If", if_else, true},
    {"Loop", loop, true},
    {"Scan", scan, true},
};

}  // namespace

std::span<const NamedHandler> control_handlers() { return kControlHandlers; }

}  // namespace tracecast::onnx
