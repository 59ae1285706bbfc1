#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include "sim/job/resolved_job.hpp"

namespace tracecast {
namespace {

/// Training throughput with ImageNet on a P100 and `threads` CPU threads.
double throughput(const Hardware& hardware, const char* network, std::int64_t batch, int threads,
                  const char* framework = "tensorflow") {
  PlacedJob options;
  options.network = network;
  options.gpu = "p100";
  options.batch = batch;
  options.software.framework = framework;
  options.data = "imagenet";
  options.cpu_threads = threads;
  const ResolvedJob job = make_job(options, hardware);
  return predict(job, hardware).throughput_samples_per_s.value;
}

TEST_SUITE_BEGIN("validation/input_study");

/// IBM Research, impact of system resources on DNN performance, about 2018: ratios of throughput on
/// a host whose CPUs are not named. Nothing was fitted to them. Bound: 0.10, ten points.
TEST_CASE("CPU threads and batch size change throughput as in the IBM study") {
  const Hardware hardware = load_hardware({});
  const auto gain = [&](const char* network, std::int64_t batch, int threads,
                        std::int64_t base_batch, int base_threads) {
    return throughput(hardware, network, batch, threads) /
           throughput(hardware, network, base_batch, base_threads);
  };
  struct Row {
    const char* what;
    double published, predicted;
  };
  const Row rows[] = {
      {"AlexNet, batch 64, 8 to 30 threads", 1.28, gain("alexnet", 64, 30, 64, 8)},
      {"VGG-16, batch 64, 8 to 30 threads", 1.03, gain("vgg16", 64, 30, 64, 8)},
      {"AlexNet, 30 threads, batch 64 to 128", 1.20, gain("alexnet", 128, 30, 64, 30)},
      {"Inception-v3, 30 threads, batch 64 to 128", 1.05, gain("inception_v3", 128, 30, 64, 30)},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    std::printf("%-42s published %.2f predicted %.2f\n", row.what, row.published, row.predicted);
    CHECK(row.predicted == doctest::Approx(row.published).epsilon(0.10));
  }
  // The network that needs most images per second gains most.
  CHECK(rows[0].predicted > rows[1].predicted);
}

TEST_CASE("Caffe's VGG-16 on one GPU gains nothing beyond four CPU threads") {
  const Hardware hardware = load_hardware({});
  const double at_four = throughput(hardware, "vgg16", 64, 4, "caffe");
  CHECK(throughput(hardware, "vgg16", 64, 30, "caffe") == doctest::Approx(at_four).epsilon(0.02));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
