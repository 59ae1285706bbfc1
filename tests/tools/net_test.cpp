#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/process.hpp"
#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

ProcessResult net(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"net"});
  return tracecast(arguments);
}

TEST_SUITE_BEGIN("tools/net");

TEST_CASE("each channel asked for answers with its link, in the order asked") {
  const ProcessResult result = net({"--machine", "sdsc_comet", "--channel", "rdma,grpc",
                                    "--payload", "skew", "--format", "json"});
  REQUIRE(result.exit_code == 0);
  const Json doc = Json::parse(result.out);
  CHECK(doc["schema"] == "tracecast.net/2");
  REQUIRE(doc["channels"].size() == 2);
  CHECK(doc["channels"][0]["channel"] == "rdma_grpc");
  CHECK(doc["channels"][0]["link"] == "infiniband_fdr");
  CHECK(doc["channels"][1]["link"] == "ipoib_fdr");
  // 6 large, 3 medium and 1 small buffer
  CHECK(doc["channels"][0]["payload_bytes"] == doctest::Approx(6 * 1048576 + 3 * 10240 + 10));
  for (const Json& channel : doc["channels"]) {
    CHECK(channel["bandwidth_mb_per_s"] < channel["wire_gb_per_s"].get<double>() * 1000 + 1e-6);
    CHECK(channel["parameter_server_mb_per_s"].get<double>() <=
          channel["bandwidth_mb_per_s"].get<double>() * (1 + 1e-9));
  }
}

TEST_CASE("serialising costs time, and more servers bring more messages") {
  const auto figure = [](std::vector<std::string> extra, const char* key) {
    extra.insert(extra.end(), {"--channel", "grpc", "--format", "json"});
    return Json::parse(net(extra).out)["channels"][0][key].get<double>();
  };
  CHECK(figure({"--serialized"}, "payload_latency_us") > figure({}, "payload_latency_us"));
  const char* rate = "parameter_server_messages_per_s";
  CHECK(figure({"--servers", "2", "--workers", "8"}, rate) ==
        doctest::Approx(2 * figure({"--servers", "1", "--workers", "8"}, rate)));
}

TEST_CASE("the text fits 80 columns with all channels, and CSV has a line per figure") {
  const ProcessResult text = net({});
  REQUIRE(text.exit_code == 0);
  std::istringstream lines(text.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  const ProcessResult csv = net({"--channel", "grpc", "--sizes", "1,2", "--format", "csv"});
  CHECK(count_lines(csv.out) == 1 + 2 + 6);
  const auto with = [](const char* sizes, const char* large) {
    return net({"--channel", "grpc", "--sizes", sizes, "--large", large, "--format", "csv"}).out;
  };
  CHECK(with("1K,64KiB,2MB", "2M") == with("1024,65536,2e6", "2097152"));
}

TEST_CASE("a wrong value is one line and exit code 2") {
  const std::vector<std::vector<std::string>> wrong = {
      {"--channel", "pigeon"},

      {"--payload", "fat"},
      {"--machine", "abacus"},
      {"--link", "pcie3_x16"},
      {"--link", "string"},
      {"--link", "ipoib_edr", "--channel", "rdma"},
      {"--machine", "x99_workstation"},
      {"--small", "0"},
      {"--small", "nan"},
      {"--large", "-1"},
      {"--large", "1e300"},
      {"--medium", "5"},
      {"--buffers", "0"},
      {"--buffers", "1000000000"},
      {"--servers", "0"},
      {"--workers", "-3"},
      {"--processes", "1"},
      {"--sizes", "1,x"},
      {"--sizes", "-1"},
      {"--sizes", "1K,2X"},
      {"--sizes", ""},
      {"--small", "2K", "--medium", "1K"},
      {"--large", "1e13"},
      {"--format", "xml"},
      {"--banana"},
      {"extra"},
  };
  for (const auto& arguments : wrong) {
    CAPTURE(arguments[0]);
    CAPTURE(arguments.back());
    const ProcessResult result = net(arguments);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(count_lines(result.err) == 1);
  }
}

TEST_CASE("studies are listed and run by name, and unknown ones refused") {
  const auto study = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"study"});
    return tracecast(arguments);
  };
  CHECK(study({"list"}).out.find("s_osu") != std::string::npos);
  CHECK(Json::parse(study({"list", "--format", "json"}).out)["studies"].size() >= 1);
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {}, {"run"}, {"run", "s_moon"}, {"walk"}, {"run", "s_osu", "--format", "xml"}}) {
    const ProcessResult result = study(arguments);
    CHECK(result.exit_code == 2);
    CHECK(count_lines(result.err) == 1);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
