#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hwspecs/library.hpp"
#include "hwspecs/loaders/gpu_loader.hpp"
#include "hwspecs/software/framework_kernels.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/step/prediction.hpp"
#include "sim/step/prepared_step.hpp"

namespace tracecast {
namespace {

std::shared_ptr<const NetworkGraph> training_step(const char* network, std::int64_t batch) {
  return std::make_shared<const NetworkGraph>(make_step_graph(
      build_network(network, {.batch = batch, .training = true}), Phase::Train, {}));
}

FrameworkProfile slower_host(FrameworkProfile framework) {
  framework.host.dispatch_per_op *= 2;
  framework.host.step_overhead *= 2;
  if (framework.compiler) framework.compiler->argument *= 2;
  return framework;
}

void check_same(const Prediction& a, const Prediction& b) {
  CHECK(a.step_time_s.value == b.step_time_s.value);
  CHECK(a.step_time_s.high == b.step_time_s.high);
  CHECK(a.power.avg == b.power.avg);
  CHECK(a.power.max == b.power.max);
  CHECK(a.memory.needed == b.memory.needed);
  CHECK(a.memory.device_used == b.memory.device_used);
  CHECK(a.sm_efficiency == b.sm_efficiency);
  CHECK(a.num_kernels == b.num_kernels);
}

TEST_SUITE_BEGIN("sim/step/prepared_step");

TEST_CASE("a step prepared for one GPU answers for others of its traits as their own would") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const GpuSpec& gpu = catalog.find("v100_sxm2_16gb");
  for (const char* network : {"vgg16", "bert_base", "lstm_wikitext2"}) {
    // 256 images of VGG-16 fit the larger board alone, or with small workspaces.
    const auto graph = training_step(network, network[0] == 'v' ? 256 : 8);
    for (const char* id : {"pytorch", "tensorflow", "tensorflow_xla"}) {
      const FrameworkProfile& framework = SpecLibrary::embedded().find_framework(id);
      const FrameworkProfile slow = slower_host(framework);
      for (const PrecisionMode mode : {PrecisionMode::Fp32, PrecisionMode::Amp}) {
        const auto prepared = prepare_step(*graph, framework, gpu, {.precision = mode});
        for (const char* other : {"v100_sxm2_16gb", "v100_pcie_32gb"}) {
          CAPTURE(network);
          CAPTURE(id);
          CAPTURE(other);
          PredictRequest request{.graph = *graph,
                                 .gpu = catalog.find(other),
                                 .cost = default_cost_profile(),
                                 .framework = slow,
                                 .precision = mode};
          const Prediction own = predict_step(request);
          const bool fits = step_fits(request);
          request.prepared = prepared;
          check_same(own, predict_step(request));
          CHECK(plan_step_memory(request).needed == own.memory.needed);
          CHECK(step_fits(request) == fits);
        }
      }
    }
  }
}

TEST_CASE("a step is prepared once for all that are alike, and anew for what is not") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const auto graph = training_step("alexnet", 4);
  const GpuTraits volta(catalog.find("v100_sxm2_16gb"));
  const FrameworkProfile& pytorch = SpecLibrary::embedded().find_framework("pytorch");
  PreparedSteps steps;
  const auto first = steps.of(graph, pytorch, volta, {});
  CHECK(steps.of(graph, pytorch, catalog.find("v100s_pcie_32gb"), {}) == first);
  CHECK(steps.of(graph, slower_host(pytorch), volta, {}) == first);
  CHECK(steps.of(graph, pytorch, catalog.find("t4"), {}) != first);
  CHECK(steps.of(graph, pytorch, volta, {.precision = PrecisionMode::Amp}) != first);
  CHECK(steps.of(graph, pytorch, volta, {.keeps_gradients = true}) != first);
  FrameworkProfile older = pytorch;
  older.convolutions.cudnn_version = 6;
  CHECK(steps.of(graph, older, volta, {}) != first);
  CHECK(steps.of(training_step("alexnet", 4), pytorch, volta, {}) != first);
  CHECK(steps.of(graph, pytorch, volta, {}) == first);
}

TEST_CASE("threads that share prepared steps get one and the same") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const auto graph = training_step("alexnet", 4);
  const FrameworkProfile& pytorch = SpecLibrary::embedded().find_framework("pytorch");
  PreparedSteps steps;
  std::vector<std::shared_ptr<const PreparedStep>> found(4);
  std::vector<std::thread> threads;
  for (auto& step : found) {
    threads.emplace_back(
        [&] { step = steps.of(graph, pytorch, catalog.find("v100_sxm2_16gb"), {}); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& step : found) CHECK(step == found.front());
}

TEST_CASE(
    "frameworks differ in the host alone where costs, errors and words are all that differs") {
  const FrameworkProfile& pytorch = SpecLibrary::embedded().find_framework("pytorch");
  CHECK(differ_in_host_alone(pytorch, pytorch));
  CHECK(differ_in_host_alone(pytorch, slower_host(pytorch)));
  const std::vector<std::string> ids = SpecLibrary::embedded().framework_ids();
  for (const std::string& id : ids) {
    const FrameworkProfile& profile = SpecLibrary::embedded().find_framework(id);
    CHECK(differ_in_host_alone(profile, slower_host(profile)));
    FrameworkProfile other = profile;
    other.fusion.bias = !other.fusion.bias;
    CHECK_FALSE(differ_in_host_alone(profile, other));
    other = profile;
    other.memory.allocator_block += Bytes(512);
    CHECK_FALSE(differ_in_host_alone(profile, other));
    if (!profile.compiler) continue;
    other = profile;
    other.compiler->merges_siblings = !other.compiler->merges_siblings;
    CHECK_FALSE(differ_in_host_alone(profile, other));
    other.compiler.reset();
    CHECK_FALSE(differ_in_host_alone(profile, other));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
