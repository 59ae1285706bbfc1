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

Json matrix_json(const PlanReport& report) {
  Json list = Json::array();
  for (const plan::MatrixCell& cell : report.matrix.cells) {
    list.push_back(
        {{"job", report.jobs[cell.job].id},
         {"place", fmt::format("{} x {}", cell.gang, cell.gpu)},
         {"gpu", cell.gpu},
         {"machine", cell.machine},
         {"gpus", cell.gang},
         {"unit", report.jobs[cell.job].serving ? "requests" : "samples"},
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

Json machines_json(const PlanReport& report, const plan::Purchase& plan) {
  Json list = Json::array();
  for (std::size_t o = 0; o < plan.machines.size(); ++o) {
    if (plan.machines[o] == 0) continue;
    const plan::Offer& offer = report.problem.offers[o];
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

Json bill_json(const PlanReport& report, const plan::Purchase& plan) {
  const plan::PurchaseBill& bill = plan.bill;
  return {{"machines", machines_json(report, plan)},
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

Json assignment_json(const PlanReport& report, const plan::Purchase& plan) {
  Json list = Json::array();
  for (std::size_t k = 0; k < plan.assigned.size(); ++k) {
    if (plan.assigned[k] == 0) continue;
    const plan::Mode& mode = report.problem.modes[k];
    Json row{{"job", report.jobs[mode.job].id},
             {"count", plan.assigned[k]},
             {"machine", report.problem.offers[mode.offer].id},
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

Json residences_json(const PlanReport& report) {
  Json list = Json::array();
  for (const plan::PlanResidence& residence : report.confirmation->residences) {
    const plan::Mode& mode = report.problem.modes[residence.mode];
    list.push_back({{"job", report.jobs[mode.job].id},
                    {"number", residence.number},
                    {"machine", report.problem.offers[mode.offer].id},
                    {"gpus", mode.gang},
                    {"begin_s", residence.begin.in_s()},
                    {"end_s", residence.end.in_s()}});
  }
  return list;
}

Json odds_json(const plan::PlanOdds& odds) {
  return {{"probability_best", odds.best},
          {"probability_within_limits", odds.holds},
          {"objective_low", odds.objective_low},
          {"objective_high", odds.objective_high}};
}

void add_winner(const PlanReport& report, Json& doc) {
  const plan::Purchase& winner = *report.winner;
  Json plan = bill_json(report, winner);
  plan["assignment"] = assignment_json(report, winner);
  plan["usable_gpu_time"] = report.problem.usable;
  plan["makespan_s"] =
      report.confirmation ? report.confirmation->makespan.in_s() : winner.bill.makespan.in_s();
  plan["in_time"] = !report.confirmation || report.confirmation->in_time;
  if (report.confirmation) plan["schedule"] = residences_json(report);
  doc["plan"] = std::move(plan);
  doc["runners_up"] = Json::array();
  std::size_t p = 1;
  for (const plan::RunnerUp& runner : report.runners) {
    Json entry{{"what", runner.what}, {"why", runner.why}};
    entry["plan"] = runner.plan ? bill_json(report, *runner.plan) : Json();
    if (runner.plan && p < report.robustness.plans.size())
      entry.update(odds_json(report.robustness.plans[p++]));
    doc["runners_up"].push_back(std::move(entry));
  }
  doc["worlds"] = report.robustness.worlds;
  doc.update(odds_json(report.robustness.plans.front()));
  const auto& best = report.robustness.measurement;
  doc["most_useful_measurement"] =
      best ? Json{{"job", report.jobs[report.matrix.cells[best->cell].job].id},
                  {"gpu", report.matrix.cells[best->cell].gpu},
                  {"gpus", report.matrix.cells[best->cell].gang},
                  {"share_of_uncertainty", best->settles}}
           : Json();
  doc["prices_that_matter"] = Json::array();
  for (const plan::PriceChange& price : report.prices)
    doc["prices_that_matter"].push_back({{"machine", price.offer}, {"factor", price.factor}});
  doc["effects_of_limits"] = Json::array();
  for (const plan::LimitEffect& effect : report.effects) {
    doc["effects_of_limits"].push_back({{"limit", effect.limit},
                                        {"more", effect.step},
                                        {"given", effect.given},
                                        {"used", effect.used},
                                        {"objective", if_known(effect.objective)},
                                        {"gain", effect.gain}});
  }
}

}  // namespace

std::string plan_json(const PlanReport& report) {
  Json doc{{"schema", fmt::format("tracecast.plan/{}", kSchema)}, {"version", kVersion}};
  doc["inputs"] = Json::array();
  for (const InputRecord& input : report.inputs)
    doc["inputs"].push_back(
        {{"kind", input.kind}, {"name", input.name}, {"sha256", input.sha256.text()}});
  doc["seed"] = report.seed;
  doc["goal"] = plan::to_string(report.goal);
  doc["catalogue"] = {{"id", report.catalogue.id},
                      {"date", report.catalogue.date},
                      {"is_embedded", report.is_embedded}};
  doc["matrix"] = matrix_json(report);
  doc["plan"] = Json();
  doc["proven"] = report.proven;
  if (report.winner) add_winner(report, doc);
  doc["binding_limits"] = Json::array();
  for (const plan::BindingLimit& limit : report.binding) {
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
  for (const plan::LimitEffect& effect : report.effects) {
    if (effect.gain > 1e-6 && effect.step == "10 %")
      doc["binding_limits"].push_back({{"limit", effect.limit},
                                       {"given", effect.given},
                                       {"used", effect.used},
                                       {"gain_of_10_percent", effect.gain}});
  }
  doc["jobs_without_place"] = report.nowhere;
  return json_text(doc) + "\n";
}

}  // namespace tracecast
