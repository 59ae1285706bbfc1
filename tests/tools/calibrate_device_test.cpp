#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::test {
namespace {

/// The program with the mock libraries of tests/calibrate/cuda first in the loader's path.
ProcessResult calibrate_mock(const std::vector<std::string>& environment,
                             const std::filesystem::path& folder) {
  std::vector<std::string> command = {"/usr/bin/env", "LD_LIBRARY_PATH=" TRACECAST_MOCK_CUDA};
  command.insert(command.end(), environment.begin(), environment.end());
  command.insert(command.end(),
                 {TRACECAST_PROGRAM, "calibrate", "--quick", "--out", folder.string()});
  return run_process(command, Seconds(100));
}

std::string table(const std::filesystem::path& path) { return read_file(path, 1 << 20); }

TEST_SUITE_BEGIN("tools/calibrate_device");

TEST_CASE("through driver and libraries: kernels by records, tables of the card's own spec") {
  const TemporaryFolder folder;
  const ProcessResult result = calibrate_mock({}, folder.path());
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(result.out.find("t4 (Tesla T4)") != std::string::npos);
  CHECK(result.out.find("driver 396.44, CUDA 9.2, cuDNN 7.6.5, cuBLAS 9.2.4") != std::string::npos);
  CHECK(result.out.find("at the power limit") != std::string::npos);
  // 2 * 4096^3 at 4 TFLOP/s and 3 us more.
  const std::string gemm = table(folder.path() / "gemm.csv");
  CHECK(gemm.find("tracecast,t4,fp32,gemm,forward,1,4096,4096,4096,N,T,row,,gemm,,,,34362.7,cupti,"
                  "cuda9.2/cudnn7.6.5,") != std::string::npos);
  // A forward convolution is a transform of 5 us and a GEMM of 50 us, the gap between them left
  // out.
  const std::string conv = table(folder.path() / "conv_cudnn_algos.csv");
  CHECK(conv.find(",IMPLICIT_GEMM,unknown,1000,convolve,,,,55,cupti,") != std::string::npos);
  // A forward algorithm whose workspace is reported and which is then refused.
  for (std::size_t at = conv.find(",FFT_TILING,"); at != std::string::npos;
       at = conv.find(",FFT_TILING,", at + 1)) {
    const std::string row = conv.substr(conv.rfind('\n', at), at - conv.rfind('\n', at));
    CHECK(row.find(",conv2d,forward,") == std::string::npos);
  }
  // An empty kernel takes 1.5 us there.
  CHECK(table(folder.path() / "launch.csv").find("empty_kernel,,1,1.5,cupti,") !=
        std::string::npos);
}

TEST_CASE("where CUPTI refuses, events time and the summary says so") {
  const TemporaryFolder folder;
  const ProcessResult result = calibrate_mock({"MOCK_CUPTI_REFUSES=1"}, folder.path());
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(result.out.find("by events") != std::string::npos);
  CHECK(table(folder.path() / "gemm.csv").find(",evlib,") != std::string::npos);
}

TEST_CASE("a driver that sees no GPU, and one that does not start, end with exit code 3") {
  const TemporaryFolder folder;
  for (const char* failure : {"MOCK_CUDA_INIT=100", "MOCK_CUDA_INIT=803", "MOCK_CUDA_INIT=1"}) {
    CAPTURE(failure);
    const ProcessResult result = calibrate_mock({failure}, folder.path());
    CHECK(result.exit_code == 3);
    CHECK(result.out.empty());
    CHECK(count_lines(result.err) == 1);
    CHECK(result.err.find("no usable GPU") != std::string::npos);
  }
}

TEST_CASE("a GPU that faults on the way ends with exit code 3; the next call goes on") {
  const TemporaryFolder folder;
  const ProcessResult broken = calibrate_mock({"MOCK_LOST_AFTER=2000"}, folder.path());
  CHECK(broken.exit_code == 3);
  CHECK(count_lines(broken.err) == 1);
  CHECK(broken.err.find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "gemm.csv"));
  const std::size_t kept =
      static_cast<std::size_t>(count_lines(table(folder.path() / "quick.journal")));
  CHECK(kept > 1);
  CHECK(calibrate_mock({}, folder.path()).exit_code == 0);
}

}  // namespace
}  // namespace tracecast::test
