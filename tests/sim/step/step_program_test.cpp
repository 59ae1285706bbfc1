#include <doctest/doctest.h>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "models/lowering/lower.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/step/step_program.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {

/// `count` ops of one kernel each.
StepProgram even_program(std::uint32_t count, Seconds kernel, Seconds dispatch) {
  StepProgram program;
  for (std::uint32_t i = 0; i < count; ++i) {
    program.ops.push_back({.dispatch = dispatch, .first_kernel = i, .num_kernels = 1});
    program.kernels.push_back({.duration = kernel, .op = i, .kernel = 0});
  }
  return program;
}

TEST_SUITE_BEGIN("sim/step/step_program");

TEST_CASE("a step whose kernels are short takes what the host takes") {
  // 10 x 10 us of dispatch; the kernels of 1 us each hide behind the next dispatch.
  StepProgram program = even_program(10, 1.0_us, 10.0_us);
  const StepTimeline ahead = simulate(program);
  CHECK(ahead.step_time.in_us() == doctest::Approx(100.0));
  CHECK(ahead.critical_host.in_us() == doctest::Approx(99.0));  // all but the last kernel
  CHECK(ahead.critical_kernels.in_us() == doctest::Approx(1.0));
  CHECK(ahead.idle_host.in_us() == doctest::Approx(90.0));
  CHECK(ahead.host_busy.in_us() == doctest::Approx(100.0));

  program.synchronizes = true;  // now the last kernel is waited for: 1 us more
  CHECK(simulate(program).step_time.in_us() == doctest::Approx(101.0));
}

TEST_CASE("a copy from pageable memory comes between two steps and holds up the host") {
  StepProgram program = even_program(10, 100.0_us, 10.0_us);
  program.input_copy = 500.0_us;
  CHECK(simulate(program).step_time.in_us() == doctest::Approx(1000.0));  // behind the kernels

  program.copy_waits_for_kernels = true;
  CHECK(simulate(program).step_time.in_us() == doctest::Approx(500 + 1000));

  program.copy_blocks_host = true;
  const StepTimeline waiting = simulate(program);
  CHECK(waiting.step_time.in_us() == doctest::Approx(500 + 10 + 1000));
  CHECK(waiting.critical_input.in_us() == doctest::Approx(500.0));
}

TEST_CASE("a step whose kernels are long takes the sum of its kernels") {
  StepProgram program = even_program(10, 100.0_us, 10.0_us);
  const StepTimeline ahead = simulate(program);
  CHECK(ahead.step_time.in_us() == doctest::Approx(1000.0));
  CHECK(ahead.critical_kernels.in_us() == doctest::Approx(1000.0));
  CHECK(ahead.idle_host.in_us() == doctest::Approx(0.0));

  program.synchronizes = true;  // the first dispatch of every step is waited for
  const StepTimeline waiting = simulate(program);
  CHECK(waiting.step_time.in_us() == doctest::Approx(1010.0));
  CHECK(waiting.idle_host.in_us() == doctest::Approx(10.0));
}

TEST_CASE("a host that waits after every op adds its dispatch to every kernel") {
  // 10 ops of 100 us behind 10 us of dispatch; all but the first wait for the kernel before them.
  StepProgram program = even_program(10, 100.0_us, 10.0_us);
  for (std::size_t i = 1; i < program.ops.size(); ++i) program.ops[i].waits_for_gpu = true;
  program.synchronizes = true;
  const StepTimeline timeline = simulate(program);
  CHECK(timeline.step_time.in_us() == doctest::Approx(1100.0));
  CHECK(timeline.idle_host.in_us() == doctest::Approx(100.0));
}

