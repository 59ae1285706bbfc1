#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/text.hpp"
#include "sim/job/sha256.hpp"
#include "tools/command/output.hpp"
#include "tools/command/standard_input.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/whole_number.hpp"
#include "tools/plan/predicted_rates.hpp"
#include "tools/plan/schedule_jobs.hpp"
#include "tools/plan/schedule_report.hpp"
#include "tools/report/page.hpp"

namespace tracecast {
namespace {

struct Options {
  std::string jobs, fleet, gpu, rules = "ideal", rules_file, policy = "fifo", measure, queue_limits;
  std::int64_t gpus = 0, gpus_per_node = 0;
  double round_s = 0, jobs_per_hour = 0;
  std::vector<std::string> only, throughputs;
  std::string start_costs, per_job, trace, report, export_rates;
  bool space_sharing = false;
  std::int64_t seed = 0, draw_programs = -1;
  SourceOptions sources;
  std::string format = "text";
};

constexpr std::uint64_t kMostSmallFile = 1 << 20;

/// Board powers of types whose ids are GPUs that we know.
void add_powers(plan::Fleet& fleet, const Hardware& hardware) {
  for (plan::GpuType& type : fleet.types) {
    try {
      const GpuSpec& gpu = hardware.gpus().find(type.id);
      if (!type.busy_power && gpu.tdp.in_w() > 0) type.busy_power = gpu.tdp;
      if (!type.idle_power && gpu.idle_power.in_w() > 0) type.idle_power = gpu.idle_power;
    } catch (const InputError&) {
      // A word of the fleet's owner: no powers, and the answer has no energy.
    }
  }
}

plan::Fleet fleet_of(const Options& options, const plan::Rules& rules, const Hardware& hardware) {
  if (!options.fleet.empty() && options.gpus > 0)
    throw InputError("--fleet", "--gpus as well", "one of them");
  plan::Fleet fleet;
  if (!options.fleet.empty()) {
    fleet = plan::load_fleet(read_file(options.fleet, kMostSmallFile), options.fleet);
  } else if (options.gpus > 0) {
    const std::int64_t per_node =
        options.gpus_per_node > 0 ? options.gpus_per_node : std::min<std::int64_t>(options.gpus, 8);
    fleet = plan::uniform_fleet(options.gpus, per_node, options.gpu);
  } else if (rules.fleet) {
    fleet = *rules.fleet;
  } else {
    throw InputError("tracecast schedule", "no fleet",
                     "--fleet FILE, or --gpus N --gpus-per-node G");
  }
  if (!options.gpu.empty()) (void)hardware.gpus().find(options.gpu);
  add_powers(fleet, hardware);
  return fleet;
}

std::vector<double> queue_limits(const std::string& text) {
  std::vector<double> limits;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const auto value = parse_double(std::string_view(text).substr(at, comma - at));
    if (!value || *value <= (limits.empty() ? 0 : limits.back()))
      throw InputError("--queue-limits", '"' + text + '"', "rising GPU seconds, as 3250,7200");
    limits.push_back(*value);
    at = comma + 1;
  }
  return limits;
}

std::optional<std::pair<std::uint32_t, std::uint32_t>> measured(const std::string& text,
                                                                std::size_t jobs) {
  if (text.empty()) return std::nullopt;
  const std::string_view all(text);
  const std::size_t colon = std::min(all.find(':'), all.size());
  const long long first = parse_integer(all.substr(0, colon)).value_or(-1);
  const long long last = parse_integer(all.substr(std::min(colon + 1, all.size()))).value_or(-1);
  if (first < 0 || last < first || last >= static_cast<long long>(jobs)) {
    throw InputError("--measure", '"' + text + '"',
                     fmt::format("FIRST:LAST of the {} jobs, counted from 0", jobs));
  }
  return std::pair{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last)};
}

std::vector<InputRecord> inputs_of(const Options& options) {
  std::vector<InputRecord> inputs;
  const auto add = [&](std::string_view kind, const std::string& file) {
    if (file.empty()) return;
    const std::filesystem::path path(file);
    inputs.push_back({std::string(kind), path.filename().string(), sha256_of_file(path)});
  };
  add("jobs", options.jobs);
  add("fleet", options.fleet);
  add("rules", options.rules_file);
  for (const std::string& file : options.throughputs) add("throughputs", file);
  add("start_costs", options.start_costs);
  return inputs;
}

