#include "sim/parallel/replicas.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "hwspecs/cost_profile.hpp"
#include "models/lowering/lower.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/step/driver_calls.hpp"
#include "tests/sim/hardware.hpp"
#include "tests/support/specs.hpp"

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

  explicit Example(std::int64_t batch_per_gpu, const char* network = "alexnet",
                   Phase phase = Phase::Train) {
    const auto build = [&](std::int64_t batch) {
      return build_network(network, {.batch = batch, .training = phase != Phase::Infer});
    };
    forward = build(batch_per_gpu);
    graph = make_step_graph(build(batch_per_gpu), phase, {});
    whole_graph = make_step_graph(build(4 * batch_per_gpu), phase, {});
    const CostProfile& cost = default_cost_profile();
    replica = predict_step({.graph = graph, .gpu = gpu, .cost = cost, .framework = framework});
    whole = predict_step({.graph = whole_graph, .gpu = gpu, .cost = cost, .framework = framework});
  }
  [[nodiscard]] ReplicatedStep step(bool features_only) const {
    return {.replica = replica,
            .whole = whole,
            .graph = graph,
            .replicated_ops = features_only ? count_feature_ops(forward)
                                            : static_cast<std::uint32_t>(forward.ops().size()),
            .fabric = fabric,
            .strategy = find_strategy("dataparallel"),
            .element_bytes = element_sizes(graph, framework, gpu, PrecisionMode::Fp32),
            .waits_after_forward = true};
  }
};

Seconds time_of(const std::vector<DeviceTime>& times, DeviceWork work) {
  Seconds sum{};
  for (const DeviceTime& time : times) sum += time.work == work ? time.time : Seconds();
  return sum;
}

TEST_SUITE_BEGIN("sim/parallel/replicas");

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
    const ReplicatedTimeline run = run_replicated(step);
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
    for (const DeviceTime& time : sum_device_times(step, run_replicated(step))) {
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
  const ReplicatedTimeline run = run_replicated(step);
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
  const ReplicatedTimeline fast = run_replicated(step);
  const Seconds spinning = time_of(sum_device_times(step, fast), DeviceWork::Broadcast);
  step.input_supply = 3 * fast.step_time;
  const ReplicatedTimeline slow = run_replicated(step);
  CHECK(slow.step_time.in_s() == doctest::Approx(step.input_supply.in_s()).epsilon(0.01).scale(0));
  CHECK(time_of(sum_device_times(step, slow), DeviceWork::Broadcast) < spinning);
}

TEST_CASE("who reads no result waits for none") {
  const Example example(1);
  ReplicatedStep step = example.step(false);
  CHECK(run_replicated(step).waiting > Seconds(0));
  step.waits_after_forward = false;
  CHECK(run_replicated(step).waiting == Seconds(0));
}

TEST_CASE("in the step after a report nobody waits for an update in a broadcast") {
  const Example example(1);
  ReplicatedStep step = example.step(true);
  const ReplicatedTimeline never = run_replicated(step);
  step.steps_per_report = 1;
  const ReplicatedTimeline always = run_replicated(step);
  step.steps_per_report = 4;
  const ReplicatedTimeline fourth = run_replicated(step);
  CHECK(never.steps == 1);
  CHECK(fourth.steps == 4);
  CHECK(fourth.spans.size() == 4 * never.spans.size());
  CHECK(fourth.launches == never.launches);
  const auto spun = [&](const ReplicatedTimeline& run) {
    return time_of(sum_device_times(step, run), DeviceWork::Broadcast).in_s();
  };
  // Three steps of four are as if nothing was reported, one as if everything was.
  CHECK(spun(always) < 0.5 * spun(never));
  CHECK(spun(fourth) ==
        doctest::Approx(0.75 * spun(never) + 0.25 * spun(always)).epsilon(0.01).scale(0));
  CHECK(time_of(sum_device_times(step, fourth), DeviceWork::Kernel).in_s() ==
        doctest::Approx(time_of(sum_device_times(step, never), DeviceWork::Kernel).in_s()));
}

TEST_CASE("a step's parts, and all that is on its way, lie within the step") {
  for (const Phase phase : {Phase::Train, Phase::ForwardBackward, Phase::Infer}) {
    for (const int steps : {0, 3}) {
      CAPTURE(to_string(phase));
      CAPTURE(steps);
      const Example example(2, "resnet18", phase);
      ReplicatedStep step = example.step(false);
      step.waits_after_forward = phase == Phase::Train;
      step.steps_per_report = steps;
      step.input_per_gpu = Bytes(1e6);
      step.replica_time_factor = step.straggling = 1.02;
      const DataParallelStep report = step_of(step, run_replicated(step));
      const StepParts& p = report.parts;
      CHECK((p.compute + p.communication + p.stragglers + p.input + p.host_update).in_s() ==
            doctest::Approx(report.step_time.in_s()).epsilon(1e-9));
      CHECK(p.stragglers > Seconds(0));
      CHECK(report.communication_busy > Seconds(0));
      CHECK(report.communication_busy <= report.step_time);
      CHECK(report.num_buckets > 0);
      CHECK(report.utilization.front().avg <= 1);
      REQUIRE(!report.busiest.empty());
      CHECK(report.busiest.front().share <= 1 + 1e-9);
      CHECK(!report.timeline.empty());
    }
  }
}

