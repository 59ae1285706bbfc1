#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "calibrate/cuda/compiler.hpp"
#include "calibrate/cuda/kernel_recorder.hpp"
#include "calibrate/cuda/kernel_source.hpp"
#include "calibrate/cuda/library.hpp"
#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::calibrate::cuda {
namespace {

TEST_SUITE_BEGIN("calibrate/cuda/libraries");

TEST_CASE("a library that is nowhere is named with where it was looked for") {
  const test::TemporaryFolder folder;
  const std::vector<std::string> names = {"libabsent_of_tracecast.so.9",
                                          "libabsent_of_tracecast.so"};
  const std::vector<std::filesystem::path> folders = {folder.path()};
  std::string why;
  CHECK_FALSE(Library::open(names, folders, why));
  CHECK(why.find("missing libabsent_of_tracecast.so.9") == 0);
  CHECK(why.find(folder.path().string()) != std::string::npos);
  CHECK(why.find('\n') == std::string::npos);
}

TEST_CASE("a file that is there and is no library is named as such") {
  const test::TemporaryFolder folder;
  write_file(folder.path() / "libbroken_of_tracecast.so", "text");
  const std::vector<std::string> names = {"libbroken_of_tracecast.so"};
  const std::vector<std::filesystem::path> folders = {folder.path()};
  std::string why;
  CHECK_FALSE(Library::open(names, folders, why));
  CHECK(why.find("cannot open") == 0);
}

TEST_CASE("symbols are found under the first name that is there, and absent ones are reported") {
  std::string why;
  const std::vector<std::string> names = {"libc.so.6"};
  const auto library = Library::open(names, {}, why);
  REQUIRE(library);
  int (*absolute)(int) = nullptr;
  int (*absent)(int) = nullptr;
  Symbols symbols(*library);
  symbols.need(absolute, {"abs_v9_of_tracecast", "abs"});
  CHECK(symbols.missing().empty());
  CHECK(absolute(-3) == 3);
  symbols.want(absent, {"absent_of_tracecast"});
  CHECK(symbols.missing().empty());
  symbols.need(absent, {"absent_of_tracecast"});
  CHECK(symbols.missing() == "absent_of_tracecast");
}

TEST_CASE("sonames go from the newest version to none") {
  CHECK(sonames("libx", 9, 7) ==
        std::vector<std::string>{"libx.so.9", "libx.so.8", "libx.so.7", "libx.so"});
}

TEST_CASE("our kernels compile for every architecture that this machine's NVRTC knows") {
  const std::vector<std::filesystem::path> folders = {"/usr/local/cuda/lib64"};
  std::string why;
  auto library = Library::open(sonames("libnvrtc", 13, 12), folders, why);
  if (!library) {
    MESSAGE("[skipped] " << why);
    return;
  }
  const auto compiler = Compiler::open(std::move(*library), why);
  REQUIRE_MESSAGE(compiler, why);
  for (const int capability : {75, 80, 90}) {
    CAPTURE(capability);
    CHECK_MESSAGE(!compiler->compile(kernel_source(), capability, why).empty(), why);
  }
  CHECK(compiler->compile("this is no program", 80, why).empty());
  CHECK(why.find("NVRTC does not compile") == 0);
  CHECK(why.find('\n') == std::string::npos);
}

KernelRecording recording(std::initializer_list<RecordedKernel> kernels) {
  return {.kernels = kernels, .names = {"gemm", "split"}};
}

TEST_CASE("a repetition's time is the sum of its kernels, gaps left out") {
  // Two repetitions of gemm (30 and 50 ns) and split (10 and 20 ns), gaps of 100 ns.
  const auto times =
      divide(recording({{1000, 1030, 0}, {1130, 1140, 1}, {1240, 1290, 0}, {1390, 1410, 1}}), 2);
  REQUIRE(times);
  CHECK(times->kernels == 2);
  CHECK(times->longest == "gemm");
  CHECK(times->durations[0].in_s() == doctest::Approx(40e-9));
  CHECK(times->durations[1].in_s() == doctest::Approx(70e-9));
}

TEST_CASE("records that do not divide evenly, or lack times, time nothing") {
  CHECK_FALSE(divide(recording({}), 1));
  CHECK_FALSE(divide(recording({{1, 2, 0}, {3, 4, 0}, {5, 6, 0}}), 2));  // one was lost
  CHECK_FALSE(divide(recording({{1, 2, 0}, {3, 4, 1}}), 2));             // not the same kernels
  CHECK_FALSE(divide(recording({{0, 0, 0}, {3, 4, 0}}), 2));             // not recorded in time
  CHECK_FALSE(divide(recording({{9, 2, 0}}), 1));                        // ends before it starts
}

}  // namespace
}  // namespace tracecast::calibrate::cuda
