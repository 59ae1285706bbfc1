#include <doctest/doctest.h>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "models/ops.hpp"
#include "sim/step/prediction.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;

namespace {

/// Convolution, batch norm, gelu, convolution: 64 images of 64 channels, 56 x 56 = 12 845 056
/// elements at every stage.
NetworkGraph block() {
  GraphBuilder b("block", 64);
  TensorId x = b.input("images", {64, 64, 56, 56});
  x = b.conv_layer("first", x, 64, Window::square(3, 1, 1), false);
  x = b.batch_norm_layer("bn", x);
  x = b.activation("gelu", x, "gelu");
  x = b.conv_layer("second", x, 64, Window::square(3, 1, 1), false);
  b.graph().outputs = {x};
  return std::move(b).take();
}
constexpr double kStage = 64.0 * 64 * 56 * 56 * 4;

Prediction predict_with(const FrameworkProfile& framework, const NetworkGraph& graph) {
  return predict_step({.graph = graph,
                       .gpu = GpuCatalog::embedded().find("v100_sxm2_16gb"),
                       .cost = default_cost_profile(),
                       .framework = framework});
}

}  // namespace

TEST_SUITE("sim/step/compiled_step") {
  TEST_CASE("what fusion keeps in registers takes no memory") {
    // Kept for the backward pass: images, both convolutions' operands and the norm's result for
    // gelu's gradient. Compiled, the norm's result is computed again from its operand.
    const NetworkGraph graph = make_step_graph(block(), Phase::Train, {.optimizer = "momentum"});
    const Bytes apart =
        predict_with(find_framework("tensorflow"), graph).memory.by_class.activations;
    const Bytes fused = predict_with(find_compiled_framework("tensorflow", "xla"), graph)
                            .memory.by_class.activations;
    CHECK((apart - fused).in_bytes() == doctest::Approx(kStage).epsilon(0.01));
  }

  TEST_CASE("compiled code starts when its arguments have been handed over") {
    const NetworkGraph graph = block();  // 2 filters, scale and shift, 2 running statistics
    const FrameworkProfile& framework = find_compiled_framework("tensorflow", "xla");
    const Prediction prediction = predict_with(framework, graph);
    CHECK(prediction.program.step_overhead.in_us() ==
          doctest::Approx(
              (framework.host.step_overhead + framework.compiler->argument * 6.0).in_us()));
  }

  TEST_CASE("a batch norm that was expanded calls no library") {
    const NetworkGraph graph = block();
    const FrameworkProfile& compiled = find_compiled_framework("tensorflow", "xla");
    const FrameworkProfile& plain = find_framework("tensorflow");
    const auto dispatch = [&](const FrameworkProfile& framework) {
      Seconds total{};
      for (const ProgramOp& op : predict_with(framework, graph).program.ops) total += op.dispatch;
      return total;
    };
    // Two convolutions and one kernel of norm and gelu, against four ops of which three call cuDNN.
    CHECK(dispatch(compiled).in_us() ==
          doctest::Approx(
              (compiled.host.dispatch_per_op * 3.0 + compiled.host.dispatch_per_library_call * 2.0)
                  .in_us()));
    CHECK(dispatch(plain).in_us() == doctest::Approx((plain.host.dispatch_per_op * 4.0 +
                                                      plain.host.dispatch_per_library_call * 3.0)
                                                         .in_us()));
  }

  TEST_CASE("arrays that an op hands over and takes back hold up the host") {
    // 1 GB at a thread's 5 GB/s, and 1 GB back at 0.76 of the 15.75 GB/s of PCIe 3.0.
    const auto step_time = [](std::int64_t fed, std::int64_t fetched) {
      GraphBuilder b("fed", 1);
      b.routine("feed", {}, {.fed_bytes = fed, .fetched_bytes = fetched});
      b.graph().outputs = {b.activation("act", b.input("x", {1, 64}), "relu")};
      return predict_with(find_framework("tensorflow"), std::move(b).take()).step_time_s.value;
    };
    const double pcie = GpuCatalog::embedded().find("v100_sxm2_16gb").pcie_bandwidth.in_si();
    constexpr std::int64_t kGigabyte = 1'000'000'000;
    const double none = step_time(0, 0);
    CHECK(step_time(kGigabyte, 0) - none == doctest::Approx(0.2));
    CHECK(step_time(0, kGigabyte) - none == doctest::Approx(1e9 / (0.76 * pcie)));
  }
}
