#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process.hpp"
#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

ProcessResult colocate(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"colocate"});
  return tracecast(arguments);
}

TEST_SUITE_BEGIN("tools/colocate");

TEST_CASE("jobs at once are reported with what is left of their rates") {
  const ProcessResult result = colocate({"job:lstm_wikitext2:20", "resnet50:16", "--framework",
                                         "pytorch", "--gpu", "v100", "--format", "json"});
  REQUIRE(result.exit_code == 0);
  const Json doc = Json::parse(result.out);
  CHECK(doc["schema"] == "tracecast.colocation/2");
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
  CHECK(doc["framework"].get<std::string>().starts_with("pytorch"));
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
      {{"resnet50@16", "--gpu", "v100"}, "--machine names one"},
      {{"resnet50@8", "--gpu", "v100", "--machine", "dgx1"}, "0 to 7 (dgx1_v100 has 8 GPUs)"},
      {{"resnet50:32@9", "vgg16", "--gpu", "v100", "--machine", "dgx1"}, "\"resnet50:32@9\""},
      {{"vgg16", "resnet50@-1", "--gpu", "v100", "--machine", "dgx1"}, "0 to 7"},
      {{"resnet50@99999999999999999999", "--gpu", "v100", "--machine", "dgx1"}, "0 to 7"},
      {{"resnet50@one", "--gpu", "v100", "--machine", "dgx1"}, "0 to 7"},
      {{"resnet50@1.5", "--gpu", "v100", "--machine", "dgx1"}, "0 to 7"},
      {{"resnet50@", "--gpu", "v100", "--machine", "dgx1"}, "0 to 7"},
      {{"resnet50@16", "--gpu", "v100", "--machine", "dgx2"}, "0 to 15 (dgx2 has 16 GPUs)"},
      {{"resnet50@1", "--gpu", "k80", "--machine", "aws_p2_xlarge"}, "(aws_p2_xlarge has 1 GPU)"},
      {{"resnet50@4", "--gpu", "gb200", "--machine", "gb200_nvl72"},
       "0 to 3 (a host of gb200_nvl72 has 4 GPUs)"},
      {{"resnet50", "--gpu", "t4", "--machine", "dgx1"}, "its SXM2 slots"},
      {{"job:lstm_wikitext", "--gpu", "v100"}, "expected one of lstm_wikitext2"},
      {{"job:a3c_pong:2", "--gpu", "v100"}, "the only one its loop knows"},
      {{"resnet50", "--gpu", "cpu:e5_2667"}, "a GPU"},
      {{"resnet50", "--gpu", "v100", "--set", "sharing.slice=1"}, "time_slice_us"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.says);
    const ProcessResult result = colocate(row.arguments);
    CHECK(result.exit_code == 2);
    CHECK(result.out == "");
    CHECK(count_lines(result.err) == 1);
    CHECK(result.err.find(row.says) != std::string::npos);
  }
}

TEST_CASE("every GPU of the box takes a job, the last one too") {
  for (const std::vector<std::string>& box : {std::vector<std::string>{"resnet50:32@7", "dgx1"},
                                              {"resnet50:32@15", "dgx2"},
                                              {"resnet50:32@0", "aws_p3_2xlarge"}}) {
    CAPTURE(box[0]);
    const ProcessResult result =
        colocate({box[0], "--gpu", "v100", "--machine", box[1], "--format", "json"});
    CHECK(result.exit_code == 0);
  }
  CHECK(colocate({"resnet50:32@15", "--gpu", "v100"}).exit_code == 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
