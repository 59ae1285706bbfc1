#include "sim/step/step_floor.hpp"

#include <doctest/doctest.h>

namespace tracecast {
namespace {

/// 1 TFLOP/s of fp32, 100 GB/s, 1 MB of L2.
GpuSpec small_gpu() {
  GpuSpec gpu;
  gpu.peaks = {{Precision::Fp32, MathUnit::CudaCore, 1.0_TFLOPps}};
  gpu.dram_bandwidth = 100.0_GBps;
  gpu.l2 = 1.0_MB;
  return gpu;
}

Kernel kernel(Flops flops, Bytes read, Bytes written) {
  Kernel k;
  k.flops = flops;
  k.read = read;
  k.written = written;
  return k;
}

LoweredOp op(std::vector<Candidate> candidates) {
  LoweredOp lowered;
  lowered.candidates = std::move(candidates);
  return lowered;
}

TEST_SUITE_BEGIN("sim/step/step_floor");

TEST_CASE("each op counts with its cheapest candidate, each kernel with the nearer of its roofs") {
  LoweredStep step;
  // Direct: 10 GFLOP, 10 ms. Transforms and GEMMs: 4 GFLOP, 4 ms, but 102 MB less 2 of cache, 1 ms,
  // and 0.
  step.ops.push_back(
      op({{.kernels = {kernel(10.0_GFLOP, 0.0_MB, 0.0_MB)}},
          {.kernels = {kernel(0.0_GFLOP, 60.0_MB, 42.0_MB), kernel(4.0_GFLOP, 2.0_MB, 0.0_MB)}}}));
  // Streams 502 MB: 5 ms. A small one that the cache holds: nothing but its arithmetic.
  step.ops.push_back(op({{.kernels = {kernel(0.1_GFLOP, 302.0_MB, 200.0_MB)}}}));
  step.ops.push_back(op({{.kernels = {kernel(1.0_GFLOP, 1.0_MB, 1.0_MB)}}}));
  step.ops.push_back(op({{.kernels = {}}}));  // renames memory
  const StepFloor floor = step_floor(step, small_gpu());
  CHECK(floor.arithmetic.in_ms() == doctest::Approx(4.0 + 0.1 + 1.0));
  CHECK(floor.kernels.in_ms() == doctest::Approx(1.0 + 4.0 + 5.0 + 1.0));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
