#include "sim/step/accumulation.hpp"

#include <doctest/doctest.h>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "models/ops.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {

/// x [64, 512] -> linear 512 -> relu -> linear 512; no biases, so two weights.
NetworkGraph two_layers() {
  GraphBuilder b("two", 64);
  TensorId t = b.linear_layer("fc1", b.input("x", {64, 512}), 512, false);
  t = b.linear_layer("fc2", b.activation("relu", t, "relu", false), 512, false);
  b.graph().outputs = {t};
  return std::move(b).take();
}

NetworkGraph step_of(bool adds, bool updates, Recompute recompute = Recompute::None) {
  return make_step_graph(two_layers(), Phase::Train,
                         {.recompute = recompute, .adds_gradients = adds, .with_update = updates});
}

struct Bench {
  GpuCatalog gpus = GpuCatalog::embedded();
  const GpuSpec& gpu = gpus.find("v100_sxm2_16gb");
  [[nodiscard]] PredictRequest request(const NetworkGraph& graph, const char* framework) const {
    return {.graph = graph,
            .gpu = gpu,
            .cost = default_cost_profile(),
            .framework = find_framework(framework),
            .keeps_gradients = true};
  }
};

TEST_SUITE_BEGIN("sim/step/accumulation");

TEST_CASE("N micro-batches take N - 1 of the early ones and one with the update") {
  const Bench bench;
  const NetworkGraph last = step_of(true, true), early = step_of(true, false);
  const Prediction one = predict_step(bench.request(early, "generic"));
  const Prediction with_update = predict_step(bench.request(last, "generic"));
  const Prediction five = predict_accumulated(bench.request(last, "generic"), early, 5);
  const double step = 4 * one.step_time_s.value + with_update.step_time_s.value;
  CHECK(five.step_time_s.value == doctest::Approx(step));
  CHECK(five.throughput_samples_per_s.value == doctest::Approx(5 * 64 / step));
  CHECK(five.num_kernels == 4 * one.num_kernels + with_update.num_kernels);
  double sum = 0;
  for (const TimeShare& share : five.by_class) sum += share.time.in_s();
  CHECK(sum == doctest::Approx(step));
  CHECK(five.energy_per_sample.in_j() == doctest::Approx(five.power.avg.in_w() * step / 320));
}

TEST_CASE("every micro-batch adds one gradient per weight, only the last one updates") {
  const Bench bench;
  const NetworkGraph plain = step_of(false, true), last = step_of(true, true);
  const NetworkGraph early = step_of(true, false);
  const auto launches = [&](const NetworkGraph& graph, const char* framework) {
    return predict_step(bench.request(graph, framework)).num_kernels;
  };
  // One kernel per weight to add, one fused update per weight.
  CHECK(launches(last, "generic") == launches(plain, "generic") + 2);
  CHECK(launches(last, "generic") > launches(early, "generic"));
}

TEST_CASE("gradients stay between micro-batches") {
  const Bench bench;
  const NetworkGraph last = step_of(true, true), early = step_of(true, false);
  const Prediction p = predict_accumulated(bench.request(last, "generic"), early, 2);
  // Two of 512 x 512 floats are kept; at the peak one more is new.
  CHECK(p.memory.by_class.gradients.in_bytes() >= 2 * 512 * 512 * 4);
}

TEST_CASE("recomputation costs the time of what runs again") {
  const Bench bench;
  const NetworkGraph plain = step_of(false, true);
  const NetworkGraph again = step_of(false, true, Recompute::Selective);
  const Prediction with = predict_step(bench.request(again, "generic"));
  const Prediction base = predict_step(bench.request(plain, "generic"));
  // Only relu runs again: one launch.
  CHECK(with.num_kernels == base.num_kernels + 1);
  CHECK(with.timeline.kernel_busy > base.timeline.kernel_busy);
  const Seconds more = with.timeline.kernel_busy - base.timeline.kernel_busy;
  for (const cost::PricedCandidate& choice : with.priced.choices) {
    const std::size_t i = static_cast<std::size_t>(&choice - with.priced.choices.data());
    const Op& op = again.op(with.priced.lowered->ops[i].op);
    if (op.name == "relu again") CHECK(more.in_us() == doctest::Approx(choice.duration.in_us()));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
