#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using namespace tracecast;
using namespace tracecast::test;
using Json = nlohmann::json;

Json report(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TRACECAST_PROGRAM);
  const ProcessResult result = run_process(arguments);
  REQUIRE(result.exit_code == 0);
  return Json::parse(result.out);
}

}  // namespace

TEST_CASE(
    "a step of several GPUs is written as a trace, a process for each, and read back to its time") {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "t.json";
  const Json predicted =
      report({"predict", "resnet50", "--gpu", "v100", "--gpus", "4", "--machine", "dgx1", "--batch",
              "16", "--framework", "pytorch", "--format", "json", "--trace", file});
  const Json read = report({"trace", "summary", file, "--format", "json"});
  CHECK(read["gpus_used"] == 4);
  CHECK(read["gpus_in_host"] == 4);
  CHECK(read["streams"] == 8);  // kernels and gradients of each
  REQUIRE(read["steps_s"].size() == 1);
  const double step = predicted["step_time_s"]["value"];
  CHECK(read["steps_s"][0].get<double>() == doctest::Approx(step).epsilon(1e-6));
  CHECK(read["span_s"].get<double>() <= step * 1.000001);
  CHECK(read["collective_kernels"].get<int>() > 0);
  CHECK(read["collective_kernels"].get<int>() % 4 == 0);
  for (const Json& entry : read["left_out"]) CHECK(entry["damaged"] == false);
}
