#include "sim/cluster/replicas.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "hwspecs/cost_profile.hpp"
#include "models/lowering/lower.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/cluster/driver_calls.hpp"
#include "tests/sim/cluster/hardware.hpp"

namespace tracecast {
namespace {
using test::Hardware;

/// A network under nn.DataParallel on four P40.
struct Example {
  Hardware hardware;
  Fabric fabric = hardware.build("s_nyu_p40", 4, 1, "p40");
  const GpuSpec& gpu = fabric.gpu_of(Rank{0});
  const FrameworkProfile& framework = find_framework("pytorch");
  NetworkGraph forward, graph, whole_graph;
  Prediction replica, whole;

  explicit Example(std::int64_t batch_per_gpu, const char* network = "alexnet") {
    const auto build = [&](std::int64_t batch) {
      return build_network(network, {.batch = batch, .training = true});
    };
    forward = build(batch_per_gpu);
    graph = make_step_graph(build(batch_per_gpu), Phase::Train, {});
    whole_graph = make_step_graph(build(4 * batch_per_gpu), Phase::Train, {});
    const CostProfile& cost = default_cost_profile();
    replica = predict({.graph = graph, .gpu = gpu, .cost = cost, .framework = framework});
    whole = predict({.graph = whole_graph, .gpu = gpu, .cost = cost, .framework = framework});
  }
  [[nodiscard]] ReplicatedStep step(bool features_only) const {
    return {.replica = replica,
            .whole = whole,
            .graph = graph,
            .replicated_ops = features_only ? count_feature_ops(forward)
                                            : static_cast<std::uint32_t>(forward.ops().size()),
            .fabric = fabric,
            .strategy = find_strategy("dataparallel"),
            .element_bytes = element_sizes(graph, framework, gpu, PrecisionMode::Fp32)};
  }
};

Seconds time_of(const std::vector<DeviceTime>& times, DeviceWork work) {
  Seconds sum{};
  for (const DeviceTime& time : times) sum += time.work == work ? time.time : Seconds();
  return sum;
}

TEST_SUITE_BEGIN("sim/cluster/replicas");

TEST_CASE("features end behind the last convolution or max pool") {
  const NetworkGraph alexnet = build_network("alexnet", {.batch = 1, .training = true});
  const std::uint32_t features = count_feature_ops(alexnet);
  CHECK(alexnet.op(OpId{features - 1}).name == "features.12");
  CHECK(alexnet.op(OpId{features}).name == "avgpool");
}

TEST_CASE("the kernels of a collective end together, and the first GPU's is the last to start") {
  const Example example(1);
  for (const bool features_only : {false, true}) {
    CAPTURE(features_only);
    const ReplicatedStep step = example.step(features_only);
    const ReplicatedTimeline run = run_replicated(step, true);
    const DeviceSpan* on_first = nullptr;
    int broadcasts = 0;
    for (const DeviceSpan& span : run.spans) {
      CHECK(span.end >= span.start);
      if (span.work != DeviceWork::Broadcast) continue;
      if (span.on_first) {
        on_first = &span;
        continue;
      }
      ++broadcasts;
      REQUIRE(on_first != nullptr);
      CHECK(span.end == on_first->end);
      CHECK(span.start <= on_first->start);  // they have no update to do before it
    }
    CHECK(broadcasts > 0);
  }
}

TEST_CASE("of features alone, dense layers run on the first GPU with the whole batch") {
  const Example example(2);
  const auto dense_calls = [&](bool features_only) {
    const ReplicatedStep step = example.step(features_only);
    std::size_t calls = 0;
    for (const DeviceTime& time : sum_device_times(step, run_replicated(step, true))) {
      if (time.op == OpKind::Linear && time.kernel_class == KernelClass::Gemm) calls += time.calls;
    }
    return calls;
  };
  CHECK(dense_calls(true) > 0);
  CHECK(dense_calls(false) == 4 * dense_calls(true));
}

TEST_CASE("sums over devices are those of the spans, and launches cover every kernel") {
  const Example example(1);
  const ReplicatedStep step = example.step(true);
  const ReplicatedTimeline run = run_replicated(step, true);
  Seconds spans{};
  double kernels = 0;
  for (const DeviceSpan& span : run.spans) {
    spans += (span.end - span.start) * devices_of(span, run);
    if (span.work != DeviceWork::Copy) kernels += devices_of(span, run);
  }
  Seconds sums{};
  for (const DeviceTime& time : sum_device_times(step, run)) sums += time.time;
  CHECK(sums.in_s() == doctest::Approx(spans.in_s()));
  CHECK(static_cast<double>(run.launches) >= kernels);
}

TEST_CASE("a slow loader lets the others wait without a kernel, not in a broadcast") {
  const Example example(1);
  ReplicatedStep step = example.step(true);
  const ReplicatedTimeline fast = run_replicated(step, true);
  const Seconds spinning = time_of(sum_device_times(step, fast), DeviceWork::Broadcast);
  step.input_supply = 3 * fast.step_time;
  const ReplicatedTimeline slow = run_replicated(step, true);
  CHECK(slow.step_time.in_s() == doctest::Approx(step.input_supply.in_s()).epsilon(0.01));
  CHECK(time_of(sum_device_times(step, slow), DeviceWork::Broadcast) < spinning);
}

TEST_CASE("who reads no result waits for none") {
  const Example example(1);
  const ReplicatedStep step = example.step(false);
  CHECK(run_replicated(step, false).waiting == Seconds(0));
  CHECK(run_replicated(step, true).waiting > Seconds(0));
}

TEST_CASE("in the step after a report nobody waits for an update in a broadcast") {
  const Example example(1);
  ReplicatedStep step = example.step(true);
  const ReplicatedTimeline never = run_replicated(step, true);
  step.steps_per_report = 1;
  const ReplicatedTimeline always = run_replicated(step, true);
  step.steps_per_report = 4;
  const ReplicatedTimeline fourth = run_replicated(step, true);
  CHECK(never.steps == 1);
  CHECK(fourth.steps == 4);
  CHECK(fourth.spans.size() == 4 * never.spans.size());
  CHECK(fourth.launches == never.launches);
  const auto spun = [&](const ReplicatedTimeline& run) {
    return time_of(sum_device_times(step, run), DeviceWork::Broadcast).in_s();
  };
  // Three steps of four are as if nothing was reported, one as if everything was.
  CHECK(spun(always) < 0.5 * spun(never));
  CHECK(spun(fourth) == doctest::Approx(0.75 * spun(never) + 0.25 * spun(always)).epsilon(0.01));
  CHECK(time_of(sum_device_times(step, fourth), DeviceWork::Kernel).in_s() ==
        doctest::Approx(time_of(sum_device_times(step, never), DeviceWork::Kernel).in_s()));
}

TEST_CASE("a cache takes from the driver in the first steps and not in later ones") {
  const Example example(4);
  FrameworkProfile tries = example.framework;
  tries.autotunes_convolutions = true;
  std::size_t mallocs[2];
  for (const bool autotunes : {false, true}) {
    CAPTURE(autotunes);
    const PredictRequest request{.graph = example.graph,
                                 .gpu = example.gpu,
                                 .cost = default_cost_profile(),
                                 .framework = autotunes ? tries : example.framework};
    const DriverCalls calls = count_driver_calls(request, predict(request).priced);
    CHECK(calls.first_mallocs > 0);
    CHECK(calls.later_mallocs == 0);
    CHECK(calls.later_frees == 0);
    CHECK((calls.first_frees > 0) == autotunes);  // each trial gives its scratch back
    mallocs[autotunes ? 1 : 0] = calls.first_mallocs;
  }
  CHECK(mallocs[1] > mallocs[0]);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
