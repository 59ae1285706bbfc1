#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::test {
namespace {

ProcessResult scoreboard(const std::filesystem::path& folder, std::vector<std::string> more) {
  more.insert(more.begin(), {"/usr/bin/env", "python3", "tools/scoreboard", "--quick",
                             "--tracecast", TRACECAST_PROGRAM, "--out", folder.string()});
  return run_process(more, Seconds(120));
}
std::string text(const std::filesystem::path& path) { return read_file(path, 1 << 20); }

TEST_SUITE_BEGIN("tools/scoreboard");

TEST_CASE("frozen, predicted, measured in slices, and compared") {
  const TemporaryFolder folder;
  const std::vector<std::string> rehearsal = {"--gpu", "v100_sxm2_16gb", "--rehearse"};
  auto in_slice = rehearsal;
  in_slice.insert(in_slice.end(), {"--budget", "20s"});
  const ProcessResult slice = scoreboard(folder.path(), in_slice);
  CAPTURE(slice.err);
  REQUIRE(slice.exit_code == 0);
  CHECK(slice.out.find("the same command goes on") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "scoreboard.md"));
  // What was predicted before the measurements stays as it was.
  const std::string frozen = text(folder.path() / "frozen.json");
  const std::string predicted = text(folder.path() / "predicted_kernels.csv");
  const ProcessResult whole = scoreboard(folder.path(), rehearsal);
  CAPTURE(whole.err);
  REQUIRE(whole.exit_code == 0);
  CHECK(text(folder.path() / "frozen.json") == frozen);
  CHECK(text(folder.path() / "predicted_kernels.csv") == predicted);
  const std::string board = text(folder.path() / "scoreboard.csv");
  CHECK(board.find("\ngemm fp32,") != std::string::npos);
  CHECK(board.find("\nconvolution fp16,") != std::string::npos);

  // Another model than the frozen one is refused.
  auto other = rehearsal;
  const auto profile = folder.path() / "measured" / "profile.textproto";
  other.insert(other.end(), {"--profile", profile.string()});
  const ProcessResult refused = scoreboard(folder.path(), other);
  CHECK(refused.exit_code == 2);
  CHECK(count_lines(refused.err) == 1);
  CHECK(refused.err.find("what was frozen") != std::string::npos);
}

TEST_CASE("without the GPU all is frozen and predicted, and the exit code is 3") {
  const TemporaryFolder folder;
  // Where there is a GPU, index 1023 is none.
  const ProcessResult result = scoreboard(folder.path(), {"--gpu", "h200", "--index", "1023"});
  CHECK(result.exit_code == 3);
  CHECK(count_lines(result.err) == 1);
  CHECK(std::filesystem::exists(folder.path() / "frozen.json"));
  CHECK(text(folder.path() / "predicted_networks.csv").find("gpt2-bf16-train-8,") !=
        std::string::npos);
}

}  // namespace
}  // namespace tracecast::test
