#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

ProcessResult colocate(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {TRACECAST_PROGRAM, "colocate"});
  return run_process(arguments, Seconds(60));
}

TEST_SUITE_BEGIN("tools/colocate");

TEST_CASE("jobs at once are told with what is left of their rates") {
  const ProcessResult result = colocate({"job:lstm_wikitext2:20", "resnet50:16", "--framework",
                                         "pytorch", "--gpu", "v100", "--format", "json"});
  REQUIRE(result.exit_code == 0);
  const Json doc = Json::parse(result.out);
  CHECK(doc["schema"] == "tracecast.colocation/1");
  REQUIRE(doc["jobs"].size() == 2);
  double sum = 0;
  for (const Json& job : doc["jobs"]) {
    CHECK(job["throughput_samples_per_s"].get<double>() <
          1.001 * job["alone_samples_per_s"].get<double>());
    sum += job["normalized_rate"].get<double>();
  }
  CHECK(doc["normalized_sum"].get<double>() == doctest::Approx(sum));
  CHECK(doc["normalized_sum"].get<double>() < 2.0);
  const std::string text = colocate({"resnet50:16", "vgg16:16@1", "--gpu", "v100"}).out;
  CHECK(text.find("together") != std::string::npos);
}

TEST_CASE("what does not fit is answered with no") {
  const ProcessResult result =
      colocate({"resnet152:128", "resnet152:128", "--framework", "pytorch", "--gpu", "p100"});
  CHECK(result.exit_code == 1);
  CHECK(result.out.find("do not fit") != std::string::npos);
}

TEST_CASE("a training program settles network, framework and loop") {
  const ProcessResult result =
      run_process({TRACECAST_PROGRAM, "predict", "job:transformer_multi30k", "--gpu", "p100",
                   "--batch", "16", "--format", "json"},
                  Seconds(30));
  REQUIRE(result.exit_code == 0);
  const Json doc = Json::parse(result.out);
  CHECK(doc["framework"] == "pytorch");
  CHECK(doc["network"].get<std::string>().find("transformer") != std::string::npos);
}

TEST_CASE("wrong words get one line and exit code 2") {
  struct Row {
    std::vector<std::string> arguments;
    std::string says;
  };
  const Row rows[] = {
      {{"resnet50:0", "--gpu", "v100"}, "batch after the colon"},
      {{"resnet50@99", "--gpu", "v100"}, "0 to 15"},
      {{"job:lstm_wikitext", "--gpu", "v100"}, "nearest: lstm_wikitext2"},
      {{"job:a3c_pong:2", "--gpu", "v100"}, "the only one its loop knows"},
      {{"resnet50", "--gpu", "cpu:e5_2667"}, "a GPU"},
      {{"resnet50", "--gpu", "v100", "--set", "sharing.slice=1"}, "time_slice_us"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.says);
    const ProcessResult result = colocate(row.arguments);
    CHECK(result.exit_code == 2);
    CHECK(result.err.find(row.says) != std::string::npos);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
