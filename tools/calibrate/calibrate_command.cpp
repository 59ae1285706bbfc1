#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "sim/base/error.hpp"
#include "tools/calibrate/calibrate_fit.hpp"
#include "tools/calibrate/calibrate_measure.hpp"
#include "tools/calibrate/calibrate_plan.hpp"
#include "tools/command/output.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/report/page.hpp"

namespace tracecast {
namespace {

void add_plan(CLI::App& subcommand, int& exit_code) {
  auto options = std::make_shared<CalibratePlanOptions>();
  CLI::App* plan =
      subcommand.add_subcommand("plan", "List what would be measured, and what is expected");
  plan->add_option("--for", options->gpu, "GPU, which need not be here")
      ->required()
      ->type_name("ID");
  plan->add_flag("--quick", options->quick, "The quick plan");
  add_source_options(*plan, options->sources);
  plan->callback([options, &exit_code] { exit_code = run_plan(*options); });
}

void add_measure_options(CLI::App& subcommand, MeasureOptions& measure) {
  subcommand.add_flag("--quick", measure.quick, "One minute: sustained rates, bandwidth, floors");
  subcommand
      .add_option("--budget", measure.budget, "Stop in time, go on at the next call: 90s, 8m")
      ->type_name("TIME");
  subcommand.add_option("--out", measure.out, "Folder, or profile file *.textproto")
      ->type_name("PATH");
  subcommand.add_option("--gpu", measure.gpu, "Which of the machine's GPUs, from 0")
      ->type_name("INDEX")
      ->check(CLI::Range(0, 1023));
  subcommand.add_option("--spec", measure.spec, "Id of its spec, where its name does not say it")
      ->type_name("ID");
  subcommand
      .add_option("--rehearse", measure.rehearse, "Play the calibration of a GPU that is not here")
      ->type_name("ID");
  subcommand.add_option("--seed", measure.seed, "Of the rehearsal's noise")->type_name("N");
}

void add_fit_options(CLI::App& subcommand, FitCommandOptions& fit) {
  subcommand.add_option("--from", fit.from, "Fit tables (or folders of them), no GPU needed")
      ->type_name("TABLE");
  subcommand.add_option("--id", fit.id, "Id of that profile")
      ->type_name("ID")
      ->capture_default_str();
  subcommand.add_option("--title", fit.title, "Its title")->type_name("TEXT");
  subcommand.add_option("--date", fit.date, "Date of the fit instead of today")
      ->type_name("YYYY-MM-DD");
  subcommand.add_flag(
      "--from-priors", fit.from_priors,
      "Begin with what is believed before any measurement, and not with the profile");
  subcommand.add_flag("--no-uncertainty", fit.no_uncertainty,
                      "Keep the expected errors: no refits for them");
  add_report_option(subcommand, fit.report);
  subcommand.add_flag("--list-refused", fit.list_refused, "Name every refused row");
}

void add_check(CLI::App& subcommand, int& exit_code) {
  auto options = std::make_shared<FitCommandOptions>();
  CLI::App* check =
      subcommand.add_subcommand("check", "Refit with one part left out, and judge that part");
  check->add_option("--from", options->from, "Tables of measured kernels, or folders of them")
      ->required()
      ->type_name("TABLE");
  check
      ->add_option("--leave-out", options->leave_out,
                   "gpu (its chip), board, generation (all its boards), class, range, all-but-one")
      ->type_name("WHAT")
      ->capture_default_str()
      ->check(CLI::IsMember({"gpu", "board", "generation", "class", "range", "all-but-one"}));
  check->add_option("--only", options->only, "Leave out this one only; may be repeated")
      ->type_name("ID")
      ->allow_extra_args(false);
  check->add_option("--min-us", options->min_us, "Rows judged: of at least this time")
      ->type_name("US")
      ->capture_default_str();
  check->add_flag(
      "--errors", options->learn_errors,
      "Learn expected errors, too, from the rows that stay; else those of before any measurement");
  check->add_option("--profiles", options->profiles, "Keep the profile of each refit here")
      ->type_name("DIR");
  add_report_option(*check, options->report);
  add_source_options(*check, options->sources);
  add_format_option(*check, options->format);
  check->footer("Example: tracecast calibrate check --from data/kernels --only t4");
  check->callback([options, &exit_code] { exit_code = run_check(*options); });
}

}  // namespace

void add_calibrate_command(CLI::App& app, int& exit_code) {
  auto measure = std::make_shared<MeasureOptions>();
  auto fit = std::make_shared<FitCommandOptions>();
  CLI::App* subcommand = app.add_subcommand(
      "calibrate", "Measure this machine's GPU, or take tables, and fit the cost profile");
  add_measure_options(*subcommand, *measure);
  add_fit_options(*subcommand, *fit);
  add_source_options(*subcommand, measure->sources);
  add_plan(*subcommand, exit_code);
  add_format_option(*subcommand, fit->format);
  add_check(*subcommand, exit_code);
  subcommand->footer("Example: tracecast calibrate --from data/kernels --out mine.textproto");
  subcommand->callback([measure, fit, subcommand, &exit_code] {
    if (!subcommand->get_subcommands().empty()) return;
    if (measure->rehearse.empty())
      refuse_given(*subcommand, {"--seed"}, "no --rehearse",
                   "--rehearse ID, which alone has noise");
    if (fit->from.empty()) {
      refuse_given(*subcommand,
                   {"--id", "--title", "--date", "--no-uncertainty", "--from-priors",
                    "--list-refused", "--report"},
                   "no --from", "--from TABLE, whose fit these describe");
      if (fit->format != "text") {
        throw InputError("--format", fit->format, "text, or tables to fit with --from");
      }
      exit_code = run_measure(*measure);
      return;
    }
    refuse_given(*subcommand, {"--quick", "--budget", "--gpu", "--spec", "--rehearse", "--seed"},
                 "--from, which measures nothing", "a GPU to measure, without --from");
    fit->out = measure->out;
    refuse_standard_output("--out", fit->out);
    fit->sources = measure->sources;
    exit_code = run_fit(*fit);
  });
}

}  // namespace tracecast
