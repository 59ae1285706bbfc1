#include "models/lowering/recurrent.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/lowering/lower.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "tests/models/lowering/gpus.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;

namespace {

using Layers = GraphBuilder::RecurrentLayers;

struct Lowered {
  NetworkGraph graph;
  LoweredStep step;
  /// The kernels of a pass, in launch order.
  [[nodiscard]] std::vector<Kernel> kernels(Pass pass) const {
    for (const LoweredOp& op : step.ops) {
      if (graph.op(op.op).kind == OpKind::Recurrent && graph.op(op.op).pass == pass) {
        return op.candidates.front().kernels;
      }
    }
    return {};
  }
};

Lowered lower_layers(const Layers& layers, std::int64_t steps, bool training,
                     const FrameworkProfile& framework, PrecisionMode precision, const GpuSpec& gpu,
                     std::int64_t batch = 16) {
  GraphBuilder b("layers", batch);
  const TensorId x = b.input("x", {steps, batch, layers.hidden});
  b.graph().outputs = {b.recurrent_layer("rnn", x, layers).y};
  Lowered result{.graph = std::move(b).take(), .step = {}};
  if (training) result.graph = make_training_graph(std::move(result.graph), {.with_loss = false});
  result.step = lower(result.graph, framework, gpu, {.precision = precision});
  return result;
}

/// Steps times cells of all records.
double count_cells(const std::vector<Kernel>& kernels) {
  double cells = 0;
  for (const Kernel& kernel : kernels) {
    const auto* work = std::get_if<RecurrentWork>(&kernel.work);
    if (work) cells += static_cast<double>(work->steps) * static_cast<double>(work->cells);
  }
  return cells;
}
double count_launches(const std::vector<Kernel>& kernels) {
  double launches = 0;
  for (const Kernel& kernel : kernels) launches += 1 + kernel.more_launches;
  return launches;
}

const FrameworkProfile& generic() { return find_framework("generic"); }

}  // namespace

