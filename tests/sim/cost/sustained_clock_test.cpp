#include "sim/cost/sustained_clock.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "tests/sim/cost/simple_machine.hpp"

namespace tracecast::cost {
namespace {

double clock_share(const GpuSpec& gpu, const CostProfile& profile) {
  return sustain(gpu, Precision::Fp32, MathUnit::CudaCore, profile).clock_share;
}

TEST_SUITE("sim/cost/sustained_clock") {
  TEST_CASE("a GPU exactly at the knee keeps 2^(-1/12) of its boost clock") {
    GpuSpec gpu = simple_gpu();
    const CostProfile profile = simple_profile();
    gpu.tdp = Watts(profile.clock.knee_w_per_tflops * 1.28);  // 16 nm: no scaling
    CHECK(clock_share(gpu, profile) == doctest::Approx(std::pow(2.0, -1.0 / 12)));
  }

  TEST_CASE("far below the knee the clock follows the power, far above it nothing is lost") {
    GpuSpec gpu = simple_gpu();
    const CostProfile profile = simple_profile();
    gpu.tdp = Watts(profile.clock.knee_w_per_tflops * 1.28 / 4);
    CHECK(clock_share(gpu, profile) == doctest::Approx(0.25).epsilon(0.001));
    gpu.tdp = Watts(profile.clock.knee_w_per_tflops * 1.28 * 10);
    CHECK(clock_share(gpu, profile) == doctest::Approx(1.0).epsilon(0.001));
  }

  TEST_CASE("what memory and an idle chip draw is not there for arithmetic") {
    GpuSpec gpu = simple_gpu();
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "power.gddr_active_idle_pj_per_byte", 100);
    const double at_knee = profile.clock.knee_w_per_tflops * 1.28;
    gpu.idle_power = 5.0_W;
    gpu.tdp = Watts(at_knee + 5);
    CHECK(clock_share(gpu, profile) == doctest::Approx(std::pow(2.0, -1.0 / 12)));
    // GDDR keeps its pins active-idle: 100 GB/s * 100 pJ/B = 10 W more.
    gpu.memory_type = MemoryType::Gddr5;
    CHECK(active_idle_power(gpu, profile).in_w() == doctest::Approx(15));
    CHECK(clock_share(gpu, profile) < std::pow(2.0, -1.0 / 12));
    gpu.tdp = Watts(at_knee + 15);
    CHECK(clock_share(gpu, profile) == doctest::Approx(std::pow(2.0, -1.0 / 12)));
    // A limit that the idle board exceeds leaves next to nothing, and nothing negative.
    gpu.tdp = 10.0_W;
    CHECK(clock_share(gpu, profile) > 0);
    CHECK(clock_share(gpu, profile) < 0.01);
  }

  TEST_CASE("the clock gives way more slowly than the power, since the voltage falls with it") {
    GpuSpec gpu = simple_gpu();
    CostProfile profile = simple_profile();
    gpu.tdp = Watts(profile.clock.knee_w_per_tflops * 1.28 / 8);
    profile = with_parameter(std::move(profile), "clock.power_exponent", 1.5);
    CHECK(clock_share(gpu, profile) == doctest::Approx(0.25).epsilon(0.001));  // (1/8)^(2/3)
    profile = with_parameter(std::move(profile), "clock.power_exponent", 3);
    CHECK(clock_share(gpu, profile) == doctest::Approx(0.5).epsilon(0.001));
  }

  TEST_CASE("kernels on tensor cores are slowed by what they do, not by their board's lanes") {
    GpuSpec gpu = simple_gpu();
    gpu.tdp = 1.0_W;
    const SustainedGpu machine =
        sustain(gpu, Precision::Fp16, MathUnit::TensorCore, simple_profile());
    CHECK(machine.clock_share == doctest::Approx(1));
    CHECK(machine.tensor_power.has_value());
    CHECK_FALSE(sustain(gpu, Precision::Fp32, MathUnit::CudaCore, simple_profile())
                    .tensor_power.has_value());
  }

  TEST_CASE("a pinned board keeps its clock") {
    GpuSpec gpu = simple_gpu();
    gpu.tdp = 1.0_W;
    const GpuSpec pinned = pinned_at(gpu, 700.0_MHz);
    CHECK(sustain(pinned, Precision::Fp32, MathUnit::CudaCore, simple_profile()).clock.in_si() ==
          doctest::Approx(700e6));
  }

