#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/command/interval_json.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/version.hpp"
#include "tools/plan/plan_report.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;
constexpr double kSecondsPerHour = 3600;

Json if_known(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json matrix_json(const PlanAnswer& answer) {
  Json list = Json::array();
  for (const plan::MatrixCell& cell : answer.matrix.cells) {
    list.push_back(
        {{"job", answer.jobs[cell.job].id},
         {"place", fmt::format("{} x {}", cell.gang, cell.gpu)},
         {"gpu", cell.gpu},
         {"machine", cell.machine},
         {"gpus", cell.gang},
         {"unit", answer.jobs[cell.job].serving ? "requests" : "samples"},
         {"samples_per_s", cell.refused.empty() ? interval_json(cell.samples_per_s) : Json()},
         {"basis", cell.refused.empty() ? Json(cell.basis) : Json()},
         {"memory_needed_bytes", cell.needed.in_bytes()},
         {"memory_capacity_bytes", cell.capacity.in_bytes()},
         {"fits", cell.fits},
         {"power_w", cell.power ? Json(cell.power->in_w()) : Json()},
         {"refused", cell.refused.empty() ? Json() : Json(cell.refused)}});
  }
  return list;
}

Json machines_json(const PlanAnswer& answer, const plan::Purchase& plan) {
  Json list = Json::array();
  for (std::size_t o = 0; o < plan.machines.size(); ++o) {
    if (plan.machines[o] == 0) continue;
    const plan::Offer& offer = answer.problem.offers[o];
    list.push_back({{"machine", offer.id},
                    {"count", plan.machines[o]},
                    {"gpu", offer.gpu},
                    {"gpus_each", offer.gpus},
                    {"tenure", plan::to_string(offer.tenure)},
                    {"machine_hours", plan.rented_hours[o]},
                    {"utilization", plan.bill.use[o]}});
  }
  return list;
}

Json bill_json(const PlanAnswer& answer, const plan::Purchase& plan) {
  const plan::PurchaseBill& bill = plan.bill;
  return {{"machines", machines_json(answer, plan)},
          {"cost_usd", bill.cost_usd()},
          {"spend_usd", bill.spend_usd()},
          {"hardware_usd", bill.hardware_usd},
          {"charged_usd", bill.charged_usd},
          {"rent_usd", bill.rent_usd},
          {"energy_usd", bill.energy_usd},
          {"hosting_usd", bill.hosting_usd},
          {"energy_kwh", bill.energy_kwh},
          {"power_kw", bill.power.in_w() / 1000},
          {"rack_units", bill.rack_units},
          {"horizon_s", plan.horizon.in_s()},
          {"gpu_time_makespan_s", bill.makespan.in_s()},
          {"objective", plan.objective},
          {"gap", plan.gap}};
}

Json assignment_json(const PlanAnswer& answer, const plan::Purchase& plan) {
  Json list = Json::array();
  for (std::size_t k = 0; k < plan.assigned.size(); ++k) {
    if (plan.assigned[k] == 0) continue;
    const plan::Mode& mode = answer.problem.modes[k];
    Json row{{"job", answer.jobs[mode.job].id},
             {"count", plan.assigned[k]},
             {"machine", answer.problem.offers[mode.offer].id},
             {"gpus", mode.gang},
             {"time_s", mode.time.in_s()}};
    if (mode.served) {
      row["replicas"] = mode.served->gangs;
      row["requests_per_s"] = mode.served->asked_per_s;
      row["borne_per_replica_per_s"] = mode.served->borne_per_s;
    }
    list.push_back(std::move(row));
  }
  return list;
}

Json stays_json(const PlanAnswer& answer) {
  Json list = Json::array();
  for (const plan::PlanStay& stay : answer.confirmation->stays) {
    const plan::Mode& mode = answer.problem.modes[stay.mode];
    list.push_back({{"job", answer.jobs[mode.job].id},
                    {"number", stay.number},
                    {"machine", answer.problem.offers[mode.offer].id},
                    {"gpus", mode.gang},
                    {"begin_s", stay.begin.in_s()},
                    {"end_s", stay.end.in_s()}});
  }
  return list;
}

Json odds_json(const plan::PlanOdds& odds) {
  return {{"probability_best", odds.best},
          {"probability_within_limits", odds.holds},
          {"objective_low", odds.objective_low},
          {"objective_high", odds.objective_high}};
}

void add_winner(const PlanAnswer& answer, Json& doc) {
  const plan::Purchase& winner = *answer.winner;
  Json plan = bill_json(answer, winner);
  plan["assignment"] = assignment_json(answer, winner);
  plan["usable_gpu_time"] = answer.problem.usable;
  plan["makespan_s"] =
      answer.confirmation ? answer.confirmation->makespan.in_s() : winner.bill.makespan.in_s();
  plan["in_time"] = !answer.confirmation || answer.confirmation->in_time;
  if (answer.confirmation) plan["schedule"] = stays_json(answer);
  doc["plan"] = std::move(plan);
  doc["runners_up"] = Json::array();
  std::size_t p = 1;
  for (const plan::RunnerUp& runner : answer.runners) {
    Json entry{{"what", runner.what}, {"why", runner.why}};
    entry["plan"] = runner.plan ? bill_json(answer, *runner.plan) : Json();
    if (runner.plan && p < answer.robustness.plans.size())
      entry.update(odds_json(answer.robustness.plans[p++]));
    doc["runners_up"].push_back(std::move(entry));
  }
  doc["worlds"] = answer.robustness.worlds;
  doc.update(odds_json(answer.robustness.plans.front()));
  const auto& best = answer.robustness.measurement;
  doc["most_useful_measurement"] =
      best ? Json{{"job", answer.jobs[answer.matrix.cells[best->cell].job].id},
                  {"gpu", answer.matrix.cells[best->cell].gpu},
                  {"gpus", answer.matrix.cells[best->cell].gang},
                  {"share_of_doubt", best->settles}}
           : Json();
  doc["prices_that_matter"] = Json::array();
  for (const plan::PriceChange& price : answer.prices)
    doc["prices_that_matter"].push_back({{"machine", price.offer}, {"factor", price.factor}});
  doc["effects_of_limits"] = Json::array();
  for (const plan::LimitEffect& effect : answer.effects) {
    doc["effects_of_limits"].push_back({{"limit", effect.limit},
                                        {"more", effect.step},
                                        {"given", effect.given},
                                        {"used", effect.used},
                                        {"objective", if_known(effect.objective)},
                                        {"gain", effect.gain}});
  }
}

}  // namespace

