#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// `trace record` with the fake driver and CUPTI of tests/traces/cupti first in the loader's path.
ProcessResult record(const std::vector<std::string>& environment,
                     const std::vector<std::string>& flags,
                     const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"/usr/bin/env", "LD_LIBRARY_PATH=" TRACECAST_FAKE_CUDA};
  command.insert(command.end(), environment.begin(), environment.end());
  command.insert(command.end(), {TRACECAST_PROGRAM, "trace", "record"});
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), {"--", TRACECAST_FAKE_PROGRAM});
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_process(command, Seconds(100));
}

Json summary_of(const fs::path& file) {
  const ProcessResult result =
      run_process({TRACECAST_PROGRAM, "trace", "summary", file.string(), "--format", "json"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return Json::parse(result.out);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
std::size_t files_in(const fs::path& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder)) ++count;
  return count;
}

TEST_SUITE_BEGIN("tools/trace/trace_record");

TEST_CASE("a recorded program gives exact numbers, and keeps its output and exit code") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "run.json.gz";
  const ProcessResult result =
      record({}, {"-o", out.string(), "--steps", "iteration"}, {"steps", "10"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(result.out == "trained\n");
  CHECK(has(result.err, "wrote " + out.string()));
  CHECK(has(result.err, "tracecast trace summary " + out.string()));
  CHECK(files_in(folder.path()) == 1);  // nothing else is left

  // A step: copy 2..102 us, clear 102..112, kernels of 100 and 300 us up to 512, the third waits
  // for them on another stream and runs to 562, where the host's wait ends; the next step begins at
  // 600.
  const Json doc = summary_of(out);
  CHECK(doc["gpu"] == "NVIDIA H100");
  CHECK(doc["kernels"] == 30);
  CHECK(doc["distinct_kernels"] == 3);
  CHECK(doc["collective_kernels"] == 10);
  CHECK(doc["streams"] == 2);
  CHECK(doc["copies_count"] == 10);
  CHECK(doc["memsets_count"] == 10);
  // Seven calls worth recording and one launch more: the driver's calls within and the questions
  // are not.
  CHECK(doc["calls_count"] == 80);
  CHECK(doc["busy_s"].get<double>() == doctest::Approx(10 * 450e-6));
  CHECK(doc["span_s"].get<double>() == doctest::Approx(9 * 600e-6 + 450e-6));
  REQUIRE(doc["steps_s"].size() == 10);
  for (const Json& step : doc["steps_s"]) CHECK(step.get<double>() == doctest::Approx(562e-6));
  CHECK(doc["left_out"].empty());

  const ProcessResult replay = run_process(
      {TRACECAST_PROGRAM, "trace", "replay", out.string(), "--as-recorded", "--format", "json"});
  CAPTURE(replay.err);
  REQUIRE(replay.exit_code == 0);
  const Json replayed = Json::parse(replay.out);
  CHECK(replayed["recorded_step_s"].get<double>() == doctest::Approx(562e-6));
  CHECK(replayed["predicted_step_s"].get<double>() == doctest::Approx(562e-6).epsilon(0.02));
}

TEST_CASE("many threads at once lose nothing") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "run.json";
  const ProcessResult result = record({}, {"-o", out.string()}, {"threads", "8", "5000"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  const Json doc = summary_of(out);
  CHECK(doc["kernels"] == 40000);
  CHECK(doc["streams"] == 8);
  CHECK(doc["calls_count"] == 40000);
  CHECK(doc["gpu_time_s"].get<double>() == doctest::Approx(40000 * 5e-6));
  CHECK(doc["left_out"].empty());
}

TEST_CASE("the oldest CUPTI that is served, with its shorter records, gives the same") {
  const TemporaryFolder folder;
  const fs::path old = folder.path() / "old.json", now = folder.path() / "new.json";
  REQUIRE(record({"FAKE_CUPTI_VERSION=10"}, {"-o", old.string()}, {"steps", "5"}).exit_code == 0);
  REQUIRE(record({}, {"-o", now.string()}, {"steps", "5"}).exit_code == 0);
  for (const char* key : {"kernels", "busy_s", "span_s", "copies", "calls_count", "classes"}) {
    CAPTURE(key);
    CHECK(summary_of(old)[key] == summary_of(now)[key]);
  }
}

TEST_CASE("an older CUPTI is refused in one line after the program ran") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "run.json";
  const ProcessResult result =
      record({"FAKE_CUPTI_VERSION=9"}, {"-o", out.string()}, {"steps", "1"});
  CHECK(result.exit_code == 1);
  CHECK(result.out == "trained\n");
  CHECK(count_lines(result.err) == 1);
  CHECK(has(result.err, "CUPTI's version is 9; 10 (CUDA 9.0) or newer is needed"));
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("a program that is killed leaves what was recorded until a tick before") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "run.json.gz";
  const ProcessResult result = record({}, {"-o", out.string()}, {"killed", "10"});
  CAPTURE(result.err);
  CHECK(result.exit_code == 128 + 9);
  CHECK(has(result.err, "cut short"));
  const Json doc = summary_of(out);
  CHECK(doc["kernels"] == 30);
  CHECK(doc["left_out"].size() == 1);
  CHECK(run_process({TRACECAST_PROGRAM, "trace", "summary", out.string(), "--strict"}).exit_code ==
        1);
}

TEST_CASE("records beyond the buffers are dropped and counted") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "run.json.gz";
  // Of 16 threads, each with a buffer of its own, two get one at a time.
  const ProcessResult result =
      record({}, {"-o", out.string(), "--buffers", "2"}, {"threads", "16", "20000"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  const Json doc = summary_of(out);
  std::uint64_t lost = 0;
  for (const Json& entry : doc["left_out"]) lost += entry["count"].get<std::uint64_t>();
  CHECK(lost > 0);
  // A launch is a kernel, a runtime call and a driver call within that is not kept.
  const auto kept = doc["kernels"].get<std::uint64_t>() + doc["calls_count"].get<std::uint64_t>();
  CHECK(kept + lost >= 2 * 320'000);
  CHECK(kept + lost <= 3 * 320'000);
}

TEST_CASE("where CUPTI refuses, CUDA events time the work, and the file and the summary say so") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "run.json.gz";
  const ProcessResult result = record(
      {"FAKE_CUPTI_ENABLE=35"}, {"-o", out.string(), "--steps", "iteration"}, {"steps", "10"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(has(result.err, "kernels timed by CUDA events: CUPTI was refused"));
  const Json doc = summary_of(out);
  CHECK(doc["format"] == "tracecast recording, kernels timed by CUDA events");
  CHECK(doc["gpu"] == "NVIDIA H100");
  CHECK(doc["kernels"] == 30);
  CHECK(doc["streams"] == 2);
  CHECK(doc["copies_count"] == 10);
  CHECK(doc["memsets_count"] == 10);
  CHECK(doc["calls_count"] == 80);
  CHECK(doc["busy_s"].get<double>() == doctest::Approx(10 * 450e-6));
  // The copy begins 2 us after its event, and these count.
  CHECK(doc["copies"][0]["time_s"].get<double>() == doctest::Approx(10 * 102e-6));
  REQUIRE(doc["steps_s"].size() == 10);
  CHECK(doc["steps_s"][0].get<double>() == doctest::Approx(562e-6));
  REQUIRE(doc["left_out"].size() == 1);
  CHECK(has(doc["left_out"][0]["kind"], "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"));
}

TEST_CASE("any other refusal ends in one line, and nothing is written") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "run.json.gz";
  const ProcessResult result =
      record({"FAKE_CUPTI_ENABLE=1"}, {"-o", out.string()}, {"steps", "1"});
  CHECK(result.exit_code == 1);
  CHECK(count_lines(result.err) == 1);
  CHECK(has(result.err, "CUPTI refuses records of kernels and copies: CUPTI_ERROR_OTHER"));
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("a signal to the recorder alone is passed on, and the recording is finished") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "run.json.gz";
  const ProcessResult result = record({}, {"-o", out.string()}, {"interrupted"});
  CAPTURE(result.err);
  CHECK(result.exit_code == 42);
  CHECK(summary_of(out)["kernels"] == 3);
}

TEST_CASE("a program without GPU work keeps its exit code, or has the answer no") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "run.json.gz";
  const ProcessResult failed = record({}, {"-o", out.string()}, {"exits", "7"});
  CHECK(failed.exit_code == 7);
  CHECK(has(failed.err, "nothing was recorded"));
  CHECK(record({}, {"-o", out.string()}, {"exits", "0"}).exit_code == 1);
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("no GPU ends with exit code 3 before the program runs") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "run.json.gz";
  const ProcessResult result = record({"FAKE_CUDA_INIT=100"}, {"-o", out.string()}, {"steps", "1"});
  CHECK(result.exit_code == 3);
  CHECK(result.out.empty());
  CHECK(count_lines(result.err) == 1);
  CHECK(has(result.err, "no usable GPU (cuInit: CUDA_ERROR_NO_DEVICE)"));
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("wrong use ends with exit code 2 and one line") {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "run.json.gz").string();
  const std::vector<std::vector<std::string>> cases = {
      {TRACECAST_PROGRAM, "trace", "record"},
      {TRACECAST_PROGRAM, "trace", "record", "--buffers", "1", "--", "true"},
      {TRACECAST_PROGRAM, "trace", "record", "--from", out},
      {"/usr/bin/env", "LD_LIBRARY_PATH=" TRACECAST_FAKE_CUDA, TRACECAST_PROGRAM, "trace", "record",
       "-o", out, "--delay", "soon", "--", "true"},
      {"/usr/bin/env", "LD_LIBRARY_PATH=" TRACECAST_FAKE_CUDA, TRACECAST_PROGRAM, "trace", "record",
       "-o", out, "--", "/absent/program"},
      {"/usr/bin/env", "LD_LIBRARY_PATH=" TRACECAST_FAKE_CUDA, TRACECAST_PROGRAM, "trace", "record",
       "-o", "/absent/folder/run.json", "--", "true"}};
  for (const auto& command : cases) {
    CAPTURE(command.back());
    const ProcessResult result = run_process(command);
    CHECK(result.exit_code == 2);
    CHECK(count_lines(result.err) == 1);
  }
  CHECK(files_in(folder.path()) == 0);
}

ProcessResult record_scoreboard(const std::vector<std::string>& environment,
                                const std::vector<std::string>& flags) {
  std::vector<std::string> command = {"/usr/bin/env"};
  command.insert(command.end(), environment.begin(), environment.end());
  command.insert(command.end(),
                 {"python3", "tools/record_scoreboard", "--tracecast", TRACECAST_PROGRAM});
  command.insert(command.end(), flags.begin(), flags.end());
  return run_process(command, Seconds(120));
}

TEST_CASE("the scoreboard of recording stops at a missing GPU with exit code 3 and one line") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "recordings";
  const ProcessResult result = record_scoreboard(
      {"LD_LIBRARY_PATH=" TRACECAST_FAKE_CUDA, "FAKE_CUDA_INIT=100"}, {"--out", out.string()});
  CHECK(result.exit_code == 3);
  CHECK(result.out.empty());
  CHECK(count_lines(result.err) == 1);
  CHECK(has(result.err, "no usable GPU (cuInit: CUDA_ERROR_NO_DEVICE)"));
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("where there is one, it measures overhead and replay and keeps small recordings") {
  const TemporaryFolder folder;
  const ProcessResult result =
      record_scoreboard({"LD_LIBRARY_PATH=" TRACECAST_FAKE_CUDA},
                        {"--out", folder.path().string(), "--program", TRACECAST_FAKE_PROGRAM,
                         "--steps", "8", "--repeats", "1"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  const Json figures = Json::parse(read_file(folder.path() / "figures.json", 1 << 20));
  REQUIRE(figures.size() == 2);
  for (const Json& row : figures) {
    CHECK(row["plain_step_s"].get<double>() == doctest::Approx(562e-6));
    CHECK(std::abs(row["overhead"].get<double>()) < 1e-9);
    CHECK(std::abs(row["replay_error"].get<double>()) < 0.02);
    CHECK(row["kernels"] == 24);
    CHECK(row["lost"].empty());
    CHECK(summary_of(folder.path() / row["recording"])["steps_s"].size() == 5);
  }
  CHECK(has(result.out, "| resnet50 | NVIDIA H100 |"));
}

}  // namespace
}  // namespace tracecast::test
