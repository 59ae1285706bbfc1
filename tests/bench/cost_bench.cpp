// Work: price every candidate of every op of ResNet-152 training (PyTorch lowering, batch 64) and
// choose.
#include "sim/cost/price.hpp"

#include <cmath>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "models/lowering/lower.hpp"
#include "models/training.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/bench/bench.hpp"
#include "tests/support/specs.hpp"

int main(int argc, char** argv) {
  using namespace tracecast;
  const int repeats = bench::is_smoke(argc, argv) ? 1 : 21;

  const GpuCatalog catalog = GpuCatalog::embedded();
  const GpuSpec& gpu = catalog.find("v100_sxm2_16gb");
  const CostProfile& profile = default_cost_profile();
  const NetworkGraph network = build_network("resnet152", {.batch = 64, .training = true});
  const NetworkGraph graph = make_training_graph(network, {});
  const LoweredStep step = lower(graph, find_framework("pytorch"), gpu, {});

  std::size_t num_kernels = 0;
  for (const LoweredOp& op : step.ops) {
    for (const Candidate& candidate : op.candidates) num_kernels += candidate.kernels.size();
  }
  bench::Stopwatch each, choices;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    Seconds sum{};
    each.start();
    for (const LoweredOp& op : step.ops) {
      for (const Candidate& candidate : op.candidates) {
        for (const Kernel& kernel : candidate.kernels) {
          sum = sum + cost::estimate(kernel, gpu, profile).duration;
        }
      }
    }
    each.stop();
    bench::check(std::isfinite(sum.in_s()) && sum > Seconds(0.0), "every price is finite");

    Seconds chosen{};
    choices.start();
    for (const LoweredOp& op : step.ops) {
      if (!op.candidates.empty()) chosen = chosen + cost::choose(op, gpu, profile).duration;
    }
    choices.stop();
    bench::check(chosen > Seconds(0.0) && chosen <= sum, "the chosen are among the priced");
  }
  each.print("estimate_resnet152_training", "kernel", static_cast<double>(num_kernels));
  choices.print("choose_resnet152_training", "op", static_cast<double>(step.ops.size()));
}
