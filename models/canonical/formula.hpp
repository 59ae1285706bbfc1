#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/canonical/draft.hpp"

namespace tracecast::canonical {

/// A function of tensors as rules write it: add(mul(x, w), b). Names before brackets are functions
/// (function_of), others stand for any tensor, the same wherever they stand.
struct Term {
  std::string name{};
  std::vector<Term> operands{};
  bool is_variable = true;
};
/// Throws InternalError where the text is none.
[[nodiscard]] Term read_formula(std::string_view text);

/// What a formula was found to stand for.
struct Match {
  std::vector<std::pair<std::string, TensorId>> variables{};
  std::vector<Draft::OpIndex> ops{};  ///< the last one first; each once
  /// Throws InternalError: the formula has no such variable.
  [[nodiscard]] TensorId at(std::string_view variable) const;
};

/// The ops that compute `result` as the term says, if they do and nobody else reads what stands
/// between. add and mul take their operands in any order; numbers are no operands; of norms the
/// first operand alone counts.
[[nodiscard]] std::optional<Match> match(const Draft& draft, const Term& term, TensorId result);

/// Whether nobody but these ops reads what they write, the first one's result apart.
[[nodiscard]] bool is_closed(const Draft& draft, const std::vector<Draft::OpIndex>& ops);

}  // namespace tracecast::canonical
