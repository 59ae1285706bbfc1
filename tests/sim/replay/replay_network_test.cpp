#include "sim/replay/replay_network.hpp"

#include <doctest/doctest.h>

#include "sim/network/collective.hpp"
#include "sim/replay/replay_factors.hpp"
#include "sim/replay/replay_ranks.hpp"
#include "tests/sim/hardware.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {

using test::Hardware;

constexpr std::uint64_t kBytes = 400'000'000;

/// One all-reduce of two recorded ranks with `moving_us`, of which the second arrives 50 us after
/// the first.
RanksProgram joined_job(std::int64_t moving_us, std::uint64_t bytes = kBytes) {
  RanksProgram job;
  ReplayProgram& program = job.program;
  program.tracks = {{true, 0, 20, ""}, {true, 1, 20, ""}};
  const auto add = [&](ReplayWork work, std::uint32_t track, std::int64_t us) {
    program.tasks.push_back({work, KernelClass::Collective, track, 0, us * 1000, 0});
    return static_cast<std::uint32_t>(program.tasks.size() - 1);
  };
  ReplayCollective all{Collective::AllReduce, bytes, 2, {}, true};
  for (std::uint32_t r = 0; r < 2; ++r) {
    const auto host = add(ReplayWork::HostWork, r, 100 + 50 * r);
    const auto arrival = add(ReplayWork::Arrival, r, 0);
    const auto kernel = add(ReplayWork::Kernel, r, moving_us);
    program.dependencies.push_back({host, arrival, 0, ReplayReason::Launch});
    all.parts.push_back({arrival, kernel});
    job.ranks.push_back({r, r, r + 1, 0, 0});
  }
  for (const auto& part : all.parts) {
    for (const auto& other : all.parts)
      program.dependencies.push_back({other.arrival, part.kernel, 0, ReplayReason::Collective});
  }
  job.collectives.push_back(all);
  return job;
}

std::int64_t moving_ns(const RanksProgram& job) {
  return job.program.tasks[job.collectives[0].parts[1].kernel].duration_ns;
}

std::int64_t moving_us(const RanksProgram& job) { return moving_ns(job) / 1000; }

TEST_SUITE_BEGIN("sim/replay/replay_network");

