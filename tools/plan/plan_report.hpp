#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sim/job/input_record.hpp"
#include "sim/plan/purchase/advice.hpp"
#include "sim/plan/purchase/confirm.hpp"
#include "sim/plan/purchase/job_list.hpp"
#include "sim/plan/purchase/matrix.hpp"
#include "sim/plan/purchase/robustness.hpp"

namespace tracecast {

/// Everything that `plan` answers.
struct PlanReport {
  std::vector<plan::PlanJob> jobs;
  plan::Catalogue catalogue;  ///< owned machines first
  bool is_embedded = false;   ///< nobody gave a catalogue
  plan::PlanMatrix matrix;
  plan::PurchaseProblem problem;
  std::vector<std::size_t> cell_of_mode;
  plan::PurchaseGoal goal = plan::PurchaseGoal::Cost;
  std::optional<plan::Purchase> winner;
  bool proven = true;
  std::optional<plan::Confirmation> confirmation;
  std::vector<plan::RunnerUp> runners;
  std::vector<plan::LimitEffect> effects;
  std::vector<plan::PriceChange> prices;
  plan::Robustness robustness;
  std::vector<plan::BindingLimit> binding;  ///< where there is no winner
  std::vector<std::string> nowhere;         ///< jobs that run on none of the offers, and why
  std::vector<InputRecord> inputs;
  std::uint64_t seed = 0;
};

/// "2 x server_a30, 1 x aws_p4d for 40 machine hours", or "nothing".
[[nodiscard]] std::string machines_text(const PlanReport& report, const plan::Purchase& plan);
[[nodiscard]] std::string plan_text(const PlanReport& report);
[[nodiscard]] std::string plan_json(const PlanReport& report);
/// The assignment, one row per job and mode.
[[nodiscard]] std::string plan_csv(const PlanReport& report);

}  // namespace tracecast