plan::Rules rules_of(const Options& options) {
  plan::Rules rules =
      options.rules_file.empty()
          ? plan::find_rules(options.rules)
          : plan::load_rules(read_file(options.rules_file, kMostSmallFile), options.rules_file);
  if (options.round_s > 0) {
    rules.shares_round = Seconds(options.round_s);
    rules.round = Seconds(options.round_s);
  }
  return rules;
}

/// The policies to run: one, or all that can run on what the files hold.
std::vector<ScheduleReport> run_policies(const Options& options, const ScheduleSetting& setting) {
  plan::ScheduleOptions run;
  run.space_sharing = options.space_sharing;
  run.queue_limits_gpu_s = queue_limits(options.queue_limits);
  run.measured = measured(options.measure, setting.mix.jobs.size());
  run.records_residences = !options.trace.empty() || !options.report.empty();
  run.seed = static_cast<std::uint64_t>(options.seed);
  const bool all = options.policy == "all";
  std::vector<ScheduleReport> reports;
  for (const std::string& policy : all ? plan::policy_names() : std::vector{options.policy}) {
    run.policy = policy;
    const plan::PolicyName name = plan::find_policy(policy);
    try {
      ScheduleReport report;
      report.policy = name.name + (name.space_sharing || run.space_sharing ? "_packed" : "");
      report.schedule = plan::simulate(setting.mix, setting.fleet, setting.rules, run);
      report.summary =
          plan::summarize(setting.mix, setting.fleet, report.schedule, setting.rules, run);
      reports.push_back(std::move(report));
    } catch (const InputError& error) {
      if (!all) throw;
      say("left out: " + std::string(error.what()));
    }
  }
  if (reports.empty()) throw InputError("--policy all", "no policy that can run", "another fleet");
  return reports;
}

int run(Options& options) {
  check_report(options.report);
  StandardInput input;
  input.resolve(options.jobs, kMostPipedTable);
  const Hardware hardware = load_hardware(options.sources);
  const plan::Rules rules = rules_of(options);
  const plan::Fleet fleet = fleet_of(options, rules, hardware);
  RateTables tables;
  for (const std::string& file : options.throughputs) tables.add(file);
  JobFileOptions jobs{options.jobs, options.only, {}, options.start_costs, {}};
  if (options.jobs_per_hour > 0) jobs.jobs_per_hour = options.jobs_per_hour;
  if (options.draw_programs >= 0)
    jobs.draw_programs = static_cast<std::uint64_t>(options.draw_programs);
  PredictedRates predicted(hardware);
  const plan::JobMix mix = read_job_mix(
      jobs, fleet, rules, tables, [&](const RateTables::Program& program, const std::string& type) {
        return predicted.find(program, type);
      });
  const ScheduleSetting setting{mix, fleet, rules, inputs_of(options),
                                static_cast<std::uint64_t>(options.seed)};
  if ((!options.per_job.empty() || !options.trace.empty()) && options.policy == "all")
    throw InputError("--policy", "all", "one policy beside --per-job and --trace");
  const std::vector<ScheduleReport> reports = run_policies(options, setting);
  if (!options.per_job.empty()) write_jobs_csv(options.per_job, setting, reports.front());
  if (!options.trace.empty()) write_gantt(options.trace, setting, reports.front());
  if (!options.report.empty()) write_page(schedule_page(setting, reports), options.report);
  if (!options.export_rates.empty()) write_gavel_rates(options.export_rates, setting);
  write_report(options.format == "json"  ? schedule_json(setting, reports)
               : options.format == "csv" ? schedule_csv(setting, reports)
                                         : schedule_text(setting, reports));
  return kExitDone;
}