TEST_CASE("on the network it was recorded on a job is as recorded") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("dgx1_v100", 2);
  RanksProgram job = joined_job(20'000);
  const auto changes =
      move_collectives(job, {fabric, fabric, find_collective_library("nccl", ""), {}});
  CHECK(moving_us(job) == 20'000);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].basis == MovingBasis::Scaled);
  CHECK(changes[0].recorded == changes[0].moved);
}

TEST_CASE("collectives go at the pace of the links they are given") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("dgx1_v100", 2);
  const CollectiveLibrary& library = find_collective_library("nccl", "");
  struct Row {
    const char* what;
    double factor, least_ratio, most_ratio;
  };
  // 400 MB take milliseconds: latency is 1 % or less.
  const Row rows[] = {{"twice the bandwidth", 2, 0.49, 0.52}, {"half of it", 0.5, 1.95, 2.01}};
  for (const Row& row : rows) {
    CAPTURE(row.what);
    RanksProgram job = joined_job(20'000);
    LinkFactors factors;
    factors.bandwidth[static_cast<std::size_t>(FabricLinkKind::Nvlink)] = row.factor;
    move_collectives(job, {fabric, fabric, library, factors});
    const double ratio = static_cast<double>(moving_us(job)) / 20'000;
    CHECK(ratio >= row.least_ratio);
    CHECK(ratio <= row.most_ratio);
    // Both ranks arrive when they did: 150 us to the last.
    const RanksRun run = run_ranks(job);
    CHECK(run.run.schedule.makespan.count() == (150'000 + moving_ns(job)) * 1000);
  }
}

TEST_CASE("what the recorded collective took beyond its price it takes in proportion elsewhere") {
  const Hardware hardware;
  const Fabric two = hardware.build("dgx1_v100", 2), many = hardware.build("dgx1_v100", 8, 2);
  const CollectiveLibrary& library = find_collective_library("nccl", "");
  const auto price = [&](const Fabric& fabric) {
    return time_alone(plan_collective(fabric, all_ranks(fabric), Collective::AllReduce,
                                      Bytes(static_cast<double>(kBytes)), library),
                      fabric);
  };
  RanksProgram job = joined_job(30'000);
  const auto changes = move_collectives(job, {two, many, library, {}});
  CHECK(changes[0].recorded_ranks == 2);
  CHECK(changes[0].ranks == 16);
  CHECK(changes[0].moved / changes[0].recorded ==
        doctest::Approx(price(many) / price(two)).epsilon(1e-6));
}

TEST_CASE("a collective of unknown size keeps its time") {
  const Hardware hardware;
  const Fabric two = hardware.build("dgx1_v100", 2), many = hardware.build("dgx1_v100", 8, 2);
  RanksProgram job = joined_job(30'000, 0);
  const auto changes = move_collectives(job, {two, many, find_collective_library("nccl", ""), {}});
  CHECK(moving_us(job) == 30'000);
  CHECK(changes[0].basis == MovingBasis::Kept);
}

TEST_CASE("a single rank's kernel keeps its waiting") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("dgx1_v100", 2);
  RanksProgram job;
  job.program.tracks = {{true, 0, 20, ""}};
  // Two of a kind, 70 ms and 90 ms, far beyond the price of 400 MB over NVLink.
  for (const std::int64_t us : {70'000, 90'000}) {
    job.collectives.push_back(
        {Collective::AllReduce,
         kBytes,
         2,
         {{ReplayCollective::kNoTask, static_cast<std::uint32_t>(job.program.tasks.size())}},
         false});
    job.program.tasks.push_back({ReplayWork::Kernel, KernelClass::Collective, 0, 0, us * 1000, 0});
  }
  LinkFactors factors;
  factors.bandwidth[static_cast<std::size_t>(FabricLinkKind::Nvlink)] = 1e3;
  const auto changes =
      move_collectives(job, {fabric, fabric, find_collective_library("nccl", ""), factors});
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].basis == MovingBasis::Estimated);
  // Each loses nearly its price, and no more.
  const double price_ns = changes[0].priced.in_s() * 1e9 / 2;
  CHECK(job.program.tasks[0].duration_ns >= 70e6 - price_ns - 1);
  CHECK(job.program.tasks[0].duration_ns < 70e6 - 0.9 * price_ns);
  CHECK(job.program.tasks[1].duration_ns - job.program.tasks[0].duration_ns == 20'000'000);
}

TEST_CASE("factors change what they are about, down to the quickest kernel") {
  ReplayProgram program;
  program.tracks = {{true, 0, 7, ""}, {false, 0, 0, "main"}};
  const auto add = [&](ReplayWork work, KernelClass kernel_class, std::uint32_t track,
                       std::int64_t us) {
    program.tasks.push_back({work, kernel_class, track, 0, us * 1000, 0});
  };
  add(ReplayWork::Kernel, KernelClass::Elementwise, 0, 2);
  add(ReplayWork::Kernel, KernelClass::Elementwise, 0, 102);
  add(ReplayWork::Kernel, KernelClass::Gemm, 0, 42);
  add(ReplayWork::Kernel, KernelClass::Collective, 0, 500);
  add(ReplayWork::HostWork, KernelClass::Other, 1, 30);
  const auto us = [&program](std::size_t task) { return program.tasks[task].duration_ns / 1000; };
  // 2 + 100 / 2, 2 + 40 / 4, 30 / 3.
  const FactorChanges changes = apply_factors(program, {2, 4, 3});
  CHECK(us(0) == 2);
  CHECK(us(1) == 52);
  CHECK(us(2) == 12);
  CHECK(us(3) == 500);
  CHECK(us(4) == 10);
  const FactorChange& elementwise =
      changes.kernels[static_cast<std::size_t>(KernelClass::Elementwise)];
  CHECK(elementwise.count == 2);
  CHECK(elementwise.recorded.in_us() == doctest::Approx(104));
  CHECK(elementwise.moved.in_us() == doctest::Approx(54));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
