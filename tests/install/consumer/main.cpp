#include <cstdio>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/framework_profile.hpp"
#include "hwspecs/gpu_loader.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/cluster/prediction.hpp"

/// What a user of the libraries writes: a network, a GPU, a framework; a prediction.
int main() {
  using namespace tracecast;
  const GpuCatalog gpus = GpuCatalog::embedded();
  const NetworkGraph step =
      make_step_graph(build_network("alexnet", {.batch = 32, .training = true}), Phase::Train,
                      {.optimizer = "sgd"});
  const Prediction prediction = predict({.graph = step,
                                         .gpu = gpus.find("t4"),
                                         .cost = default_cost_profile(),
                                         .framework = find_framework("pytorch")});
  const double samples_per_s = prediction.throughput_samples_per_s.value;
  std::printf("%.0f samples/s\n", samples_per_s);
  return samples_per_s > 0 ? 0 : 1;
}
