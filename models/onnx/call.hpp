#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/onnx/interpreter.hpp"

namespace tracecast::onnx {

/// One operator call as its handler sees it: inputs by position, attributes, and where the outputs
/// go.
class Call {
 public:
  Call(Interpreter& interpreter, std::uint32_t node_index)
      : run(interpreter),
        index(node_index),
        node(interpreter.program().nodes[node_index]),
        name_(node.name + interpreter.pass()) {}

  Interpreter& run;
  std::uint32_t index;
  const Node& node;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& name_of_output(std::size_t i) const {
    return run.program().values[node.outputs[i]].name;
  }
  [[nodiscard]] GraphBuilder& build() const { return run.builder(); }
  [[nodiscard]] bool has_input(std::size_t i) const {
    return i < node.inputs.size() && node.inputs[i] != kAbsent;
  }
  [[nodiscard]] bool wants_output(std::size_t i) const;
  /// Throws InputError when it was left out.
  [[nodiscard]] const Value& input(std::size_t i) const;
  [[nodiscard]] const Shape& shape(std::size_t i) const { return input(i).shape; }
  [[nodiscard]] TensorId tensor(std::size_t i,
                                Interpreter::Use use = Interpreter::Use::Operand) const;
  [[nodiscard]] TensorId parameter(std::size_t i) const {
    return tensor(i, Interpreter::Use::Parameter);
  }
  [[nodiscard]] std::optional<TensorId> optional_parameter(std::size_t i) const;
  /// Inputs that are there, all as operands.
  [[nodiscard]] std::vector<TensorId> tensors() const;

  /// Integers of an attribute or, in later opsets, of the input at `i`. Nothing when neither is
  /// there. `is_unknown` is set when the input is computed from data, so that nobody knows it
  /// before the run. Throws InputError when it is a constant whose values are not in the file.
  [[nodiscard]] std::optional<Integers> integers(std::string_view attribute, std::size_t i,
                                                 bool& is_unknown) const;

  /// The same input or output at the file's own sizes, when they differ from those asked for; else
  /// null.
  [[nodiscard]] const Value* reference_input(std::size_t i) const;
  [[nodiscard]] const Value* reference_output(std::size_t i) const;

  void set(std::size_t i, TensorId tensor, ElementType type) const;
  /// With the element type of the first input.
  void set(std::size_t i, TensorId tensor) const;
  void set_value(std::size_t i, Value value) const;
  /// The output is the first input under other dimensions: contents and weight stay, no data moves.
  void set_view(Shape shape) const;
  /// The output is the input itself.
  void pass_through(std::size_t i = 0) const { set_value(0, input(i)); }

  /// An op of kind Unknown whose output shapes are known all the same; counted and reported as
  /// `what`. `types`: of each output, else that of the first input.
  void set_bounded(std::string_view what, std::span<const Shape> shapes,
                   std::span<const ElementType> types = {}) const;
  [[nodiscard]] std::size_t axis(std::int64_t axis, std::size_t rank) const;
  void assume(std::string_view text) const;

 private:
  std::string name_;
};

/// Handlers return false when the call is beyond them: it is then bounded like an unknown operator.
using Handler = bool (*)(const Call&);

struct NamedHandler {
  std::string_view op_type;
  Handler handler;
  bool serves_side_results = false;  ///< also when nobody reads the first output
};

/// The handlers of each source, collected by operators.cpp.
[[nodiscard]] std::span<const NamedHandler> attention_handlers();
[[nodiscard]] std::span<const NamedHandler> layer_handlers();
[[nodiscard]] std::span<const NamedHandler> control_handlers();
[[nodiscard]] std::span<const NamedHandler> elementwise_handlers();
[[nodiscard]] std::span<const NamedHandler> movement_handlers();
[[nodiscard]] std::span<const NamedHandler> quantized_handlers();
[[nodiscard]] std::span<const NamedHandler> recurrent_handlers();
[[nodiscard]] std::span<const NamedHandler> reduction_handlers();
[[nodiscard]] std::span<const NamedHandler> runtime_handlers();
[[nodiscard]] std::span<const NamedHandler> selection_handlers();
[[nodiscard]] std::span<const NamedHandler> sequence_handlers();
[[nodiscard]] std::span<const NamedHandler> shape_handlers();

}  // namespace tracecast::onnx
