#include "models/onnx/framework_ops.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "models/onnx/value.hpp"
#include "sim/base/error.hpp"

namespace tracecast::onnx {
namespace {

struct Formula {
  std::string_view rule;     ///< as reports name it
  std::string_view op;       ///< operator that stands for all of `formula`
  std::string_view formula;  ///< x, w, y: any value, the same wherever it stands; numbers;
                             ///< name=number: an attribute
};

/// How PyTorch's exporters write ops that PyTorch runs as one kernel; sources: notes/0001. Both
/// orders of Add and Mul are meant. Another grouping of the same arithmetic (transformers'
/// gelu_new: (0.5 x) (1 + tanh)) is code written out step by step, which runs as it stands.
constexpr std::array<Formula, 10> kFormulas{{
    {"silu", "Swish", "Mul(x, Sigmoid(x))"},
    {"hard_swish", "HardSwish", "Mul(x, HardSigmoid(x, alpha=0.16666667))"},
    {"hard_swish", "HardSwish", "Mul(x, Div(Clip(Add(x, 3), 0, 6), 6))"},
    {"hard_sigmoid", "HardSigmoid", "Div(Clip(Add(x, 3), 0, 6), 6)"},
    {"mish", "Mish", "Mul(x, Tanh(Softplus(x)))"},
    {"gelu", "Gelu", "Mul(Mul(x, Add(Erf(Div(x, 1.4142136)), 1)), 0.5)"},
    {"gelu", "Gelu",
     "Mul(Mul(x, Add(Tanh(Mul(Add(x, Mul(Mul(x, Mul(x, x)), 0.044715)), 0.7978846)), 1)), 0.5)"},
    {"gelu", "Gelu",
     "Mul(Mul(x, Add(Tanh(Mul(Add(x, Mul(Pow(x, 3), 0.044715)), 0.7978846)), 1)), 0.5)"},
    {"gelu", "Gelu", "Mul(Mul(x, Add(Erf(Mul(x, 0.70710678)), 1)), 0.5)"},
    {"addcmul", "Addcmul", "Add(x, Mul(Mul(w, y), 1))"},
}};

/// Numbers that a file stores in bfloat16 differ by as much.
constexpr double kTolerance = 4e-3;

/// Operands that older opsets hold as attributes.
struct OlderOperand {
  std::string_view op;
  std::size_t operand;
  std::string_view attribute;
};
constexpr std::array<OlderOperand, 2> kOlderOperands{{{"Clip", 1, "min"}, {"Clip", 2, "max"}}};

/// A formula as a tree. Leaves: variables (no operator, no number) and numbers.
struct Term {
  std::string op{};
  std::string variable{};
  std::optional<double> number{};
  std::vector<Term> operands{};
  std::vector<std::pair<std::string, double>> attributes{};
};

class FormulaReader {
 public:
  explicit FormulaReader(std::string_view text) : text_(text) {}
  Term read() {
    const std::string word = take_word();
    if (word.empty()) throw InternalError("formula: " + std::string(text_));
    char* end = nullptr;
    const double number = std::strtod(word.c_str(), &end);
    if (*end == '\0') return {.number = number};
    if (!take('(')) return {.variable = word};
    Term term{.op = word};
    do {
      const std::size_t equals = text_.find_first_of("=,()", at_);
      if (equals != std::string_view::npos && text_[equals] == '=') {
        const std::string name = take_word();
        at_ = equals + 1;
        term.attributes.emplace_back(name, read().number.value());
      } else {
        term.operands.push_back(read());
      }
    } while (take(','));
    if (!take(')')) throw InternalError("formula: " + std::string(text_));
    return term;
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char wanted) {
    skip_spaces();
    const bool is_there = at_ < text_.size() && text_[at_] == wanted;
    at_ += is_there ? 1 : 0;
    return is_there;
  }
  std::string take_word() {
    skip_spaces();
    const std::size_t start = at_;
    at_ = std::min(text_.find_first_of(" ,=()", at_), text_.size());
    return std::string(text_.substr(start, at_ - start));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

struct Match {
  std::vector<std::pair<std::string_view, ValueIndex>> variables{};
  std::vector<std::uint32_t> nodes{};  ///< the last one first
};

class Restorer {
 public:
  explicit Restorer(Program& program) : program_(program) {
    writer_.assign(program.values.size(), kAbsent);
    for (std::uint32_t i = 0; i < program.num_graph_nodes; ++i) {
      for (const ValueIndex output : program.nodes[i].outputs) {
        if (output != kAbsent) writer_[output] = i;
      }
    }
  }

  void run(std::vector<Rewrite>& rewrites) {
    static const std::vector<std::pair<const Formula*, Term>> kTerms = [] {
      std::vector<std::pair<const Formula*, Term>> terms;
      for (const Formula& rule : kFormulas)
        terms.emplace_back(&rule, FormulaReader(rule.formula).read());
      return terms;
    }();
    // From the end: what a longer formula takes is not given to a shorter one.
    for (auto i = static_cast<std::uint32_t>(program_.num_graph_nodes); i-- > 0;) {
      const Node& node = program_.nodes[i];
      if (node.is_replaced || node.outputs.size() != 1) continue;
      for (const auto& [rule, term] : kTerms) {
        Match match;
        if (!matches_node(term, i, match) || match.variables.empty() || !is_free(match)) continue;
        count_rewrite(rewrites, rule->rule, static_cast<int>(match.nodes.size()));
        replace(rule->op, i, match);
        break;
      }
    }
  }

 private:
  bool matches_node(const Term& term, std::uint32_t index, Match& match) const {
    const Node& node = program_.nodes[index];
    if (!node.is_standard || node.is_replaced || node.op_type() != term.op ||
        node.outputs.size() != 1) {
      return false;
    }
    for (const auto& [name, value] : term.attributes) {
      if (!is_near(node.real(name, std::numeric_limits<double>::quiet_NaN()), value)) return false;
    }
    match.nodes.push_back(index);
    const Match before = match;
    if (matches_operands(term, node, false, match)) return true;
    match = before;
    const bool commutes = term.op == "Add" || term.op == "Mul";
    return commutes && term.operands.size() == 2 && matches_operands(term, node, true, match);
  }

  bool matches_operands(const Term& term, const Node& node, bool swapped, Match& match) const {
    if (node.inputs.size() > term.operands.size()) return false;
    for (std::size_t i = 0; i < term.operands.size(); ++i) {
      const Term& operand = term.operands[swapped ? term.operands.size() - 1 - i : i];
      if (operand.number) {
        const std::optional<double> number = number_of(node, i);
        if (!number || !is_near(*number, *operand.number)) return false;
        continue;
      }
      if (i >= node.inputs.size() || node.inputs[i] == kAbsent) return false;
      const ValueIndex value = node.inputs[i];
      if (operand.op.empty()) {
        if (!binds(match, operand.variable, value)) return false;
      } else if (writer_[value] == kAbsent || !matches_node(operand, writer_[value], match)) {
        return false;
      }
    }
    return true;
  }

  /// The same value wherever a variable stands.
  static bool binds(Match& match, std::string_view variable, ValueIndex value) {
    for (const auto& [known, is] : match.variables) {
      if (known == variable) return is == value;
    }
    match.variables.emplace_back(variable, value);
    return true;
  }

  static bool is_near(double number, double wanted) {
    return std::fabs(number - wanted) <= kTolerance * std::fabs(wanted);
  }

  /// Of an operand that is one constant, or an attribute where opsets have changed.
  std::optional<double> number_of(const Node& node, std::size_t operand) const {
    for (const OlderOperand& older : kOlderOperands) {
      if (older.op == node.op_type() && older.operand == operand &&
          node.find_attribute(older.attribute)) {
        return node.real(older.attribute, 0);
      }
    }
    if (operand >= node.inputs.size() || node.inputs[operand] == kAbsent) return std::nullopt;
    const ValueIndex value = node.inputs[operand];
    if (const TensorProto* tensor = program_.values[value].initializer) return number_in(*tensor);
    if (writer_[value] == kAbsent) return std::nullopt;
    const Node& writer = program_.nodes[writer_[value]];
    if (writer.op_type() != "Constant" || !writer.is_standard) return std::nullopt;
    if (writer.find_attribute("value_float")) return writer.real("value_float", 0);
    if (writer.find_attribute("value_int")) {
      return static_cast<double>(writer.integer("value_int", 0));
    }
    const AttributeProto* tensor = writer.find_attribute("value");
    return tensor && tensor->has_t() ? number_in(tensor->t()) : std::nullopt;
  }

  static std::optional<double> number_in(const TensorProto& tensor) {
    std::int64_t count = 1;
    for (const std::int64_t dim : tensor.dims()) count = dim == 1 ? count : 0;
    if (count != 1) return std::nullopt;
    const Value value = decode_tensor(tensor, "constant");
    if (value.reals() && value.reals()->size() == 1) return value.reals()->front();
    if (value.integers() && value.integers()->size() == 1) {
      return static_cast<double>(value.integers()->front());
    }
    return std::nullopt;
  }

  /// Nobody else reads what stands in between.
  bool is_free(const Match& match) const {
    for (std::size_t i = 1; i < match.nodes.size(); ++i) {
      const NamedValue& value = program_.values[program_.nodes[match.nodes[i]].outputs[0]];
      if (value.is_output) return false;
      for (const std::uint32_t reader : value.readers) {
        if (std::find(match.nodes.begin(), match.nodes.end(), reader) == match.nodes.end()) {
          return false;
        }
      }
    }
    return true;
  }

  void replace(std::string_view op, std::uint32_t last, const Match& match) {
    for (const std::uint32_t index : match.nodes) {
      for (const ValueIndex input : program_.nodes[index].inputs) {
        if (input != kAbsent) std::erase(program_.values[input].readers, index);
      }
      program_.nodes[index].is_replaced = index != last;
    }
    auto& proto = program_.made.emplace_back(std::make_unique<NodeProto>());
    proto->set_op_type(std::string(op));
    Node& node = program_.nodes[last];
    node.proto = proto.get();
    node.inputs.clear();
    node.attributes.clear();
    for (const auto& [variable, value] : match.variables) {
      node.inputs.push_back(value);
      program_.values[value].readers.push_back(last);
    }
  }

  Program& program_;
  std::vector<std::uint32_t> writer_;  ///< by value: the graph's node that writes it
};

}  // namespace

void restore_framework_ops(Program& program, std::vector<Rewrite>& rewrites) {
  Restorer(program).run(rewrites);
}

}  // namespace tracecast::onnx
