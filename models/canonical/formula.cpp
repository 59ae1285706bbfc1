#include "models/canonical/formula.hpp"

#include <algorithm>

#include "sim/base/error.hpp"

namespace tracecast::canonical {
namespace {

class FormulaReader {
 public:
  explicit FormulaReader(std::string_view text) : text_(text) {}

  Term read() {
    Term term{.name = word()};
    if (term.name.empty()) fail();
    if (!take('(')) return term;
    term.is_variable = false;
    do term.operands.push_back(read());
    while (take(','));
    if (!take(')')) fail();
    return term;
  }

 private:
  [[noreturn]] void fail() const { throw InternalError("formula: " + std::string(text_)); }
  bool take(char wanted) {
    at_ = std::min(text_.find_first_not_of(' ', at_), text_.size());
    const bool is_there = at_ < text_.size() && text_[at_] == wanted;
    at_ += is_there ? 1 : 0;
    return is_there;
  }
  std::string word() {
    at_ = std::min(text_.find_first_not_of(' ', at_), text_.size());
    const std::size_t start = at_;
    at_ = std::min(text_.find_first_of(" ,()", at_), text_.size());
    return std::string(text_.substr(start, at_ - start));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool is_norm(const Op& op) {
  return op.kind == OpKind::InstanceNorm || op.kind == OpKind::BatchNorm;
}

bool matches(const Draft& draft, const Term& term, TensorId result, Match& found);

bool matches_all(const Draft& draft, const Term& term, const std::vector<TensorId>& operands,
                 bool swapped, Match& found) {
  for (std::size_t i = 0; i < term.operands.size(); ++i) {
    const TensorId operand = operands[swapped ? operands.size() - 1 - i : i];
    if (!matches(draft, term.operands[i], operand, found)) return false;
  }
  return true;
}

bool matches(const Draft& draft, const Term& term, TensorId result, Match& found) {
  if (term.is_variable) {
    for (const auto& [name, tensor] : found.variables) {
      if (name == term.name) return tensor == result;
    }
    found.variables.emplace_back(term.name, result);
    return true;
  }
  const auto index = draft.producer(result);
  if (!index || draft.is_gone(*index)) return false;
  const Op& op = draft.op(*index);
  if (function_of(op) != term.name || op.outputs.front() != result) return false;
  std::vector<TensorId> operands = draft.operands(op);
  if (is_norm(op) && !operands.empty()) operands.resize(1);
  if (operands.size() != term.operands.size()) return false;
  if (std::find(found.ops.begin(), found.ops.end(), *index) == found.ops.end())
    found.ops.push_back(*index);
  const Match before = found;
  if (matches_all(draft, term, operands, false, found)) return true;
  found = before;
  const bool commutes = (term.name == "add" || term.name == "mul") && operands.size() == 2;
  return commutes && matches_all(draft, term, operands, true, found);
}

}  // namespace

Term read_formula(std::string_view text) { return FormulaReader(text).read(); }

TensorId Match::at(std::string_view variable) const {
  for (const auto& [name, tensor] : variables) {
    if (name == variable) return tensor;
  }
  throw InternalError("formula without " + std::string(variable));
}

bool is_closed(const Draft& draft, const std::vector<Draft::OpIndex>& ops) {
  for (std::size_t i = 1; i < ops.size(); ++i) {
    for (const TensorId id : draft.op(ops[i]).outputs) {
      if (draft.is_output(id)) return false;
      for (const Draft::OpIndex reader : draft.readers(id)) {
        if (std::find(ops.begin(), ops.end(), reader) == ops.end()) return false;
      }
    }
  }
  return true;
}

std::optional<Match> match(const Draft& draft, const Term& term, TensorId result) {
  Match found;
  if (!matches(draft, term, result, found) || !is_closed(draft, found.ops)) return std::nullopt;
  return found;
}

}  // namespace tracecast::canonical
