// Work: ResNet-152, batch 64, one training step: build, training graph, lowering, pricing,
// simulation, metrics.
#include "hwspecs/loaders/gpu_loader.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/step/prediction.hpp"
#include "tests/bench/bench.hpp"
#include "tests/support/specs.hpp"

int main(int argc, char** argv) {
  using namespace tracecast;
  const int repeats = bench::is_smoke(argc, argv) ? 1 : 21;

  const GpuCatalog catalog = GpuCatalog::embedded();
  const GpuSpec& gpu = catalog.find("v100_sxm2_16gb");
  const CostProfile& profile = default_cost_profile();
  for (const char* framework : {"tensorflow", "pytorch"}) {
    bench::Stopwatch whole;
    std::size_t num_kernels = 0;
    for (int repeat = 0; repeat <= repeats; ++repeat) {
      if (repeat > 0 || repeats == 1) whole.start();  // the first one warms up
      const NetworkGraph graph = make_step_graph(
          build_network("resnet152", {.batch = 64, .training = true}), Phase::Train, {});
      const Prediction prediction = predict_step(
          {.graph = graph, .gpu = gpu, .cost = profile, .framework = find_framework(framework)});
      if (repeat > 0 || repeats == 1) whole.stop();
      num_kernels = prediction.program.kernels.size();
      bench::check(prediction.step_time_s.value > 0.05 && prediction.step_time_s.value < 5,
                   "ResNet-152 takes a fraction of a second");
    }
    whole.print(std::string("predict_resnet152_training_") + framework, "kernel",
                static_cast<double>(num_kernels));
  }
}
