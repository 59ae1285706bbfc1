#include <doctest/doctest.h>

#include <cmath>
#include <iterator>

#include <string>

#include "calibrate/table/csv_reader.hpp"
#include "sim/job/resolved_job.hpp"
#include "tests/support/data.hpp"
#include "tools/validate/published_row.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace {

Prediction train(const char* network, const char* gpu, const char* framework, std::int64_t batch,
                 std::int64_t image_size, const Hardware& hardware) {
  PlacedJob options;
  options.network = network;
  options.gpu = gpu;
  options.software.framework = framework;
  options.phase = "train";
  options.batch = batch;
  options.image_size = image_size;
  const ResolvedJob job = make_job(options, hardware);
  return predict_step({.graph = *job.step,
                       .gpu = job.gpu,
                       .cost = hardware.cost(),
                       .framework = job.framework,
                       .precision = job.precision});
}

/// University of Wisconsin study "comparing ML hardware": ResNet-50 training on 32x32 images,
/// TensorFlow, batches of 64 and 256 (which of them the table means is not stated).
struct Board {
  const char* gpu;
  double memory_mib, power_w, idle_w, utilization;
};
constexpr Board kBoards[] = {
    {"p100_pcie_12gb", 11837, 103.78, 24, 78.75},
    {"p100_pcie_16gb", 15715, 140.14, 30, 86.14},
    {"v100_sxm2_16gb", 15772, 170.93, 55, 71.73},
    {"k40m", 11019, 120.59, 20, 75.24},
};

TEST_SUITE_BEGIN("validation/device_memory_power");

TEST_CASE("memory that nvidia-smi shows is within 2 % of the study's") {
  const Hardware hardware = load_hardware({});
  for (const Board& board : kBoards) {
    const Prediction p = train("resnet50", board.gpu, "tensorflow", 64, 32, hardware);
    const double mib = p.memory.device_used.in_mib();
    MESSAGE(std::string(board.gpu) << ": measured " << board.memory_mib << " MiB, predicted " << mib
                                   << " (" << 100 * (mib / board.memory_mib - 1) << " %)");
    CHECK(mib == doctest::Approx(board.memory_mib).epsilon(0.02));
  }
}

/// Mean power over both batches that the study trained with: it prints one figure.
double mean_training_power(const Board& board, const Hardware& hardware) {
  const Prediction small = train("resnet50", board.gpu, "tensorflow", 64, 32, hardware);
  const Prediction large = train("resnet50", board.gpu, "tensorflow", 256, 32, hardware);
  const double small_w = small.power.avg.in_w(), large_w = large.power.avg.in_w();
  // The mean over the same images at each batch.
  const double small_time = small.step_time_s.value / 64,
               large_time = large.step_time_s.value / 256;
  const double mean_w = (small_w * small_time + large_w * large_time) / (small_time + large_time);
  MESSAGE(std::string(board.gpu) << ": measured " << board.power_w << " W, predicted " << mean_w
                                 << ": " << small_w << " at batch 64, " << large_w << " at 256");
  CHECK(small.power.idle.in_w() == board.idle_w);
  CHECK(small_w <= large_w);
  return mean_w;
}

TEST_CASE("average power in training is near the study's, idle power equal") {
  const Hardware hardware = load_hardware({});
  for (const Board& board : kBoards) {
    if (std::string_view(board.gpu) == "p100_pcie_16gb") continue;  // below
    CHECK(mean_training_power(board, hardware) == doctest::Approx(board.power_w).epsilon(0.21));
  }
}

// Known miss: the study's two P100 differ by 35 % in the same training; sim/step/notes/0001.
TEST_CASE("average power in training is near the study's on P100 16 GB, and 12 % off on the mean" *
          doctest::should_fail("P100 16 GB 26 % low, the mean 12.05 %")) {
  const Hardware hardware = load_hardware({});
  double sum = 0;
  for (const Board& board : kBoards) {
    const double mean_w = mean_training_power(board, hardware);
    sum += std::abs(mean_w / board.power_w - 1);
    CHECK(mean_w == doctest::Approx(board.power_w).epsilon(0.21));
  }
  CHECK(sum / std::size(kBoards) < 0.12);
}

TEST_CASE("GPU utilisation of a Keras loop is near the study's on all boards but K40m") {
  const Hardware hardware = load_hardware({});
  for (const Board& board : kBoards) {
    const auto of_batch = [&](std::int64_t batch) {
      PlacedJob options;
      options.software.framework = "tensorflow";
      options.network = "resnet50";
      options.gpu = board.gpu;
      options.batch = batch;
      options.image_size = 32;
      options.data = "imagenet32";
      options.pipeline = "keras_arrays";
      const ResolvedJob job = make_job(options, hardware);
      return predict(job, hardware);
    };
    const Prediction small = of_batch(64), large = of_batch(256);
    const double small_time = small.step_time_s.value / 64,
                 large_time = large.step_time_s.value / 256;
    const double mean =
        (small.gpu_utilization.avg * small_time + large.gpu_utilization.avg * large_time) /
        (small_time + large_time);
    MESSAGE(std::string(board.gpu)
            << ": measured " << board.utilization << " %, predicted " << 100 * mean << ": "
            << 100 * small.gpu_utilization.avg << " at batch 64, "
            << 100 * large.gpu_utilization.avg << " at 256");
    // K40m idles for a quarter of the time, which nothing of ours explains.
    const double points = std::string(board.gpu) == "k40m" ? 22 : 12;
    CHECK(std::abs(100 * mean - board.utilization) <= points);
  }
}

TEST_CASE("average power of ResNet-50 at 224 is within 15 % of Zeus's at the highest limit") {
  const Hardware hardware = load_hardware({});
  struct Row {
    const char* gpu;
    std::int64_t batch;
    double power_w;  ///< components.csv, source Zeus (NSDI 2023), PyTorch, ResNet-50
  };
  for (const Row& row : {Row{"v100_pcie_16gb", 128, 222}, Row{"p100_pcie_16gb", 128, 165},
                         Row{"quadro_rtx6000", 16, 237}, Row{"a40", 128, 244}}) {
    const Prediction p = train("resnet50", row.gpu, "pytorch", row.batch, 224, hardware);
    MESSAGE(std::string(row.gpu) << ": measured " << row.power_w << " W, predicted "
                                 << p.power.avg.in_w());
    CHECK(p.power.avg.in_w() == doctest::Approx(row.power_w).epsilon(0.15));
  }
}

TEST_CASE("average power of published runs is within 15 % on the mean") {
  const auto path = test::find_data("published/components.csv");
  if (!path) return;
  const Hardware hardware = load_hardware({});
  CsvReader reader(*path);
  const auto table = component_tables().front().make(reader, hardware);
  const RowFields row(reader);
  double sum = 0;
  int rows = 0;
  for (int line = 0; reader.next(); ++line) {
    // Every eighth, for time: configurations stand at eight power limits and fewer.
    if (line % 8 != 0 || !is_board_power(row.text("metric"), row.text("unit"))) continue;
    const RowResult report = table->predict(reader);
    if (!report.skipped.empty()) continue;
    sum += std::abs(report.predicted.value / report.measured - 1);
    ++rows;
  }
  MESSAGE(rows << " rows, mean error " << 100 * sum / rows << " %");
  REQUIRE(rows > 80);
  CHECK(sum / rows < 0.15);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
