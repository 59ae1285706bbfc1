#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/calibrate_measure.hpp"

namespace tracecast::test {
namespace {

namespace fs = std::filesystem;

ProcessResult calibrate(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {TRACECAST_PROGRAM, "calibrate"});
  return run_process(arguments, Seconds(60));
}
const std::vector<std::string> kRehearsal = {"--rehearse", "v100_sxm2_16gb", "--quick"};
std::vector<std::string> rehearse_in(const fs::path& folder, std::vector<std::string> more = {}) {
  more.insert(more.begin(), kRehearsal.begin(), kRehearsal.end());
  more.insert(more.end(), {"--out", folder.string()});
  return more;
}

/// Every file of a folder but journals: name and content.
std::string answers_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".journal") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::string all;
  for (const fs::path& file : files) {
    all += file.filename().string() + '\n' + read_file(file, 1 << 24);
  }
  return all;
}

TEST_SUITE_BEGIN("tools/calibrate");

TEST_CASE("without a GPU one line says what is missing, and the exit code is 3") {
  // Where there is a GPU, index 1023 is none.
  const TemporaryFolder folder;
  const ProcessResult result =
      calibrate({"--quick", "--gpu", "1023", "--out", (folder.path() / "c").string()});
  CHECK(result.exit_code == 3);
  CHECK(result.out.empty());
  CHECK(count_lines(result.err) == 1);
  CHECK(result.err.find("tracecast calibrate: ") == 0);
  CHECK_FALSE(fs::exists(folder.path() / "c"));
}

TEST_CASE("a rehearsal measures, writes its tables and fits 80 columns") {
  const TemporaryFolder folder;
  const ProcessResult result = calibrate(rehearse_in(folder.path() / "c"));
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(result.out.find("v100_sxm2_16gb") != std::string::npos);
  CHECK(result.err.empty());
  CHECK(fs::exists(folder.path() / "c" / "gemm.csv"));
  CHECK(fs::exists(folder.path() / "c" / "conv_cudnn_algos.csv"));
  for (std::size_t begin = 0; begin < result.out.size();) {
    const std::size_t end = result.out.find('\n', begin);
    REQUIRE(end != std::string::npos);
    CHECK(end - begin <= 80 + folder.path().string().size());
    begin = end + 1;
  }
}

TEST_CASE("a calibration in slices leaves the files of one in one go") {
  const TemporaryFolder folder;
  REQUIRE(calibrate(rehearse_in(folder.path() / "whole")).exit_code == 0);
  int calls = 0;
  for (bool complete = false; !complete; ++calls) {
    REQUIRE(calls < 100);
    const ProcessResult result =
        calibrate(rehearse_in(folder.path() / "sliced", {"--budget", "4s"}));
    REQUIRE(result.exit_code == 0);
    complete = result.out.find("not complete") == std::string::npos;
  }
  CHECK(calls > 2);
  CHECK(answers_in(folder.path() / "sliced") == answers_in(folder.path() / "whole"));
}

TEST_CASE("what was measured under one seed is not mixed with another device's") {
  const TemporaryFolder folder;
  REQUIRE(calibrate(rehearse_in(folder.path())).exit_code == 0);
  const ProcessResult other =
      calibrate({"--rehearse", "k80", "--quick", "--out", folder.path().string()});
  CHECK(other.exit_code == 2);
  CHECK(count_lines(other.err) == 1);
  CHECK(other.err.find("v100_sxm2_16gb") != std::string::npos);
}

TEST_CASE("wrong flags and places are one line each") {
  const TemporaryFolder folder;
  write_file(folder.path() / "file", "x");
  const std::vector<std::vector<std::string>> wrong = {
      {"--rehearse", "v101"},
      {"--rehearse", "v100", "--budget", "8"},
      {"--rehearse", "v100", "--budget", "-1m"},
      {"--rehearse", "v100", "--budget", "nanm"},
      {"--rehearse", "v100", "--budget", "1000h"},
      {"--gpu", "-1"},
      {"--rehearse", "v100", "--quick", "--out", (folder.path() / "file" / "x").string()},
      {"--rehearse", "v100", "--quick", "--out", (folder.path() / "file").string()},
  };
  for (const auto& arguments : wrong) {
    CAPTURE(arguments.back());
    const ProcessResult result = calibrate(arguments);
    CHECK(result.exit_code == 2);
    CHECK(count_lines(result.err) == 1);
    CHECK(result.out.empty());
  }
}

TEST_CASE("a device is found by the names that drivers give it") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  struct Row {
    const char* name;
    int compute_capability, sm_count;
    double memory_gib;
    const char* expected;
  };
  const Row rows[] = {
      {"Tesla K80", 37, 13, 11.2, "k80"},
      {"Tesla V100-SXM2-16GB", 70, 80, 15.8, "v100_sxm2_16gb"},
      {"NVIDIA A100-SXM4-40GB", 80, 108, 39.4, "a100_sxm4_40gb"},
      {"Tesla P100-PCIE-16GB", 60, 56, 15.9, "p100_pcie_16gb"},
      {"NVIDIA GeForce GTX 1080 Ti", 61, 28, 10.9, "gtx1080ti"},
      {"NVIDIA H200", 90, 132, 139.8, "h200"},
      {"Tesla T4", 75, 40, 14.6, "t4"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    calibrate::DeviceIdentity device;
    device.name = row.name;
    device.compute_capability = row.compute_capability;
    device.sm_count = row.sm_count;
    device.memory = Bytes(row.memory_gib * (1 << 30));
    CHECK(find_spec(catalog, device, "").id == row.expected);
    CHECK(find_spec(catalog, device, row.expected).id == row.expected);
    CHECK_THROWS_AS(static_cast<void>(find_spec(catalog, device, "gtx980")), InputError);
    device.sm_count = 7;  // a slice of it
    CHECK_THROWS_AS(static_cast<void>(find_spec(catalog, device, "")), InputError);
  }
}

TEST_CASE("durations are read with their unit") {
  CHECK(parse_duration("90s", "--budget").in_s() == 90);
  CHECK(parse_duration("8m", "--budget").in_s() == 480);
  CHECK(parse_duration("0.5h", "--budget").in_s() == 1800);
}

}  // namespace
}  // namespace tracecast::test
