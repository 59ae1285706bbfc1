#include "sim/plan/layout_search.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"

namespace tracecast::plan {
namespace {

TEST_SUITE_BEGIN("sim/plan/layout_search");

Place machines(std::int64_t gpus) {
  Place place;
  place.gpu = "a100_sxm4_80gb";
  place.machine = "dgx_a100";
  place.gpus = gpus;
  return place;
}

TEST_CASE("the search finds what asking for every parallel layout finds, on the front, too") {
  const Predictor predictor(Hardware::embedded());
  Job job;
  job.network = "gpt3_13b";
  Sharded base;
  base.plan.global_batch = 64;
  base.plan.pipeline = 2;
  const LayoutSearch fast = search_layouts(predictor, job, machines(16), base);
  const LayoutSearch all = search_layouts(predictor, job, machines(16), base, true);
  REQUIRE(fast.parallel_layouts.front().fits);
  CHECK(fast.parallel_layouts.front().samples_per_s.value >=
        0.97 * all.parallel_layouts.front().samples_per_s.value);
  CHECK(fast.predicted < all.predicted);
  CHECK(all.left_out == 0);
  // The front: slower and slower with less and less memory.
  REQUIRE(!fast.front.empty());
  CHECK(fast.front.front() == 0);
  for (std::size_t f = 1; f < fast.front.size(); ++f) {
    const ParallelLayout &before = fast.parallel_layouts[fast.front[f - 1]],
                         &after = fast.parallel_layouts[fast.front[f]];
    CHECK(after.memory < before.memory);
    CHECK(after.samples_per_s.value <= before.samples_per_s.value);
  }
}

TEST_CASE("what is given stays, one thread gives the same answer, and no global batch is refused") {
  const Predictor predictor(Hardware::embedded());
  Job job;
  job.network = "gpt3_2.7b";
  Sharded base;
  CHECK_THROWS_AS((void)search_layouts(predictor, job, machines(8), base), InputError);
  base.plan.global_batch = 64;
  base.plan.tensor = 2;
  base.plan.micro_batch = 4;
  const LayoutSearch one = search_layouts(predictor, job, machines(8), base, false, 1);
  const LayoutSearch two = search_layouts(predictor, job, machines(8), base, false, 2);
  REQUIRE(one.parallel_layouts.size() == two.parallel_layouts.size());
  for (std::size_t d = 0; d < one.parallel_layouts.size(); ++d) {
    CHECK(one.parallel_layouts[d].tensor == 2);
    CHECK(one.parallel_layouts[d].micro_batch == 4);
    CHECK(one.parallel_layouts[d].samples_per_s.value ==
          two.parallel_layouts[d].samples_per_s.value);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::plan
