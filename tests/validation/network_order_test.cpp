#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "sim/job/resolved_job.hpp"

namespace tracecast {
namespace {

struct Outcome {
  double samples_per_s = 0, utilization = 0;
};

/// One cell of the University of Wisconsin study "comparing ML hardware": 32x32 images, TensorFlow.
/// 10,000 images at once run as one batch; every configuration here fits in memory that way.
Outcome run(const Hardware& hardware, const std::string& network, const std::string& gpu,
            const std::string& phase, std::int64_t batch) {
  PlacedJob options;
  options.software.framework = "tensorflow";
  options.network = network;
  options.gpu = gpu;
  options.phase = phase;
  options.batch = batch;
  options.image_size = 32;
  const ResolvedJob job = make_job(options, hardware);
  const Prediction prediction = predict_step({.graph = *job.step,
                                              .gpu = job.gpu,
                                              .cost = hardware.cost(),
                                              .framework = job.framework,
                                              .precision = job.precision});
  CHECK(prediction.memory.fits);
  return {prediction.throughput_samples_per_s.value, prediction.gpu_utilization.avg};
}

const std::vector<std::string> kGpus = {"k40m", "p100_pcie_12gb", "p100_pcie_16gb",
                                        "v100_pcie_16gb"};
const std::vector<std::string> kNetworks = {"resnet50", "resnet152", "vgg16", "vgg19"};

TEST_SUITE_BEGIN("validation/network_order");

TEST_CASE("newer GPUs are faster for every network, phase and batch of the study") {
  struct Setting {
    const char* phase;
    std::int64_t batch;
  };
  const Hardware hardware = load_hardware({});
  for (const std::string& network : kNetworks) {
    for (const Setting& setting :
         {Setting{"train", 64}, {"train", 256}, {"infer", 1}, {"infer", 10'000}}) {
      CAPTURE(network);
      CAPTURE(setting.phase);
      CAPTURE(setting.batch);
      double before = 0;
      for (const std::string& gpu : kGpus) {
        CAPTURE(gpu);
        const double now = run(hardware, network, gpu, setting.phase, setting.batch).samples_per_s;
        CHECK(now >= 0.98 * before);  // ties within 2 % where launches decide
        before = now;
      }
    }
  }
}

TEST_CASE("larger batches train faster") {
  const Hardware hardware = load_hardware({});
  for (const std::string& network : kNetworks) {
    for (const std::string& gpu : kGpus) {
      CAPTURE(network);
      CAPTURE(gpu);
      CHECK(run(hardware, network, gpu, "train", 256).samples_per_s >
            run(hardware, network, gpu, "train", 64).samples_per_s);
    }
  }
}

TEST_CASE("at batch 1 launches make ResNet-50 slower than VGG, at batch 10,000 not") {
  const Hardware hardware = load_hardware({});
  for (const std::string& gpu : kGpus) {
    for (const char* vgg : {"vgg16", "vgg19"}) {
      CAPTURE(gpu);
      CAPTURE(vgg);
      CHECK(run(hardware, "resnet50", gpu, "infer", 1).samples_per_s <
            run(hardware, vgg, gpu, "infer", 1).samples_per_s);
      CHECK(run(hardware, "resnet50", gpu, "infer", 10'000).samples_per_s >
            run(hardware, vgg, gpu, "infer", 10'000).samples_per_s);
    }
  }
}

TEST_CASE("ResNet-152 is the slowest at inference, utilisation grows with the batch") {
  const Hardware hardware = load_hardware({});
  for (const std::string& gpu : kGpus) {
    for (const std::string& network : kNetworks) {
      CAPTURE(gpu);
      CAPTURE(network);
      const Outcome one = run(hardware, network, gpu, "infer", 1);
      const Outcome many = run(hardware, network, gpu, "infer", 10'000);
      CHECK(one.utilization < many.utilization);
      CHECK(many.samples_per_s > 5 * one.samples_per_s);
      if (network != "resnet152") {
        CHECK(run(hardware, "resnet152", gpu, "infer", 1).samples_per_s < one.samples_per_s);
        CHECK(run(hardware, "resnet152", gpu, "infer", 10'000).samples_per_s < many.samples_per_s);
      }
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
