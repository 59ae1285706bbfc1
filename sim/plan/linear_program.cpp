#include "sim/plan/linear_program.hpp"

#include <algorithm>
#include <coin/CbcHeuristicDiveCoefficient.hpp>
#include <coin/CbcHeuristicFPump.hpp>
#include <coin/CbcHeuristicRINS.hpp>
#include <coin/CbcModel.hpp>
#include <coin/CbcStrategy.hpp>
#include <coin/CglFlowCover.hpp>
#include <coin/CglGomory.hpp>
#include <coin/CglKnapsackCover.hpp>
#include <coin/CglMixedIntegerRounding2.hpp>
#include <coin/CglProbing.hpp>
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

/// The program in CLP, its whole numbers marked; whether there are any.
bool LinearProgram::load(OsiClpSolverInterface& solver) const {
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
  return any_whole;
}

std::optional<LinearProgram::Solution> LinearProgram::solve_continuous(
    OsiClpSolverInterface& solver) const {
  solver.initialSolve();
  if (!solver.isProvenOptimal()) return std::nullopt;
  Solution solution;
  solution.value = solution.bound = solver.getObjValue();
  solution.x.assign(solver.getColSolution(), solver.getColSolution() + gains_.size());
  return solution;
}

std::optional<LinearProgram::Solution> LinearProgram::maximize(double most_seconds) const {
  OsiClpSolverInterface solver;
  if (!load(solver)) return solve_continuous(solver);
  CbcModel model(solver);
  model.setLogLevel(0);
  model.messageHandler()->setLogLevel(0);
  model.setAllowableFractionGap(1e-9);
  model.setMaximumSeconds(most_seconds);
  model.branchAndBound();
  if (model.bestSolution() == nullptr) return std::nullopt;
  Solution solution;
  solution.value = model.getObjValue();
  solution.bound = model.getBestPossibleObjValue();
  solution.x.assign(model.bestSolution(), model.bestSolution() + gains_.size());
  return solution;
}

std::optional<LinearProgram::Solution> LinearProgram::search(const Search& search,
                                                             bool* proven) const {
  if (proven != nullptr) *proven = true;
  OsiClpSolverInterface solver;
  if (!load(solver)) return solve_continuous(solver);
  CbcModel model(solver);
  model.setLogLevel(0);
  model.messageHandler()->setLogLevel(0);
  model.solver()->messageHandler()->setLogLevel(0);
  model.setAllowableFractionGap(search.gap);
  model.setMaximumSeconds(search.most_seconds);
  if (search.first_solution) model.setMaximumSolutions(1);
  CglProbing probing;
  probing.setUsingObjective(1);
  CglGomory gomory;
  CglKnapsackCover covers;
  CglMixedIntegerRounding2 rounding;
  CglFlowCover flows;
  model.addCutGenerator(&probing, -1, "Probing");
  model.addCutGenerator(&gomory, -1, "Gomory");
  model.addCutGenerator(&covers, -1, "Knapsack");
  model.addCutGenerator(&rounding, -1, "MixedIntegerRounding2");
  model.addCutGenerator(&flows, -1, "FlowCover");
  CbcRounding round(model);
  CbcHeuristicFPump pump(model);
  pump.setMaximumPasses(30);
  CbcHeuristicDiveCoefficient dive(model);
  CbcHeuristicRINS neighbours(model);
  model.addHeuristic(&round);
  model.addHeuristic(&pump);
  model.addHeuristic(&dive);
  model.addHeuristic(&neighbours);
  model.findIntegers(true);
  std::vector<int> priority;
  for (int i = 0; i < model.numberIntegers(); ++i) {
    const auto variable = static_cast<std::size_t>(model.integerVariable()[i]);
    const bool early = std::find(search.first_branch.begin(), search.first_branch.end(),
                                 variable) != search.first_branch.end();
    priority.push_back(early ? 1 : 1000);
  }
  model.passInPriorities(priority.data(), false);
  model.branchAndBound();
  if (model.bestSolution() == nullptr) {
    if (proven != nullptr) *proven = model.isProvenInfeasible();
    return std::nullopt;
  }
  Solution solution;
  solution.value = model.getObjValue();
  solution.bound = std::max(solution.value, model.getBestPossibleObjValue());
  solution.x.assign(model.bestSolution(), model.bestSolution() + gains_.size());
  return solution;
}

}  // namespace tracecast::plan
