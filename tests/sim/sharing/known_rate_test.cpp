#include "sim/sharing/known_rate.hpp"

#include <doctest/doctest.h>

namespace tracecast {
namespace {

/// Kernels of `kernel` each and a host that begins no step before the GPU is done, with `overhead`
/// between steps.
ColocatedJob job_of(int count, Seconds kernel, Seconds overhead) {
  ColocatedJob job;
  job.program.step_overhead = overhead;
  job.program.synchronizes = true;
  for (int k = 0; k < count; ++k) {
    const auto index = static_cast<std::uint32_t>(k);
    job.program.kernels.push_back({.duration = kernel, .op = index});
    job.program.ops.push_back({.first_kernel = index, .num_kernels = 1});
    job.demands.push_back({});
  }
  return job;
}

SharedBox box() {
  SharedBox box;
  box.sharing.time_slice = 1.0_ms;
  return box;
}

Seconds alone(const ColocatedJob& job) {
  SharedBox roomy = box();
  roomy.gpu_memory = Bytes(16e9);
  return colocate({&job, 1}, roomy).jobs.front().alone;
}

TEST_SUITE_BEGIN("sim/sharing/known_rate");

TEST_CASE("a job takes the step time that is known, by what can explain it") {
  struct Row {
    const char* what;
    int kernels;
    double kernel_ms, overhead_ms, known_ms, fastest_ms;
    double kernel_ms_then, overhead_ms_then;
  };
  const Row rows[] = {
      // 8 ms of kernels and 12 of host: to be 32 ms, the host takes 24.
      {"the host is slower than predicted", 8, 1, 12, 32, 32, 1, 24},
      // Some GPU makes a step in 16 ms: a host takes at most 40 ms of it.
      {"the host is slower than another", 8, 1, 12, 38, 16, 1, 30},
      // Some GPU makes a step in 12 ms; 44 are too many for a host, so that kernels take 32.
      {"the host is not so slow anywhere", 8, 1, 12, 44, 12, 4, 12},
      // 8 + 12 ms known to be 14: the host takes 6.
      {"the host is faster", 8, 1, 12, 14, 14, 1, 6},
      // 20 ms of kernels, 1 of host: to be 28 ms, the host takes 8.
      {"nothing says that the GPU is slower", 20, 1, 1, 28, 28, 1, 8},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const ColocatedJob job =
        job_of(row.kernels, Seconds(row.kernel_ms * 1e-3), Seconds(row.overhead_ms * 1e-3));
    const ColocatedJob then =
        with_rate_alone(job, box(), {Seconds(row.known_ms * 1e-3), Seconds(row.fastest_ms * 1e-3)});
    CHECK(alone(then).in_ms() == doctest::Approx(row.known_ms).epsilon(0.06));
    CHECK(then.program.kernels[0].duration.in_ms() ==
          doctest::Approx(row.kernel_ms_then).epsilon(0.06));
    CHECK(then.program.step_overhead.in_ms() == doctest::Approx(row.overhead_ms_then).epsilon(0.1));
  }
}

TEST_CASE("a job that is known to be faster than its kernels has faster kernels") {
  // 10 ms of kernels, 15 of host, known to take 6: the host cannot make up for it alone.
  const ColocatedJob then = with_rate_alone(job_of(10, 1.0_ms, 15.0_ms), box(), {6.0_ms, 6.0_ms});
  CHECK(then.program.kernels[0].duration < 1.0_ms);
  CHECK(alone(then).in_ms() == doctest::Approx(6).epsilon(0.1));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
