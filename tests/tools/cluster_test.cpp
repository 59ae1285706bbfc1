#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

/// Lines that begin with "gpu0 ", "gpu1 " and so on; checks that every line fits 80 columns.
std::size_t rows_of_gpus(const std::string& text) {
  std::istringstream lines(text);
  std::size_t rows = 0;
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
    rows += line.starts_with("gpu" + std::to_string(rows) + " ") ? 1 : 0;
  }
  return rows;
}

/// A machine whose `gpus` hang on one NVSwitch and one socket.
std::string machine_of(int gpus) {
  std::string text =
      R"(id: "rack" name: "Rack"
sources { key: "doc" title: "t" where: "w" }
cpu { value: "platinum_8168" source: "doc" }
sockets { value: 1 source: "doc" }
hardware_threads { value: 48 source: "doc" }
memory_gib { value: 1536 source: "doc" }
gpu { value: "gb200" source: "doc" }
node { name: "cpu0" kind: SOCKET source: "doc" }
node { name: "nvswitch" kind: NVSWITCH source: "doc" }
)";
  for (int i = 0; i < gpus; ++i) {
    const std::string name = "gpu" + std::to_string(i);
    text += "node { name: \"" + name + "\" kind: GPU source: \"doc\" }\n";
    text += "link { a: \"" + name + "\" b: \"cpu0\" id: \"pcie5_x16\" source: \"doc\" }\n";
    text +=
        "link { a: \"" + name + "\" b: \"nvswitch\" id: \"nvlink5\" count: 18 source: \"doc\" }\n";
  }
  return text;
}

TEST_SUITE_BEGIN("tools/cluster");

TEST_CASE("a machine's GPUs are all shown within 80 columns, with what joins them") {
  struct Row {
    const char* machine;
    std::size_t gpus;
  };
  const Row rows[] = {{"dgx1_v100", 8},        {"dgx2", 16},        {"dgx_a100", 8},
                      {"dgx_h100", 8},         {"dgx_b200", 8},     {"dgx_b300", 8},
                      {"gb200_nvl72", 72},     {"gb300_nvl72", 72}, {"gh200_quad", 4},
                      {"aws_p2_16xlarge", 16}, {"gh200_nvl2", 2}};
  for (const Row& row : rows) {
    CAPTURE(row.machine);
    const ProcessResult text = tracecast({"cluster", "--machine", row.machine});
    REQUIRE(text.exit_code == 0);
    CHECK(text.out.starts_with(std::to_string(row.gpus) + " GPUs on 1 node"));
    CHECK(rows_of_gpus(text.out) == row.gpus);
    const auto doc = nlohmann::json::parse(
        tracecast({"cluster", "--machine", row.machine, "--format", "json"}).out);
    CHECK(doc["gpus"] == row.gpus);
    CHECK(doc["groups"][0]["ways"].size() == row.gpus * (row.gpus - 1));
  }
  // Who means trays reads that nodes are racks.
  CHECK(tracecast({"cluster", "--machine", "gb200_nvl72", "--gpus", "8", "--nodes", "2", "--format",
                   "json"})
            .out.find("a rack of 18 hosts, 4 GPUs used in each") != std::string::npos);
  // Half of the pairs of K80 boards' GPUs share a board or a switch: three ways and their counts.
  const std::string k80 = tracecast({"cluster", "--machine", "aws_p2_16xlarge"}).out;
  CHECK(k80.find("  a  PIX ") != std::string::npos);
  CHECK(tracecast({"cluster", "--machine", "dgx2"}).out.find("  a  NV 135    240 ways") !=
        std::string::npos);
  CHECK(tracecast({"cluster", "--gpu", "v100", "--gpus", "1"}).out.starts_with("1 GPU on 1 node"));
}

TEST_CASE("machines of more GPUs than there are today are shown as far as columns go") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "machine");
  struct Row {
    int gpus;
    std::size_t shown;
    const char* says;
  };
  const Row rows[] = {{18, 18, "306 ways"},
                      {36, 36, "1260 ways"},
                      {72, 72, "5112 ways"},
                      {90, 74, "and 16 more GPUs"}};
  for (const Row& row : rows) {
    CAPTURE(row.gpus);
    write_file(folder.path() / "machine" / "rack.textproto", machine_of(row.gpus));
    const ProcessResult text =
        tracecast({"cluster", "--machine", "rack", "--hwspecs", folder.path()});
    CAPTURE(text.err);
    REQUIRE(text.exit_code == 0);
    CHECK(rows_of_gpus(text.out) == row.shown);
    CHECK(text.out.find(row.says) != std::string::npos);
  }
}

TEST_CASE("collectives are of all GPUs of a machine unless fewer are asked for") {
  const auto first_line = [](const Words& more) {
    Words words = {"collectives", "--sizes", "1K,64KiB,1MB,1e6"};
    words.insert(words.end(), more.begin(), more.end());
    return tracecast(words).out;
  };
  CHECK(first_line({"--machine", "dgx_a100"}).starts_with("all-reduce of 8 GPUs on 1 node"));
  CHECK(first_line({"--machine", "dgx_a100", "--gpus", "2"}).starts_with("all-reduce of 2 GPUs"));
  const std::string csv = first_line({"--machine", "dgx_a100", "--format", "csv"});
  for (const char* line : {"\n1024,", "\n65536,", "\n1000000,"}) {
    CAPTURE(line);
    CHECK(csv.find(line) != std::string::npos);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
