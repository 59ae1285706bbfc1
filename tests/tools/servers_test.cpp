#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

ProcessResult predict(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {TRACECAST_PROGRAM, "predict", "resnet50", "--machine",
                                       "osu_ri2", "--gpu", "k80", "--batch", "16"});
  return run_process(arguments, Seconds(60));
}
Json json(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--format", "json"});
  const ProcessResult result = predict(arguments);
  REQUIRE(result.exit_code == 0);
  return Json::parse(result.out);
}
double rate(const std::vector<std::string>& arguments) {
  return json(arguments)["throughput_samples_per_s"]["value"].get<double>();
}

TEST_SUITE_BEGIN("tools/servers");

TEST_CASE("servers are nodes of their own, and what they cost is reported") {
  const Json doc = json({"--nodes", "5", "--servers", "2", "--channel", "grpc"});
  CHECK(doc["gpus"] == 3);
  CHECK(doc["nodes"] == 5);
  const Json& ps = doc["parameter_servers"];
  CHECK(ps["workers"] == 3);
  CHECK(ps["channel"] == "grpc");
  CHECK(ps["link"] == "ipoib_edr");
  CHECK(ps["synchronous"] == true);
  // ResNet-50: 53 convolutions, a scale and an offset for each, and the GEMM with its bias.
  CHECK(ps["variables"] == 53 * 3 + 2);
  CHECK(ps["pulled_bytes_per_worker"].get<double>() ==
        doctest::Approx(4 * doc["parameters"].get<double>()));
  double share = 0;
  for (const Json& part : ps["critical_path"]) share += part["share"].get<double>();
  CHECK(share == doctest::Approx(1));
  CHECK(doc["throughput_samples_per_s"]["value"].get<double>() ==
        doctest::Approx(3 * 16 / doc["step_time_s"]["value"].get<double>()));
}

TEST_CASE("RDMA beats TCP, a second server helps a full one, and asynchronous workers are stale") {
  const std::vector<std::string> nine{"--nodes", "9", "--strategy", "ps"};
  const auto with = [&](std::vector<std::string> extra) {
    extra.insert(extra.begin(), nine.begin(), nine.end());
    return extra;
  };
  const double grpc = rate(nine);
  CHECK(rate(with({"--channel", "rdma"})) > 1.5 * grpc);
  CHECK(rate(with({"--servers", "2"})) > 1.2 * grpc);
  const Json stale = json(with({"--async"}))["parameter_servers"];
  CHECK(stale["synchronous"] == false);
  CHECK(stale["staleness_updates"].get<double>() > 1);
  CHECK(stale["staleness_updates"].get<double>() <= 7);
}

TEST_CASE("the text fits 80 columns and CSV is a header and a row") {
  const ProcessResult text = predict({"--nodes", "4", "--servers", "1", "--channel", "mpi"});
  REQUIRE(text.exit_code == 0);
  std::istringstream lines(text.out);
  for (std::string line; std::getline(lines, line);) {
    std::size_t columns = 0;
    for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    CHECK(columns <= 80);
  }
  CHECK(count_lines(predict({"--nodes", "4", "--servers", "1", "--format", "csv"}).out) == 2);
}

TEST_CASE("what servers cannot be is one line and exit code 2") {
  const std::vector<std::vector<std::string>> wrong = {
      {"--servers", "0"},
      {"--servers", "4"},
      {"--servers", "-1"},
      {"--servers", "one"},
      {"--channel", "pigeon"},
      {"--placement", "anywhere"},
      {"--link", "nvlink2"},
      {"--server-device", "tpu"},
      {"--servers", "1", "--strategy", "ddp"},
      {"--servers", "1", "--phase", "infer"},
      {"--servers", "1", "--accumulate", "2"},
      {"--servers", "1", "--dump", "program"},
  };
  for (auto arguments : wrong) {
    CAPTURE(arguments[0]);
    CAPTURE(arguments.back());
    arguments.insert(arguments.end(), {"--nodes", "4"});
    const ProcessResult result = predict(arguments);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(count_lines(result.err) == 1);
  }
  const ProcessResult alone = predict({"--servers", "1"});
  CHECK(alone.exit_code == 2);
  CHECK(count_lines(alone.err) == 1);
}

TEST_CASE("several GPUs are explained by the kernels of all of them, 80 columns wide") {
  for (const char* strategy : {"ddp", "dataparallel"}) {
    CAPTURE(strategy);
    std::vector<std::string> arguments{
        TRACECAST_PROGRAM, "predict", "alexnet", "--gpu", "p40",        "--gpus", "4",
        "--framework",     "pytorch", "--batch", "1",     "--strategy", strategy, "--explain"};
    const ProcessResult text = run_process(arguments, Seconds(60));
    REQUIRE(text.exit_code == 0);
    std::istringstream lines(text.out);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("\u2588") == std::string::npos)
        CHECK(line.size() <= 80);  // bars have wide letters
    }
    arguments.insert(arguments.end(), {"--format", "json"});
    const ProcessResult result = run_process(arguments, Seconds(60));
    REQUIRE(result.exit_code == 0);
    const Json doc = Json::parse(result.out);
    double share = 0;
    bool communications = false;
    for (const Json& part : doc["device_time"]) {
      share += part["share"].get<double>();
      communications |= part["class"] == "broadcast" || part["class"] == "collectives";
    }
    CHECK(share == doctest::Approx(1));
    CHECK(communications);
    CHECK(doc.contains("host_calls") == (std::string(strategy) == "dataparallel"));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
