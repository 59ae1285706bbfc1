#pragma once
#include <string>
#include <utility>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/kernel.hpp"

namespace tracecast::cost {

/// A GPU with numbers that divide by hand: 10 SMs of 64 lanes at 1 GHz = 1.28 TFLOP/s, 100 GB/s, 1
/// MB of L2, with power to spare.
inline GpuSpec simple_gpu() {
  GpuSpec gpu;
  gpu.id = "simple";
  gpu.architecture = Architecture::Volta;
  gpu.compute_capability = 70;
  gpu.process_nm = 16;
  gpu.sm_count = 10;
  gpu.fp32_lanes_per_sm = 64;
  gpu.warp_schedulers_per_sm = 4;
  gpu.max_threads_per_sm = 2048;
  gpu.max_blocks_per_sm = 32;
  gpu.registers_per_sm = 65536;
  gpu.shared_memory_per_sm = Bytes(96 * 1024);
  gpu.base_clock = 900.0_MHz;
  gpu.boost_clock = 1000.0_MHz;
  gpu.application_clock = 950.0_MHz;
  gpu.peaks = {{Precision::Fp32, MathUnit::CudaCore, 1.28_TFLOPps},
               {Precision::Fp16, MathUnit::TensorCore, 10.24_TFLOPps}};
  gpu.l2 = Bytes(1e6);
  gpu.dram_bandwidth = 100.0_GBps;
  gpu.memory_type = MemoryType::Hbm2;
  gpu.ecc_default_on = true;
  gpu.tdp = 1000000.0_W;
  return gpu;
}

/// Every efficiency 1, every overhead 0 (or the least that is allowed): the formulas alone.
inline CostProfile simple_profile() {
  CostProfile profile = default_cost_profile();
  const auto set = [&](const std::string& name, double value) {
    profile = with_parameter(std::move(profile), name, value);
  };
  set("clock.ceiling", 1);
  set("clock.power_exponent", 1);
  set("tensor_gemm.start_us", 0);
  set("tensor_gemm.block_cycles", 0);
  set("tensor_gemm.block_depth", 0);
  set("tensor_gemm.operand_edge", 0);
  set("tensor_gemm.wave_quantization", 1);
  set("tensor_gemm.band_tiles", 1000);  // no operand is rasterized twice
  set("tensor_gemm.unaligned", 1);
  set("tensor_gemm.split_us", 50);  // no slices
  set("tensor_gemm.stream_bytes_per_clock", 10);
  set("tensor_gemm.efficiency", 1);
  set("tensor_gemm.efficiency_of.warp", 1);
  set("tensor_gemm.stream_of.warp", 1);
  set("tensor_gemm.depth_of.warp", 1);
  set("tensor_gemm.energy_of.warp", 1);
  set("tensor_gemm.start_of.warp", 1);
  set("tensor_gemm.dram_efficiency", 0.97);
  set("tensor_gemm.base_share", 0);
  set("kernel.fill_us", 0);
  set("kernel.fill_latencies", 0);
  set("gemm.issue", 0);
  set("gemm.tile_overhead", 0);
  set("gemm.small_thread_tile_overhead", 0);
  set("gemm.prologue_steps", 0);
  set("gemm.wave_quantization", 1);
  set("gemm.step_base_cycles", 1);
  set("gemm.step_latencies", 0);
  set("convolution.assembled_issue", 0);
  set("convolution.compiled_issue", 0);
  set("convolution.winograd_issue", 0);
  set("convolution.spectra_issue", 0);
  set("convolution.winograd_step_cycles", 1);
  set("convolution.tile_overhead", 0);
  set("convolution.prologue_cycles", 0);
  set("tensor.prologue_steps", 0);
  set("memory.efficiency", 1);
  set("memory.old_efficiency", 1);
  set("memory.row_efficiency", 1);
  set("memory.row_block_instructions", 0);
  set("memory.row_warp_instructions", 0);
  set("memory.row_element_instructions", 0);
  set("memory.row_l2_share", 0);
  set("memory.block_pass_cycles", 0);
  set("memory.block_bytes_per_clock", 1000);
  set("memory.l2_share", 0);
  set("memory.l2_bytes_per_clock", 512);
  set("memory.elements_per_clock", 512);
  set("memory.window_instructions", 0);
  return profile;
}

inline Kernel gemm(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1) {
  Kernel kernel;
  kernel.kernel_class = batch > 1 ? KernelClass::BatchedGemm : KernelClass::Gemm;
  const double b = static_cast<double>(batch), dm = static_cast<double>(m),
               dn = static_cast<double>(n), dk = static_cast<double>(k);
  kernel.flops = Flops(2 * b * dm * dn * dk);
  kernel.read = Bytes(4 * b * (dm * dk + dk * dn));
  kernel.written = Bytes(4 * b * dm * dn);
  kernel.work = MatrixWork{.batch = batch, .m = m, .n = n, .k = k};
  return kernel;
}

inline Kernel stream(double read_bytes, double written_bytes, double elements) {
  Kernel kernel;
  kernel.kernel_class = KernelClass::Elementwise;
  kernel.read = Bytes(read_bytes);
  kernel.written = Bytes(written_bytes);
  kernel.work = StreamWork{.elements = elements};
  return kernel;
}

inline Kernel convolution(const ConvAttributes& shape, Algorithm algorithm,
                          Pass pass = Pass::Forward) {
  Kernel kernel;
  kernel.kernel_class = KernelClass::Convolution;
  kernel.algorithm = algorithm;
  kernel.pass = pass;
  const double n = static_cast<double>(shape.n);
  kernel.flops = Flops(2 * shape.macs());
  kernel.read =
      Bytes(4 * n * static_cast<double>(shape.c * shape.h) * static_cast<double>(shape.w) +
            4 * static_cast<double>(shape.k * shape.c * shape.r * shape.s));
  kernel.written =
      Bytes(4 * n * static_cast<double>(shape.k * shape.p) * static_cast<double>(shape.q));
  kernel.work = ConvWork{shape};
  return kernel;
}

}  // namespace tracecast::cost
