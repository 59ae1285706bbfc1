#pragma once
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

class OsiClpSolverInterface;

namespace tracecast::plan {

/// Maximize c'x subject to rows low <= a'x <= high and bounds on x, some of x whole numbers. Solved
/// by CBC and CLP (COIN-OR).
class LinearProgram {
 public:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  struct Term {
    std::size_t variable = 0;
    double factor = 0;
  };
  struct Solution {
    double value = 0;
    std::vector<double> x;
    double bound = 0;  ///< proven: no solution has a greater value
  };
  struct Search {
    double most_seconds = 60;
    double gap = 1e-9;                        ///< relative, good enough
    bool first_solution = false;              ///< any will do
    std::vector<std::size_t> first_branch{};  ///< variables that the search divides before others
  };

  /// Index of a new variable with `gain` in the objective.
  std::size_t add_variable(double gain, double low = 0, double high = kInfinity,
                           bool is_whole = false);
  void add_row(std::vector<Term> terms, double low, double high);
  [[nodiscard]] std::size_t num_variables() const { return gains_.size(); }

  /// A best solution; nothing: there is none, or the objective has no bound. With whole numbers the
  /// best is proven to a relative gap of 1e-9, or the best found in `most_seconds`.
  [[nodiscard]] std::optional<Solution> maximize(double most_seconds = 60) const;
  /// The same with cuts and heuristics of CBC, for programs that are hard. `proven` false: the time
  /// ran out before it was known whether there is a solution.
  [[nodiscard]] std::optional<Solution> search(const Search& search, bool* proven = nullptr) const;

 private:
  [[nodiscard]] bool load(OsiClpSolverInterface& solver) const;
  [[nodiscard]] std::optional<Solution> solve_continuous(OsiClpSolverInterface& solver) const;

  std::vector<double> gains_, lows_, highs_;
  std::vector<bool> is_whole_;
  struct Row {
    std::vector<Term> terms;
    double low, high;
  };
  std::vector<Row> rows_;
};

}  // namespace tracecast::plan