void add_files(CLI::App& subcommand, Options& options) {
  subcommand.add_option("--per-job", options.per_job, "Write one row per job to this CSV file")
      ->type_name("FILE");
  add_report_option(subcommand, options.report);
  subcommand.add_option("--trace", options.trace, "Write a Gantt chart that ui.perfetto.dev opens")
      ->type_name("FILE");
  subcommand
      .add_option("--export-throughputs", options.export_rates,
                  "Write the rates used, in the layout of Gavel's files")
      ->type_name("FILE");
}

void add_setting(CLI::App& subcommand, Options& options) {
  subcommand
      .add_option("--fleet", options.fleet, "Fleet file: group { count: 4 gpus: 8 gpu: \"v100\" }")
      ->type_name("FILE");
  subcommand.add_option("--gpus", options.gpus, "GPUs in total, instead of a fleet file")
      ->type_name("N")
      ->check(whole_number(1, 10'000'000) & CLI::Range(1, 10'000'000));
  subcommand
      .add_option("--gpus-per-node", options.gpus_per_node,
                  "Of each machine; 8 or fewer when left out")
      ->type_name("G")
      ->check(whole_number(1, 1024) & CLI::Range(1, 1024));
  subcommand.add_option("--gpu", options.gpu, "GPU; may be left out where jobs state durations")
      ->type_name("ID");
  subcommand
      .add_option("--rules", options.rules,
                  "How a simulator counts: ideal, nearest, muri, gavel, shockwave")
      ->type_name("R")
      ->capture_default_str();
  subcommand
      .add_option("--rules-file", options.rules_file,
                  "Rules of your own (sim/plan/proto/rules.proto)")
      ->type_name("FILE");
  subcommand
      .add_option("--round", options.round_s, "Decide every so many seconds; 0: as the rules say")
      ->type_name("S")
      ->check(number_within(0, 1e9));
  subcommand.add_option("--start-costs", options.start_costs, "Table model, num_gpu, start_s")
      ->type_name("FILE");
  subcommand
      .add_option("--throughputs", options.throughputs,
                  "Measured steps per second, alone or two to a GPU; several files")
      ->type_name("FILE");
}

}  // namespace

void add_schedule_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* subcommand =
      app.add_subcommand("schedule", "A cluster's jobs, event by event, under a policy");
  subcommand
      ->add_option("jobs", options->jobs,
                   "Trace, CSV: submit_s, num_gpu, duration_s or steps; or Muri's, Gavel's ...")
      ->required()
      ->type_name("FILE");
  subcommand
      ->add_option("--policy", options->policy,
                   "all, or one: " + fmt::format("{}", fmt::join(plan::policy_names(), ", ")))
      ->type_name("P")
      ->capture_default_str();
  add_setting(*subcommand, *options);
  subcommand
      ->add_option("--queue-limits", options->queue_limits, "GPU seconds of las, as 3250,7200")
      ->type_name("A,B");
  subcommand->add_flag("--space-sharing", options->space_sharing,
                       "Two jobs share their GPUs where the throughputs say that gains");
  subcommand
      ->add_option("--jobs-per-hour", options->jobs_per_hour, "Where arrivals are in mean gaps")
      ->type_name("R")
      ->check(positive_number());
  subcommand->add_option("--measure", options->measure, "Answer for these jobs; end with the last")
      ->type_name("FIRST:LAST");
  subcommand
      ->add_option("--only", options->only, "Rows of the trace with COLUMN=VALUE; several times")
      ->type_name("C=V");
  subcommand
      ->add_option("--draw-programs", options->draw_programs,
                   "Seed: jobs without a model get a program of --throughputs at random")
      ->type_name("SEED")
      ->check(whole_number(0, 1'000'000'000) & CLI::Range(0, 1'000'000'000));
  subcommand
      ->add_option("--seed", options->seed, "Of failures, and of GPU types taken in random order")
      ->type_name("SEED")
      ->check(whole_number(0, 1'000'000'000) & CLI::Range(0, 1'000'000'000));
  add_files(*subcommand, *options);
  add_source_options(*subcommand, options->sources);
  add_format_option(*subcommand, options->format);
  subcommand->footer(
      "Example: tracecast schedule jobs.csv --gpus 64 --gpus-per-node 8 --policy srtf");
  subcommand->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace tracecast
