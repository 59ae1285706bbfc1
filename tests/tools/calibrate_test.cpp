#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "hwspecs/cost_profile.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"
#include "tools/calibrate/calibrate_measure.hpp"

namespace tracecast::test {
namespace {

namespace fs = std::filesystem;

ProcessResult calibrate(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"calibrate"});
  return tracecast(arguments);
}
const std::vector<std::string> kRehearsal = {"--rehearse", "v100_sxm2_16gb", "--quick"};
std::vector<std::string> rehearse_in(const fs::path& folder, std::vector<std::string> more = {}) {
  more.insert(more.begin(), kRehearsal.begin(), kRehearsal.end());
  more.insert(more.end(), {"--out", folder.string()});
  return more;
}

/// Every file of a folder but journals: name and content.
std::string reports_in(const fs::path& folder) {
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
  CHECK(reports_in(folder.path() / "sliced") == reports_in(folder.path() / "whole"));
}

/// The program in a shell that first sets limits.
ProcessResult calibrate_under(const std::string& limits, const fs::path& folder) {
  return run_process(
      {"/bin/sh", "-c",
       limits + "; exec " TRACECAST_PROGRAM " calibrate --rehearse v100_sxm2_16gb --quick --out " +
           folder.string()},
      Seconds(60));
}

TEST_CASE(
    "the profile is whole or absent, wherever the program dies, and the next call completes it") {
  const TemporaryFolder folder;
  const fs::path whole = folder.path() / "whole", cut = folder.path() / "cut";
  REQUIRE(calibrate(rehearse_in(whole)).exit_code == 0);
  REQUIRE(fs::exists(whole / "profile.textproto"));
  // No file may grow over so many blocks of 512 bytes: the kernel kills the program in the middle
  // of that write, first in the journal, then in a table, then in the profile.
  for (const char* blocks : {"8", "40", "64"}) {
    CAPTURE(blocks);
    const ProcessResult killed = calibrate_under("ulimit -f " + std::string(blocks), cut);
    CHECK(killed.signal != 0);
    if (fs::exists(cut / "profile.textproto")) {
      CHECK_NOTHROW(static_cast<void>(
          parse_cost_profile(read_file(cut / "profile.textproto", 1 << 24), "profile")));
    }
  }
  REQUIRE(calibrate(rehearse_in(cut)).exit_code == 0);
  CHECK(reports_in(cut) == reports_in(whole));

  // The journal is complete: now the limit is met in a table, and the old profile stands.
  const std::string before = reports_in(cut);
  CHECK(calibrate_under("ulimit -f 8", cut).signal != 0);
  for (const auto& entry : fs::directory_iterator(cut)) {
    if (entry.path().extension() == ".partial") fs::remove(entry.path());
  }
  CHECK(reports_in(cut) == before);
}

TEST_CASE("a disk without room is one line, and what was measured before stands") {
  const TemporaryFolder folder;
  // As above, but the write fails instead of killing.
  const ProcessResult full = calibrate_under("trap '' XFSZ; ulimit -f 20", folder.path());
  CHECK(full.exit_code == 2);
  CHECK(count_lines(full.err) == 1);
  CHECK(full.err.find("cannot be written") != std::string::npos);
  CHECK_FALSE(fs::exists(folder.path() / "profile.textproto"));
  const ProcessResult next = calibrate(rehearse_in(folder.path()));
  CHECK(next.exit_code == 0);
  CHECK(next.err.empty());  // no line of the journal was torn
}

TEST_CASE("a profile that cannot be put in its place leaves what stands there") {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "profile.textproto" / "in_the_way");
  const ProcessResult result = calibrate(rehearse_in(folder.path()));
  CHECK(result.exit_code == 2);
  CHECK(count_lines(result.err) == 1);
  CHECK(fs::exists(folder.path() / "profile.textproto" / "in_the_way"));
}

TEST_CASE("the profile says what it was measured with, and prediction takes it") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "mine.textproto";
  std::vector<std::string> arguments = kRehearsal;
  arguments.insert(arguments.end(), {"--out", file.string()});
  REQUIRE(calibrate(arguments).exit_code == 0);
  const CostProfile profile = parse_cost_profile(read_file(file, 1 << 24), "mine");
  CHECK(profile.measured_gpu == "v100_sxm2_16gb");
  const ProfileDataSet& data = profile.data_sets.back();
  CHECK(data.title.find("driver rehearsal") != std::string::npos);
  CHECK(data.rows.find("gemm.csv") != std::string::npos);
  CHECK(data.rows.find("MHz under load") != std::string::npos);
  CHECK(data.date.size() == 10);
  const auto predict = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {TRACECAST_PROGRAM, "predict", "vgg16", "--gpu", "v100_sxm2_16gb",
                               "--batch", "64", "--format", "csv"});
    return run_process(more, Seconds(30));
  };
  const ProcessResult calibrated = predict({"--profile", file.string()});
  CHECK(calibrated.exit_code == 0);
  CHECK(calibrated.out != predict({}).out);
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
    if (row.expected == std::string("h200")) {  // as many SMs, less memory
      CHECK_THROWS_AS(static_cast<void>(find_spec(catalog, device, "h100_sxm5_80gb")), InputError);
    }
    device.sm_count = 7;  // a slice of it
    CHECK_THROWS_AS(static_cast<void>(find_spec(catalog, device, "")), InputError);
  }
}

TEST_CASE("durations are read with their unit") {
  CHECK(parse_duration("90s", "--budget").in_s() == 90);
  CHECK(parse_duration("8m", "--budget").in_s() == 480);
  CHECK(parse_duration("0.5h", "--budget").in_s() == 1800);
}

TEST_CASE("a check that judges no row says so") {
  const TemporaryFolder folder;
  const std::string table = folder.path() / "gemm.csv";
  write_file(table,
             "source,gpu,dtype,op,pass,batch,m,n,k,layout,time_us,timing\n"
             "x,t4,fp32,bmm,forward,1,1024,1024,1024,row,900,loop\n"
             "x,k80,fp32,bmm,forward,1,1024,1024,1024,row,900,loop\n");
  const ProcessResult none = calibrate({"check", "--from", table, "--min-us", "1000"});
  CHECK(none.exit_code == 1);
  CHECK(none.out == "No row could be judged\n");
}

}  // namespace
}  // namespace tracecast::test
