#include "calibrate/table/measurement.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "hwspecs/loaders/catalog.hpp"
#include "tests/sim/cost/simple_machine.hpp"

namespace tracecast {
namespace {

/// One op that streams so many bytes, as a framework runs it: 30 us of host, 10 of them after the
/// launch.
Measurement framework_op(double bytes) {
  IsolatedOp op;
  op.timing = Timing::FrameworkOp;
  op.host_floor = 30.0_us;
  op.after_launch = 10.0_us;
  op.launch = 5.0_us;
  op.step.ops.emplace_back().candidates.push_back({.kernels = {cost::stream(bytes, 0, 1)}});
  op.step.ops.back().workspace_limit = Bytes(1e18);
  Measurement m;
  m.work = op;
  return m;
}

double time_us(const Measurement& m) {
  const auto estimate = estimate_measurement(m, cost::simple_gpu(), cost::simple_profile());
  return estimate ? estimate->time.in_us() : 0.0;
}

TEST_SUITE("calibrate/table/measurement") {
  TEST_CASE("kernels of a framework's op run while the host goes on to the second event") {
    // 100 GB/s: 1 MB takes 10 us, 100 MB 1 ms.
    CHECK(time_us(framework_op(1e3)) == doctest::Approx(30.0));
    CHECK(time_us(framework_op(1e6)) == doctest::Approx(30.0));
    CHECK(time_us(framework_op(2e6)) == doctest::Approx(20.0 + 20.0).epsilon(0.001));
    CHECK(time_us(framework_op(1e8)) == doctest::Approx(20.0 + 1000.0).epsilon(0.001));
  }

  TEST_CASE(
      "in a framework's loop the host and the kernels run side by side: the longer one counts") {
    for (const auto& [bytes, us] :
         {std::pair{1e3, 30.0}, {1e6, 30.0}, {4e6, 40.0}, {1e8, 1000.0}}) {
      CAPTURE(bytes);
      Measurement m = framework_op(bytes);
      std::get<IsolatedOp>(m.work).timing = Timing::FrameworkLoop;
      CHECK(time_us(m) == doctest::Approx(us).epsilon(0.001));
    }
  }

  TEST_CASE("a session's own floor replaces the framework's") {
    const auto estimate = estimate_measurement(framework_op(1e8), cost::simple_gpu(),
                                               cost::simple_profile(), 50.0_us);
    REQUIRE(estimate.has_value());
    CHECK(estimate->time.in_us() == doctest::Approx(40.0 + 1000.0).epsilon(0.001));
  }

  TEST_CASE("a board measured with ECC on is priced so, if it has ECC") {
    const GpuCatalog gpus = GpuCatalog::embedded();
    SpecsAtClock specs(gpus);
    CHECK_FALSE(specs.find("m60")->ecc_default_on);
    const GpuSpec* measured = specs.find("m60", 557, true);
    CHECK(measured->effective_bandwidth() < specs.find("m60", 557)->effective_bandwidth());
    CHECK(measured->boost_clock.in_mhz() == doctest::Approx(557));
    CHECK_FALSE(specs.find("titanxp", 1404, true)->ecc_default_on);
  }

  TEST_CASE("a library's call waits for its kernels and one launch") {
    Measurement m = framework_op(1e8);
    std::get<IsolatedOp>(m.work).timing = Timing::LibraryCall;
    CHECK(time_us(m) == doctest::Approx(5.0 + 1000.0).epsilon(0.001));
  }
}

}  // namespace
}  // namespace tracecast
