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

TEST_CASE("strategies whose every copy is simulated say how many GPUs they take") {
  const test::ProcessResult result =
      test::run_process({TRACECAST_PROGRAM, "predict", "resnet50", "--gpu", "v100", "--gpus",
                         "1000000", "--framework", "mxnet", "--strategy", "kvstore_dist_device"},
                        Seconds(120));
  CHECK(result.exit_code == 2);
  CHECK(result.err.find("at most 16384") != std::string::npos);
  CHECK(test::count_lines(result.err) == 1);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
