#include "tools/plan/plan_report.hpp"
#include "tools/command/cell.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/command/csv.hpp"
#include "tools/command/output.hpp"

namespace tracecast {
namespace {

constexpr double kHour = 3600;

std::string money(double usd) { return fmt::format("{:.0f} USD", usd); }

std::string objective_text(const PlanReport& report, double value) {
  return report.goal == plan::PurchaseGoal::Makespan     ? fmt::format("{:.1f} h", value / kHour)
         : report.goal == plan::PurchaseGoal::CostPerJob ? fmt::format("{:.2f} USD a job", value)
                                                         : money(value);
}

void add_purchase(std::string& page, const PlanReport& report) {
  const plan::Purchase& plan = *report.winner;
  const plan::PurchaseBill& bill = plan.bill;
  add_line(page, "Plan", machines_text(report, plan));
  add_line(page, "Cost",
           fmt::format("{} until {:.1f} h: machines {:.0f} (of {:.0f} paid), rent {:.0f}, energy "
                       "{:.0f}, hosting {:.0f}",
                       money(bill.cost_usd()), plan.horizon.in_s() / kHour, bill.charged_usd,
                       bill.hardware_usd, bill.rent_usd, bill.energy_usd, bill.hosting_usd));
  add_line(page, "Takes",
           fmt::format("{:.1f} kW, {} rack units, {:.0f} kWh", bill.power.in_w() / 1000,
                       bill.rack_units, bill.energy_kwh));
  if (report.confirmation) {
    add_line(page, "Done after",
             fmt::format("{:.1f} h, simulated job by job{}; GPU time alone: {:.1f} h",
                         report.confirmation->makespan.in_s() / kHour,
                         report.confirmation->in_time ? "" : ": too late",
                         bill.makespan.in_s() / kHour));
  }
  add_line(
      page, "Proof",
      fmt::format("no plan of this program is better by more than {:.2f} %{}", 100 * plan.gap,
                  report.problem.usable < 1
                      ? fmt::format("; jobs fill at most {:.0f} % of the GPU time, since whole "
                                    "jobs leave gaps",
                                    100 * report.problem.usable)
                      : ""));
}

void add_assignment(std::string& page, const PlanReport& report) {
  page += fmt::format("\n{:<20} {:>5} {:<22} {:>4} {:>9} {:>8} {:>6}\n", "job", "count", "machine",
                      "GPUs", "hours", "/s", "+-");
  const plan::Purchase& plan = *report.winner;
  for (std::size_t k = 0; k < plan.assigned.size(); ++k) {
    if (plan.assigned[k] == 0) continue;
    const plan::Mode& mode = report.problem.modes[k];
    const Interval& rate = report.matrix.cells[report.cell_of_mode[k]].samples_per_s;
    page +=
        fmt::format("{} {:>5} {} {:>4} {:>9} {:>8} {:>6}\n", fit(report.jobs[mode.job].id, 20),
                    plan.assigned[k], fit(report.problem.offers[mode.offer].id, 22, 27), mode.gang,
                    low_precision(mode.time.in_s() / kHour, 9), low_precision(rate.value, 8),
                    percent((rate.high - rate.low) / 2 / rate.value));
    if (mode.served) {
      const plan::ServedGangs& served = *mode.served;
      page += fmt::format("  {} replica{} for {:.3g} requests/s; the rate told is one's\n",
                          served.gangs, served.gangs == 1 ? "" : "s", served.asked_per_s);
    }
  }
  page += fmt::format("\n{:<30} {:>8} {:>6}\n", "machine", "count", "used");
  for (std::size_t o = 0; o < plan.machines.size(); ++o) {
    if (plan.machines[o] == 0) continue;
    page += fmt::format("{} {:>8} {:>6}\n", fit(report.problem.offers[o].id, 30), plan.machines[o],
                        percent(plan.bill.use[o]));
  }
}

void add_runners(std::string& page, const PlanReport& report) {
  if (report.runners.empty()) return;
  page += "\nWhat lost, and why\n";
  std::size_t p = 1;
  for (const plan::RunnerUp& runner : report.runners) {
    std::string text = runner.what + ": ";
    if (runner.plan) {
      text += machines_text(report, *runner.plan) + ", " +
              objective_text(report, runner.plan->objective) + "; " + runner.why;
      if (p < report.robustness.plans.size())
        text += fmt::format("; best in {} of the worlds", percent(report.robustness.plans[p].best));
      ++p;
    } else {
      text += runner.why;
    }
    page += "  " + wrap(text, 78, 4) + '\n';
  }
}

void add_uncertainty(std::string& page, const PlanReport& report) {
  page += "\nHow sure\n";
  const plan::Robustness& r = report.robustness;
  const plan::PlanOdds& odds = r.plans.front();
  page +=
      "  " +
      wrap(fmt::format("the winner stays the best of these plans in {} of {} worlds drawn from the "
                       "intervals, and keeps to the limits in {}; 90 % of those: {} to {}",
                       percent(odds.best), r.worlds, percent(odds.holds),
                       objective_text(report, odds.objective_low),
                       objective_text(report, odds.objective_high)),
           78, 4) +
      '\n';
  if (r.measurement) {
    const plan::MatrixCell& cell = report.matrix.cells[r.measurement->cell];
    page +=
        "  " +
        wrap(fmt::format("the run that would tell most: {} on {} x {} (goes with {} of the doubt "
                         "about the winner's lead)",
                         report.jobs[cell.job].id, cell.gang, cell.gpu,
                         percent(r.measurement->settles)),
             78, 4) +
        '\n';
  }
  for (std::size_t c = 0; c < std::min<std::size_t>(3, report.prices.size()); ++c) {
    const plan::PriceChange& price = report.prices[c];
    page +=
        "  " +
        wrap(fmt::format("{} {:.1f} % {} would make the first of the others win", price.offer,
                         100 * std::abs(price.factor - 1), price.factor > 1 ? "dearer" : "cheaper"),
             78, 4) +
        '\n';
  }
  for (const plan::LimitEffect& effect : report.effects) {
    page += "  " +
            wrap(fmt::format("{} {:.4g} (used {:.4g}); {} more: {}", effect.limit, effect.given,
                             effect.used, effect.step,
                             effect.gain > 1e-6 ? objective_text(report, effect.gain) + " less"
                                                : "no change"),
                 78, 4) +
            '\n';
  }
}

void add_impossible(std::string& page, const PlanReport& report) {
  add_line(
      page, "Plan",
      report.proven ? "none: no purchase meets the limits" : "none was found in the time given");
  for (const std::string& job : report.nowhere) page += "  " + wrap(job, 78, 4) + '\n';
  for (const plan::BindingLimit& limit : report.binding) {
    const char* unit = limit.limit == "budget"  ? "USD"
                       : limit.limit == "power" ? "kW"
                       : limit.limit == "rack"  ? "rack units"
                                                : "h";
    page += limit.needed
                ? "  " +
                      wrap(fmt::format("{} binds: {:.5g} {} where {:.5g} would do, {:.5g} more",
                                       limit.limit, limit.given, unit, *limit.needed,
                                       *limit.needed - limit.given),
                           78, 4) +
                      '\n'
                : "  no limit loosened alone would do\n";
  }
}

}  // namespace

std::string machines_text(const PlanReport& report, const plan::Purchase& plan) {
  std::string text;
  for (std::size_t o = 0; o < plan.machines.size(); ++o) {
    if (plan.machines[o] == 0) continue;
    const plan::Offer& offer = report.problem.offers[o];
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", plan.machines[o], offer.id);
    if (offer.tenure == plan::Tenure::Rented)
      text += fmt::format(" for {:.0f} machine hours", plan.rented_hours[o]);
  }
  return text.empty() ? "nothing" : text;
}

std::string plan_text(const PlanReport& report) {
  std::string page;
  int jobs = 0;
  for (const plan::PlanJob& job : report.jobs) jobs += job.count;
  add_line(page, "Jobs", fmt::format("{} of {} kinds", jobs, report.jobs.size()));
  add_line(
      page, "Prices",
      fmt::format("{}{}", report.catalogue.name,
                  report.is_embedded ? " of " + report.catalogue.date +
                                           ", partly guessed: none were given (--catalogue FILE)"
                                     : ""));
  if (!report.winner) {
    add_impossible(page, report);
    return page;
  }
  add_purchase(page, report);
  add_assignment(page, report);
  add_runners(page, report);
  add_uncertainty(page, report);
  return page;
}

std::string plan_csv(const PlanReport& report) {
  std::string text = "job,count,machine,gpu,gpus,hours,samples_per_s,low,high\n";
  if (!report.winner) return text;
  for (std::size_t k = 0; k < report.winner->assigned.size(); ++k) {
    if (report.winner->assigned[k] == 0) continue;
    const plan::Mode& mode = report.problem.modes[k];
    const Interval& rate = report.matrix.cells[report.cell_of_mode[k]].samples_per_s;
    const plan::Offer& offer = report.problem.offers[mode.offer];
    text += csv_line(report.jobs[mode.job].id, report.winner->assigned[k], offer.id, offer.gpu,
                     mode.gang, mode.time.in_s() / kHour, rate.value, rate.low, rate.high);
  }
  return text;
}

}  // namespace tracecast
