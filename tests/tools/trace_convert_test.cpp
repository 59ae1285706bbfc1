#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "sim/base/file.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"

namespace {

using namespace tracecast;
using namespace tracecast::test;
using Json = nlohmann::json;

/// A step of 600 us with a GEMM of `gemm_us` and, where `more` names one, another kernel of 50 us.
std::string recording(int gemm_us, const std::string& more) {
  const std::string kernel = R"({"ph":"X","cat":"kernel","pid":0,"tid":7,)";
  std::string text =
      R"({"deviceProperties": [{"id": 0, "name": "Tesla T4"}], "traceEvents": [)"
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":0,"dur":5,"args":{"correlation":1}},)"
      R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":600},)" +
      kernel + R"("name":"volta_sgemm_128x64_nn","ts":10,"dur":)" + std::to_string(gemm_us) +
      R"(,"args":{"device":0,"stream":7,"correlation":1}})";
  if (!more.empty())
    text += "," + kernel + R"("name":")" + more +
            R"(","ts":400,"dur":50,"args":{"device":0,"stream":7}})";
  return text + "]}";
}

ProcessResult trace(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"trace"});
  return test::tracecast(arguments);
}

Json summary(const std::string& file) {
  Json doc = Json::parse(trace({"summary", file, "--format", "json"}).out);
  doc.erase("inputs");
  doc.erase("left_out");  // JSON has arrows, which are left out
  return doc;
}

}  // namespace

TEST_CASE("trace convert writes files that say the same, and says what it wrote") {
  const TemporaryFolder folder;
  const std::string from = folder.path() / "t.json";
  write_file(from, recording(100, "vectorized_elementwise_kernel"));
  const Json said = summary(from);
  for (const char* to : {"chrome", "tracecast"}) {
    CAPTURE(to);
    const std::string out = folder.path() / (std::string("out.") + to);
    const ProcessResult result = trace({"convert", from, "--to", to, "-o", out});
    CHECK(result.exit_code == 0);
    CHECK(result.out.empty());
    CHECK(result.err.starts_with("wrote "));
    CHECK(summary(out) == said);
    CHECK_FALSE(std::filesystem::exists(out + ".partial"));
  }
}

TEST_CASE(
    "trace convert to chakra keeps the kernels' times, and says what the form does not hold") {
  const TemporaryFolder folder;
  const std::string from = folder.path() / "t.json", out = folder.path() / "t.0.et";
  write_file(from, recording(100, "vectorized_elementwise_kernel"));
  const ProcessResult result = trace({"convert", from, "--to", "chakra", "-o", out});
  CHECK(result.exit_code == 0);
  CHECK(result.err.find("between work and what waited for it") != std::string::npos);
  const Json before = summary(from), after = summary(out);
  CHECK(after["format"] == "Chakra execution trace 0.0.4");
  CHECK(after["kernels"] == before["kernels"]);
  CHECK(after["classes"] == before["classes"]);
  CHECK(after["gpu_nodes_s"].get<double>() == doctest::Approx(150e-6));
  // Nodes are written as they stand.
  const std::string again = folder.path() / "again.et";
  CHECK(trace({"convert", out, "--to", "chakra", "-o", again}).exit_code == 0);
  CHECK(summary(again) == after);
}

TEST_CASE("trace convert refuses what it cannot do in one line, and writes nothing") {
  const TemporaryFolder folder;
  const std::string from = folder.path() / "t.json", sums = folder.path() / "sums.csv";
  write_file(from, recording(100, ""));
  write_file(
      sums,
      "==1== NVPROF is profiling process 1, command: ./a\n==1== Profiling result:\n"
      "\"Type\",\"Time(%)\",\"Time\",\"Calls\",\"Avg\",\"Min\",\"Max\",\"Name\"\n,%,ms,,ms,ms,ms,\n"
      "\"GPU activities\",100,1,1,1,1,1,\"k\"\n");
  const std::string out = folder.path() / "out";
  const std::vector<std::vector<std::string>> wrong = {
      {"convert", from, "--to", "word", "-o", out},
      {"convert", from, "--to", "chrome", "-o", from},
      {"convert", from, "--to", "chrome", "-o", folder.path() / "no" / "out"},
      {"convert", from, "--to", "chrome", "--rank", "1", "-o", out},
      {"convert", sums, "--to", "chrome", "-o", out},
      {"convert", folder.path() / "absent", "--to", "chrome", "-o", out}};
  for (const auto& arguments : wrong) {
    CAPTURE(arguments[1] + " " + arguments[3]);
    const ProcessResult result = trace(arguments);
    CHECK(result.exit_code == 2);
    CHECK(count_lines(result.err) == 1);
    CHECK_FALSE(std::filesystem::exists(out));
  }
  CHECK(read_file(from, 1 << 20) == recording(100, ""));
  // Sums have no begin; our form holds them.
  CHECK(trace({"convert", sums, "--to", "tracecast", "-o", out}).exit_code == 0);
  CHECK(summary(out) == summary(sums));
}

TEST_CASE("trace diff names what became slower, what is new and what is gone") {
  const TemporaryFolder folder;
  const std::string a = folder.path() / "a.json", b = folder.path() / "b.json",
                    c = folder.path() / "b.tctrace";
  write_file(a, recording(100, "vectorized_elementwise_kernel"));
  write_file(b, recording(150, "softmax_warp_forward"));
  REQUIRE(trace({"convert", b, "--to", "tracecast", "-o", c}).exit_code == 0);
  const Json doc = Json::parse(trace({"diff", a, c, "--format", "json"}).out);
  CHECK(doc["schema"] == "tracecast.trace_diff/2");
  CHECK(doc["gpu_time_s"]["a"].get<double>() == doctest::Approx(150e-6));
  CHECK(doc["gpu_time_s"]["difference"].get<double>() == doctest::Approx(50e-6));
  CHECK(doc["step_s"]["difference"].get<double>() == 0);
  REQUIRE(doc["kernels"].size() == 3);
  for (const Json& kernel : doc["kernels"]) {
    CHECK(std::abs(kernel["difference_s"].get<double>()) == doctest::Approx(50e-6));
    if (kernel["name"] == "softmax_warp_forward") CHECK(kernel["change"] == "appeared");
    if (kernel["class"] == "elementwise") CHECK(kernel["change"] == "vanished");
    if (kernel["class"] == "gemm") CHECK(kernel["change"] == "both");
  }
  const ProcessResult text = trace({"diff", a, c, "--per-step"});
  CHECK(text.exit_code == 0);
  for (const char* word : {"Tesla T4", "GPU busy", "new", "gone", "+50 %", "of each step"})
    CHECK(text.out.find(word) != std::string::npos);
  std::istringstream lines(text.out);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
    CHECK_FALSE(line.ends_with(' '));
  }
  CHECK(trace({"diff", a, c, "--format", "csv"}).out.starts_with("section,name,class,count_a,"));
}

TEST_CASE("trace diff per step needs steps on both sides") {
  const TemporaryFolder folder;
  const std::string a = folder.path() / "a.json", list = folder.path() / "list.csv";
  write_file(a, recording(100, ""));
  write_file(list, "Name,Duration\nk,100\n");
  CHECK(trace({"diff", a, list}).exit_code == 0);
  const ProcessResult result = trace({"diff", a, list, "--per-step"});
  CHECK(result.exit_code == 2);
  CHECK(count_lines(result.err) == 1);
}
