// What libraries take as scratch when memory is nearly full.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/step/memory/caching_allocator.hpp"
#include "sim/step/prediction.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

TEST_SUITE_BEGIN("sim/step/scratch_choice");

TEST_CASE("an allocator has room in a free block, and in what it can give back") {
  CachingAllocator allocator(512, 20 * kMiB, 100 * kMiB);
  CHECK(allocator.has_room(100 * kMiB));
  CHECK_FALSE(allocator.has_room(101 * kMiB));
  const auto kept = allocator.allocate(40 * kMiB);
  const auto gone = allocator.allocate(50 * kMiB);
  CHECK_FALSE(allocator.has_room(50 * kMiB));
  CHECK_FALSE(allocator.has_room(3 * kMiB));  // would take a segment of 20 MiB; 10 are left
  CHECK(allocator.has_room(10 * kMiB));
  allocator.release(gone);
  CHECK(allocator.has_room(50 * kMiB));  // as it lies
  CHECK(allocator.has_room(60 * kMiB));  // given back first
  CHECK_FALSE(allocator.has_room(61 * kMiB));
  allocator.release(kept);
  CHECK(allocator.has_room(100 * kMiB));
}

TEST_CASE("each op is asked for its scratch when its tensors lie in memory") {
  GraphBuilder builder("three", 1);
  const TensorId x = builder.input("x", {1, 100});
  const TensorId h = builder.linear_layer("h", x, 50, false);
  const TensorId y = builder.linear_layer("y", h, 10, false);
  builder.graph().outputs = {y};
  const NetworkGraph graph = std::move(builder).take();
  GpuSpec gpu;
  gpu.memory = Bytes(30000);
  FrameworkProfile framework;
  framework.memory.allocator_block = Bytes(1);
  const StepLives lives = find_lives(graph, framework, gpu, {});
  // Weights 4 (100 x 50 + 50 x 10), input 400; then h 200, y 40.
  const double live[] = {22600, 22640};
  const auto chosen =
      choose_scratch(lives, framework, gpu, CostProfile{},
                     [](OpId op, const auto&) { return Bytes(1000.0 * (op.index + 1)); });
  REQUIRE(chosen.size() == 2);
  CHECK(chosen[0] == Bytes(1000));
  CHECK(chosen[1] == Bytes(2000));
  // Of a share of the device, byte for byte.
  std::size_t asked = 0;
  framework.memory.pool_fraction = 1;
  (void)choose_scratch(lives, framework, gpu, CostProfile{},
                       [&](OpId, const std::function<bool(Bytes)>& room) {
                         const double left = 30000 - live[asked++];
                         CHECK(room(Bytes(left)));
                         CHECK_FALSE(room(Bytes(left + 1)));
                         return Bytes(left);
                       });
  CHECK(asked == 2);
}

/// Samples a second of a training step; 0: does not fit.
double rate(const char* network, const GpuSpec& gpu, const char* framework, PrecisionMode precision,
            std::int64_t batch) {
  const NetworkGraph step = make_step_graph(build_network(network, {.batch = batch}), Phase::Train,
                                            {.optimizer = "momentum"});
  const Prediction prediction = predict_step({.graph = step,
                                              .gpu = gpu,
                                              .cost = binary().cost(),
                                              .framework = find_framework(framework),
                                              .precision = precision});
  return prediction.memory.fits ? prediction.throughput_samples_per_s.value : 0;
}

