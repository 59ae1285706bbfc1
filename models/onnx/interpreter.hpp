#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/software/attention_kernels.hpp"
#include "models/onnx/program.hpp"
#include "models/onnx/value.hpp"
#include "models/ops.hpp"

namespace tracecast::onnx {

/// Sizes at which a program is walked.
struct Sizes {
  std::int64_t batch = 1;
  std::vector<Shape> inputs;  ///< one for each of Program::inputs
};

/// What walking a program at the file's own sizes found: where a constant with a baked-in size is
/// reported from one that means what it says.
struct Reference {
  std::int64_t batch = 1;
  std::vector<Value> values;  ///< by ValueIndex
};

/// Walks a program once at given sizes: infers every value and appends the ops that do work on the
/// device to a network graph. Constants are folded; arithmetic on shapes leaves no ops.
class Interpreter {
 public:
  /// `reference` may be null: the sizes are the file's own. All arguments outlive the walk.
  Interpreter(const Program& program, std::string_view where, std::string name, const Sizes& sizes,
              const Reference* reference, bool training, AttentionKernels attention);

  /// Throws InputError naming the node.
  void run();

  [[nodiscard]] NetworkGraph take_graph() && { return std::move(builder_).take(); }
  [[nodiscard]] std::vector<Value> take_values() && { return std::move(values_); }
  [[nodiscard]] std::vector<std::string> warnings() const;

  // What operators (operators.cpp) read and extend.
  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const Sizes& sizes() const { return sizes_; }
  [[nodiscard]] const Reference* reference() const { return reference_; }
  [[nodiscard]] bool training() const { return training_; }
  [[nodiscard]] AttentionKernels attention() const { return attention_; }
  [[nodiscard]] GraphBuilder& builder() { return scratch_ ? *scratch_ : builder_; }
  [[nodiscard]] const Value& value(ValueIndex index) const { return values_[index]; }
  [[nodiscard]] bool is_known(ValueIndex index) const { return is_known_[index]; }
  /// Throws InputError when its operator never wrote it.
  [[nodiscard]] const Value& value_written(ValueIndex index) const;
  void set(ValueIndex index, Value value);
  /// Walks the nodes of a body whose inputs are set. `pass` tells this walk's ops from those of
  /// others ("#2"); empty where there is one. Throws InputError beyond kMostCalls calls in all
  /// bodies.
  void run_body(const Body& body, std::string_view pass);
  /// What the names of ops end in while a body is walked.
  [[nodiscard]] const std::string& pass() const { return pass_; }

  /// What a constant is read as. A constant read twice is one tensor; where its shape differs (a
  /// view of the same weight) a Reshape op stands between.
  enum class Use {
    Parameter,  ///< trained: weights and biases of layers; integers are reals that were quantised
    Operand,    ///< of arithmetic: trained when it is an initializer with more than one element
    Buffer,     ///< never trained
  };
  /// The tensor of a value, made on first use when it is a constant.
  TensorId tensor(ValueIndex index, Use use);
  /// A constant that is a weight of its own: contents unknown, `is_parameter` when training would
  /// change it.
  [[nodiscard]] RootIndex add_root(std::string name, bool is_parameter);
  [[nodiscard]] bool is_parameter(const Value& value) const;

  void assume(std::string text);         ///< one line of the warnings, each once
  void count_unknown(std::string name);  ///< an operator without a cost model

  /// The Add `node` became the bias of the GEMM it reads (see layers.cpp).
  void mark_merged(std::uint32_t node) { is_merged_[node] = true; }
  [[nodiscard]] bool is_merged(std::uint32_t node) const { return is_merged_[node]; }

 private:
  struct Root {
    std::string name;
    bool is_parameter = false;
    std::optional<TensorId> tensor;
  };

  void declare_initializers_and_inputs();
  void evaluate(std::uint32_t index);
  void evaluate_checked(std::uint32_t index, std::string_view where);
  void evaluate_on_constants(const Node& node, std::uint32_t index);
  void set_outputs();
  [[nodiscard]] static bool is_made_each_step(const Value& value);
  TensorId add_made(Tensor made);
  void check_activations(const Node& node);

  const Program& program_;
  std::string_view where_;
  const Sizes& sizes_;
  const Reference* reference_;
  bool training_;
  AttentionKernels attention_;
  GraphBuilder builder_;
  GraphBuilder* scratch_ =
      nullptr;  ///< in use while a node reads only constants: its ops are dropped
  std::vector<Value> values_;
  std::vector<bool> is_known_;
  std::vector<Root> roots_;
  std::vector<bool> is_merged_;  ///< by node
  std::map<std::string, std::size_t> unknown_;
  std::vector<std::string> assumptions_;
  std::size_t num_contents_ = 0;
  std::size_t num_calls_ = 0;  ///< in bodies
  std::string pass_;
  double activation_bytes_ = 0;
};

}  // namespace tracecast::onnx
