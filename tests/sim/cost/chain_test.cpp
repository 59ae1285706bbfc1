#include "sim/cost/recurrent.hpp"

#include <doctest/doctest.h>

#include "sim/cost/price.hpp"
#include "tests/sim/cost/simple_machine.hpp"

namespace tracecast::cost {
namespace {

Kernel chain(double chains, double steps, double flops) {
  Kernel kernel;
  kernel.read = kernel.written = Bytes(1e6);
  kernel.work = ChainWork{.chains = chains, .steps = steps, .flops_per_step = flops};
  return kernel;
}

Roofs roofs_of(const Kernel& kernel) {
  const GpuSpec gpu = simple_gpu();
  const CostProfile profile = simple_profile();
  return estimate_chain(kernel, std::get<ChainWork>(kernel.work),
                        sustain(gpu, kernel.math, kernel.unit, profile), gpu, profile);
}

TEST_SUITE_BEGIN("sim/cost/chain");

TEST_CASE(
    "few chains wait for each of their steps; forty on ten SMs hide it no longer beyond four "
    "each") {
  // 2000 cycles at 1 GHz: 2 us a step.
  CHECK(roofs_of(chain(10, 100, 0)).compute.in_us() == doctest::Approx(200));
  CHECK(roofs_of(chain(40, 100, 0)).compute.in_us() == doctest::Approx(200));
  CHECK(roofs_of(chain(80, 100, 0)).compute.in_us() == doctest::Approx(400));
  CHECK(roofs_of(chain(5, 100, 0)).under_occupied);
  CHECK(roofs_of(chain(5, 100, 0)).memory.in_us() == doctest::Approx(20));  // 2 MB at 100 GB/s
}

TEST_CASE("a step's GEMMs run on the chain's SM alone") {
  const double wait = roofs_of(chain(10, 1, 0)).compute.in_s();
  const double one = roofs_of(chain(1, 1, 1e6)).compute.in_s() - wait;
  CHECK(roofs_of(chain(10, 1, 1e6)).compute.in_s() - wait == doctest::Approx(one).scale(0));
  CHECK(roofs_of(chain(20, 1, 1e6)).compute.in_s() - wait == doctest::Approx(2 * one).scale(0));
}

TEST_CASE("a chain rests on its spec: nobody measured one") {
  CHECK(estimate(chain(10, 10, 1e6), simple_gpu(), simple_profile()).basis == Basis::Spec);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::cost
