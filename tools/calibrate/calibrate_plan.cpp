#include "tools/calibrate/calibrate_plan.hpp"

#include <fmt/format.h>

#include "calibrate/collect/plan.hpp"
#include "calibrate/device/experiment_kernels.hpp"
#include "calibrate/device/fake_device.hpp"
#include "sim/step/interval.hpp"
#include "tools/command/output.hpp"
#include "tools/command/subcommand.hpp"

namespace tracecast {

int run_plan(const CalibratePlanOptions& options) {
  using namespace calibrate;
  const Hardware hardware = load_hardware(options.sources);
  const GpuSpec& gpu = hardware.gpus().find(options.gpu);
  FakeDevice device(rehearsal_truth(gpu, hardware.cost()), {}, 1);
  const Plan plan = make_plan(device, options.quick ? PlanSize::Quick : PlanSize::Full);
  std::string text = "experiment,class,precision,predicted_us,low_us,high_us\n";
  for (const PlannedExperiment& planned : plan.experiments) {
    const Experiment& experiment = planned.experiment;
    text += fmt::format("{},{},{},", csv_field(describe(experiment)),
                        to_string(class_of(experiment)), to_string(experiment.precision));
    if (const auto expected = expect(experiment, gpu, hardware.cost())) {
      const Interval time = interval90(expected->time.in_us(), expected->log_sd);
      text += fmt::format("{:.6g},{:.6g},{:.6g}\n", time.value, time.low, time.high);
    } else {
      text += ",,\n";
    }
  }
  write_report(text);
  return kExitDone;
}

}  // namespace tracecast
