#include <CLI/CLI.hpp>

#include <memory>

#include "tools/calibrate_measure.hpp"
#include "tools/subcommand.hpp"

namespace tracecast {

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
  verb->callback([measure, &exit_code] { exit_code = run_measure(*measure); });
}

}  // namespace tracecast