TEST_CASE("the framework says after how many ops the host waits, and how long waking takes") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const GpuSpec& gpu = catalog.find("v100_sxm2_16gb");
  FrameworkProfile framework = find_framework("pytorch");
  framework.host.graph_ops_per_synchronization = 4;
  const NetworkGraph forward = build_network("vgg11", {.batch = 1});
  const NetworkGraph training =
      make_training_graph(forward, {.optimizer = OptimizerKind::Sgd, .with_optimizer = false});
  for (const NetworkGraph* graph : {&forward, &training}) {
    CAPTURE(graph == &training);
    const PricedStep priced = price(lower(*graph, framework, gpu, {}), gpu, default_cost_profile());
    framework.host.synchronization = 7.0_us;
    const StepProgram program = build_step_program(*graph, priced, framework, Seconds());
    framework.host.synchronization = Seconds();
    const StepProgram asleep = build_step_program(*graph, priced, framework, Seconds());
    REQUIRE(program.ops.size() > 9);
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      CAPTURE(i);
      // An inference graph runs as one piece.
      const bool waits = graph == &training && i > 0 && i % 4 == 0;
      CHECK(program.ops[i].waits_for_gpu == waits);
      CHECK((program.ops[i].dispatch - asleep.ops[i].dispatch).in_us() ==
            doctest::Approx(waits ? 7.0 : 0.0));
    }
  }
}

TEST_CASE("a view has no kernel and holds up the next op on the host, forward and backward") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const GpuSpec& gpu = catalog.find("h200");
  FrameworkProfile framework = find_framework("pytorch_2");
  GraphBuilder b("views", 2);
  TensorId x = b.linear_layer("in", b.input("x", {2, 8, 64}), 64, false);
  x = b.reshape("second", b.reshape("first", x, {16, 64}), {2, 512});
  b.graph().outputs = {b.linear_layer("out", x, 10, false)};
  const NetworkGraph graph = make_training_graph(std::move(b).take(), {});
  const auto host_time = [&] {
    const PricedStep priced = price(lower(graph, framework, gpu, {}), gpu, default_cost_profile());
    Seconds sum{};
    for (const auto& op : build_step_program(graph, priced, framework, Seconds()).ops) {
      sum += op.dispatch;
    }
    return sum;
  };
  framework.host.view = framework.host.backward_view = Seconds();
  const Seconds without = host_time();
  framework.host.view = Seconds(3e-6);
  framework.host.backward_view = Seconds(2e-6);
  CHECK((host_time() - without).in_us() == doctest::Approx(2 * 3 + 2 * 2));
}

TEST_CASE("an op that the host computes waits for the GPU and holds up what follows") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const GpuSpec& gpu = catalog.find("k40m");
  FrameworkProfile framework = find_framework("generic");
  const NetworkGraph graph = build_network("resnet50_caffe", {.batch = 1});
  const auto step_of = [&] {
    const PricedStep priced = price(lower(graph, framework, gpu, {}), gpu, default_cost_profile());
    return build_step_program(graph, priced, framework, Seconds());
  };
  const StepProgram before = step_of();
  framework.host.pooling =
      HostPooling{.forward_per_cell = Seconds(1e-6), .copy = BytesPerSecond(1e12)};
  const StepProgram after = step_of();
  REQUIRE(after.ops.size() == before.ops.size());
  Seconds more{};
  int waits = 0;
  for (std::size_t i = 0; i < after.ops.size(); ++i) {
    more += after.ops[i].dispatch - before.ops[i].dispatch;
    if (!after.ops[i].waits_for_gpu) continue;
    ++waits;
    CHECK(after.ops[i].num_kernels == 1);  // the result's way back
  }
  // 64 x 56 x 56 windows of 9 cells and 2048 of 49, a microsecond each.
  CHECK(waits == 2);
  CHECK(more.in_s() == doctest::Approx(1e-6 * (64 * 56 * 56 * 9 + 2048 * 49)).epsilon(0.001));
  CHECK((simulate(after).step_time - simulate(before).step_time).in_s() >= 0.99 * more.in_s());
}

TEST_CASE("every launch and the step's overhead cost host time") {
  StepProgram program = even_program(10, 1.0_us, 10.0_us);
  program.launch = 5.0_us;
  program.step_overhead = 50.0_us;
  CHECK(simulate(program).step_time.in_us() == doctest::Approx(50.0 + 10 * 15.0));
}