TEST_CASE("throughput does not collapse while the step still fits") {
  const GpuCatalog gpus = GpuCatalog::embedded();
  struct Row {
    const char* network;
    const char* gpu;
    const char* framework;
    PrecisionMode precision;
    std::int64_t from, by;
  };
  const Row rows[] = {
      {"vgg16", "t4", "pytorch", PrecisionMode::Amp, 160, 16},
      {"vgg16", "v100_sxm2_16gb", "pytorch", PrecisionMode::Amp, 160, 16},
      {"vgg16", "v100_sxm2_16gb", "tensorflow", PrecisionMode::Fp32, 64, 16},
      {"vgg16", "k80", "pytorch", PrecisionMode::Fp32, 64, 8},
      {"resnet50", "t4", "pytorch", PrecisionMode::Fp32, 80, 16},
      {"alexnet", "p100_pcie_16gb", "pytorch", PrecisionMode::Fp32, 1024, 512},
  };
  // What Winograd's transforms spare, about half of the multiplications once they are paid for, is
  // lost at most.
  constexpr double kMostLost = 0.5;
  for (const Row& row : rows) {
    CAPTURE(row.network);
    CAPTURE(row.gpu);
    CAPTURE(row.framework);
    double best = 0;
    int fitting = 0;
    for (std::int64_t batch = row.from; batch <= row.from + 24 * row.by; batch += row.by) {
      const double now = rate(row.network, gpus.find(row.gpu), row.framework, row.precision, batch);
      if (now == 0) break;
      CAPTURE(batch);
      CHECK(now > (1 - kMostLost) * best);
      best = std::max(best, now);
      ++fitting;
    }
    CHECK(fitting > 2);
  }
}

/// What a step's ops take that a library has several algorithms for, on a GPU of so much memory;
/// nothing: it does not fit.
std::optional<Seconds> time_of_choices(const NetworkGraph& step, const GpuSpec& gpu,
                                       const FrameworkProfile& framework, PrecisionMode precision,
                                       Bytes* largest = nullptr) {
  const Prediction prediction = predict_step({.graph = step,
                                              .gpu = gpu,
                                              .cost = binary().cost(),
                                              .framework = framework,
                                              .precision = precision});
  Seconds time{};
  const auto& ops = prediction.priced.lowered->ops;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].candidates.size() < 2) continue;
    time += prediction.priced.choices[i].duration;
    for (const Candidate& candidate : ops[i].candidates) {
      if (largest != nullptr && candidate.workspace <= ops[i].workspace_limit)
        *largest = max(*largest, candidate.workspace);
    }
  }
  return prediction.memory.fits ? std::optional(time) : std::nullopt;
}

TEST_CASE("where memory is short a step is as fast as with any lower bound on scratch") {
  const GpuCatalog gpus = GpuCatalog::embedded();
  struct Row {
    const char* network;
    const char* gpu;
    const char* framework;
    PrecisionMode precision;
    std::int64_t batch;
  };
  const Row rows[] = {
      {"vgg16", "t4", "pytorch", PrecisionMode::Amp, 128},
      {"vgg16", "v100_sxm2_16gb", "pytorch", PrecisionMode::Fp32, 64},
      {"vgg16", "k80", "pytorch", PrecisionMode::Fp32, 64},
      {"alexnet", "p100_pcie_16gb", "pytorch", PrecisionMode::Fp32, 512},
      {"resnet50", "t4", "pytorch", PrecisionMode::Fp32, 32},
  };
  for (const Row& row : rows) {
    CAPTURE(row.network);
    CAPTURE(row.gpu);
    const NetworkGraph step = make_step_graph(build_network(row.network, {.batch = row.batch}),
                                              Phase::Train, {.optimizer = "momentum"});
    const FrameworkProfile framework = find_framework(row.framework);
    GpuSpec gpu = gpus.find(row.gpu);
    gpu.memory = Bytes(1e12);
    Bytes largest{};
    REQUIRE(time_of_choices(step, gpu, framework, row.precision, &largest));
    const Bytes needed = predict_step({.graph = step,
                                       .gpu = gpu,
                                       .cost = binary().cost(),
                                       .framework = framework,
                                       .precision = row.precision})
                             .memory.needed;
    // Ever less memory than the fastest algorithms need.
    int fitting = 0;
    for (double share = 0.98; share > 0.5; share *= 0.94) {
      gpu.memory = needed * share;
      CAPTURE(share);
      const auto best = time_of_choices(step, gpu, framework, row.precision);
      if (!best) break;
      ++fitting;
      for (Bytes cap = largest; cap > Bytes(1 << 24); cap = cap * 0.5) {
        CAPTURE(cap.in_bytes());
        FrameworkProfile bounded = framework;
        bounded.convolutions.workspace_limit = min(framework.convolutions.workspace_limit, cap);
        const auto other = time_of_choices(step, gpu, bounded, row.precision);
        if (other) CHECK(*best <= *other * (1 + 1e-9));
      }
    }
    CHECK(fitting > 0);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
