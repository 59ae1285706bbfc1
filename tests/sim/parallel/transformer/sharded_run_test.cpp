#include "sim/parallel/transformer/sharded_run.hpp"

#include <doctest/doctest.h>

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("sim/parallel/transformer/sharded_run");

ShardedProblem two_units(double gather, double scatter) {
  const ShardedUnit unit{.forward = Seconds(1),
                         .backward = Seconds(2),
                         .gather = Seconds(gather),
                         .scatter = Seconds(scatter)};
  return {.units = {unit, unit}};
}

TEST_CASE(
    "weights gathered ahead hide behind kernels, the first gather and the last scatter do not") {
  // gather 0.5 | forward 1 (gather of the next beside it) | forward 1 | backward 2 | backward 2 |
  // scatter 0.25
  CHECK(run_sharded(two_units(0.5, 0.25)).makespan.in_s() ==
        doctest::Approx(0.5 + 1 + 1 + 2 + 2 + 0.25));
}

TEST_CASE("slow gathers leave kernels waiting") {
  // Gathers of 3 s end at 3 and 6: forward 3 to 4 and 6 to 7. The second unit's weights are still
  // there: backward 7 to 9; the first unit's are gathered from 6 to 9 again: backward 9 to 11.
  CHECK(run_sharded(two_units(3, 0)).makespan.in_s() == doctest::Approx(11));
  ShardedProblem kept = two_units(3, 0);
  kept.keeps_gathered = true;
  CHECK(run_sharded(kept).makespan.in_s() ==
        doctest::Approx(11));  // backward 7 to 9, 9 to 11: the same here
}

TEST_CASE("no collective leaves the kernels alone, and SMs given to collectives slow them down") {
  CHECK(run_sharded(two_units(0, 0)).makespan.in_s() == doctest::Approx(6));
  ShardedProblem problem = two_units(0.5, 0.25);
  const double before = run_sharded(problem).makespan.in_s();
  problem.slow_down = 1.25;
  CHECK(run_sharded(problem).makespan.in_s() > before);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
