#include "calibrate/device/experiment.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "calibrate/device/device.hpp"
#include "calibrate/device/experiment_kernels.hpp"
#include "calibrate/device/fake_device.hpp"
#include "hwspecs/loaders/gpu_loader.hpp"

namespace tracecast::calibrate {
namespace {

const GpuSpec& v100() {
  static const GpuCatalog catalog = GpuCatalog::embedded();
  return catalog.find("v100_sxm2_16gb");
}

TEST_SUITE_BEGIN("calibrate/device/experiment");

TEST_CASE("work is the direct method's operations and each operand once") {
  struct Row {
    const char* what;
    Experiment experiment;
    double flops, bytes;
  };
  const Row rows[] = {
      {"2 of 3x5x7: 2*2*3*5*7; 2*(3*7 + 7*5 + 3*5) floats",
       {GemmShape{.batch = 2, .m = 3, .n = 5, .k = 7}, Precision::Fp32},
       420,
       4 * 142.0},
      {"int8: operands of 1 byte, results of 4",
       {GemmShape{.m = 3, .n = 5, .k = 7}, Precision::Int8},
       210,
       21 + 35 + 4 * 15.0},
      {"1x1 convolution of 2x8x4x4 to 16: 2*2*16*16*8; 256 + 512 + 128 halves",
       {ConvolutionShape{.shape = {.n = 2, .c = 8, .h = 4, .w = 4, .k = 16, .p = 4, .q = 4}},
        Precision::Fp16},
       8192,
       2 * 896.0},
      {"add of two: 10 operations, 3 * 10 floats",
       {ElementwiseShape{"add", 10, 2}, Precision::Fp32},
       10,
       120},
      {"a copy within the device reads and writes",
       {CopyShape{CopyDirection::DeviceToDevice, true, 100}, Precision::Fp32},
       0,
       200},
      {"adam: reads weight, gradient, two moments, writes three",
       {OptimizerShape{true, 10}, Precision::Fp32},
       120,
       4 * 70.0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const ExperimentWork work = work_of(row.experiment);
    CHECK(work.flops.in_flop() == doctest::Approx(row.flops));
    CHECK(work.bytes.in_bytes() == doctest::Approx(row.bytes));
  }
}

TEST_CASE("experiments that differ in anything have different names") {
  const ConvolutionShape conv{.shape = {.n = 2, .c = 8, .h = 4, .w = 4, .k = 16, .p = 4, .q = 4}};
  ConvolutionShape backward = conv, nhwc = conv, winograd = conv, grouped = conv;
  backward.pass = Pass::BackwardData;
  nhwc.layout = ImageLayout::Nhwc;
  winograd.algorithm = Algorithm::WinogradFused;
  grouped.shape.groups = 2;
  const Experiment all[] = {
      {conv, Precision::Fp32},
      {conv, Precision::Fp16},
      {backward, Precision::Fp32},
      {nhwc, Precision::Fp32},
      {winograd, Precision::Fp32},
      {grouped, Precision::Fp32},
      {RowsShape{true, 8, 8}},
      {RowsShape{false, 8, 8}},
      {BatchNormShape{.training = true}},
      {BatchNormShape{.training = false}},
      {CopyShape{.pinned = true}},
      {CopyShape{.pinned = false}},
      {GemmShape{.transpose_a = true}},
      {GemmShape{.transpose_b = true}},
      {GemmShape{.batch = 2}},
      {LaunchShape{1}},
      {LaunchShape{2}},
  };
  std::set<std::string> names;
  for (const Experiment& experiment : all) CHECK(names.insert(describe(experiment)).second);
}

TEST_CASE("experiments with kernels have an expected time, copies and launches have none") {
  const CostProfile& profile = default_cost_profile();
  CHECK(expected_time({GemmShape{.m = 512, .n = 512, .k = 512}}, v100(), profile));
  CHECK(expected_time({EmbeddingShape{1000, 512, 5000}}, v100(), profile));
  CHECK(expected_time({OptimizerShape{true, 1000}}, v100(), profile));
  CHECK(expected_time({RecurrentShape{.hidden = 256, .batch = 16, .steps = 10}}, v100(), profile));
  CHECK_FALSE(expected_time({CopyShape{}}, v100(), profile));
  CHECK_FALSE(expected_time({LaunchShape{}}, v100(), profile));
}

TEST_CASE("coordinates of one class have one length") {
  for (const Pass pass : {Pass::Forward, Pass::BackwardData, Pass::BackwardWeights}) {
    const ConvolutionShape one{.pass = pass, .algorithm = Algorithm::Fft};
    const ConvolutionShape two{.layout = ImageLayout::Nhwc, .algorithm = Algorithm::None};
    CHECK(coordinates_of({one, Precision::Fp16}).size() == coordinates_of({two}).size());
  }
}

TEST_CASE("throttle reasons that spoil are reported from the power cap") {
  CHECK_FALSE(ThrottleReasons{.power_cap = true}.spoils());
  CHECK(ThrottleReasons{.thermal = true}.spoils());
  CHECK(ThrottleReasons{.power_brake = true}.spoils());
  CHECK(ThrottleReasons{.other_slowdown = true}.spoils());
  CHECK(ThrottleReasons{}.text() == "none");
}

TEST_CASE("a rehearsal answers the same for the same seed, and otherwise for another") {
  const Experiment experiment{GemmShape{.m = 512, .n = 512, .k = 512}};
  const auto first = [&](std::uint64_t seed) {
    FakeDevice device(rehearsal_truth(v100(), default_cost_profile()), {}, seed);
    return std::get<DeviceRun>(device.run(experiment, 1, 5)).durations;
  };
  CHECK(first(1) == first(1));
  CHECK(first(1) != first(2));
}

TEST_CASE("a rehearsal hides its ceiling and its memory's efficiency") {
  const FakeTruth truth = rehearsal_truth(v100(), default_cost_profile());
  CHECK(truth.profile.clock.ceiling ==
        doctest::Approx(default_cost_profile().clock.ceiling * kRehearsalCeiling));
}

}  // namespace
}  // namespace tracecast::calibrate