std::string plan_json(const PlanAnswer& answer) {
  Json doc{{"schema", fmt::format("tracecast.plan/{}", kSchema)}, {"version", kVersion}};
  doc["inputs"] = Json::array();
  for (const InputRecord& input : answer.inputs)
    doc["inputs"].push_back(
        {{"kind", input.kind}, {"name", input.name}, {"sha256", input.sha256.text()}});
  doc["seed"] = answer.seed;
  doc["goal"] = plan::to_string(answer.goal);
  doc["catalogue"] = {{"id", answer.catalogue.id},
                      {"date", answer.catalogue.date},
                      {"is_embedded", answer.is_embedded}};
  doc["matrix"] = matrix_json(answer);
  doc["plan"] = Json();
  doc["proven"] = answer.proven;
  if (answer.winner) add_winner(answer, doc);
  doc["binding_limits"] = Json::array();
  for (const plan::BindingLimit& limit : answer.binding) {
    const bool hours = limit.limit == "deadline";
    doc["binding_limits"].push_back({{"limit", limit.limit},
                                     {"unit", limit.limit == "budget"  ? "usd"
                                              : limit.limit == "power" ? "kw"
                                              : hours                  ? "h"
                                                                       : "rack_units"},
                                     {"given", limit.given},
                                     {"needed", if_known(limit.needed)}});
  }
  // Of a plan: the limits whose loosening gains.
  for (const plan::LimitEffect& effect : answer.effects) {
    if (effect.gain > 1e-6 && effect.step == "10 %")
      doc["binding_limits"].push_back({{"limit", effect.limit},
                                       {"given", effect.given},
                                       {"used", effect.used},
                                       {"gain_of_10_percent", effect.gain}});
  }
  doc["jobs_without_place"] = answer.nowhere;
  return json_text(doc) + "\n";
}

}  // namespace tracecast