TEST_CASE("several kernels of one op are dispatched once") {
  StepProgram program;
  program.launch = 5.0_us;
  program.ops.push_back({.dispatch = 10.0_us, .first_kernel = 0, .num_kernels = 3});
  for (std::uint32_t k = 0; k < 3; ++k) {
    program.kernels.push_back({.duration = 1.0_us, .op = 0, .kernel = k});
  }
  CHECK(simulate(program).step_time.in_us() == doctest::Approx(10.0 + 3 * 5.0));
}

TEST_CASE("a kernel that stands for several launches is launched for as long") {
  StepProgram program = even_program(4, 1.0_us, 10.0_us);
  program.launch = 5.0_us;
  program.kernels[2].more_launch = 45.0_us;  // nine more
  const StepTimeline timeline = simulate(program);
  CHECK(timeline.step_time.in_us() == doctest::Approx(4 * 15.0 + 45.0));
  CHECK(timeline.host_busy.in_us() == doctest::Approx(4 * 15.0 + 45.0));
}

TEST_CASE("the first kernel waits for the input") {
  StepProgram program = even_program(1, 10.0_us, 1.0_us);
  program.synchronizes = true;
  program.input_copy = 100.0_us;
  const StepTimeline step = simulate(program);
  CHECK(step.step_time.in_us() == doctest::Approx(110.0));
  CHECK(step.critical_input.in_us() == doctest::Approx(100.0));
  CHECK(step.idle_input.in_us() == doctest::Approx(100.0));
}

TEST_CASE("a host that runs ahead copies the next input while kernels run") {
  StepProgram program = even_program(1, 200.0_us, 1.0_us);
  program.input_copy = 100.0_us;
  CHECK(simulate(program).step_time.in_us() == doctest::Approx(200.0));
}

TEST_CASE("a full launch queue stops the host, not the GPU") {
  StepProgram program = even_program(10, 100.0_us, 1.0_us);
  program.launch_queue = 2;
  CHECK(simulate(program).step_time.in_us() == doctest::Approx(1000.0));
}

TEST_CASE("a step without kernels takes the host's overhead") {
  StepProgram program;
  program.step_overhead = 7.0_us;
  CHECK(simulate(program).step_time.in_us() == doctest::Approx(7.0));
  CHECK(simulate(StepProgram{}).step_time.in_us() == 0.0);
}

TEST_CASE("the critical path and the idle time account for the whole step") {
  for (const double kernel_us : {0.5, 9.0, 10.0, 11.0, 40.0}) {
    for (const bool synchronizes : {false, true}) {
      CAPTURE(kernel_us);
      StepProgram program = even_program(20, Seconds(kernel_us * 1e-6), 10.0_us);
      program.synchronizes = synchronizes;
      program.step_overhead = 30.0_us;
      program.input_copy = 60.0_us;
      const StepTimeline t = simulate(program);
      const Seconds path = t.critical_kernels + t.critical_host + t.critical_input;
      CHECK(path.in_us() == doctest::Approx(t.step_time.in_us()));
      CHECK((t.kernel_busy + t.idle_host + t.idle_input).in_us() ==
            doctest::Approx(t.step_time.in_us()));
      CHECK(t.step_time >= t.kernel_busy);
      CHECK(t.step_time.in_us() >= doctest::Approx(t.host_busy.in_us()));
    }
  }
}

TEST_CASE("ops that repeat earlier ones get the price they would get alone") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const GpuSpec& gpu = catalog.find("p100_pcie_16gb");
  const CostProfile& profile = default_cost_profile();
  const NetworkGraph graph = make_training_graph(build_network("resnet50", {.batch = 8}), {});
  const PricedStep priced = price(lower(graph, find_framework("pytorch"), gpu, {}), gpu, profile);
  REQUIRE(priced.choices.size() == priced.lowered->ops.size());
  for (std::size_t i = 0; i < priced.choices.size(); ++i) {
    CAPTURE(i);
    const LoweredOp& op = priced.lowered->ops[i];
    const cost::PricedCandidate alone = cost::choose(op, gpu, profile);
    CHECK(priced.choices[i].candidate == alone.candidate);
    CHECK(priced.choices[i].duration == alone.duration);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
