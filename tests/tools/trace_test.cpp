#include <doctest/doctest.h>

#include <fstream>
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

/// Two kernels of 100 and 300 us, 100 us apart, the second launched late; a step of 600 us; a copy.
const std::string kTrace =
    R"~({"deviceProperties": [{"id": 0, "name": "Tesla T4"}], "traceEvents": [
  {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":0,"dur":5,"args":{"correlation":1}},
  {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":205,"dur":5,"args":{"correlation":2}},
  {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":100,"dur":120,"args":{"External id":9}},
  {"ph":"X","cat":"kernel","name":"volta_sgemm_128x64_nn","pid":0,"tid":7,"ts":10,"dur":100,
   "args":{"device":0,"stream":7,"correlation":1}},
  {"ph":"X","cat":"kernel","name":"void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(x)","pid":0,
   "tid":7,"ts":210,"dur":300,"args":{"device":0,"stream":7,"correlation":2}},
  {"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pageable -> Device)","pid":0,"tid":7,"ts":0,"dur":10,
   "args":{"device":0,"stream":7,"bytes":1000000}},
  {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":600},
  {"ph":"X","cat":"python_function","name":"f","pid":1,"tid":1,"ts":0,"dur":600},
  {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":-5}]})~";

ProcessResult summary(const std::string& file, std::vector<std::string> more = {}) {
  std::vector<std::string> command = {"trace", "summary", file};
  command.insert(command.end(), more.begin(), more.end());
  return test::tracecast(command);
}

}  // namespace

TEST_CASE("a record that covers later ones of its stream is warned of with counts") {
  const TemporaryFolder folder;
  std::string events;
  for (int i = 0; i < 33; ++i) {
    events += R"(,{"ph":"X","cat":"kernel","name":"flash_fwd_kernel","pid":0,"tid":7,"ts":)" +
              std::to_string(10 + 10 * i) + R"(,"dur":8,"args":{"device":0,"stream":7}})";
  }
  const auto record = [&](int duration) {
    write_file(
        folder.path() / "t.json",
        R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"_matmul_ogs_NNT_bf16","pid":0,"tid":7,"ts":0,"dur":)" +
            std::to_string(duration) + R"(,"args":{"device":0,"stream":7}})" + events + "]}");
    return folder.path() / "t.json";
  };
  const std::string wrong = record(1000);
  const ProcessResult text = summary(wrong);
  CHECK(text.out.find("Warning") != std::string::npos);
  CHECK(text.out.find("1 kernel lasts past the end of 33 later kernels") != std::string::npos);
  const Json doc = Json::parse(summary(wrong, {"--format", "json"}).out);
  CHECK(doc["overruns"]["records"] == 1);
  CHECK(doc["overruns"]["successors"] == 33);
  CHECK(doc["classes"][0]["class"] == "grouped_gemm");
  CHECK(doc["classes"][1]["class"] == "attention");
  CHECK(summary(wrong, {"--strict"}).exit_code == 1);
  const std::string page = folder.path() / "page.html";
  CHECK(summary(wrong, {"--report", page}).exit_code == 0);
  CHECK(read_file(page, 1 << 24).find("past the end of 33 later kernels") != std::string::npos);
  const std::string right = record(9);
  CHECK(summary(right).out.find("Warning") == std::string::npos);
  CHECK(summary(right, {"--strict"}).exit_code == 0);
}

TEST_CASE("trace summary as JSON has the stable keys with the trace's figures") {
  const TemporaryFolder folder;
  write_file(folder.path() / "t.json", kTrace);
  const ProcessResult result = summary(folder.path() / "t.json", {"--format", "json"});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  const Json doc = Json::parse(result.out);
  CHECK(doc["schema"] == "tracecast.trace_summary/2");
  CHECK(doc["gpu"] == "Tesla T4");
  CHECK(doc["kernels"] == 2);
  CHECK(doc["streams"] == 1);
  CHECK(doc["span_s"].get<double>() == doctest::Approx(500e-6));
  CHECK(doc["busy_s"].get<double>() == doctest::Approx(400e-6));
  REQUIRE(doc["steps_s"].size() == 1);
  CHECK(doc["steps_s"][0].get<double>() == doctest::Approx(600e-6));
  REQUIRE(doc["classes"].size() == 3);
  CHECK(doc["classes"][0]["class"] == "convolution");
  CHECK(doc["classes"][0]["share"].get<double>() == doctest::Approx(300.0 / 410));
  CHECK(doc["convolution_algorithms"][0]["algorithm"] == "winograd_nonfused");
  CHECK(doc["copies"][0]["bytes_per_s"].get<double>() == doctest::Approx(1e11));
  REQUIRE(doc["idle"].size() == 1);
  CHECK(doc["idle"][0]["cause"] == "launch");
  CHECK(doc["left_out"].size() == 2);
  CHECK(doc["inputs"][0]["sha256"].get<std::string>().size() == 64);
}

TEST_CASE("trace summary as text stays within 80 columns and names what matters") {
  const TemporaryFolder folder;
  write_file(folder.path() / "t.json", kTrace);
  const ProcessResult result = summary(folder.path() / "t.json");
  CHECK(result.exit_code == 0);
  for (const char* word :
       {"Tesla T4", "1 step of 600 us", "winograd_nonfused", "launch: host dispatching",
        "host_to_device, pageable", "DAMAGED: event of negative duration", "Python function"}) {
    CAPTURE(word);
    CHECK(result.out.find(word) != std::string::npos);
  }
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    std::size_t columns = 0;
    for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    CHECK(columns <= 80);
    CHECK_FALSE(line.ends_with(' '));
  }
}

TEST_CASE("trace summary of a range of time counts what lies in it, in part or whole") {
  const TemporaryFolder folder;
  const std::string json = folder.path() / "t.json", ours = folder.path() / "t.tctrace";
  write_file(json, kTrace);
  REQUIRE(
      run_process({TRACECAST_PROGRAM, "trace", "convert", json, "--to", "tracecast", "-o", ours})
          .exit_code == 0);
  struct Row {
    std::vector<std::string> range;
    int kernels;
    double busy_us;
  };
  const Row rows[] = {{{"--from", "0s"}, 2, 400},
                      {{"--to", "205us"}, 1, 100},
                      {{"--from", "0.15ms"}, 1, 300},
                      {{"--from", "109999ns", "--to", "211us"}, 2, 400},
                      {{"--from", "110us", "--to", "210us"}, 0, 0}};
  for (const Row& row : rows) {
    for (const std::string& file : {json, ours}) {
      CAPTURE(file);
      CAPTURE(row.range.back());
      std::vector<std::string> more = row.range;
      more.insert(more.end(), {"--format", "json"});
      const ProcessResult result = summary(file, more);
      REQUIRE(result.exit_code == 0);
      const Json doc = Json::parse(result.out);
      CHECK(doc["kernels"] == row.kernels);
      CHECK(doc["busy_s"].get<double>() == doctest::Approx(row.busy_us * 1e-6));
    }
  }
  CHECK(summary(json, {"--from", "100us"}).out.find("from 100us to its end") != std::string::npos);
  const std::vector<std::vector<std::string>> wrong = {
      {"--from", "7"},   {"--to", "x"},        {"--from", "2ms", "--to", "1ms"},
      {"--from", "-1s"}, {"--from", "1.2.3s"}, {"--to", "0s"},
      {"--from", "1h"},  {"--from", "99s"}};
  for (const auto& range : wrong) {
    CAPTURE(range.back());
    for (const std::string& file : {json, ours}) {
      const ProcessResult result = summary(file, range);
      CHECK(result.exit_code == 2);
      CHECK(count_lines(result.err) == 1);
    }
  }
}

TEST_CASE("trace summary as CSV has one line for each class") {
  const TemporaryFolder folder;
  write_file(folder.path() / "t.json", kTrace);
  const ProcessResult result = summary(folder.path() / "t.json", {"--format", "csv"});
  CHECK(result.out.starts_with("section,name,count,time_s,share\nclass,convolution,1,0.0003,"));
}

TEST_CASE("damaged records are a warning, and with --strict the answer no") {
  const TemporaryFolder folder;
  write_file(folder.path() / "t.json", kTrace);
  CHECK(summary(folder.path() / "t.json", {"--strict"}).exit_code == 1);
}

TEST_CASE("what is no trace is refused in one line that names the formats") {
  const TemporaryFolder folder;
  write_file(folder.path() / "t.txt", "hello\n");
  const ProcessResult result = summary(folder.path() / "t.txt");
  CHECK(result.exit_code == 2);
  CHECK(count_lines(result.err) == 1);
  CHECK(result.err.find("nvprof") != std::string::npos);
  CHECK(summary(folder.path() / "absent").exit_code == 2);
}

TEST_CASE("trace replay on another GPU gives an interval and says what was scaled how") {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "t.json", out = folder.path() / "out.json";
  write_file(file, kTrace);
  const ProcessResult result = run_process({TRACECAST_PROGRAM, "trace", "replay", file, "--gpu",
                                            "v100_sxm2_16gb", "--trace", out, "--format", "json"});
  REQUIRE(result.exit_code == 0);
  const Json moved = Json::parse(result.out)["transfer"];
  CHECK(moved["from"] == "t4");
  CHECK(moved["to"] == "v100_sxm2_16gb");
  CHECK(moved["basis"] == "transferred");
  CHECK(moved["recorded_kernel_time_s"].get<double>() == doctest::Approx(400e-6));
  const Json& kernels = moved["kernel_time_s"];
  CHECK(kernels["value"].get<double>() < 400e-6);  // more lanes, more bandwidth
  CHECK(kernels["low"].get<double>() < kernels["value"].get<double>());
  double share = 0;
  for (const Json& way : moved["ways"]) share += way["share"].get<double>();
  CHECK(share == doctest::Approx(1));
  CHECK(summary(out).exit_code == 0);

  const ProcessResult text =
      run_process({TRACECAST_PROGRAM, "trace", "replay", file, "--gpu", "v100_sxm2_16gb"});
  CHECK(text.out.find("v100_sxm2_16gb, recorded on t4") != std::string::npos);
  CHECK(text.out.find("wave scaling") != std::string::npos);
  const ProcessResult same =
      run_process({TRACECAST_PROGRAM, "trace", "replay", file, "--gpu", "t4", "--format", "json"});
  CHECK(Json::parse(same.out)["transfer"]["kernel_time_s"]["value"].get<double>() ==
        doctest::Approx(400e-6));
}

TEST_CASE("trace replay refuses what it cannot place in one line") {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "t.json", bare = folder.path() / "bare.json";
  write_file(file, kTrace);
  write_file(bare, R"({"traceEvents": [{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,)"
                   R"("ts":1,"dur":5,"args":{"device":0,"stream":7,"correlation":1}}]})");
  const std::vector<std::vector<std::string>> refused = {
      {file},
      {file, "--as-recorded", "--gpu", "t4"},
      {file, "--as-recorded", "--from", "t4"},
      {file, "--gpu", "v1000"},
      {file, "--gpu", "t4", "--from", "nothing"},
      {file, "--gpu", "t4", "--host-speed", "0"},
      {file, "--gpu", "t4", "--tf32", "some"},
      {bare, "--gpu", "t4"},
  };
  for (const auto& arguments : refused) {
    std::vector<std::string> command = {"trace", "replay"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const ProcessResult result = test::tracecast(command);
    CAPTURE(arguments.back());
    CHECK(result.exit_code == 2);
    CHECK(count_lines(result.err) == 1);
    CHECK(result.out.empty());
  }
  CHECK(run_process({TRACECAST_PROGRAM, "trace", "replay", bare, "--gpu", "t4", "--from", "v100"})
            .exit_code == 0);
}
