#include "sim/plan/linear_program.hpp"

#include <algorithm>
#include <coin/CbcModel.hpp>
#include <coin/CoinPackedMatrix.hpp>
#include <coin/OsiClpSolverInterface.hpp>
#include <utility>

namespace tracecast::plan {

std::size_t LinearProgram::add_variable(double gain, double low, double high, bool is_whole) {
  gains_.push_back(gain);
  lows_.push_back(low);
  highs_.push_back(high);
  is_whole_.push_back(is_whole);
  return gains_.size() - 1;
}

void LinearProgram::add_row(std::vector<Term> terms, double low, double high) {
  rows_.push_back({std::move(terms), low, high});
}

std::optional<LinearProgram::Solution> LinearProgram::maximize(double most_seconds) const {
  std::vector<int> row_index, column_index;
  std::vector<double> factors, row_low, row_high;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (const Term& term : rows_[r].terms) {
      row_index.push_back(static_cast<int>(r));
      column_index.push_back(static_cast<int>(term.variable));
      factors.push_back(term.factor);
    }
    row_low.push_back(rows_[r].low);
    row_high.push_back(rows_[r].high);
  }
  CoinPackedMatrix matrix(true, row_index.data(), column_index.data(), factors.data(),
                          static_cast<CoinBigIndex>(factors.size()));
  matrix.setDimensions(static_cast<int>(rows_.size()), static_cast<int>(gains_.size()));
  OsiClpSolverInterface solver;
  solver.messageHandler()->setLogLevel(0);
  solver.getModelPtr()->setLogLevel(0);
  solver.loadProblem(matrix, lows_.data(), highs_.data(), gains_.data(), row_low.data(),
                     row_high.data());
  solver.setObjSense(-1);
  bool any_whole = false;
  for (std::size_t i = 0; i < is_whole_.size(); ++i) {
    if (!is_whole_[i]) continue;
    solver.setInteger(static_cast<int>(i));
    any_whole = true;
  }
  Solution solution;
  if (!any_whole) {
    solver.initialSolve();
    if (!solver.isProvenOptimal()) return std::nullopt;
    solution.value = solver.getObjValue();
    solution.x.assign(solver.getColSolution(), solver.getColSolution() + gains_.size());
    return solution;
  }
  CbcModel model(solver);
  model.setLogLevel(0);
  model.messageHandler()->setLogLevel(0);
  model.setAllowableFractionGap(1e-9);
  model.setMaximumSeconds(most_seconds);
  model.branchAndBound();
  if (model.bestSolution() == nullptr) return std::nullopt;
  solution.value = model.getObjValue();
  solution.x.assign(model.bestSolution(), model.bestSolution() + gains_.size());
  return solution;
}

}  // namespace tracecast::plan
