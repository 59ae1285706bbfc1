#include "models/lowering/precision.hpp"

#include <doctest/doctest.h>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "models/lowering/lower.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/step/prediction.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;

namespace {

double step_s(const NetworkGraph& graph, const GpuSpec& gpu, const char* framework,
              PrecisionMode precision) {
  return predict_step({.graph = graph,
                       .gpu = gpu,
                       .cost = default_cost_profile(),
                       .framework = find_framework(framework),
                       .precision = precision})
      .step_time_s.value;
}

}  // namespace

TEST_SUITE("sim/step/precision") {
  TEST_CASE(
      "int8 inference is faster than fp32 in the same engine wherever the card has the units") {
    const NetworkGraph graph = build_network("resnet50", {.batch = 32});
    const GpuCatalog catalog = GpuCatalog::embedded();
    int with_units = 0;
    for (const GpuSpec& gpu : catalog.all()) {
      CAPTURE(gpu.id);
      const PrecisionMode runs = choose_precision(PrecisionMode::Int8, false, gpu).mode;
      const bool has_units = gpu.find_peak(Precision::Int8, MathUnit::CudaCore) ||
                             gpu.find_peak(Precision::Int8, MathUnit::TensorCore);
      // Tensor cores of 16 bits alone (Volta) are faster than dot products of 8 bits.
      const bool prefers_half = gpu.find_peak(Precision::Fp16, MathUnit::TensorCore) &&
                                !gpu.find_peak(Precision::Int8, MathUnit::TensorCore);
      CHECK((runs == PrecisionMode::Int8) == (has_units && !prefers_half));
      if (!has_units || prefers_half) continue;
      ++with_units;
      const double speedup = step_s(graph, gpu, "tensorrt", PrecisionMode::Fp32) /
                             step_s(graph, gpu, "tensorrt", runs);
      // Never more than the units allow (Winograd may save fp32 some of its work, int8 never).
      const double units = runs == PrecisionMode::Int8
                               ? std::max(gpu.find_peak(Precision::Int8, MathUnit::TensorCore),
                                          gpu.find_peak(Precision::Int8, MathUnit::CudaCore))
                                         ->in_si() /
                                     gpu.peak_fp32().in_si()
                               : 1.0;
      CHECK(speedup > (units > 8 ? 1.3 : 1.0));  // B300 has hardly any units for integers
      // Bytes are a quarter, too, and what misses L2 in 32 bits may stay there in 8.
      CHECK(speedup < 2 * std::max(units, 4.0));
    }
    CHECK(with_units >= 30);
  }

  TEST_CASE("cards without the units gain nothing from int8: fp32 runs") {
    const GpuCatalog catalog = GpuCatalog::embedded();
    for (const char* id : {"k40m", "k80", "m40", "p100_pcie_16gb"}) {
      CAPTURE(id);
      const PrecisionChoice choice = choose_precision(PrecisionMode::Int8, false, catalog.find(id));
      CHECK(choice.mode == PrecisionMode::Fp32);
      CHECK_FALSE(choice.fallback.empty());
    }
  }

  TEST_CASE("what is kept in memory follows the precision") {
    // ResNet-50 has 25.557 M parameters, nearly all in convolutions in the middle of the network.
    const NetworkGraph graph = build_network("resnet50", {.batch = 32});
    const GpuCatalog catalog = GpuCatalog::embedded();
    const auto memory = [&](const char* gpu, PrecisionMode precision) {
      return predict_step({.graph = graph,
                           .gpu = catalog.find(gpu),
                           .cost = default_cost_profile(),
                           .framework = find_framework("tensorrt"),
                           .precision = precision})
          .memory.by_class;
    };
    const double parameters = 25.557e6;
    const auto near = [](double value) { return doctest::Approx(value).epsilon(0.01); };
    CHECK(memory("t4", PrecisionMode::Fp32).weights.in_bytes() == near(4 * parameters));
    CHECK(memory("t4", PrecisionMode::Fp16).weights.in_bytes() == near(2 * parameters));
    CHECK(memory("t4", PrecisionMode::Int8).weights.in_bytes() == near(parameters));
    CHECK(memory("t4", PrecisionMode::Int8).activations <
          memory("t4", PrecisionMode::Fp16).activations);
  }
}
