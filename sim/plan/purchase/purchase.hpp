#pragma once
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/plan/purchase/catalogue.hpp"

namespace tracecast::plan {

/// What a plan has to keep to; nothing: no limit.
struct PurchaseLimits {
  std::optional<double>
      budget_usd;  ///< purchases in full, rent, energy and hosting until the horizon
  std::optional<Watts>
      power;  ///< of owned and bought machines at work, switches with them, before PUE
  std::optional<int> rack_units;
  std::optional<Seconds> deadline;  ///< the horizon: every job is done by then
};

enum class PurchaseGoal {
  Cost,        ///< until the horizon
  Makespan,    ///< least horizon
  CostPerJob,  ///< machines are charged until the last job is done, whatever the deadline leaves
};
[[nodiscard]] std::string_view to_string(PurchaseGoal goal);

/// Jobs that are alike, as the program sees them.
struct Demand {
  int count = 1;
  Seconds arrival{};
  std::optional<Seconds> deadline;
  std::vector<std::size_t> after;
};

/// Replicas that answer requests together.
struct ServedGangs {
  double asked_per_s = 0, borne_per_s = 0;  ///< by all; by one, as predicted
  int gangs = 1, gpus = 1;                  ///< replicas, and GPUs of all of them
  /// Share of the replicas that are needed if each bears exp(error) times the predicted.
  [[nodiscard]] double needed_share(double error) const;
};

/// One way to run a job: on a gang of GPUs of machines of one offer.
struct Mode {
  std::size_t job = 0, offer = 0;
  int gang = 1;
  Seconds time{};         ///< of the whole job
  Joules extra_energy{};  ///< of the whole job, over idle machines
  std::optional<ServedGangs>
      served{};  ///< of a job that serves: `gang` is all of its GPUs, for all of its time
};

/// The purchase as a mixed integer program.
///   machines n_o whole, jobs x_k of mode k whole, horizon T
///   sum over k of j of x_k = count_j
///   sum over k of o of gang_k time_k x_k <= gpus_o n_o (T - delivery_o)        owned and bought,
///   rented where `most` is few n_o >= ceil(gang_k / gpus_o) y_k,  x_k <= count y_k gangs over
///   several machines start_j + sum of time_k x_k <= min(deadline_j, T), start_j >= arrival_j, ends
///   of those before it rented hours_o >= sum of machines' hours, >= the longest of its jobs spend
///   <= budget, sum load_o n_o <= power, sum rack_units_o n_o <= rack_units cost = sum n_o
///   (charge_o + hosting_o T + idle_o pue T energy price) + rent + extra energy x pue x price
/// GPU time is counted as an area: that jobs can be laid into it whole is for the simulation to
/// confirm.
struct PurchaseProblem {
  std::vector<Offer> offers;
  std::vector<Demand> jobs;
  std::vector<Mode> modes;
  Catalogue costs;  ///< its offers are not read
  PurchaseLimits limits;
  double usable =
      1;  ///< share of the GPU time that jobs may fill; below 1 where whole jobs left gaps

  [[nodiscard]] int total_jobs() const;
};

/// What machines and an assignment come to.
struct PurchaseBill {
  double hardware_usd = 0;  ///< purchases in full
  double charged_usd = 0;   ///< of them, the horizon's share
  double energy_usd = 0, hosting_usd = 0, rent_usd = 0;
  double energy_kwh = 0;  ///< with PUE, of owned and bought machines
  Watts power{};
  int rack_units = 0;
  Seconds makespan{};  ///< the later of the longest chain of jobs and the fullest offer's GPU time
  std::vector<double>
      use;  ///< by offer: share of the GPU time until the horizon; rented: of the hours paid
  [[nodiscard]] double cost_usd() const {
    return charged_usd + energy_usd + hosting_usd + rent_usd;
  }
  [[nodiscard]] double spend_usd() const {
    return hardware_usd + energy_usd + hosting_usd + rent_usd;
  }
};

/// A plan: how many of which machine, which job where.
struct Purchase {
  std::vector<int> machines;         ///< by offer; rented: most at once
  std::vector<double> rented_hours;  ///< by offer, of machines
  std::vector<int> assigned;         ///< by mode: jobs
  Seconds horizon{};
  PurchaseBill bill;
  double objective = 0;  ///< USD, seconds, or USD per job
  double gap = 0;        ///< proven: (objective - bound) / objective
};

struct PurchaseSearch {
  PurchaseGoal goal = PurchaseGoal::Cost;
  double most_seconds = 30;
  double gap = 1e-4;  ///< good enough
};

/// The best plan within the limits, with the gap that the time left; nothing: there is none, or
/// none was found in time
/// (`proven` tells). Goal Cost needs a deadline.
[[nodiscard]] std::optional<Purchase> find_purchase(const PurchaseProblem& problem,
                                                    const PurchaseSearch& search,
                                                    bool* proven = nullptr);

/// What the machines and the assignment cost until `horizon`, counted anew.
[[nodiscard]] PurchaseBill bill_of(const PurchaseProblem& problem, const std::vector<int>& machines,
                                   const std::vector<double>& rented_hours,
                                   const std::vector<int>& assigned, Seconds horizon);

}  // namespace tracecast::plan
