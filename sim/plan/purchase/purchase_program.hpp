#pragma once
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "sim/plan/linear_program.hpp"
#include "sim/plan/purchase/purchase.hpp"

namespace tracecast::plan {

/// The program of PurchaseProblem at one horizon. `problem` must outlive it.
class PurchaseProgram {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  PurchaseProgram(const PurchaseProblem& problem, Seconds horizon);

  struct Search {
    double most_seconds = 30;
    double gap = 1e-4;
    bool first = false;  ///< any plan will do
  };
  /// Least cost; nothing: no plan (`proven` false: only none found in time).
  [[nodiscard]] std::optional<Purchase> solve(const Search& search, bool* proven) const;

 private:
  void add_machines();
  void add_modes();
  void add_capacity();
  void add_gangs();
  void add_times();
  void add_limits();
  [[nodiscard]] Purchase purchase_of(const LinearProgram::Solution& solution) const;
  /// USD of one machine until the horizon but its price.
  [[nodiscard]] double keeping_usd(const Offer& offer) const;

  const PurchaseProblem& problem_;
  Seconds horizon_;
  bool possible_ = true;
  LinearProgram program_;
  std::vector<std::size_t> machine_;  ///< variable by offer; rented: hours
  std::vector<std::optional<std::size_t>> mode_;
  std::vector<LinearProgram::Term> spend_;
};

}  // namespace tracecast::plan
