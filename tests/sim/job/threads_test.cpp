#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "sim/job/many_gpus.hpp"
#include "sim/job/predictor.hpp"

// CPU threads that load for one or several GPUs of a host.
namespace tracecast {
namespace {

const Predictor& on_all_hosts() {
  static const Predictor one(Hardware::embedded());
  return one;
}

double share_of(const std::vector<StepPart>& parts, const std::string& name) {
  double share = 0, all = 0;
  for (const StepPart& part : parts) {
    all += part.time.in_s();
    if (part.name == name) share += part.time.in_s();
  }
  return share / all;
}

TEST_SUITE_BEGIN("job/threads");

TEST_CASE(
    "more CPU threads are never slower, and the share of waiting is that of the critical path") {
  const char* const frameworks[] = {"tensorflow", "pytorch", "mxnet", "caffe"};
  const char* const networks[] = {"alexnet", "resnet50"};
  bool waited = false, sated = false;
  for (const char* framework : frameworks) {
    for (const char* network : networks) {
      for (const std::int64_t gpus : {1, 2}) {
        for (const std::int64_t batch : {32, 128}) {
          double before = 0;
          for (const std::int64_t threads : {1, 2, 4, 8, 12, 16, 20, 24, 28, 32}) {
            CAPTURE(framework);
            CAPTURE(network);
            CAPTURE(gpus);
            CAPTURE(batch);
            CAPTURE(threads);
            Job job{.network = network,
                    .batch = batch,
                    .software = {.framework = framework},
                    .data = "imagenet"};
            Place place{.gpu = "v100_pcie_16gb",
                        .machine = "s_ibm_pod",
                        .gpus = gpus,
                        .cpu_threads = threads};
            const Forecast forecast = on_all_hosts().predict(job, place);
            const double now = forecast.throughput_samples_per_s.value;
            CHECK(now >= 0.98 * before);
            before = std::max(before, now);
            const auto* many = std::get_if<ManyGpusDetails>(forecast.details.get());
            if (many == nullptr) continue;
            REQUIRE(many->prediction.input.has_value());
            const InputUse& use = *many->prediction.input;
            CHECK(use.waiting == doctest::Approx(share_of(forecast.by_cause, "waiting for input")));
            CHECK(use.cpu_threads == threads);
            CHECK(use.busy_threads <= threads);
            // No more comes out than goes in.
            CHECK(now / static_cast<double>(gpus) <=
                  1.001 * static_cast<double>(batch) / use.supply.in_s());
            waited |= use.waiting > 0.5;
            sated |= use.waiting < 0.02;
          }
        }
      }
    }
  }
  CHECK(waited);
  CHECK(sated);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
