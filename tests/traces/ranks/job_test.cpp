#include "traces/ranks/job.hpp"

#include <doctest/doctest.h>

#include "sim/replay/replay_ranks.hpp"
#include "tests/traces/ranks/rank_text.hpp"

namespace tracecast {
namespace {

using namespace test;
using traces::Trace;

std::string step(int begin, int duration) {
  return event("user_annotation", "ProfilerStep#1", begin, duration);
}
std::string wait(int begin, int duration, int correlation) {
  return event("cuda_runtime", "cudaDeviceSynchronize", begin, duration,
               R"("correlation":)" + std::to_string(correlation));
}

/// A rank that computes for `compute` us from 20 on, then reduces with the others; the host waits
/// for that:
///   host  |0 step .. 10 launch 12, 14 launch 16, 20 synchronize ... end + 5, step end + 10|
///   GPU   |20 gemm|arrives at 20 + compute + 2 ... ends at `end`
Trace rank(int shift, int compute, int end, int number) {
  Trace trace =
      trace_of(step(shift, end + 10) + "," + launch(shift + 10, 2, 1) + "," +
               launch(shift + 14, 2, 2) + "," + wait(shift + 20, end - 15, 3) + "," +
               event("cuda_runtime", "cudaStreamWaitEvent", shift + 13, 1, R"("correlation":9)") +
               "," + kernel("sgemm", shift + 20, compute, 1) + "," +
               nccl("AllReduce", shift + 22 + compute, end - 22 - compute, 2, 1000, 2));
  trace.rank = number;
  return trace;
}

/// Rank 0 computes 100 us and waits 80 for rank 1, which computes 180; moving takes 18.
std::vector<Trace> two_ranks(int shift) {
  std::vector<Trace> traces;
  traces.push_back(rank(shift, 100, 220, 0));
  traces.push_back(rank(shift, 180, 220, 1));
  return traces;
}

double step_us(const RanksRun& run, std::size_t i) {
  return static_cast<double>(run.run.steps.at(i).count()) * 1e-6;
}

TEST_SUITE_BEGIN("traces/ranks/job");

TEST_CASE("ranks replayed together give their recorded steps back") {
  const traces::RanksBuild build =
      traces::build_ranks_program(two_ranks(0), traces::KernelNames::builtin());
  REQUIRE(build.waiting);
  CHECK(build.waiting->wait_ns == 80'000);
  const RanksRun run = run_ranks(build.job);
  CHECK(step_us(run, 0) == doctest::Approx(230));
  CHECK(step_us(run, 1) == doctest::Approx(230));
  // 100 + 98 and 180 + 18.
  REQUIRE(run.kernel_busy.size() == 2);
  CHECK(run.kernel_busy[0].count() == 198'000'000);
  CHECK(run.kernel_busy[1].count() == 198'000'000);
}

TEST_CASE("the job holds no recorded times: shifting all ranks together changes nothing") {
  const traces::KernelNames names = traces::KernelNames::builtin();
  const ReplayProgram program = traces::build_ranks_program(two_ranks(0), names).job.program;
  CHECK(traces::build_ranks_program(two_ranks(123'456), names).job.program == program);
}

TEST_CASE("the other ranks wait for one that became slower, and for none that became faster") {
  const traces::RanksBuild build =
      traces::build_ranks_program(two_ranks(0), traces::KernelNames::builtin());
  const auto with_gemm_us = [&](std::uint32_t rank, std::int64_t us) {
    RanksProgram job = build.job;
    for (ReplayTask& task : job.program.tasks) {
      const bool is_mine =
          task.track >= job.ranks[rank].first_track && task.track < job.ranks[rank].end_track;
      if (is_mine && job.program.names[task.name] == "sgemm") task.duration_ns = us * 1000;
    }
    return run_ranks(job);
  };
  // 70 us more of the slower rank are 70 us more for both.
  const RanksRun slower = with_gemm_us(1, 250);
  CHECK(step_us(slower, 0) == doctest::Approx(300));
  CHECK(step_us(slower, 1) == doctest::Approx(300));
  // The faster one has 80 us to spare.
  CHECK(step_us(with_gemm_us(0, 180), 1) == doctest::Approx(230));
  CHECK(step_us(with_gemm_us(0, 10), 0) == doctest::Approx(230));
}

TEST_CASE(
    "the critical path runs through the rank that came last, and holds moving and no waiting") {
  const RanksRun run =
      run_ranks(traces::build_ranks_program(two_ranks(0), traces::KernelNames::builtin()).job);
  const CriticalPath& path = run.path;
  CHECK(path.length.count() == 230'000'000);
  const auto time_of = [&](PathKind kind, KernelClass kernel_class) {
    for (const PathShare& share : path.shares) {
      if (share.kind == kind && share.kernel_class == kernel_class)
        return static_cast<double>(share.time.count()) * 1e-6;
    }
    return 0.0;
  };
  CHECK(time_of(PathKind::Kernel, KernelClass::Gemm) == doctest::Approx(180));
  CHECK(time_of(PathKind::Kernel, KernelClass::Collective) == doctest::Approx(18));
  CHECK(time_of(PathKind::Launch, KernelClass::Other) == doctest::Approx(10));
  CHECK(time_of(PathKind::StreamGap, KernelClass::Other) == doctest::Approx(2));
  CHECK(time_of(PathKind::WaitReturn, KernelClass::Other) == doctest::Approx(5));
  // 10 us before the launch, 5 after the wait.
  CHECK(time_of(PathKind::HostWork, KernelClass::Other) == doctest::Approx(15));
  double shares = 0;
  for (const PathShare& share : path.shares) shares += share.share;
  CHECK(shares == doctest::Approx(1));
}

TEST_CASE("ranks that begin their recordings later begin later in the replay") {
  std::vector<Trace> traces;
  traces.push_back(rank(0, 100, 220, 0));
  // Begins 50 us later and computes 130 us from there: the same end, a step 50 us shorter.
  traces.push_back(rank(50, 130, 170, 1));
  const RanksRun run =
      run_ranks(traces::build_ranks_program(traces, traces::KernelNames::builtin()).job);
  CHECK(step_us(run, 0) == doctest::Approx(230));
  CHECK(step_us(run, 1) == doctest::Approx(180));
}

TEST_CASE("a rank alone keeps its collectives as recorded") {
  std::vector<Trace> traces;
  traces.push_back(rank(0, 100, 220, 0));
  const traces::RanksBuild build =
      traces::build_ranks_program(traces, traces::KernelNames::builtin());
  REQUIRE(build.single);
  CHECK_FALSE(build.waiting);
  REQUIRE(build.job.collectives.size() == 1);
  CHECK(build.job.collectives[0].parts[0].arrival == ReplayCollective::kNoTask);
  CHECK(build.job.collectives[0].bytes == 4000);
  CHECK(step_us(run_ranks(build.job), 0) == doctest::Approx(230));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