  TEST_CASE("a finer process reaches the same clock on less power") {
    GpuSpec gpu = simple_gpu();
    const CostProfile profile = simple_profile();
    gpu.tdp = Watts(profile.clock.knee_w_per_tflops * 1.28);
    GpuSpec shrunk = gpu;
    shrunk.process_nm = 8;
    shrunk.tdp = gpu.tdp / 2;
    CHECK(clock_share(shrunk, profile) == doctest::Approx(clock_share(gpu, profile)));
  }

  TEST_CASE("boards before autoboost stay at their application clock") {
    GpuSpec gpu = simple_gpu();
    gpu.compute_capability = 35;
    CHECK(default_clock(gpu) == gpu.application_clock);
    CHECK(clock_share(gpu, simple_profile()) == doctest::Approx(0.95).epsilon(1e-4));
    gpu.compute_capability = 37;
    CHECK(default_clock(gpu) == gpu.boost_clock);
  }

  TEST_CASE("boards without ECC run above their rated boost unless pinned") {
    GpuSpec gpu = simple_gpu();
    gpu.ecc_default_on = false;
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "clock.consumer_boost", 1.1);
    CHECK(clock_share(gpu, profile) == doctest::Approx(1.1).epsilon(1e-4));
    GpuSpec switched_off = gpu;  // a professional board, as it comes from the factory
    switched_off.ecc_bandwidth_fraction = 0.8;
    CHECK(clock_share(switched_off, profile) == doctest::Approx(1).epsilon(1e-4));
    const GpuSpec pinned = pinned_at(gpu, 500.0_MHz);
    CHECK(clock_share(pinned, profile) == doctest::Approx(1.0).epsilon(1e-4));
    CHECK(
        sustain(pinned, Precision::Fp32, MathUnit::CudaCore, profile).arithmetic.in_tflop_per_s() ==
        doctest::Approx(0.64).epsilon(1e-4));
  }

  TEST_CASE("formats without a unit run at the next wider one") {
    const GpuSpec gpu = simple_gpu();
    const CostProfile profile = simple_profile();
    const auto rate = [&](Precision precision, MathUnit unit) {
      return sustain(gpu, precision, unit, profile).arithmetic.in_tflop_per_s();
    };
    CHECK(rate(Precision::Fp16, MathUnit::CudaCore) == doctest::Approx(1.28).epsilon(1e-4));
    CHECK(rate(Precision::Bf16, MathUnit::TensorCore) == doctest::Approx(10.24).epsilon(1e-4));
    CHECK(rate(Precision::Tf32, MathUnit::TensorCore) == doctest::Approx(1.28).epsilon(1e-4));
  }

  TEST_CASE("memory controllers since Volta reach a share of their own") {
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "memory.old_efficiency", 0.5);
    profile = with_parameter(std::move(profile), "memory.efficiency", 0.9);
    for (const auto& [architecture, expected] : {std::pair{Architecture::Kepler, 0.5},
                                                 {Architecture::Pascal, 0.5},
                                                 {Architecture::Volta, 0.9},
                                                 {Architecture::Hopper, 0.9}}) {
      GpuSpec gpu = simple_gpu();
      gpu.architecture = architecture;
      CAPTURE(to_string(architecture));
      CHECK(dram_efficiency(gpu, profile) == expected);
      // 100 GB/s in theory.
      CHECK(sustain(gpu, Precision::Fp32, MathUnit::CudaCore, profile).stream.in_gb_per_s() ==
            doctest::Approx(100 * expected));
    }
  }

  TEST_CASE("half of L2 serves the SMs of its side on A100 and H100") {
    for (const auto& [capability, share] :
         {std::pair{70, 1.0}, {80, 0.5}, {86, 1.0}, {89, 1.0}, {90, 0.5}}) {
      GpuSpec gpu = simple_gpu();
      gpu.compute_capability = capability;
      CAPTURE(capability);
      CHECK(sustain(gpu, Precision::Fp32, MathUnit::CudaCore, simple_profile()).l2_bytes ==
            doctest::Approx(1e6 * share));
    }
  }
}

}  // namespace
}  // namespace tracecast::cost
