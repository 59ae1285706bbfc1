#include "tools/plan/plan_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/text.hpp"
#include "tools/command/output.hpp"
#include "tools/report/page.hpp"

namespace tracecast {
namespace {

constexpr double kPageHour = 3600;

/// The objective's own unit, as pages know it; `value` as plans count it.
struct ObjectiveUnit {
  const char* label;
  const char* unit;
};
ObjectiveUnit objective_unit(plan::PurchaseGoal goal) {
  switch (goal) {
    case plan::PurchaseGoal::Makespan:
      return {"Time until all is done", "s"};
    case plan::PurchaseGoal::CostPerJob:
      return {"Cost of a job", "USD"};
    case plan::PurchaseGoal::Cost:
      return {"Cost", "USD"};
  }
  return {"Cost", "USD"};
}

PageJson machines_section(const PlanReport& report) {
  const plan::Purchase& plan = *report.winner;
  PageJson section =
      new_section({.id = "machines",
                   .title = "What to buy or rent",
                   .kind = "table",
                   .text = "Use: share of the GPU time until the end; of rented ones, of the "
                           "hours paid."});
  section["columns"] = {{{"name", "machine"}},
                        {{"name", "count"}, {"unit", "count"}},
                        {{"name", "GPU"}},
                        {{"name", "GPUs each"}, {"unit", "count"}},
                        {{"name", "tenure"}},
                        {{"name", "machine hours"}, {"unit", "h"}},
                        {{"name", "use"}, {"unit", "share"}, {"bar", true}}};
  section["rows"] = PageJson::array();
  for (std::size_t o = 0; o < plan.machines.size(); ++o) {
    if (plan.machines[o] == 0) continue;
    const plan::Offer& offer = report.problem.offers[o];
    section["rows"].push_back({offer.id, plan.machines[o], offer.gpu, offer.gpus,
                               plan::to_string(offer.tenure), plan.rented_hours[o],
                               plan.bill.use[o]});
  }
  return section;
}

PageJson money_section(const plan::PurchaseBill& bill) {
  PageJson section = new_section(
      {.id = "money",
       .title = "Where the money goes",
       .kind = "bars",
       .text = fmt::format("Until the end. Of machines bought, what the time used of them: {} USD "
                           "are paid for them.",
                           three_digits(bill.hardware_usd))});
  section["unit"] = "USD";
  section["whole"] = bill.cost_usd();
  section["bars"] = PageJson::array();
  const std::pair<const char*, double> parts[] = {{"machines", bill.charged_usd},
                                                  {"rent", bill.rent_usd},
                                                  {"energy", bill.energy_usd},
                                                  {"hosting", bill.hosting_usd}};
  for (const auto& [name, usd] : parts) {
    if (usd > 0) section["bars"].push_back({{"name", name}, {"value", usd}});
  }
  return section;
}

/// Plans by cost and time; the others are runners-up with a plan.
PageJson plans_section(const PlanReport& report) {
  PageJson section = new_section(
      {.id = "plans",
       .title = "Cost against time",
       .kind = "chart",
       .text = "The winner and the plans that lost. Time is that of the fullest machines' GPUs "
               "or of the longest chain of jobs."});
  section["x"] = {{"label", "time until all is done"}, {"unit", "s"}, {"min", 0}};
  section["y"] = {{"label", "cost"}, {"unit", "USD"}, {"min", 0}};
  const auto point = [&](const plan::Purchase& plan) {
    return std::pair(plan.bill.makespan.in_s(), plan.bill.cost_usd());
  };
  const auto [x, y] = point(*report.winner);
  section["series"] = {{{"name", "winner"},
                        {"form", "points"},
                        {"x", {x}},
                        {"y", {y}},
                        {"labels", {machines_text(report, *report.winner)}}}};
  PageJson others{{"name", "lost"},
                  {"form", "points"},
                  {"x", PageJson::array()},
                  {"y", PageJson::array()},
                  {"labels", PageJson::array()}};
  for (const plan::RunnerUp& runner : report.runners) {
    if (!runner.plan) continue;
    const auto [time, cost] = point(*runner.plan);
    others["x"].push_back(time);
    others["y"].push_back(cost);
    others["labels"].push_back(runner.what + ": " + machines_text(report, *runner.plan));
  }
  if (!others["x"].empty()) section["series"].push_back(std::move(others));
  return section;
}

PageJson runners_section(const PlanReport& report) {
  const ObjectiveUnit unit = objective_unit(report.goal);
  PageJson section =
      new_section({.id = "lost",
                   .title = "What lost, and why",
                   .kind = "table",
                   .trust = fmt::format("Low and high: 90 % of {} worlds drawn from the intervals.",
                                        report.robustness.worlds)});
  section["columns"] = {{{"name", "plan"}},
                        {{"name", "machines"}},
                        {{"name", unit.label}, {"unit", unit.unit}, {"bar", true}},
                        {{"name", "low"}, {"unit", unit.unit}},
                        {{"name", "high"}, {"unit", unit.unit}},
                        {{"name", "best in"}, {"unit", "share"}},
                        {{"name", "why"}}};
  section["rows"] = PageJson::array();
  const auto add = [&](const std::string& what, const plan::Purchase& plan,
                       const plan::PlanOdds* odds, const std::string& why) {
    const auto number = [&](double plan::PlanOdds::*member) {
      return odds ? PageJson(odds->*member) : PageJson();
    };
    section["rows"].push_back(
        {what, machines_text(report, plan), plan.objective, number(&plan::PlanOdds::objective_low),
         number(&plan::PlanOdds::objective_high), number(&plan::PlanOdds::best), why});
  };
  const auto& odds = report.robustness.plans;
  add("the winner", *report.winner, odds.empty() ? nullptr : &odds.front(), "");
  std::size_t p = 1;
  for (const plan::RunnerUp& runner : report.runners) {
    if (runner.plan) {
      add(runner.what, *runner.plan, p < odds.size() ? &odds[p] : nullptr, runner.why);
      ++p;
    } else {
      section["rows"].push_back(
          {runner.what, "none", nullptr, nullptr, nullptr, nullptr, runner.why});
    }
  }
  return section;
}

PageJson assignment_section(const PlanReport& report) {
  PageJson section = new_section({.id = "assignment",
                                  .title = "Which job runs where",
                                  .kind = "table",
                                  .trust = "Low and high: 90 % interval of the rate."});
  section["columns"] = {{{"name", "job"}},
                        {{"name", "count"}, {"unit", "count"}},
                        {{"name", "machine"}},
                        {{"name", "GPUs"}, {"unit", "count"}},
                        {{"name", "time"}, {"unit", "s"}, {"bar", true}},
                        {{"name", "rate"}, {"unit", "samples/s"}},
                        {{"name", "low"}, {"unit", "samples/s"}},
                        {{"name", "high"}, {"unit", "samples/s"}},
                        {{"name", "basis"}}};
  section["rows"] = PageJson::array();
  const plan::Purchase& plan = *report.winner;
  for (std::size_t k = 0; k < plan.assigned.size(); ++k) {
    if (plan.assigned[k] == 0) continue;
    const plan::Mode& mode = report.problem.modes[k];
    const plan::MatrixCell& cell = report.matrix.cells[report.cell_of_mode[k]];
    const Interval& rate = cell.samples_per_s;
    section["rows"].push_back({report.jobs[mode.job].id, plan.assigned[k],
                               report.problem.offers[mode.offer].id, mode.gang, mode.time.in_s(),
                               rate.value, rate.low, rate.high, cell.basis});
  }
  return section;
}

/// Places by job. A place is a gang of one kind of GPU.
PageJson rates_section(const PlanReport& report) {
  PageJson section = new_section({.id = "rates",
                                  .title = "What each job does where",
                                  .kind = "heatmap",
                                  .text = "Samples a second. An empty cell says why.",
                                  .trust = "90 % interval of each in its tip."});
  std::vector<std::string> places;
  std::map<std::pair<std::size_t, std::size_t>, const plan::MatrixCell*> cells;  // place, job
  for (const plan::MatrixCell& cell : report.matrix.cells) {
    const std::string place = fmt::format("{} x {}{}{}", cell.gang, cell.gpu,
                                          cell.machine.empty() ? "" : ", ", cell.machine);
    const auto at = std::find(places.begin(), places.end(), place);
    cells[{static_cast<std::size_t>(at - places.begin()), cell.job}] = &cell;
    if (at == places.end()) places.push_back(place);
  }
  PageJson jobs = PageJson::array();
  for (const plan::PlanJob& job : report.jobs) jobs.push_back(job.id);
  for (const char* key : {"values", "low", "high", "notes"}) section[key] = PageJson::array();
  for (std::size_t p = 0; p < places.size(); ++p) {
    PageJson values = PageJson::array(), low = values, high = values, notes = values;
    for (std::size_t j = 0; j < report.jobs.size(); ++j) {
      const auto found = cells.find({p, j});
      const plan::MatrixCell* cell = found == cells.end() ? nullptr : found->second;
      const bool runs = cell != nullptr && cell->refused.empty() && cell->fits;
      values.push_back(runs ? PageJson(cell->samples_per_s.value) : PageJson());
      low.push_back(runs ? PageJson(cell->samples_per_s.low) : PageJson());
      high.push_back(runs ? PageJson(cell->samples_per_s.high) : PageJson());
      notes.push_back(cell == nullptr          ? PageJson("not asked for")
                      : !cell->refused.empty() ? PageJson(cell->refused)
                      : !cell->fits            ? PageJson("does not fit the memory")
                                               : PageJson(cell->basis));
    }
    section["values"].push_back(std::move(values));
    section["low"].push_back(std::move(low));
    section["high"].push_back(std::move(high));
    section["notes"].push_back(std::move(notes));
  }
  section["x"] = {{"label", "job"}, {"names", std::move(jobs)}};
  section["y"] = {{"label", "place"}, {"names", places}};
  section["unit"] = "samples/s";
  return section;
}

/// A track per gang at work: jobs of an offer take the first track that is free when they begin.
PageJson residences_section(const PlanReport& report) {
  struct Lane {
    std::int64_t end = 0;
    PageTrack track;
  };
  const auto milliseconds = [](Seconds time) {
    return static_cast<std::int64_t>(time.in_s() * 1e3);
  };
  std::vector<plan::PlanResidence> residences = report.confirmation->residences;
  std::stable_sort(
      residences.begin(), residences.end(),
      [](const plan::PlanResidence& a, const plan::PlanResidence& b) { return a.begin < b.begin; });
  PageWords names, classes;
  std::map<std::size_t, std::vector<Lane>> lanes;  // by offer
  for (const plan::PlanResidence& residence : residences) {
    const plan::Mode& mode = report.problem.modes[residence.mode];
    std::vector<Lane>& of_offer = lanes[mode.offer];
    const std::int64_t begin = milliseconds(residence.begin);
    auto lane = std::find_if(of_offer.begin(), of_offer.end(),
                             [&](const Lane& l) { return l.end <= begin; });
    if (lane == of_offer.end()) lane = of_offer.insert(of_offer.end(), Lane{});
    lane->end = std::max(milliseconds(residence.end), begin);
    const std::string& job = report.jobs[mode.job].id;
    const std::string name = fmt::format("{} {} on {} GPUs", job, residence.number + 1, mode.gang);
    lane->track.add(begin, lane->end - begin, names.number_of(name), classes.number_of(job));
  }
  PageJson section = new_section({.id = "schedule",
                                  .title = "Who runs when",
                                  .kind = "timeline",
                                  .text = "Simulated job by job; a track holds one gang at a "
                                          "time, a slice is a job."});
  section["tick_s"] = 1e-3;
  section["names"] = names.texts();
  section["classes"] = classes.texts();
  section["tracks"] = PageJson::array();
  for (const auto& [offer, of_offer] : lanes) {
    for (std::size_t l = 0; l < of_offer.size(); ++l)
      section["tracks"].push_back(
          of_offer[l].track.json(report.problem.offers[offer].id, fmt::format("gang {}", l + 1)));
  }
  return section;
}

/// What would change the result: limits, prices, a measurement.
PageJson changes_section(const PlanReport& report) {
  PageJson section = new_section({.id = "changes",
                                  .title = "What would change the result",
                                  .kind = "table",
                                  .text = "More of a limit, another price, or one run."});
  section["columns"] = {{{"name", "what"}}, {{"name", "effect"}}};
  section["rows"] = PageJson::array();
  const ObjectiveUnit unit = objective_unit(report.goal);
  for (const plan::LimitEffect& effect : report.effects) {
    section["rows"].push_back({fmt::format("{} {:.4g} (used {:.4g}), {} more", effect.limit,
                                           effect.given, effect.used, effect.step),
                               effect.gain > 1e-6
                                   ? fmt::format("{} {} less", three_digits(effect.gain), unit.unit)
                                   : std::string("none")});
  }
  for (const plan::PriceChange& price : report.prices) {
    section["rows"].push_back(
        {fmt::format("{} at {} of its price", price.offer, percent(price.factor)),
         "the first of the others wins"});
  }
  if (const auto& run = report.robustness.measurement) {
    const plan::MatrixCell& cell = report.matrix.cells[run->cell];
    section["rows"].push_back(
        {fmt::format("a run of {} on {} x {}", report.jobs[cell.job].id, cell.gang, cell.gpu),
         fmt::format("settles {} of the uncertainty about the winner's lead",
                     percent(run->settles))});
  }
  return section;
}

PageJson limits_section(const PlanReport& report) {
  PageJson section = new_section({.id = "limits",
                                  .title = "What keeps a plan from being",
                                  .kind = "table",
                                  .text = "Each limit alone, all else as it is."});
  section["columns"] = {
      {{"name", "limit"}}, {{"name", "given"}, {"unit", ""}}, {{"name", "would do"}, {"unit", ""}}};
  section["rows"] = PageJson::array();
  for (const plan::BindingLimit& limit : report.binding) {
    section["rows"].push_back(
        {limit.limit, limit.given, limit.needed ? PageJson(*limit.needed) : PageJson()});
  }
  for (const std::string& job : report.nowhere) section["rows"].push_back({job, nullptr, nullptr});
  return section;
}

void add_plan_headline(PageJson& page, const PlanReport& report) {
  const plan::Purchase& plan = *report.winner;
  const plan::PurchaseBill& bill = plan.bill;
  PageJson& facts = page["headline"];
  const ObjectiveUnit unit = objective_unit(report.goal);
  const auto& odds = report.robustness.plans;
  if (!odds.empty() && odds.front().holds > 0) {
    facts.push_back(page_fact(
        unit.label, {plan.objective, odds.front().objective_low, odds.front().objective_high},
        unit.unit, {}, "the goal"));
  }
  if (report.goal != plan::PurchaseGoal::Cost)
    facts.push_back(page_fact("Cost", bill.cost_usd(), "USD"));
  facts.push_back(page_fact("To spend", bill.spend_usd(), "USD", "machines in full"));
  if (report.confirmation)
    facts.push_back(page_fact("All done after", report.confirmation->makespan.in_s(), "s",
                              "simulated job by job"));
  facts.push_back(page_fact("Power", bill.power.in_w(), "W"));
  facts.push_back(page_fact("Energy", bill.energy_kwh, "kWh"));
  if (!odds.empty()) {
    facts.push_back(page_fact("Stays the best", odds.front().best, "share",
                              "of worlds drawn from the intervals"));
    facts.push_back(page_fact("Keeps to the limits", odds.front().holds, "share", "of them"));
  }
}

}  // namespace

void write_plan_page(const PlanReport& report, const std::string& file) {
  int jobs = 0;
  for (const plan::PlanJob& job : report.jobs) jobs += job.count;
  const std::string report_words =
      report.winner   ? fmt::format("{}: {} USD, all done after {} hours.",
                                    machines_text(report, *report.winner),
                                    three_digits(report.winner->bill.cost_usd()),
                                    three_digits((report.confirmation ? report.confirmation->makespan
                                                                      : report.winner->bill.makespan)
                                                     .in_s() /
                                                 kPageHour))
      : report.proven ? std::string("No purchase meets the limits.")
                      : std::string("No purchase was found in the time given.");
  PageJson page = new_page({.subcommand = "plan",
                            .title = fmt::format("What to buy for {} jobs", jobs),
                            .subtitle = fmt::format("prices: {}{}", report.catalogue.name,
                                                    report.is_embedded ? ", partly guessed" : ""),
                            .report = report_words});
  PageJson& sections = page["sections"];
  if (report.winner) {
    add_plan_headline(page, report);
    sections.push_back(machines_section(report));
    sections.push_back(money_section(report.winner->bill));
    sections.push_back(assignment_section(report));
    if (report.confirmation && !report.confirmation->residences.empty())
      sections.push_back(residences_section(report));
    sections.push_back(plans_section(report));
    sections.push_back(runners_section(report));
    sections.push_back(changes_section(report));
  } else {
    sections.push_back(limits_section(report));
  }
  if (!report.matrix.cells.empty()) sections.push_back(rates_section(report));
  add_inputs(page, report.inputs);
  write_page(std::move(page), file);
}

}  // namespace tracecast
