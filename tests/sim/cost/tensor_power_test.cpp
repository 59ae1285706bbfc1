#include "sim/cost/tensor_power.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <utility>

#include "sim/cost/price.hpp"
#include "sim/cost/roofs.hpp"
#include "sim/cost/sustained_clock.hpp"
#include "tests/sim/cost/simple_machine.hpp"

namespace tracecast::cost {
namespace {

/// A board whose tensor cores use 1 pJ an operation at its clock, all else for free.
CostProfile one_picojoule(const GpuSpec& gpu) {
  CostProfile profile = simple_profile();
  profile.tensor_gemm.clock_exponent = 2;
  profile.tensor_gemm.node_exponent = 1;
  profile.tensor_gemm.energy_step = 1;
  profile.tensor_gemm.energy_of = {};
  profile.tensor_gemm.base_share = 0;
  profile.tensor_gemm.hbm_pj_per_byte = profile.tensor_gemm.gddr_pj_per_byte = 10;
  profile.tensor_gemm.flop_pj = (7.0 / gpu.process_nm) * (1.41e9 / gpu.boost_clock.in_si());
  return profile;
}

TEST_SUITE("sim/cost/tensor_power") {
  TEST_CASE("a quarter of the power leaves half of the clock where power goes with its square") {
    GpuSpec gpu = simple_gpu();
    const CostProfile profile = one_picojoule(gpu);
    // 10 TFLOP in a second: 10 W. With no memory time(share) = 1 s / share, so that share^2 = limit
    // / 10 W.
    const TensorLoad load{.flops = 10e12, .arithmetic = Seconds(1)};
    gpu.tdp = active_idle_power(gpu, profile) + Watts(2.5);
    const TensorPower power(gpu, 1, profile);
    const double share = power.clock_share(load);
    CHECK(share == doctest::Approx(0.5).epsilon(0.002));
    CHECK(power.power(load, share).in_w() == doctest::Approx(gpu.tdp.in_w()).epsilon(0.01));
    CHECK(duration_at(load, share).in_s() == doctest::Approx(2).epsilon(0.002));
    // Operands twice as wide take twice the energy.
    gpu.tdp = active_idle_power(gpu, profile) + Watts(5);
    CHECK(TensorPower(gpu, 2, profile).clock_share(load) == doctest::Approx(0.5).epsilon(0.002));
  }

  TEST_CASE("a kernel that waits for memory, or keeps tensor cores idle, keeps its clock") {
    GpuSpec gpu = simple_gpu();
    const CostProfile profile = one_picojoule(gpu);
    gpu.tdp = active_idle_power(gpu, profile) + Watts(5);
    const TensorPower power(gpu, 1, profile);
    CHECK(power.clock_share({.flops = 10e12, .arithmetic = Seconds(1)}) < 0.8);
    CHECK(power.clock_share({.flops = 10e12, .arithmetic = Seconds(2.1)}) == 1);
    CHECK(power.clock_share({.flops = 10e12, .arithmetic = Seconds(1), .memory = Seconds(3)}) == 1);
    CHECK(power.clock_share({.flops = 10e12, .fixed = Seconds(2), .arithmetic = Seconds(1)}) == 1);
  }

  TEST_CASE("a kernel that is no GEMM draws by its bytes, operations and busy SMs") {
    GpuSpec gpu = simple_gpu();
    gpu.architecture = Architecture::Hopper;
    gpu.compute_capability = 90;
    gpu.idle_power = 30.0_W;
    gpu.tdp = 130.0_W;
    CostProfile profile = one_picojoule(gpu);
    profile.power.hbm_active_idle_pj_per_byte = 100;  // of 100 GB/s: 10 W
    profile.power.pass_pj_per_byte = 5;
    profile.power.busy_cycle_pj = 2000;  // 10 SMs at 1 GHz: 20 W
    const auto watts = [&](const KernelLoad& load) {
      return KernelPower(gpu, 1, profile).of(load).in_w();
    };
    const Seconds second(1);
    CHECK(waiting_power(gpu, profile).in_w() == doctest::Approx(40));
    CHECK(watts({.duration = second}) == doctest::Approx(40));
    CHECK(watts({.dram_bytes = 1e12, .passed_bytes = 2e12, .duration = second}) ==
          doctest::Approx(40 + 10 + 10));
    KernelLoad gemms{
        .flops = 5e12, .working = Seconds(0.5), .at_peak = Seconds(0.25), .duration = second};
    CHECK(watts(gemms) == doctest::Approx(40 + 5 + 5));
    gemms.sm_share = 0.5;  // of SMs without a block none is busy
    CHECK(watts(gemms) == doctest::Approx(40 + 5 + 2.5));
    CHECK(watts({.flops = 1e15, .duration = second}) == doctest::Approx(130));
    // Half of what the limit leaves over 30 W goes to SMs with a block: 40 W over those that wait.
    profile.tensor_gemm.base_share = 0.5;
    CHECK(watts({.duration = second, .sm_share = 0.25}) == doctest::Approx(40 + 10));
    CHECK(watts({.passed_bytes = 2e12, .duration = second, .throttle = 0.5}) ==
          doctest::Approx(40 + 40 * 0.25 + 10 * 0.5));
  }

  TEST_CASE("from Ampere on every kernel tells power, before none does") {
    Kernel kernel;
    kernel.read = kernel.written = Bytes(1e9);
    StreamWork work;
    work.elements = 5e8;
    kernel.work = work;
    GpuSpec gpu = simple_gpu();
    const CostProfile profile = simple_profile();
    CHECK(estimate(kernel, gpu, profile).power == Watts());
    for (const auto& [architecture, capability] :
         {std::pair{Architecture::Ampere, 80}, {Architecture::Hopper, 90}}) {
      CHECK(waiting_power(gpu, profile) == active_idle_power(gpu, profile));
      gpu.architecture = architecture;
      gpu.compute_capability = capability;
      CHECK(estimate(kernel, gpu, profile).power > waiting_power(gpu, profile));
    }
  }

  TEST_CASE("a kernel on CUDA cores keeps the clock at which it draws what the limit leaves") {
    GpuSpec gpu = simple_gpu();
    gpu.architecture = Architecture::Ampere;
    gpu.compute_capability = 80;
    CostProfile profile = one_picojoule(gpu);  // voltage squared goes with the clock
    profile.power.pass_pj_per_byte = 0;
    profile.power.busy_cycle_pj = 2000;
    profile.power.warp_busy_of = 0.5;  // 10 SMs at 1 GHz: 10 W
    const auto share = [&](double limit, const Roofs& roofs, Seconds fill = {}) {
      gpu.tdp = Watts(limit);
      return KernelPower(gpu, 1, profile).clock_share({.dram_bytes = 1e11}, roofs, fill);
    };
    const Roofs compute{.compute = Seconds(1)};
    // 1 W of bytes in a second at the full clock; at half of it 0.5 W, and 10 / 4 W of SMs.
    CHECK(share(11.1, compute) == 1);
    CHECK(share(3.0, compute) == doctest::Approx(0.5).epsilon(0.01));
    // SMs that work a tenth of the time, or a tenth of the SMs, leave the clock alone.
    CHECK(share(3.0, {.compute = Seconds(0.1), .memory = Seconds(1)}) == 1);
    CHECK(share(3.0, {.compute = Seconds(1), .sm_share = 0.1}) == 1);
    CHECK(share(3.0, compute, Seconds(9)) == 1);
    // Operations of lanes, 1 TFLOP at 1 pJ and 16 nm: 1 W at the full clock, 0.25 W at half of it.
    profile.power.flop_pj = 1;
    gpu.tdp = 3.25_W;
    CHECK(KernelPower(gpu, 1, profile)
              .clock_share({.lane_flops = 1e12, .dram_bytes = 1e11}, compute, {}) ==
          doctest::Approx(0.5).epsilon(0.01));
    // What no clock brings below the limit runs at the lowest that a limit sets.
    CHECK(share(0.01, {.memory = Seconds(1)}) == doctest::Approx(profile.power.min_clock));
    gpu.tdp = 3.0_W;
    CHECK(KernelPower(pinned_at(gpu, 1000.0_MHz), 1, profile)
              .clock_share({.dram_bytes = 1e11}, compute, {}) == 1);
  }

  TEST_CASE("GDDR6X and GDDR7 take their own energy for a byte, moved or ready to move") {
    GpuSpec gpu = simple_gpu();
    CostProfile profile = one_picojoule(gpu);
    profile.power.gddr_active_idle_pj_per_byte = 100;  // of 100 GB/s: 10 W
    profile.power.gddr6x_of = 1.5;
    profile.power.gddr7_of = 0.5;
    for (const auto& [memory, factor] : {std::pair{MemoryType::Gddr5, 1.0},
                                         {MemoryType::Gddr6, 1.0},
                                         {MemoryType::Gddr6x, 1.5},
                                         {MemoryType::Gddr7, 0.5}}) {
      gpu.memory_type = memory;
      CHECK(active_idle_power(gpu, profile).in_w() == doctest::Approx(10 * factor));
      CHECK(joule_per_byte(gpu, profile) == doctest::Approx(10e-12 * factor));
    }
    gpu.memory_type = MemoryType::Hbm2;
    CHECK(active_idle_power(gpu, profile).in_w() == 0);
  }

  TEST_CASE("bytes of GEMMs take more in a long run than in a table's few repetitions") {
    GpuSpec gpu = simple_gpu();
    gpu.tdp = 100.0_W;
    CostProfile profile = one_picojoule(gpu);
    profile.power.pass_pj_per_byte = 50;
    profile.power.gemm_pass_of = 0.2;
    const KernelPower power(gpu, 1, profile);
    // 1 TB in a second at 10 pJ a byte; half of that at half the clock; at most the limit.
    CHECK(power.in_long_run(20.0_W, 1e12, Seconds(1), 1).in_w() == doctest::Approx(30));
    CHECK(power.in_long_run(20.0_W, 1e12, Seconds(1), 0.5).in_w() == doctest::Approx(25));
    CHECK(power.in_long_run(95.0_W, 1e12, Seconds(1), 1).in_w() == doctest::Approx(100));
  }

  TEST_CASE("a lowered clock lowers what GEMMs draw beside arithmetic and memory") {
    GpuSpec gpu = simple_gpu();
    CostProfile profile = one_picojoule(gpu);
    profile.tensor_gemm.base_share = 0.4;
    gpu.tdp = gpu.rated_power = 100.0_W;
    const TensorLoad still{.fixed = Seconds(1)};
    CHECK(TensorPower(gpu, 1, profile).power(still, 1).in_w() == doctest::Approx(40));
    gpu.set_clock = gpu.boost_clock * 0.5;  // exponent 2
    CHECK(TensorPower(gpu, 1, profile).power(still, 1).in_w() == doctest::Approx(10));
  }

  TEST_CASE("in a long run GEMMs take the energy of long runs, a single one that of short ones") {
    GpuSpec gpu = simple_gpu();
    CostProfile profile = one_picojoule(gpu);
    gpu.tdp = active_idle_power(gpu, profile) + Watts(2);
    for (double& factor : profile.tensor_gemm.sustained_of.values) factor = 2;
    TensorGemm gemm;
    gemm.m = gemm.n = gemm.k = 4096;
    const SustainedBoard board(gpu, profile);
    const Seconds sustained = board.gemms(GemmFormat::Half).estimate(gemm).duration;
    const auto alone = [&](double energy) {
      return TensorGemmMachine(gpu, GemmFormat::Half, profile, energy).estimate(gemm).duration;
    };
    CHECK(sustained.in_s() == alone(2).in_s());
    CHECK(sustained > alone(1) * 1.01);
  }

  TEST_CASE("a pinned board keeps its clock") {
    GpuSpec gpu = simple_gpu();
    gpu.tdp = Watts(1);
    const GpuSpec pinned = pinned_at(gpu, gpu.boost_clock);
    const TensorLoad load{.flops = 1e15, .arithmetic = Seconds(1)};
    CHECK(TensorPower(pinned, 1, simple_profile()).clock_share(load) == 1);
  }

  TEST_CASE(
      "no load that can be held draws more than the limit, and less power never runs faster") {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> exponent(-1, 1);
    const auto around = [&](double x) { return x * std::pow(10, exponent(random)); };
    GpuSpec gpu = simple_gpu();
    const CostProfile profile = one_picojoule(gpu);
    for (int i = 0; i < 300; ++i) {
      const TensorLoad load{.flops = around(10e12),
                            .dram_bytes = around(1e10),
                            .fixed = Seconds(around(0.01)),
                            .arithmetic = Seconds(around(1)),
                            .operands = Seconds(around(0.5)),
                            .memory = Seconds(around(0.5))};
      double last = 0;
      for (const double left : {1.0, 3.0, 10.0, 30.0}) {
        gpu.tdp = active_idle_power(gpu, profile) + Watts(left);
        const double share = TensorPower(gpu, 1, profile).clock_share(load);
        const double drawn =
            1e-12 * (10 * load.dram_bytes + share * load.flops) / duration_at(load, share).in_s();
        if (share > 0.06) CHECK(drawn <= left * (1 + 1e-9));
        CHECK(share >= last);
        CHECK(share <= 1);
        last = share;
      }
    }
  }

  TEST_CASE("energy goes with the width of the operands") {
    GpuSpec gpu = simple_gpu();
    gpu.peaks = {{Precision::Fp16, MathUnit::TensorCore, FlopsPerSecond(100e12)},
                 {Precision::Tf32, MathUnit::TensorCore, FlopsPerSecond(50e12)}};
    CHECK(energy_by_width(gpu, Precision::Tf32) == doctest::Approx(2));
    CHECK(energy_by_width(gpu, Precision::Fp16) == doctest::Approx(1));
    CHECK(energy_by_width(gpu, Precision::Fp8) == doctest::Approx(1));  // runs as 16 bits
  }
}

}  // namespace
}  // namespace tracecast::cost
