#include "sim/cost/cpu.hpp"

#include <doctest/doctest.h>

#include "models/lowering/kernels.hpp"

TEST_SUITE_BEGIN("sim/cost/cpu");

namespace tracecast {
namespace {

/// Two sockets of 8 cores whose numbers divide by hand: 1 GHz everywhere, 32 flop a cycle.
CpuNode simple_node(int sockets = 2) {
  CpuNode node;
  node.cpu.cores = 8;
  node.cpu.threads = 16;
  node.cpu.all_core_clock = node.cpu.vector_clock = node.cpu.turbo_clock = Hertz(1e9);
  node.cpu.vector_isa = VectorIsa::Avx2;
  node.cpu.fp32_flop_per_cycle = 32;
  node.cpu.l3 = Bytes(1e6);
  node.cpu.memory_bandwidth = BytesPerSecond(50e9);
  node.sockets = sockets;
  return node;
}

/// Nothing lost but what a case sets.
CostProfile simple_profile() {
  CostProfile profile;
  profile.cpu = {.eigen_efficiency = 0.5,
                 .library_efficiency = 1,
                 .convolution_factor = 0.5,
                 .backward_factor = 0.5,
                 .stream_efficiency = 1,
                 .eigen_core_loss = 0,
                 .library_core_loss = 0,
                 .memory_efficiency = 1,
                 .remote_efficiency = 0.5,
                 .core_gb_per_s = 10,
                 .cache_bytes_per_clock = 1000,
                 .parallel_us = 0,
                 .error = 0.5};
  return profile;
}

Kernel gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  return lowering::matrix_kernel("gemms", KernelClass::Gemm, Pass::Forward, {},
                                 {.m = m, .n = n, .k = k});
}
Kernel stream(double bytes) {
  return lowering::stream_kernel("relu", KernelClass::Elementwise, Pass::Forward, Precision::Fp32,
                                 Bytes(bytes / 2), Bytes(bytes / 2), bytes / 8);
}

TEST_CASE("a large GEMM takes its arithmetic over the peak of all cores") {
  // 2 x 4096^3 = 137.4 GFLOP over 16 cores x 32 x 1 GHz = 512 GFLOP/s; memory is far below.
  const CpuNode node = simple_node();
  const auto estimate =
      cost::estimate_on_cpu(gemm(4096, 4096, 4096), {.node = node}, simple_profile());
  CHECK(estimate.duration.in_ms() == doctest::Approx(137438.953 / 512).epsilon(1e-4));
  CHECK(estimate.bound == cost::Bound::Compute);
  CHECK(estimate.basis == cost::Basis::Spec);
  CHECK(estimate.log_sd == doctest::Approx(0.5));
}

TEST_CASE("code compiled for AVX has half the rate of a CPU with fused multiply-adds") {
  const CpuNode node = simple_node();
  const cost::CpuTarget eigen{.node = node, .kernels = CpuKernels::EigenAvx};
  const cost::CpuTarget library{.node = node};
  CHECK(cost::core_rate(eigen, Precision::Fp32).in_si() == doctest::Approx(16e9));
  CHECK(cost::core_rate(library, Precision::Fp32).in_si() == doctest::Approx(32e9));
}

TEST_CASE("8-bit GEMMs are faster where there are instructions for them") {
  CpuNode node = simple_node();
  const cost::CpuTarget library{.node = node};
  CHECK(cost::core_rate(library, Precision::Int8) == cost::core_rate(library, Precision::Fp32));
  node.cpu.int8_op_per_cycle = 128;
  CHECK(cost::core_rate(library, Precision::Int8).in_si() == doctest::Approx(128e9));
  // Eigen compiled for AVX does not know them.
  CHECK(cost::core_rate({.node = node, .kernels = CpuKernels::EigenAvx}, Precision::Int8).in_si() ==
        doctest::Approx(16e9));
}

TEST_CASE("small ops stay on few threads, by Eigen's own cost model") {
  const CpuNode node = simple_node();
  const cost::CpuTarget target{.node = node};
  const CostProfile profile = simple_profile();
  // Nothing to share below 210 000 cycles: (c - 100 000) / 100 000 + 0.9 < 2.
  CHECK(cost::cpu_threads(stream(4096), target, profile) == 1);
  // 4 MiB read and written: 4194304 x 11/64 = 720896 cycles, and 524288 elements' arithmetic / 32 =
  // 16384: (737280 - 100000) / 100000 + 0.9 = 7.27.
  CHECK(cost::cpu_threads(stream(4194304), target, profile) == 7);
  CHECK(cost::cpu_threads(stream(1e9), target, profile) == 16);  // one a core, no more
}

TEST_CASE("what streams through memory takes the sockets' bandwidth, the far socket's in part") {
  // 1 GB misses the caches of 2 MB: 50 GB/s x (1 + 0.5) = 75 GB/s; 16 cores could draw 160.
  const CostProfile profile = simple_profile();
  const CpuNode two = simple_node(2), one = simple_node(1);
  const auto on = [&](const CpuNode& node) {
    return cost::estimate_on_cpu(stream(1e9), {.node = node}, profile);
  };
  CHECK(on(two).memory_time.in_ms() == doctest::Approx(1e3 / 75).epsilon(1e-3));
  CHECK(on(one).memory_time.in_ms() == doctest::Approx(1e3 / 50).epsilon(1e-3));
  CHECK(on(two).bound == cost::Bound::Memory);
}

TEST_CASE("more cores, clock or bandwidth never slow a kernel") {
  const CostProfile profile = default_cost_profile();
  for (const Kernel& kernel :
       {gemm(64, 64, 64), gemm(1024, 1024, 1024), stream(1e5), stream(1e8)}) {
    const CpuNode node = simple_node();
    const auto duration = [&](const CpuNode& n) {
      return cost::estimate_on_cpu(kernel, {.node = n, .kernels = CpuKernels::EigenAvx}, profile)
          .duration.in_us();
    };
    const double before = duration(node);
    CpuNode better = node;
    better.cpu.cores = 16;
    CHECK(duration(better) <= before * 1.0001);
    better = node;
    better.cpu.all_core_clock = Hertz(2e9);
    CHECK(duration(better) <= before * 1.0001);
    better = node;
    better.cpu.memory_bandwidth = BytesPerSecond(100e9);
    CHECK(duration(better) <= before * 1.0001);
  }
}

TEST_CASE("only what CPU libraries have is taken among a convolution's candidates") {
  LoweredOp op;
  op.candidates.resize(3);
  op.candidates[0].algorithm = Algorithm::Fft;
  op.candidates[1].algorithm = Algorithm::ImplicitGemm;
  op.candidates[1].kernels.push_back(gemm(512, 512, 512));
  op.candidates[2].algorithm = Algorithm::WinogradFused;
  const CpuNode node = simple_node();
  const auto choice = cost::choose_on_cpu(op, {.node = node}, simple_profile());
  CHECK(choice.candidate == &op.candidates[1]);
  CHECK(choice.estimates.size() == 1);
  CHECK(choice.duration == choice.estimates[0].duration);
}

}  // namespace
}  // namespace tracecast

TEST_SUITE_END();
