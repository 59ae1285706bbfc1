#include <CLI/CLI.hpp>

#include <memory>

#include "tools/calibrate_measure.hpp"
#include "tools/calibrate_plan.hpp"
#include "tools/subcommand.hpp"

namespace tracecast {
namespace {

void add_plan(CLI::App& verb, int& exit_code) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* plan = verb.add_subcommand("plan", "List what would be measured, and what is expected");
  plan->add_option("--for", options->gpu, "GPU, which need not be here")
      ->required()
      ->type_name("ID");
  plan->add_flag("--quick", options->quick, "The quick plan");
  add_source_options(*plan, options->sources);
  plan->callback([options, &exit_code] { exit_code = run_plan(*options); });
}

}  // namespace

void add_calibrate_command(CLI::App& app, int& exit_code) {
  auto measure = std::make_shared<MeasureOptions>();
  CLI::App* verb =
      app.add_subcommand("calibrate", "Measure this machine's GPU and fit the cost profile to it");
  verb->add_flag("--quick", measure->quick,
                 "About one minute: sustained rates, bandwidth, floors (else about 15)");
  verb->add_option("--budget", measure->budget,
                   "Stop in time; the same command goes on later: 90s, 8m")
      ->type_name("TIME");
  verb->add_option("--out", measure->out, "Folder, or profile file *.textproto")->type_name("PATH");
  verb->add_option("--gpu", measure->gpu, "Which of the machine's GPUs, from 0")
      ->type_name("INDEX")
      ->check(CLI::Range(0, 1023));
  verb->add_option("--spec", measure->spec, "Id of its spec, where its name does not say it")
      ->type_name("ID");
  verb->add_option("--rehearse", measure->rehearse,
                   "Play the whole calibration of a GPU that is not there")
      ->type_name("ID");
  verb->add_option("--seed", measure->seed, "Of the rehearsal's noise")->type_name("N");
  add_source_options(*verb, measure->sources);
  add_plan(*verb, exit_code);
  verb->callback([measure, verb, &exit_code] {
    if (verb->get_subcommands().empty()) exit_code = run_measure(*measure);
  });
}

}  // namespace tracecast
