#include "sim/cost/uncertainty.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace tracecast::cost {
namespace {

constexpr auto kGemm = static_cast<std::size_t>(CostForm::Gemm);
constexpr auto kStreaming = static_cast<std::size_t>(CostForm::Streaming);

CostProfile profile_of(double base) {
  CostProfile profile;
  for (ErrorSd& uncertainty : profile.error) uncertainty = {base, base, base, 0};
  return profile;
}

Kernel gemm(std::int64_t batch, Precision data) {
  Kernel kernel;
  kernel.kernel_class = batch > 1 ? KernelClass::BatchedGemm : KernelClass::Gemm;
  kernel.data = data;
  kernel.work = MatrixWork{.batch = batch, .m = 8, .n = 8, .k = 8};
  return kernel;
}

GpuSpec gpu_of(Architecture architecture) {
  GpuSpec gpu;
  gpu.architecture = architecture;
  return gpu;
}

TEST_SUITE("sim/cost/uncertainty") {
  TEST_CASE("what widens an error is added in squares, where the estimate knows of it") {
    CostProfile profile = profile_of(0.12);
    // With 0.12: 0.16 makes 0.20, 0.09 makes 0.15, 0.35 makes 0.37, 0.05 makes 0.13.
    profile.error_causes = {.board = 0.1,
                            .under_occupied = 0.16,
                            .library_rules = 0.09,
                            .low_precision_arithmetic = 0.35,
                            .low_precision_stream = 0.05,
                            .power_limit = 0.5};
    KernelEstimate full;
    full.duration = 1.0_ms;
    full.compute_time = 0.8_ms;
    full.bound = Bound::Compute;
    full.basis = Basis::Transferred;
    KernelEstimate under_occupied = full;
    under_occupied.bound = Bound::Latency;
    Kernel copy;
    copy.data = Precision::Fp16;
    copy.work = StreamWork{};
    Kernel on_tensor_cores = gemm(1, Precision::Fp16);
    on_tensor_cores.unit = MathUnit::TensorCore;
    // A limit that leaves half of the clock, arithmetic 0.8 of the time: 0.5 ln 2 0.8 = 0.2773.
    const double limited = std::hypot(0.12, 0.5 * std::log(2.0) * 0.8);
    struct Row {
      const char* what;
      Kernel kernel;
      KernelEstimate estimate;
      Architecture architecture;
      double throttle, log_sd, shared;
    };
    const Row rows[] = {
        {"nothing", gemm(1, Precision::Fp32), full, Architecture::Volta, 1, 0.12, 0.1},
        {"under_occupied", gemm(1, Precision::Fp32), under_occupied, Architecture::Volta, 1, 0.20,
         0.1},
        {"rules of old libraries", gemm(1, Precision::Fp32), full, Architecture::Pascal, 1, 0.15,
         0.1},
        {"batched: one tile", gemm(4, Precision::Fp32), full, Architecture::Pascal, 1, 0.12, 0.1},
        {"narrow GEMM", gemm(4, Precision::Fp16), full, Architecture::Pascal, 1, 0.37,
         std::hypot(0.1, 0.35)},
        {"narrow data, moved", copy, full, Architecture::Pascal, 1, 0.13, std::hypot(0.1, 0.05)},
        {"tensor cores are made for it", on_tensor_cores, full, Architecture::Volta, 1, 0.12, 0.1},
        {"power limit", gemm(1, Precision::Fp32), full, Architecture::Volta, 0.5, limited,
         std::hypot(0.1, 0.5 * std::log(2.0) * 0.8)},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      const Uncertainty uncertainty =
          error_sd(row.estimate, row.kernel, row.throttle, gpu_of(row.architecture), profile);
      CHECK(uncertainty.log_sd == doctest::Approx(row.log_sd));
      CHECK(uncertainty.shared_log_sd == doctest::Approx(row.shared));
    }
  }

  TEST_CASE("the base follows the basis, and a bound is twice as uncertain as a spec") {
    CostProfile profile;
    profile.error[kGemm] = {.measured = 0.1, .transferred = 0.2, .spec = 0.3};
    profile.error_causes.board = 0.15;
    const GpuSpec gpu = gpu_of(Architecture::Volta);
    KernelEstimate estimate;
    estimate.duration = 1.0_ms;
    for (const auto& [basis, expected] : {std::pair{Basis::Measured, 0.1},
                                          {Basis::Transferred, 0.2},
                                          {Basis::Spec, 0.3},
                                          {Basis::Unknown, 0.6}}) {
      CAPTURE(to_string(basis));
      estimate.basis = basis;
      const Uncertainty uncertainty = error_sd(estimate, gemm(1, Precision::Fp32), 1, gpu, profile);
      CHECK(uncertainty.log_sd == doctest::Approx(expected));
      // No more can be shared than there is.
      CHECK(uncertainty.shared_log_sd == doctest::Approx(std::min(expected, 0.15)));
    }
  }

  TEST_CASE("a board beyond those of the fit is less certain, by how far it is beyond") {
    CostProfile profile = profile_of(0.12);
    profile.error_causes.beyond = 0.16 / std::log(2.0);
    GpuSpec gpu = gpu_of(Architecture::Blackwell);
    gpu.id = "fast";
    gpu.peaks = {{Precision::Fp32, MathUnit::CudaCore, 20.0_TFLOPps}};
    gpu.dram_bandwidth = 800.0_GBps;
    KernelEstimate full;
    full.duration = 1.0_ms;
    full.basis = Basis::Spec;
    Kernel copy;
    copy.work = StreamWork{};
    const auto log_sd = [&] { return error_sd(full, copy, 1, gpu, profile).log_sd; };
    CHECK(log_sd() == doctest::Approx(0.12));  // the profile does not say what it was fitted on
    profile.reach[kStreaming] = {.tflop_per_s = 20, .gb_per_s = 900};
    CHECK(log_sd() == doctest::Approx(0.12));  // within
    profile.reach[kStreaming].gb_per_s = 400;  // twice: 0.16 more, in squares
    CHECK(log_sd() == doctest::Approx(0.20));
    profile.reach[kStreaming].tflop_per_s = 5;  // four times in arithmetic, the greater of the two
    CHECK(log_sd() == doctest::Approx(std::hypot(0.12, 0.32)));
    profile.measured_gpu = "fast";
    CHECK(log_sd() == doctest::Approx(0.12));
  }

  TEST_CASE("an estimate's own part is never negative") {
    for (const double base : {0.01, 0.1, 0.5}) {
      CostProfile profile = profile_of(base);
      profile.error_causes = {0.2, 0.1, 0.1, 0.3, 0.3, 0.4};
      profile.error[kStreaming].transferred = base / 2;
      for (const Precision data : {Precision::Fp32, Precision::Fp16}) {
        for (const Bound bound : {Bound::Compute, Bound::Latency}) {
          KernelEstimate estimate;
          estimate.duration = 1.0_ms;
          estimate.compute_time = 1.0_ms;
          estimate.bound = bound;
          const Uncertainty uncertainty =
              error_sd(estimate, gemm(1, data), 0.7, gpu_of(Architecture::Kepler), profile);
          CHECK(uncertainty.shared_log_sd <= uncertainty.log_sd);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tracecast::cost
