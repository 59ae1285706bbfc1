#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "sim/replay/replay.hpp"
#include "tests/support/data.hpp"
#include "traces/open.hpp"
#include "traces/replay/program.hpp"
#include "traces/summary.hpp"

namespace tracecast {
namespace {

namespace fs = std::filesystem;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

std::vector<double> steps_of(const ReplayRun& run) {
  std::vector<double> steps;
  for (const auto step : run.steps) steps.push_back(step.in_seconds().in_s());
  return steps;
}

TEST_SUITE_BEGIN("validation/trace_replay");

namespace {

/// Replays all recordings of a folder as recorded; how many files and steps there were.
std::pair<std::size_t, std::size_t> replay_all(const fs::path& folder) {
  const traces::KernelNames names = traces::KernelNames::builtin();
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".gz") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::size_t steps = 0;
  for (const fs::path& file : files) {
    CAPTURE(file.filename().string());
    for (const traces::Trace& trace : traces::read_recording(file).traces) {
      CAPTURE(trace.source);
      const traces::Summary summary = traces::summarize(trace, names);
      const traces::ReplayBuild build = traces::build_replay_program(trace, names);
      const ReplayRun run = replay(build.program);
      REQUIRE(run.steps.size() == summary.steps.size());
      for (std::size_t i = 0; i < run.steps.size(); ++i) {
        const double recorded = static_cast<double>(summary.steps[i].tally.ns) * 1e-9;
        CHECK(std::abs(steps_of(run)[i] - recorded) <= 0.001 * recorded);
        ++steps;
      }
      const double busy = static_cast<double>(summary.busy_ns) * 1e-9;
      CHECK(std::abs(run.kernel_busy.in_seconds().in_s() - busy) <= 0.005 * busy);
    }
  }
  return {files.size(), steps};
}

}  // namespace

TEST_CASE("every recording gives its steps and its busy time back when replayed as recorded") {
  const auto folder = test::find_data("traces/kineto");
  if (!folder) return;
  const auto [files, steps] = replay_all(*folder);
  CHECK(files == 19);
  CHECK(steps == 48);  // 2 + 3 + 5 + 6 + 1 + 1 + 5 + 6 + 6 + 8 ranks of 1 + 3 + 1 + 1
}

TEST_CASE("our own recordings of H100 and H200 give their steps and their busy time back") {
  const auto [files, steps] = replay_all("traces/recordings");
  CHECK(files == 22);
  CHECK(steps == 4 * 3 + 18 * 2);
}

TEST_CASE(
    "without its loader gaps the recording without workers comes close to the one with four") {
  const auto folder = test::find_data("traces/kineto");
  if (!folder) return;
  const traces::KernelNames names = traces::KernelNames::builtin();
  const auto step = [&](const char* file, bool without_input) {
    const traces::Recording recording = traces::read_recording(*folder / file);
    const traces::ReplayBuild build = traces::build_replay_program(recording.traces.at(0), names);
    return median(steps_of(replay(build.program, {.without_input = without_input})));
  };
  const double none = step("kineto_v100dgxs_resnet50_b32_workers0.json.gz", true);
  const double four = step("kineto_v100dgxs_resnet50_b32_workers4.json.gz", false);
  MESSAGE("step without loader gaps " << none << " s, with four workers " << four << " s");
  CHECK(std::abs(none / four - 1) <= 0.10);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
