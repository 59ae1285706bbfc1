#include "sim/replay/replay_path.hpp"

#include <doctest/doctest.h>

namespace tracecast {
namespace {

/// Tracks: 0 a stream, 1 a host thread.
struct Hand {
  ReplayProgram program{{""}, {{true, 0, 7, ""}, {false, 0, 0, "main"}}, {}, {}, {}, {}, {}};

  std::uint32_t name(const std::string& text) {
    program.names.push_back(text);
    return static_cast<std::uint32_t>(program.names.size() - 1);
  }
  std::uint32_t task(ReplayWork work, std::int64_t us, const std::string& text = "",
                     KernelClass kernel_class = KernelClass::Other) {
    program.tasks.push_back(
        {work, kernel_class, is_on_gpu(work) ? 0U : 1U, name(text), us * 1000, 0});
    return static_cast<std::uint32_t>(program.tasks.size() - 1);
  }
  void after(std::uint32_t before, std::uint32_t task, std::int64_t lag_us, ReplayReason reason) {
    program.dependencies.push_back({before, task, lag_us * 1000, reason});
  }
  [[nodiscard]] CriticalPath path() const { return critical_path(program, replay(program)); }
};

double us(const CriticalPath& path, PathKind kind, KernelClass kernel_class = KernelClass::Other) {
  for (const PathShare& share : path.shares) {
    if (share.kind == kind && share.kernel_class == kernel_class)
      return static_cast<double>(share.time.count()) * 1e-6;
  }
  return 0;
}

TEST_SUITE_BEGIN("sim/replay/replay_path");

TEST_CASE(
    "a job bound by launches has its host on the critical path, one bound by kernels its GPU") {
  // The host issues two kernels 50 us apart; the second begins 6 us after its launch, or 2 after
  // the first kernel.
  const auto job = [](std::int64_t first_kernel_us) {
    Hand hand;
    const auto first =
        hand.task(ReplayWork::Kernel, first_kernel_us, "conv", KernelClass::Convolution);
    const auto second = hand.task(ReplayWork::Kernel, 10, "gemm", KernelClass::Gemm);
    const auto call1 = hand.task(ReplayWork::Call, 5, "cudaLaunchKernel");
    const auto work = hand.task(ReplayWork::HostWork, 45);
    hand.after(call1, work, 0, ReplayReason::Program);
    hand.after(call1, first, 6, ReplayReason::Launch);
    hand.after(work, second, 6, ReplayReason::Launch);
    hand.after(first, second, 2, ReplayReason::Stream);
    return hand.path();
  };
  // Launches: 5 call + 45 host + 6 + 10 = 66; the first kernel of 20 us ends at 31.
  const CriticalPath launches = job(20);
  CHECK(launches.length.count() == 66'000'000);
  CHECK(us(launches, PathKind::HostWork) == doctest::Approx(45));
  CHECK(us(launches, PathKind::Call) == doctest::Approx(5));
  CHECK(us(launches, PathKind::Launch) == doctest::Approx(6));
  CHECK(us(launches, PathKind::Kernel, KernelClass::Gemm) == doctest::Approx(10));
  CHECK(us(launches, PathKind::Kernel, KernelClass::Convolution) == 0);
  CHECK(launches.shares.front().kind == PathKind::HostWork);
  // Kernels: 5 + 6 + 80 + 2 + 10 = 103.
  const CriticalPath kernels = job(80);
  CHECK(kernels.length.count() == 103'000'000);
  CHECK(us(kernels, PathKind::Kernel, KernelClass::Convolution) == doctest::Approx(80));
  CHECK(us(kernels, PathKind::StreamGap) == doctest::Approx(2));
  CHECK(us(kernels, PathKind::HostWork) == 0);
  CHECK(kernels.items.front().share == doctest::Approx(80.0 / 103));
}

TEST_CASE("the path begins with the first step and ends with the last GPU work or step") {
  Hand hand;
  const auto copy = hand.task(ReplayWork::Copy, 30, "Memcpy HtoD");
  const auto warm_up = hand.task(ReplayWork::HostWork, 1000);
  const auto begin = hand.task(ReplayWork::Mark, 0, "ProfilerStep#1");
  const auto load = hand.task(ReplayWork::Input, 200);
  const auto call = hand.task(ReplayWork::Call, 4, "cudaMemcpyAsync");
  const auto returned = hand.task(ReplayWork::Wait, 0, "cudaMemcpyAsync");
  const auto end = hand.task(ReplayWork::Mark, 0, "ProfilerStep#1");
  const auto tail = hand.task(ReplayWork::HostWork, 5000);
  hand.after(warm_up, begin, 0, ReplayReason::Program);
  hand.after(begin, load, 0, ReplayReason::Program);
  hand.after(load, call, 0, ReplayReason::Program);
  hand.after(load, copy, 3, ReplayReason::Launch);
  hand.after(call, returned, 0, ReplayReason::Program);
  hand.after(copy, returned, 7, ReplayReason::Wait);
  hand.after(returned, end, 0, ReplayReason::Program);
  hand.after(end, tail, 0, ReplayReason::Program);
  hand.program.steps.push_back({hand.program.tasks[begin].name, begin, end});
  // 200 loading, 3 to the copy, 30 of copy, 7 back.
  const CriticalPath path = hand.path();
  CHECK(path.length.count() == 240'000'000);
  CHECK(us(path, PathKind::Input) == doctest::Approx(200));
  CHECK(us(path, PathKind::Copy) == doctest::Approx(30));
  CHECK(us(path, PathKind::WaitReturn) == doctest::Approx(7));
  CHECK(us(path, PathKind::HostWork) == 0);
}

TEST_CASE("without work there is no path") {
  CHECK(critical_path(ReplayProgram{}, replay(ReplayProgram{})).length.count() == 0);
  CHECK(Hand().path().shares.empty());
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
