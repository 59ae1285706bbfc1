#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/text.hpp"
#include "sim/job/mode/serving_job.hpp"
#include "sim/job/sha256.hpp"
#include "sim/plan/purchase/remembered_cells.hpp"
#include "tools/command/amounts.hpp"
#include "tools/command/output.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/whole_number.hpp"
#include "tools/plan/fingerprint.hpp"
#include "tools/plan/measured_runs.hpp"
#include "tools/plan/plan_page.hpp"
#include "tools/plan/plan_report.hpp"
#include "tools/report/page.hpp"

namespace tracecast {
namespace {

struct Options {
  std::string report, jobs, catalogue, fleet, deadline, measured, store, goal;
  std::optional<double> budget_usd, power_kw;
  std::optional<std::int64_t> rack_units;
  double time_limit_s = 30;
  std::int64_t worlds = 400, seed = 1, threads = 0;
  SourceOptions sources;
  std::string format = "text";
};

constexpr std::uint64_t kMostSmallFile = 1 << 20;
constexpr std::size_t kMostRunners = 5;

plan::PurchaseGoal goal_of(const Options& options) {
  if (options.goal.empty())
    return options.deadline.empty() ? plan::PurchaseGoal::Makespan : plan::PurchaseGoal::Cost;
  if (options.goal == "makespan") return plan::PurchaseGoal::Makespan;
  if (options.goal == "cost_per_job") return plan::PurchaseGoal::CostPerJob;
  if (options.deadline.empty())
    throw InputError("--goal", "cost without --deadline", "--deadline 30d: what costs run until");
  return plan::PurchaseGoal::Cost;
}

void add_catalogue(const Options& options, const Hardware& hardware, PlanReport& report) {
  std::vector<plan::Offer> owned;
  if (!options.fleet.empty()) {
    owned = plan::owned_offers(read_file(options.fleet, kMostSmallFile), options.fleet,
                               hardware.gpus());
  }
  report.is_embedded = options.catalogue.empty();
  report.catalogue = report.is_embedded
                         ? plan::embedded_catalogue(hardware.gpus(), plan::Priced::Machines)
                         : plan::load_catalogue(read_file(options.catalogue, kMostSmallFile),
                                                options.catalogue, hardware.gpus());
  for (const plan::Offer& offer : report.catalogue.offers) {
    for (const plan::Offer& own : owned) {
      if (own.id == offer.id)
        throw InputError(options.fleet, "a group named \"" + own.id + "\" as an offer is",
                         "another name");
    }
  }
  report.catalogue.offers.insert(report.catalogue.offers.begin(), owned.begin(), owned.end());
}

void set_limits(const Options& options, plan::PurchaseLimits& limits) {
  limits.budget_usd = options.budget_usd;
  if (options.power_kw) limits.power = Watts(*options.power_kw * 1000);
  if (options.rack_units) limits.rack_units = static_cast<int>(*options.rack_units);
  if (!options.deadline.empty()) limits.deadline = parse_time("--deadline", options.deadline);
}

/// Jobs without a way to run, and the nearest that there is: memory that lacks least, or why there
/// is no prediction. Throws InputError where the job itself is wrong.
void find_nowhere(const Options& options, const Predictor& predictor, PlanReport& report) {
  for (std::size_t j = 0; j < report.jobs.size(); ++j) {
    const bool runs = std::any_of(report.problem.modes.begin(), report.problem.modes.end(),
                                  [j](const plan::Mode& mode) { return mode.job == j; });
    if (runs) continue;
    const plan::MatrixCell* nearest = nullptr;
    std::string refused = "no offer that its constraints allow";
    bool is_refused = false;
    for (const plan::MatrixCell& cell : report.matrix.cells) {
      if (cell.job != j || cell.only_known) continue;
      if (!cell.refused.empty()) {
        refused = cell.refused;
        is_refused = true;
      } else if (nearest == nullptr ||
                 cell.needed - cell.capacity < nearest->needed - nearest->capacity) {
        nearest = &cell;
      }
    }
    if (nearest == nullptr && is_refused && !report.jobs[j].serving) {
      try {
        predictor.check(report.jobs[j].job);
      } catch (const InputError& error) {
        throw InputError(fmt::format("{}, job \"{}\"", options.jobs, report.jobs[j].id), error);
      }
    }
    report.nowhere.push_back(
        nearest != nullptr
            ? fmt::format("memory binds: {} needs {:.2f} GiB where {}, the nearest, has {:.2f}: "
                          "{:.2f} GiB more",
                          report.jobs[j].id, nearest->needed.in_gib(), nearest->gpu,
                          nearest->capacity.in_gib(),
                          (nearest->needed - nearest->capacity).in_gib())
            : fmt::format("{} runs nowhere: {}", report.jobs[j].id, refused));
  }
}

void judge(const Options& options, const plan::PurchaseSearch& search, PlanReport& report) {
  report.runners = plan::runners_up(report.problem, search, *report.winner, kMostRunners);
  report.effects = plan::effects_of_limits(report.problem, search, *report.winner);
  std::vector<plan::Purchase> plans{*report.winner};
  for (const plan::RunnerUp& runner : report.runners)
    if (runner.plan) plans.push_back(*runner.plan);
  if (plans.size() > 1 && report.goal != plan::PurchaseGoal::Makespan)
    report.prices = plan::prices_that_matter(report.problem, plans[0], plans[1]);
  report.robustness =
      plan::judge_plans(report.problem, report.goal, plans, report.matrix, report.cell_of_mode,
                        static_cast<std::size_t>(options.worlds), report.seed);
}

void add_inputs(const Options& options, const Hardware& hardware, PlanReport& report) {
  const auto add = [&](std::string_view kind, const std::string& file) {
    if (file.empty()) return;
    report.inputs.push_back(
        {std::string(kind), std::filesystem::path(file).filename().string(), sha256_of_file(file)});
  };
  add("jobs", options.jobs);
  add("catalogue", options.catalogue);
  add("fleet", options.fleet);
  add("measured", options.measured);
  report.inputs.push_back(hardware.cost_record());
}

int run(const Options& options) {
  check_report(options.report);
  const Hardware hardware = load_hardware(options.sources);
  PlanReport report;
  report.seed = static_cast<std::uint64_t>(options.seed);
  report.goal = goal_of(options);
  report.jobs =
      plan::load_jobs(read_file(options.jobs, kMostSmallFile), options.jobs, hardware.gpus());
  for (const plan::PlanJob& job : report.jobs) {
    if (job.serving)
      check_served_lengths(job.job.network, job.serving->input, job.serving->output,
                           fmt::format("{}, job \"{}\"", options.jobs, job.id));
  }
  if (!options.measured.empty()) {
    const auto runs = read_measured_runs(options.measured, hardware.gpus());
    if (add_runs(runs, report.jobs) == 0) say("warning: no run of --measured is of any job");
  }
  add_catalogue(options, hardware, report);
  const Predictor predictor(hardware);
  const plan::RememberedCells cells(
      predictor, options.store.empty() ? std::string() : fingerprint_of(options.sources),
      options.store, static_cast<unsigned>(options.threads));
  report.matrix = plan::make_matrix(report.jobs, report.catalogue.offers, std::cref(cells),
                                    plan::fitted_error_shares());
  if (!options.store.empty())
    say(fmt::format("{} cells, {} of them predicted now", report.matrix.cells.size(),
                    cells.predicted()));
  report.problem = plan::make_problem(report.jobs, report.catalogue, report.matrix, hardware.gpus(),
                                      report.cell_of_mode);
  set_limits(options, report.problem.limits);
  add_inputs(options, hardware, report);
  find_nowhere(options, predictor, report);
  const plan::PurchaseSearch search{.goal = report.goal, .most_seconds = options.time_limit_s};
  if (report.nowhere.empty()) {
    plan::ConfirmedPurchase found = plan::find_confirmed(report.problem, report.jobs, search);
    report.winner = std::move(found.plan);
    report.confirmation = std::move(found.confirmation);
    report.proven = found.proven;
    if (report.winner) {
      judge(options, search, report);
    } else {
      report.binding = plan::limits_that_bind(report.problem);
    }
  }
  if (!options.report.empty()) write_plan_page(report, options.report);
  write_report(options.format == "json"  ? plan_json(report)
               : options.format == "csv" ? plan_csv(report)
                                         : plan_text(report));
  const bool is_kept = report.winner && (!report.confirmation || report.confirmation->in_time);
  return is_kept ? kExitDone : kExitNo;
}

void add_limits(CLI::App& subcommand, Options& options) {
  subcommand
      .add_option("--budget", options.budget_usd,
                  "USD for purchases, rent, energy and hosting until the deadline")
      ->type_name("USD")
      ->check(number_within(0, 1e12));
  subcommand.add_option("--power-kw", options.power_kw, "Of machines and switches at work")
      ->type_name("KW")
      ->check(number_within(0, 1e6));
  subcommand.add_option("--rack-units", options.rack_units, "Room")
      ->type_name("U")
      ->check(whole_number(0, 1'000'000) & CLI::Range(0, 1'000'000));
  subcommand
      .add_option("--deadline", options.deadline, "Until when every job is done: 36h, 30d, 8w")
      ->type_name("T");
  subcommand
      .add_option("--goal", options.goal,
                  "cost (with a deadline), makespan (without), or cost_per_job: machines are "
                  "charged until the last job ends")
      ->type_name("G")
      ->check(CLI::IsMember({"cost", "makespan", "cost_per_job"}));
}

}  // namespace

void add_plan_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* subcommand =
      app.add_subcommand("plan", "What to buy or rent for these jobs, and which job runs where");
  subcommand->add_option("jobs", options->jobs, "Jobs, as tools/manual/jobs.textproto")
      ->required()
      ->type_name("FILE");
  subcommand
      ->add_option("--catalogue", options->catalogue,
                   "Machines with prices, as tools/manual/catalogue.textproto; default: the dated "
                   "one in the program")
      ->type_name("FILE");
  subcommand
      ->add_option("--fleet", options->fleet, "Machines that are owned: they are used as well")
      ->type_name("FILE");
  subcommand
      ->add_option("--measured", options->measured,
                   "Runs that were timed: network,gpu,samples_per_s and others; they correct the "
                   "prediction of the same job elsewhere")
      ->type_name("FILE");
  add_limits(*subcommand, *options);
  subcommand->add_option("--store", options->store, "Keep predictions in this file between runs")
      ->type_name("FILE");
  subcommand->add_option("--threads", options->threads, "That predict; 0: all")
      ->type_name("N")
      ->check(whole_number(0, 1024) & CLI::Range(0, 1024));
  subcommand
      ->add_option("--time-limit", options->time_limit_s, "Of one search, s; the gap is reported")
      ->type_name("S")
      ->check(number_within(0.1, 86400));
  subcommand->add_option("--worlds", options->worlds, "Drawn from the intervals")
      ->type_name("N")
      ->check(whole_number(10, 1'000'000) & CLI::Range(10, 1'000'000));
  subcommand->add_option("--seed", options->seed, "Of the worlds")
      ->type_name("SEED")
      ->check(whole_number(0, 1'000'000'000) & CLI::Range(0, 1'000'000'000));
  add_report_option(*subcommand, options->report);
  add_source_options(*subcommand, options->sources);
  add_format_option(*subcommand, options->format);
  subcommand->footer(
      "Example: tracecast plan jobs.textproto --budget 250000 --power-kw 40 --deadline 30d");
  subcommand->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace tracecast