TEST_SUITE("models/lowering/recurrent") {
  TEST_CASE("autocast runs recurrent layers in 16 bits, wide as their input is") {
    for (const char* framework : {"pytorch", "mxnet", "tensorflow"}) {
      CAPTURE(framework);
      const Lowered low = lower_layers({.hidden = 128}, 10, true, find_framework(framework),
                                       PrecisionMode::Amp, test::volta());
      int gemms = 0;
      for (const Kernel& kernel : low.kernels(Pass::Forward)) {
        if (kernel.kernel_class != KernelClass::Gemm) continue;
        ++gemms;
        CHECK(kernel.data == Precision::Fp16);
      }
      CHECK(gemms > 0);
    }
  }

  TEST_CASE("one GEMM for all inputs, then a step at a time") {
    const Lowered low =
        lower_layers({.hidden = 128}, 10, false, generic(), PrecisionMode::Fp32, test::volta());
    const std::vector<Kernel> kernels = low.kernels(Pass::Forward);
    REQUIRE(kernels.size() == 11);
    const auto& inputs = std::get<MatrixWork>(kernels[0].work);
    CHECK(inputs.m == 160);
    CHECK(inputs.n == 512);
    CHECK(inputs.k == 128);
    CHECK(kernels[0].kernel_class == KernelClass::Gemm);
    const auto& step = std::get<RecurrentWork>(kernels[1].work);
    CHECK(step.gemm.m == 16);
    CHECK(step.gemm.n == 512);
    CHECK(step.gemm.k == 128);
    CHECK(kernels[1].kernel_class == KernelClass::Recurrent);
    CHECK(count_launches(kernels) == 1 + 2 * 10);  // GEMM and elementwise per step
  }

  TEST_CASE("layers run as a wavefront where the framework has streams") {
    FrameworkProfile framework = generic();
    for (const bool streams : {true, false}) {
      CAPTURE(streams);
      framework.recurrence.streams = streams;
      const Lowered low = lower_layers({.hidden = 128, .layers = 3}, 10, false, framework,
                                       PrecisionMode::Fp32, test::volta());
      const std::vector<Kernel> kernels = low.kernels(Pass::Forward);
      CHECK(count_cells(kernels) == 30);
      // 10 + 3 - 1 fronts, or 30 steps; and 3 GEMMs of inputs
      CHECK(kernels.size() == (streams ? 12 : 30) + 3);
      CHECK(count_launches(kernels) == 3 + 60);
    }
  }

  TEST_CASE("every cell runs once, whatever is longer, steps or layers") {
    for (const int layers : {1, 2, 5, 9}) {
      for (const std::int64_t steps : {1, 4, 5, 300}) {
        for (const bool both : {false, true}) {
          CAPTURE(layers);
          CAPTURE(steps);
          const Lowered low =
              lower_layers({.hidden = 64, .layers = layers, .bidirectional = both}, steps, true,
                           generic(), PrecisionMode::Fp32, test::volta());
          const double cells = static_cast<double>(steps) * layers * (both ? 2 : 1);
          CHECK(count_cells(low.kernels(Pass::Forward)) == cells);
          CHECK(count_cells(low.kernels(Pass::BackwardData)) == cells);
          CHECK(count_cells(low.kernels(Pass::BackwardWeights)) == 0);
        }
      }
    }
  }

  TEST_CASE("arithmetic of the three passes is that of their GEMMs") {
    const Lowered low = lower_layers({.hidden = 128, .layers = 2}, 10, true, generic(),
                                     PrecisionMode::Fp32, test::volta());
    const auto gemms = [&](Pass pass) {
      double flops = 0;
      for (const Kernel& kernel : low.kernels(pass)) {
        if (std::holds_alternative<MatrixWork>(kernel.work)) flops += kernel.flops.in_flop();
        if (const auto* work = std::get_if<RecurrentWork>(&kernel.work)) {
          flops += 2.0 * static_cast<double>(work->steps * work->cells * work->gemm.m *
                                             work->gemm.n * work->gemm.k);
        }
      }
      return flops;
    };
    const double all = 2.0 * 10 * 16 * 512 * 128 * 4;  // two matrices in each of two layers
    CHECK(gemms(Pass::Forward) == doctest::Approx(all));
    CHECK(gemms(Pass::BackwardWeights) == doctest::Approx(all));
    // x is an input: nobody wants its gradient.
    CHECK(gemms(Pass::BackwardData) == doctest::Approx(all * 3 / 4));
  }

  TEST_CASE("long sequences are reported several steps at a time") {
    const Lowered low = lower_layers({.hidden = 64}, 1'000'000, false, generic(),
                                     PrecisionMode::Fp32, test::volta());
    CHECK(low.kernels(Pass::Forward).size() < 100);
    CHECK(count_cells(low.kernels(Pass::Forward)) == 1e6);
  }

  TEST_CASE("persistent kernels are taken by PyTorch's rule") {
    struct Row {
      const char* what;
      Layers layers;
      std::int64_t batch;
      PrecisionMode precision;
      bool large_ampere, persistent;
    };
    const Row rows[] = {
        {"half on Volta", {.hidden = 1024}, 32, PrecisionMode::Fp16, false, true},
        {"fp32", {.hidden = 1024}, 32, PrecisionMode::Fp32, false, false},
        {"too wide", {.hidden = 1152}, 32, PrecisionMode::Fp16, false, false},
        {"odd width", {.hidden = 200}, 32, PrecisionMode::Fp16, false, false},
        {"two layers", {.hidden = 512, .layers = 2}, 32, PrecisionMode::Fp16, false, false},
        {"batch of no 16", {.hidden = 512}, 24, PrecisionMode::Fp16, false, false},
        {"24 suits Ampere", {.hidden = 512}, 24, PrecisionMode::Fp16, true, true},
        {"GRU on Ampere",
         {.cell = CellKind::Gru, .hidden = 512},
         24,
         PrecisionMode::Fp16,
         true,
         false},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      GpuSpec gpu = row.large_ampere ? test::ampere() : test::volta();
      gpu.sm_count = 108;
      gpu.compute_capability = row.large_ampere ? 80 : 70;
      const Lowered low = lower_layers(row.layers, 50, false, find_framework("pytorch"),
                                       row.precision, gpu, row.batch);
      const std::vector<Kernel> kernels = low.kernels(Pass::Forward);
      CHECK((kernels.back().algorithm == Algorithm::Persistent) == row.persistent);
      if (row.persistent) CHECK(kernels.back().more_launches == 0);
    }
  }
}
