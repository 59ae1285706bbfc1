#include "sim/step/power.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace tracecast {
namespace {

/// 16 nm, 10 SMs x 64 lanes x 2 x 1 GHz = 1.28 Tops/s; HBM at 100 GB/s; 30 W idle, 250 W at most.
GpuSpec simple_gpu() {
  GpuSpec gpu;
  gpu.architecture = Architecture::Pascal;
  gpu.compute_capability = 60;
  gpu.process_nm = 16;
  gpu.sm_count = 10;
  gpu.fp32_lanes_per_sm = 64;
  gpu.warp_schedulers_per_sm = 4;
  gpu.boost_clock = Hertz(1e9);
  gpu.ecc_default_on = true;  // no clock above the boost clock
  gpu.peaks = {{Precision::Fp32, MathUnit::CudaCore, 1.28_TFLOPps}};
  gpu.memory_type = MemoryType::Hbm2;
  gpu.dram_bandwidth = 100.0_GBps;
  gpu.idle_power = 30.0_W;
  gpu.tdp = 250.0_W;
  return gpu;
}

CostProfile round_numbers() {
  CostProfile profile;
  profile.clock.knee_w_per_tflops = 1;     // 195 W per TFLOP/s are there: nothing throttles
  profile.tensor_gemm.clock_exponent = 2;  // no energy per operation: nothing throttles
  profile.power = {.node_exponent = 1,
                   .clocked_pj = 10,
                   .flop_pj = 20,
                   .tensor_flop_pj = 4,
                   .hbm_pj_per_byte = 50,
                   .gddr_pj_per_byte = 100,
                   .gddr_active_idle_pj_per_byte = 80,
                   .voltage_knee = 0.5,
                   .voltage_floor = 0.6};
  return profile;
}

/// 1 GFLOP and 10 MB in 1 ms: 1 TFLOP/s, 10 GB/s.
Kernel one_ms_kernel() {
  Kernel kernel;
  kernel.flops = Flops(1e9);
  kernel.read = Bytes(6e6);
  kernel.written = Bytes(4e6);
  return kernel;
}

double watts(const Kernel& kernel, const GpuSpec& gpu, double sm_share = 1) {
  const CostProfile profile = round_numbers();
  const PowerCauses causes = power_causes(kernel, 1.0_ms, sm_share, gpu, profile);
  return (active_idle_power(gpu, profile) + active_power(causes, gpu, profile)).in_w();
}

TEST_SUITE_BEGIN("sim/step/power");

TEST_CASE("a kernel's power is idle, clocked lanes, arithmetic and bytes") {
  // 30 + 10 pJ x 1.28 T/s + 20 pJ x 1 T/s + 50 pJ x 10 G/s = 30 + 12.8 + 20 + 0.5
  CHECK(watts(one_ms_kernel(), simple_gpu()) == doctest::Approx(63.3));
}

TEST_CASE("each part follows its own cause") {
  // SMs without a block draw nothing.
  CHECK(watts(one_ms_kernel(), simple_gpu(), 0.25) == doctest::Approx(30 + 3.2 + 20 + 0.5));

  GpuSpec gpu = simple_gpu();
  gpu.process_nm = 8;  // half the energy of what the node makes: (12.8 + 20) / 2
  CHECK(watts(one_ms_kernel(), gpu) == doctest::Approx(30 + 16.4 + 0.5));

  gpu = simple_gpu();
  gpu.architecture = Architecture::Volta;  // 4 schedulers x 32 lanes: twice the clocked lanes
  CHECK(watts(one_ms_kernel(), gpu) == doctest::Approx(30 + 25.6 + 20 + 0.5));

  gpu = simple_gpu();
  gpu.memory_type = MemoryType::Gddr5;  // active-idle 80 pJ x 100 G/s, moving 100 pJ x 10 G/s
  CHECK(watts(one_ms_kernel(), gpu) == doctest::Approx(30 + 8 + 12.8 + 20 + 1));

  Kernel kernel = one_ms_kernel();
  kernel.math = Precision::Fp16;  // half the width
  CHECK(watts(kernel, simple_gpu()) == doctest::Approx(30 + 12.8 + 10 + 0.5));
  kernel.unit = MathUnit::TensorCore;
  CHECK(watts(kernel, simple_gpu()) == doctest::Approx(30 + 12.8 + 4 + 0.5));
  kernel.math = Precision::Tf32;
  CHECK(watts(kernel, simple_gpu()) == doctest::Approx(30 + 12.8 + 8 + 0.5));
}

TEST_CASE("a kernel cannot move more than the pins") {
  Kernel kernel = one_ms_kernel();
  kernel.read = Bytes(1e9);  // 1 TB/s, of which 100 GB/s can be DRAM's
  CHECK(watts(kernel, simple_gpu()) == doctest::Approx(30 + 12.8 + 20 + 5));
}

TEST_CASE("a lower clock needs less voltage, down to a floor") {
  const CostProfile profile = round_numbers();
  struct Row {
    double clock, voltage;
  };
  // From (0.5, 0.6) straight through (1, 1): 0.8 per unit of clock.
  for (const Row& row : {Row{0.2, 0.6}, Row{0.5, 0.6}, Row{0.75, 0.8}, Row{1, 1}, Row{1.25, 1.2}}) {
    CAPTURE(row.clock);
    CHECK(voltage_share(row.clock, profile) == doctest::Approx(row.voltage));
  }
  // Held at 0.75 GHz the lanes make 0.96 Tops/s; energy per operation falls to 0.8^2.
  GpuSpec gpu = simple_gpu();
  gpu.set_clock = Hertz(0.75e9);
  CHECK(watts(one_ms_kernel(), gpu) == doctest::Approx(30 + 0.64 * (9.6 + 20) + 0.5));
}

TEST_CASE("an idle program keeps GDDR active-idle, HBM needs no waking") {
  GpuSpec gpu = simple_gpu();
  CHECK(active_idle_power(gpu, round_numbers()).in_w() == doctest::Approx(30));
  gpu.memory_type = MemoryType::Gddr6;
  CHECK(active_idle_power(gpu, round_numbers()).in_w() == doctest::Approx(38));
}

TEST_CASE("a limit cuts a demand near it softly and one far above it to itself") {
  CHECK(limited_power(10.0_W, 100.0_W).in_w() == doctest::Approx(10).epsilon(1e-5));
  CHECK(limited_power(100.0_W, 100.0_W).in_w() == doctest::Approx(100 / std::pow(2.0, 1.0 / 6)));
  CHECK(limited_power(1000.0_W, 100.0_W).in_w() == doctest::Approx(100).epsilon(1e-5));
}

TEST_CASE("a kernel whose price tells the board's power draws that, others by their causes") {
  const GpuSpec gpu = simple_gpu();
  const CostProfile profile = round_numbers();
  const cost::SustainedBoard board(gpu, profile);
  const PowerScales scales(board);
  cost::KernelEstimate estimate;
  estimate.duration = 1.0_ms;
  const auto drawn = [&] {
    const PowerCauses causes = power_causes(one_ms_kernel(), estimate, board, scales);
    return (active_idle_power(gpu, profile) + active_power(causes, gpu, profile)).in_w();
  };
  CHECK(drawn() == doctest::Approx(watts(one_ms_kernel(), gpu)));
  estimate.power = 200.0_W;
  CHECK(drawn() == doctest::Approx(200));
  estimate.power = 1.0_W;  // no less than active-idle
  CHECK(drawn() == doctest::Approx(active_idle_power(gpu, profile).in_w()));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
