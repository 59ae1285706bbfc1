#include "traces/chrome/writer.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/timeline.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/random.hpp"
#include "sim/replay/replay.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/traces/trace_text.hpp"
#include "traces/replay/program.hpp"
#include "traces/summary.hpp"

namespace tracecast {
namespace {

using namespace test;
using Kind = TimelineTrack::Kind;

/// A launch of 4 us at 10 us whose kernel runs from 16 to 20.5 us, within a step of 30 us.
Timeline small() {
  Timeline t;
  t.gpu = "Some GPU";
  t.names = {"", "cudaLaunchKernel", "sgemm \"quoted\"\n", "ProfilerStep#1"};
  t.tracks = {{Kind::HostThread, 0, 0, "dispatch", false}, {Kind::Stream, 0, 7, "", false}};
  t.slices = {{SliceKind::Call, KernelClass::Other, 0, 1, 1, 10'000'000, 4'000'000, 0},
              {SliceKind::Kernel, KernelClass::Gemm, 1, 2, 1, 16'000'000, 4'500'000, 0},
              {SliceKind::Mark, KernelClass::Other, 0, 3, 0, 0, 30'000'000, 0}};
  t.flows = {{0, 1}};
  return t;
}

std::string written(const Timeline& timeline) {
  std::string text;
  traces::write_chrome_trace(timeline, [&text](std::string_view piece) { text += piece; });
  return text;
}
traces::Trace read_back(const Timeline& timeline) {
  TextSource source(written(timeline));
  return traces::read_kineto(source, "written.json");
}

TEST_SUITE_BEGIN("traces/chrome/writer");

TEST_CASE("what is written is read back") {
  const traces::Trace trace = read_back(small());
  REQUIRE(trace.kernels.size() == 1);
  CHECK(trace.kernels.span[0] == traces::Span{16'000, 4'500});
  CHECK(trace[trace.kernels.name[0]] == "sgemm \"quoted\"\n");
  CHECK(trace.streams[trace.kernels.stream[0].index] == traces::Stream{0, 7});
  REQUIRE(trace.calls.size() == 1);
  CHECK(trace.calls.span[0] == traces::Span{10'000, 4'000});
  CHECK(trace.calls.correlation[0] == trace.kernels.correlation[0]);
  REQUIRE(trace.devices.size() == 1);
  CHECK(trace.devices[0].name == "Some GPU");
  for (const auto& row : trace.left_out) {
    CAPTURE(row.first);
    CHECK_FALSE(row.second.is_damage);
  }
  const traces::Summary summary = traces::summarize(trace, traces::KernelNames::builtin());
  REQUIRE(summary.steps.size() == 1);
  CHECK(summary.steps[0].tally.ns == 30'000);
}

TEST_CASE("neighbours stay neighbours when picoseconds become nanoseconds") {
  Timeline t = small();
  t.slices[1].begin_ps = 16'000'700;  // to 20'500'700
  t.slices.push_back({SliceKind::Kernel, KernelClass::Gemm, 1, 2, 0, 20'500'700, 999, 0});
  const traces::Trace trace = read_back(t);
  REQUIRE(trace.kernels.size() == 2);
  CHECK(trace.kernels.span[0].end_ns() == trace.kernels.span[1].begin_ns);
  CHECK(trace.kernels.span[1].duration_ns == 1);  // 20'501'699 ps ends in the next nanosecond
}

TEST_CASE("a reader that adds begin and length as doubles finds neighbours and nested slices so") {
  Timeline t;
  t.names = {"", "kernel", "step"};
  t.tracks = {{Kind::Stream, 0, 7, "", false}};
  Random random(3);
  std::int64_t at = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t begin = at;
    const auto ns = static_cast<std::int64_t>(random.below(1'000'000) + 1);
    for (const std::int64_t part : {ns, std::int64_t{1}, ns / 3 + 1}) {
      t.slices.push_back({SliceKind::Kernel, KernelClass::Gemm, 0, 1, 0, at, part * 1000, 0});
      at += part * 1000;
    }
    t.slices.push_back({SliceKind::Mark, KernelClass::Other, 0, 2, 0, begin, at - begin, 0});
  }
  const auto json = nlohmann::json::parse(written(t));
  const double shift = json["traceEvents"][4]["ts"];
  double before = -shift;
  std::size_t kernels = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] != "X") continue;
    // Some subtract the track's first begin; here that of the second kernel.
    const double begin = event["ts"].get<double>() - shift,
                 end = begin + event["dur"].get<double>();
    if (event["cat"] == "kernel") {
      CHECK(begin == before);
      before = end;
      ++kernels;
    } else {
      CHECK(end == before);  // of the step's last kernel
    }
  }
  CHECK(kernels == 6000);
  const traces::Trace trace = read_back(t);
  REQUIRE(trace.kernels.size() == 6000);
  for (std::size_t i = 0, k = 0; i < t.slices.size(); ++i) {
    if (t.slices[i].kind == SliceKind::Kernel)
      CHECK(trace.kernels.span[k++].duration_ns * 1000 == t.slices[i].duration_ps);
  }
}

