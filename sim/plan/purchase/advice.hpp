#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sim/plan/purchase/purchase.hpp"

namespace tracecast::plan {

/// Another plan, and why it lost.
struct RunnerUp {
  std::string what;              ///< "without server_h100", "only bought", "only server_l4"
  std::optional<Purchase> plan;  ///< nothing: none within the limits
  std::string why;               ///< in figures
};
/// The best plans that differ from `winner`, by objective; behind them those that no plan within
/// the limits is of.
[[nodiscard]] std::vector<RunnerUp> runners_up(const PurchaseProblem& problem,
                                               const PurchaseSearch& search, const Purchase& winner,
                                               std::size_t most);

/// What more of a limit is worth, by solving again.
struct LimitEffect {
  std::string limit;                ///< "budget", "power", "rack", "deadline"
  std::string step;                 ///< "1,000 USD", "10 %"
  double given = 0, used = 0;       ///< USD, kW, rack units, hours
  std::optional<double> objective;  ///< with that much more; nothing: not found
  double gain = 0;                  ///< of the objective, at least 0
};
[[nodiscard]] std::vector<LimitEffect> effects_of_limits(const PurchaseProblem& problem,
                                                         const PurchaseSearch& search,
                                                         const Purchase& winner);

/// A limit that keeps any plan from being: what would do, all else as it is.
struct BindingLimit {
  std::string limit;  ///< "memory", "budget", "power", "rack", "deadline", "all"
  double given = 0;
  std::optional<double> needed;  ///< USD, kW, rack units, hours; nothing: no value would do alone
};
/// Each limit that alone could be loosened to let a plan be, by how much; of none: an entry "all".
[[nodiscard]] std::vector<BindingLimit> limits_that_bind(const PurchaseProblem& problem);

/// A price at which the best runner-up would win.
struct PriceChange {
  std::string offer;
  double factor = 1;  ///< of its price, above 1: dearer
};
[[nodiscard]] std::vector<PriceChange> prices_that_matter(const PurchaseProblem& problem,
                                                          const Purchase& winner,
                                                          const Purchase& rival);

}  // namespace tracecast::plan
