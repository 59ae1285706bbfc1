#include "sim/step/cpu_run.hpp"

#include <doctest/doctest.h>

#include "hwspecs/loaders/cpu_loader.hpp"
#include "tests/support/specs.hpp"

TEST_SUITE_BEGIN("sim/step/cpu_run");

namespace tracecast {
namespace {

TEST_CASE("the cores of a machine are a device with the host's memory and the cores' peaks") {
  CpuNode node{.cpu = CpuCatalog::embedded().find("gold_6148"),
               .sockets = 2,
               .memory = Bytes(192 * 1073741824.0)};
  const GpuSpec device = device_of(node);
  CHECK(device.id == "cpu:2xgold_6148");
  CHECK(device.memory == node.memory);
  CHECK(device.sm_count == 0);
  // 2 x 20 cores x 64 flop x 2.2 GHz.
  CHECK(device.peak_fp32().in_tflop_per_s() == doctest::Approx(5.632));
  CHECK_FALSE(device.find_peak(Precision::Int8, MathUnit::CudaCore).has_value());
  node.cpu = CpuCatalog::embedded().find("8259cl");  // VNNI
  CHECK(device_of(node).find_peak(Precision::Int8, MathUnit::CudaCore).has_value());
}

TEST_CASE("host costs scale with the speed of one thread, and all of them do") {
  const CpuCatalog cpus = CpuCatalog::embedded();
  const CpuSpec& reference = cpus.find("e5_2698_v4");
  for (const char* id : {"e5_2670", "gold_6148", "e5_2698_v4"}) {
    CAPTURE(id);
    const CpuSpec& host = cpus.find(id);
    const FrameworkProfile& before = find_framework("tensorflow");
    const FrameworkProfile after = on_host(before, reference, host);
    // turbo clock x instructions per clock: 3600 x 1.05 over the host's.
    const double slower = 3600 * 1.05 / (host.turbo_clock.in_mhz() * host.single_thread_ipc);
    CHECK(after.host.dispatch_per_op / before.host.dispatch_per_op == doctest::Approx(slower));
    CHECK(after.host.dispatch_per_backward_op / before.host.dispatch_per_backward_op ==
          doctest::Approx(slower));
    CHECK(after.host.dispatch_per_optimizer_op / before.host.dispatch_per_optimizer_op ==
          doctest::Approx(slower));
    CHECK(after.host.dispatch_per_library_call / before.host.dispatch_per_library_call ==
          doctest::Approx(slower));
    CHECK(after.host.launch_per_kernel / before.host.launch_per_kernel == doctest::Approx(slower));
    CHECK(after.host.step_overhead / before.host.step_overhead == doctest::Approx(slower));
    const HostPooling fast = *find_framework("theano").host.pooling,
                      slow = *on_host(find_framework("theano"), reference, host).host.pooling;
    CHECK(slow.forward_per_cell / fast.forward_per_cell == doctest::Approx(slower));
    CHECK(slow.backward_per_cell / fast.backward_per_cell == doctest::Approx(slower));
    CHECK(slow.copy == fast.copy);
  }
}

TEST_CASE("every framework states its host costs for a CPU that has a spec") {
  const CpuCatalog cpus = CpuCatalog::embedded();
  for (const std::string& id : framework_ids()) {
    CAPTURE(id);
    const FrameworkProfile& framework = find_framework(id);
    CHECK(cpus.find(framework.host.reference_cpu).id == framework.host.reference_cpu);
  }
}

}  // namespace
}  // namespace tracecast

TEST_SUITE_END();
