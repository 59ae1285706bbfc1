#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/replay/replay_ranks.hpp"
#include "tests/support/data.hpp"
#include "traces/open.hpp"
#include "traces/ranks/job.hpp"
#include "traces/ranks/one_job.hpp"
#include "traces/ranks/read.hpp"
#include "traces/summary.hpp"

namespace tracecast {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRankSet = "traces/kineto/param_8xv100_dlrm_8ranks.tar.gz";

double seconds(engine::Picoseconds time) { return time.in_seconds().in_s(); }

/// Steps that follow from `run`, one of each rank.
std::vector<double> steps_of(const RanksRun& run) {
  std::vector<double> steps;
  for (const auto step : run.run.steps) steps.push_back(seconds(step));
  return steps;
}

TEST_SUITE_BEGIN("validation/trace_ranks");

TEST_CASE("all collectives of the DLRM rank set are matched over its 8 ranks") {
  const auto file = test::find_data(kRankSet);
  if (!file) return;
  const traces::Recording recording = traces::read_recording(*file);
  const traces::RanksBuild build =
      traces::build_ranks_program(recording.traces, traces::KernelNames::builtin());
  REQUIRE(build.waiting);
  // Its README: 5 all-to-all and 3 all-reduce a rank.
  CHECK(build.waiting->collectives == 8);
  CHECK(build.waiting->incomplete == 0);
  CHECK(build.waiting->unmatched.empty());
  CHECK(build.waiting->kernels.count == 64);
  REQUIRE(build.waiting->kinds.size() == 2);
  for (const traces::CollectiveKindTime& kind : build.waiting->kinds) {
    CHECK(kind.ranks == 8);
    CHECK(kind.sized == kind.collectives);
    CHECK(kind.collectives == (kind.kind == Collective::AllToAll ? 5 : 3));
  }
  // One host, one clock: its times are whole microseconds.
  CHECK(build.waiting->clock_sd_ns <= 3000);
  CHECK(build.waiting->wait_ns + build.waiting->move_ns == build.waiting->kernels.ns);
}

TEST_CASE("the DLRM rank set replayed from all ranks gives every rank's step within 10 %") {
  const auto file = test::find_data(kRankSet);
  if (!file) return;
  const traces::KernelNames names = traces::KernelNames::builtin();
  const traces::Recording recording = traces::read_recording(*file);
  const traces::RanksBuild build = traces::build_ranks_program(recording.traces, names);
  const RanksRun run = run_ranks(build.job);
  const std::vector<double> steps = steps_of(run);
  REQUIRE(steps.size() == 8);
  double worst = 0;
  for (std::size_t r = 0; r < 8; ++r) {
    const double recorded =
        static_cast<double>(traces::summarize(recording.traces[r], names).steps.at(0).tally.ns) *
        1e-9;
    worst = std::max(worst, std::abs(steps[r] / recorded - 1));
  }
  MESSAGE("worst rank " << worst * 100 << " %");
  CHECK(worst <= 0.10);
}

TEST_CASE("when one rank becomes slower by a factor, all others wait for it") {
  const auto file = test::find_data(kRankSet);
  if (!file) return;
  const traces::Recording recording = traces::read_recording(*file);
  const traces::RanksBuild build =
      traces::build_ranks_program(recording.traces, traces::KernelNames::builtin());
  const std::vector<double> before = steps_of(run_ranks(build.job));
  // The rank that came last to most collectives: all that its host and its GPU do takes twice as
  // long.
  const auto last = std::max_element(
      build.waiting->ranks.begin(), build.waiting->ranks.end(),
      [](const traces::RankWaiting& a, const traces::RankWaiting& b) { return a.last < b.last; });
  const auto slow = static_cast<std::size_t>(last - build.waiting->ranks.begin());
  RanksProgram job = build.job;
  for (ReplayTask& task : job.program.tasks) {
    const bool is_mine =
        task.track >= job.ranks[slow].first_track && task.track < job.ranks[slow].end_track;
    const bool is_own = task.work == ReplayWork::Kernel
                            ? task.kernel_class != KernelClass::Collective
                            : !job.program.tracks[task.track].is_stream;
    if (is_mine && is_own) task.duration_ns *= 2;
  }
  const RanksRun run = run_ranks(job);
  const std::vector<double> after = steps_of(run);
  double most = 0, least = 1;
  for (std::size_t r = 0; r < after.size(); ++r) {
    most = std::max(most, after[r] - before[r]);
    least = std::min(least, after[r] - before[r]);
  }
  MESSAGE("rank " << slow << " took " << before[slow] * 1e3 << " ms, now " << after[slow] * 1e3
                  << "; the steps of all became longer by " << least * 1e3 << " to " << most * 1e3
                  << " ms");
  CHECK(after[slow] > 1.5 * before[slow]);
  // Hosts do not wait for the last collectives of the step, so theirs grow by less than its own.
  CHECK(least > 0.4 * most);
  // It alone decides now.
  CHECK(seconds(run.path.by_rank[slow]) > 0.9 * seconds(run.path.length));
}

TEST_CASE(
    "sets of ranks are taken as one job, folders and archives of unrelated recordings are not") {
  const auto folder = test::find_data("traces");
  if (!folder) return;
  for (const std::string set :
       {"kineto/param_8xv100_dlrm_8ranks.tar.gz", "chakra/param_8xv100_dlrm_et_8ranks.tar.gz"}) {
    CAPTURE(set);
    CHECK(traces::read_ranks({*folder / set}).traces.size() == 8);
  }
  for (const std::string unrelated :
       {"kineto", "nvprof", "chakra", "profiles/orion", "chakra/astrasim_examples.tar.gz"}) {
    CAPTURE(unrelated);
    CHECK_THROWS_WITH_AS((void)traces::read_ranks({*folder / unrelated}),
                         doctest::Contains("expected ranks of one job"), InputError);
  }
  // Every two recordings that are not of that set belong to different jobs, those of one network on
  // one GPU too.
  const std::vector<const char*> singles = {"hta_2xa100_resnet50_ddp_3steps",
                                            "hta_a100_8rank_dlrm_rank3_6steps",
                                            "hta_a100_alexnet_forward",
                                            "hta_v100_resnet50_5steps_ns",
                                            "kineto_v100dgxs_resnet50_b32_workers0",
                                            "kineto_v100dgxs_resnet50_b32_workers4",
                                            "param_2080ti_mlp_40iters",
                                            "tracelens_8xb200_llm_eager_rank0",
                                            "tracelens_8xmi300x_resnet18_ddp_rank0"};
  std::vector<traces::Trace> read;
  for (const char* name : singles) {
    read.push_back(std::move(
        traces::read_recording(*folder / "kineto" / (std::string(name) + ".json.gz")).traces[0]));
  }
  for (std::size_t a = 0; a < read.size(); ++a) {
    for (std::size_t b = a + 1; b < read.size(); ++b) {
      CAPTURE(singles[a]);
      CAPTURE(singles[b]);
      std::vector<traces::Trace> two;
      two.push_back(std::move(read[a]));
      two.push_back(std::move(read[b]));
      CHECK_THROWS_AS(traces::check_one_job(two), InputError);
      read[a] = std::move(two[0]);
      read[b] = std::move(two[1]);
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