TEST_CASE("one stream stands for all GPUs but the first, to the tick") {
  for (const char* network : {"resnet18", "alexnet"}) {
    CAPTURE(network);
    const Example example(2, network);
    ReplicatedStep step = example.step(true);
    step.steps_per_report = 2;
    step.input_per_gpu = Bytes(1e6);
    const DataParallelStep folded = step_of(step, run_replicated(step));
    step.fold = false;
    const DataParallelStep all = step_of(step, run_replicated(step));
    CHECK(folded.ranks_simulated == 2);
    CHECK(all.ranks_simulated == 4);
    CHECK(all.step_time.in_s() == folded.step_time.in_s());
    CHECK(all.communication_busy.in_s() == folded.communication_busy.in_s());
    CHECK(all.parts.communication.in_s() == folded.parts.communication.in_s());
    CHECK(all.utilization.front().avg == folded.utilization.front().avg);
  }
}

TEST_CASE("without a backward pass weights are broadcast and nothing is reduced") {
  const Example example(2, "resnet18", Phase::Infer);
  ReplicatedStep step = example.step(false);
  step.waits_after_forward = false;
  const std::vector<DeviceTime> times = sum_device_times(step, run_replicated(step));
  CHECK(time_of(times, DeviceWork::Broadcast) > Seconds(0));
  CHECK(time_of(times, DeviceWork::Reduce) == Seconds(0));
  const Example forth_and_back(2, "resnet18", Phase::ForwardBackward);
  const ReplicatedStep both = forth_and_back.step(false);
  CHECK(time_of(sum_device_times(both, run_replicated(both)), DeviceWork::Reduce) > Seconds(0));
}

TEST_CASE(
    "where there is no library of collectives, the first GPU copies to its peers and they to it") {
  const Example example(2, "resnet18");
  ReplicatedStep step = example.step(false);
  StrategyProfile strategy = step.strategy;
  strategy.library = "copies";
  const ReplicatedStep copying{.replica = step.replica,
                               .whole = step.whole,
                               .graph = step.graph,
                               .replicated_ops = step.replicated_ops,
                               .fabric = step.fabric,
                               .strategy = strategy,
                               .element_bytes = step.element_bytes};
  const std::vector<DeviceTime> times = sum_device_times(copying, run_replicated(copying));
  CHECK(time_of(times, DeviceWork::Broadcast) == Seconds(0));
  CHECK(time_of(times, DeviceWork::Copy) > Seconds(0));
}

TEST_CASE(
    "the one thread's work on a batch is in every step, and its queue bounds how far it is ahead") {
  Example example(1);
  ReplicatedStep step = example.step(false);
  step.waits_after_forward = false;
  const Seconds before = run_replicated(step).step_time;
  step.host_input = 10 * before;
  const ReplicatedTimeline fed = run_replicated(step);
  CHECK(fed.step_time > step.host_input);
  CHECK(fed.parts.input <= step.host_input);  // it begins while the GPUs still update
  CHECK(fed.parts.input > 0.8 * step.host_input);

  // With a queue of one, every launch waits for the kernel before it.
  Example slow(1);
  slow.replica.program.launch_queue = 1;
  ReplicatedStep queued = slow.step(false);
  queued.waits_after_forward = false;
  CHECK(run_replicated(queued).step_time > before);
}

TEST_CASE("micro-batches without an update come before the last one") {
  const Example example(2, "resnet18");
  const ReplicatedStep step = example.step(false);
  const DataParallelStep last = step_of(step, run_replicated(step));
  const DataParallelStep all = accumulate_steps(last, 3, last);
  CHECK(all.step_time.in_s() == doctest::Approx(4 * last.step_time.in_s()));
  CHECK(all.parts.compute.in_s() == doctest::Approx(4 * last.parts.compute.in_s()));
  CHECK(all.communicated.in_bytes() == doctest::Approx(4 * last.communicated.in_bytes()));
  CHECK(all.num_buckets == 4 * last.num_buckets);
  CHECK(all.utilization.front().avg == doctest::Approx(last.utilization.front().avg));
  CHECK(all.timeline.size() == 4 * last.timeline.size());
  CHECK(all.exposed == doctest::Approx(last.exposed));
}

TEST_CASE("a cache takes from the driver in the first steps and not in later ones") {
  const Example example(4);
  FrameworkProfile tries = example.framework;
  tries.convolutions.autotunes = true;
  std::size_t mallocs[2];
  for (const bool autotunes : {false, true}) {
    CAPTURE(autotunes);
    const PredictRequest request{.graph = example.graph,
                                 .gpu = example.gpu,
                                 .cost = default_cost_profile(),
                                 .framework = autotunes ? tries : example.framework};
    const DriverCalls calls = count_driver_calls(request, predict_step(request).priced);
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