TEST_CASE("a written replay is replayed to the same times") {
  const std::string events =
      event("user_annotation", "ProfilerStep#1", 0, 140) + "," + launch(10, 4, 1) + "," +
      launch(20, 4, 2) + "," +
      event("cuda_runtime", "cudaDeviceSynchronize", 30, 98, R"("correlation":3)") + "," +
      kernel("a", 18, 50, 1) + "," + kernel("b", 70, 50, 2);
  const traces::KernelNames names = traces::KernelNames::builtin();
  const ReplayProgram first = traces::build_replay_program(trace_of(events), names).program;
  const Timeline timeline = timeline_of(first, replay(first), "G");
  CHECK(find_faults(timeline).empty());
  CHECK(timeline.flows.size() == 2);
  const ReplayProgram second = traces::build_replay_program(read_back(timeline), names).program;
  const ReplayRun run = replay(second);
  REQUIRE(run.steps.size() == 1);
  CHECK(run.steps[0].count() == 140'000'000);
  CHECK(run.kernel_busy.count() == 100'000'000);
}

TEST_CASE("the check finds what is wrong") {
  struct Row {
    const char* what;
    void (*spoil)(Timeline&);
    const char* fault;
  };
  const Row rows[] = {
      {"a missing track", [](Timeline& t) { t.slices[0].track = 9; }, "slice 0 has no track"},
      {"a missing name", [](Timeline& t) { t.slices[1].name = 9; }, "slice 1 has no name"},
      {"time before zero", [](Timeline& t) { t.slices[0].begin_ps = -1; },
       "slice 0 begins before zero"},
      {"negative duration", [](Timeline& t) { t.slices[0].duration_ps = -1; },
       "slice 0 ends before it begins"},
      {"an arrow to nowhere", [](Timeline& t) { t.flows[0].to = 3; },
       "arrow 0 joins a slice that does not exist"},
      {"an arrow back", [](Timeline& t) { t.slices[1].begin_ps = 1; },
       "arrow 0 points back in time"},
      {"a call that leaves its step", [](Timeline& t) { t.slices[0].duration_ps = 25'000'000; },
       "slice 0 ends after slice 2, which it began within"},
      {"two tracks with one number",
       [](Timeline& t) {
         t.tracks[1] = {Kind::HostThread, 0, 0, "", false};
       },
       "track 1 has the numbers of another one"},
  };
  CHECK(find_faults(small()).empty());
  for (const Row& row : rows) {
    CAPTURE(row.what);
    Timeline t = small();
    row.spoil(t);
    const std::vector<std::string> faults = find_faults(t);
    REQUIRE(faults.size() == 1);
    CHECK(faults[0] == row.fault);
  }
  Timeline side = small();
  side.slices.push_back({SliceKind::Kernel, KernelClass::Gemm, 1, 2, 0, 18'000'000, 9'000'000, 0});
  CHECK(find_faults(side).size() == 1);
  side.tracks[1].runs_side_by_side = true;
  CHECK(find_faults(side).empty());
}

TEST_CASE("a file is replaced whole, and a place that is none is refused") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "t.json";
  write_file(path, "old");
  traces::write_chrome_trace(small(), path);
  CHECK(read_file(path, 1 << 20) == written(small()));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "t.json.partial"));
  CHECK_THROWS_AS(traces::write_chrome_trace(small(), folder.path() / "no" / "t.json"), InputError);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
