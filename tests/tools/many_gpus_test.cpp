#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/process.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("tools/many_gpus");

// run_process leaves a program 2 GiB.
TEST_CASE("a million GPUs that are alike need no memory and no links each") {
  const test::ProcessResult result =
      test::run_process({TRACECAST_PROGRAM, "predict", "resnet50", "--gpu", "v100", "--gpus",
                         "1000000", "--format", "json"},
                        Seconds(120));
  REQUIRE(result.exit_code == 0);
  const auto answer = nlohmann::json::parse(result.out);
  CHECK(answer["gpus"] == 1'000'000);
  CHECK(answer["nodes"] == 125'000);
  CHECK(answer["throughput_samples_per_s"]["value"].get<double>() > 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
