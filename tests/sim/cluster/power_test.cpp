#include "sim/cluster/power.hpp"

#include <doctest/doctest.h>

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
  gpu.memory_type = MemoryType::Hbm2;
  gpu.dram_bandwidth = 100.0_GBps;
  gpu.idle_power = 30.0_W;
  gpu.tdp = 250.0_W;
  return gpu;
}

CostProfile round_numbers() {
  CostProfile profile;
  profile.power = {.node_exponent = 1,
                   .clocked_pj = 10,
                   .flop_pj = 20,
                   .tensor_flop_pj = 4,
                   .hbm_pj_per_byte = 50,
                   .gddr_pj_per_byte = 100,
                   .gddr_awake_pj_per_byte = 80};
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

double watts(const Kernel& kernel, const GpuSpec& gpu) {
  return kernel_power(kernel, 1.0_ms, gpu, round_numbers()).in_w();
}

TEST_SUITE_BEGIN("sim/cluster/power");

TEST_CASE("a kernel's power is idle, clocked lanes, arithmetic and bytes") {
  // 30 + 10 pJ x 1.28 T/s + 20 pJ x 1 T/s + 50 pJ x 10 G/s = 30 + 12.8 + 20 + 0.5
  CHECK(watts(one_ms_kernel(), simple_gpu()) == doctest::Approx(63.3));
}

TEST_CASE("each part follows its own cause") {
  GpuSpec gpu = simple_gpu();
  gpu.process_nm = 8;  // half the energy of what the node makes: (12.8 + 20) / 2
  CHECK(watts(one_ms_kernel(), gpu) == doctest::Approx(30 + 16.4 + 0.5));

  gpu = simple_gpu();
  gpu.architecture = Architecture::Volta;  // 4 schedulers x 32 lanes: twice the clocked lanes
  CHECK(watts(one_ms_kernel(), gpu) == doctest::Approx(30 + 25.6 + 20 + 0.5));

  gpu = simple_gpu();
  gpu.memory_type = MemoryType::Gddr5;  // awake 80 pJ x 100 G/s, moving 100 pJ x 10 G/s
  CHECK(watts(one_ms_kernel(), gpu) == doctest::Approx(30 + 8 + 12.8 + 20 + 1));

  Kernel kernel = one_ms_kernel();
  kernel.math = Precision::Fp16;  // half the width
  CHECK(watts(kernel, simple_gpu()) == doctest::Approx(30 + 12.8 + 10 + 0.5));
  kernel.unit = MathUnit::TensorCore;
  CHECK(watts(kernel, simple_gpu()) == doctest::Approx(30 + 12.8 + 4 + 0.5));
  kernel.math = Precision::Tf32;
  CHECK(watts(kernel, simple_gpu()) == doctest::Approx(30 + 12.8 + 8 + 0.5));
}

TEST_CASE("a kernel cannot move more than the pins, nor draw more than the limit") {
  Kernel kernel = one_ms_kernel();
  kernel.read = Bytes(1e9);  // served by L2: 1 TB/s, of which 100 GB/s count
  CHECK(watts(kernel, simple_gpu()) == doctest::Approx(30 + 12.8 + 20 + 5));
  kernel.flops = Flops(1e12);
  CHECK(watts(kernel, simple_gpu()) == doctest::Approx(250));
}

TEST_CASE("an idle program keeps GDDR awake, HBM needs no waking") {
  GpuSpec gpu = simple_gpu();
  CHECK(awake_power(gpu, round_numbers()).in_w() == doctest::Approx(30));
  gpu.memory_type = MemoryType::Gddr6;
  CHECK(awake_power(gpu, round_numbers()).in_w() == doctest::Approx(38));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
