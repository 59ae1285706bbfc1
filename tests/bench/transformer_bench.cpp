// Work: a training step of GPT-3 175B on 10,000 A100 (8-way tensor, 10 stages, 125-way data
// parallel): fabric with its routes, layers priced, collectives planned, schedule simulated.
#include "hwspecs/collective_library.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/parallel/transformer/step.hpp"
#include "tests/bench/bench.hpp"
#include "tests/support/specs.hpp"

int main(int argc, char** argv) {
  using namespace tracecast;
  const int repeats = bench::is_smoke(argc, argv) ? 1 : 7;

  const TransformerLayout layout = *find_network("gpt3_175b")->transformer;
  const TrainingSoftware& software = find_training_software("megatron");
  const CollectiveLibrary library = find_collective_library("nccl");
  bench::Stopwatch whole;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    if (repeat > 0 || repeats == 1) whole.start();  // the first one warms up
    const Fabric fabric = build_fabric(uniform_cluster("dgx_a100", 8, 1250, "a100_sxm4_80gb"),
                                       SpecLibrary::embedded());
    const ParallelPlan plan = resolve_plan({.tensor = 8,
                                            .pipeline = 10,
                                            .micro_batch = 1,
                                            .global_batch = 3000,
                                            .tokens = 2048,
                                            .zero = 1,
                                            .sequence_parallel = true},
                                           layout, 10000);
    const TransformerPrediction p =
        predict_transformer({.layout = layout,
                             .plan = plan,
                             .software = software,
                             .framework = find_framework(software.framework),
                             .fabric = fabric,
                             .library = library,
                             .cost = default_cost_profile()});
    if (repeat > 0 || repeats == 1) whole.stop();
    bench::check(p.mfu > 0.1 && p.mfu < 0.9, "a large step reaches some tenths of the peak");
  }
  whole.print("predict_gpt3_175b_training", "gpu", 10000);
}
