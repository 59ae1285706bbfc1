#include "sim/cost/transfer.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "sim/cost/occupancy.hpp"
#include "tests/sim/cost/simple_machine.hpp"

namespace tracecast::cost {
namespace {

GpuSpec machine() {
  GpuSpec gpu = simple_gpu();
  gpu.shared_memory_per_sm = Bytes(98304);
  return gpu;
}

RecordedKernel recorded(KernelClass kernel_class, double us, double blocks = 1000) {
  RecordedKernel kernel;
  kernel.kernel_class = kernel_class;
  kernel.duration = Seconds(us * 1e-6);
  kernel.launch = {.blocks = blocks, .threads = 256};
  return kernel;
}

RecordedWork alone(const RecordedKernel& kernel) {
  RecordedWork work;
  work.kernels.push_back(kernel);
  return work;
}

TransferredKernel move(const RecordedWork& work, const GpuSpec& from, const GpuSpec& to,
                       const CostProfile& profile = simple_profile()) {
  return transfer(work, from, to, profile).at(0);
}

TEST_SUITE_BEGIN("sim/cost/transfer");

TEST_CASE("an SM holds as many blocks as its scarcest resource allows") {
  struct Row {
    const char* what;
    LaunchGeometry launch;
    int blocks;
  };
  const Row rows[] = {
      {"2048 threads of 256", {.blocks = 1, .threads = 256}, 8},
      {"32 slots before threads", {.blocks = 1, .threads = 32}, 32},
      {"a warp of 255 registers takes 8192 of 65536: 8 warps, one block of 8",
       {.blocks = 1, .threads = 256, .registers = 255},
       1},
      {"33 of 96 KiB", {.blocks = 1, .threads = 32, .shared_bytes = 33 * 1024}, 2},
      {"it ran, so one fits", {.blocks = 1, .threads = 1024, .shared_bytes = 1 << 20}, 1},
      {"nothing recorded", {}, 32},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(blocks_per_sm(row.launch, machine()) == row.blocks);
  }
}

TEST_CASE("a block beyond what the GPU holds starts another turn") {
  const auto fill = [](double blocks) {
    return wave_fill({.blocks = blocks, .threads = 256}, machine());  // 10 SMs of 8 blocks
  };
  CHECK(fill(10) == 1.0);
  CHECK(fill(11) == doctest::Approx(11.0 / 20));
  CHECK(fill(80) == 1.0);
  CHECK(fill(81) == doctest::Approx(81.0 / 160));
  CHECK(wave_fill({}, machine()) == 1.0);
}

TEST_CASE("without shapes, specs decide by what bounds the class") {
  const GpuSpec here = machine();
  GpuSpec there = machine();
  there.id = "other";
  there.dram_bandwidth = 50.0_GBps;
  there.peaks[0].rate = 2.56_TFLOPps;
  CostProfile profile = simple_profile();
  profile = with_parameter(std::move(profile), "kernel.fill_us", 2);
  struct Row {
    const char* what;
    RecordedKernel kernel;
    double us;
  };
  const Row rows[] = {
      {"half the bandwidth: 2 + 2 * 98", recorded(KernelClass::Elementwise, 100), 198},
      {"twice the arithmetic: 2 + 98 / 2", recorded(KernelClass::Gemm, 100), 51},
      {"all of it fixed", recorded(KernelClass::Elementwise, 1.5), 1.5},
      {"5 blocks leave SMs idle on both: the clock, which is the same",
       recorded(KernelClass::Elementwise, 100, 5), 100},
      {"waits for other GPUs", recorded(KernelClass::Collective, 100), 100},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const TransferredKernel moved = move(alone(row.kernel), here, there, profile);
    CHECK(moved.duration.in_us() == doctest::Approx(row.us));
    CHECK((moved.way == TransferWay::Kept) == (row.kernel.kernel_class == KernelClass::Collective));
  }
}

TEST_CASE("with shapes the price there over the price here scales the recorded time") {
  const GpuSpec here = machine();
  GpuSpec there = machine();
  there.id = "other";
  there.dram_bandwidth = 50.0_GBps;
  RecordedWork work = alone(recorded(KernelClass::Elementwise, 150));
  work.works.push_back(stream(5e6, 5e6, 1));  // 10 MB: 100 us here, 200 us there
  work.kernels[0].work = 0;
  CHECK(move(work, here, there).duration.in_us() == doctest::Approx(300).epsilon(0.001));
  CHECK(move(work, here, there).way == TransferWay::ClassModel);
  CHECK(move(work, here, here).duration.in_us() == 150);
  // 4 times what its shapes explain: another kernel of that operator.
  work.kernels[0].duration = Seconds(400e-6);
  CHECK(move(work, here, there).way == TransferWay::WaveScaling);
}

TEST_CASE("a GEMM on tensor cores that the other GPU lacks runs on its lanes") {
  GpuSpec here = machine(), there = machine();
  here.dram_bandwidth = there.dram_bandwidth = BytesPerSecond(1e15);
  there.id = "other";
  there.architecture = Architecture::Pascal;
  there.peaks.pop_back();
  RecordedKernel kernel = recorded(KernelClass::Gemm, 1000, 100);
  kernel.unit = MathUnit::TensorCore;
  kernel.math = Precision::Fp16;
  kernel.tile_m = kernel.tile_n = 128;
  kernel.tiles_m = kernel.tiles_n = 10;
  kernel.gemms = 1;
  CostProfile profile = simple_profile();
  const TransferredKernel moved = move(alone(kernel), here, there, profile);
  CHECK(moved.way == TransferWay::Rechosen);
  // 10.24 against 1.28 TFLOP/s, less where tensor cores begin and end their blocks.
  CHECK(moved.duration.in_ms() > 7.0);
  CHECK(moved.duration.in_ms() < 8.0);
}

TEST_CASE("a convolution on lanes without shapes is priced as the GEMM that its blocks tell") {
  GpuSpec here = machine();
  here.dram_bandwidth = BytesPerSecond(1e15);  // arithmetic decides
  GpuSpec quick = here, low_precision = here;
  quick.id = "quick", low_precision.id = "low_precision";
  quick.peaks[0].rate = here.peaks[0].rate * 2;
  low_precision.dram_bandwidth = here.dram_bandwidth / 2;
  CostProfile profile = simple_profile();
  profile = with_parameter(std::move(profile), "kernel.fill_us", 2);
  const RecordedKernel kernel = recorded(KernelClass::Convolution, 1000);
  const TransferredKernel moved = move(alone(kernel), here, quick, profile);
  CHECK(moved.way == TransferWay::ClassModel);
  CHECK(moved.duration.in_us() == doctest::Approx(500).epsilon(0.02));
  // Nothing is known of it: its share of the sustained peak stays. 2 + 998 / 2.
  const TransferredKernel unknown =
      move(alone(recorded(KernelClass::Convolution, 1000, 0)), here, quick, profile);
  CHECK(unknown.way == TransferWay::WaveScaling);
  CHECK(unknown.duration.in_us() == doctest::Approx(501));
  // Winograd's transforms stream: 2 + 2 * 998 at half the bandwidth.
  RecordedKernel transform = kernel;
  transform.algorithm = Algorithm::WinogradNonfused;
  CHECK(move(alone(transform), here, low_precision, profile).duration.in_us() ==
        doctest::Approx(1998));
}

TEST_CASE("a convolution keeps its algorithm where it can, and TF32 is a choice") {
  const GpuSpec here = machine();
  GpuSpec there = machine();
  there.id = "other";
  there.dram_bandwidth = 200.0_GBps;
  RecordedWork work = alone(recorded(KernelClass::Convolution, 1000));
  RecordedConvolution c;
  c.shape = {.n = 32, .c = 64, .h = 56, .w = 56, .k = 64, .r = 3, .s = 3, .p = 56, .q = 56};
  c.shape.pad_top = c.shape.pad_bottom = c.shape.pad_left = c.shape.pad_right = 1;
  c.passes = {Pass::Forward};
  c.algorithm = Algorithm::ImplicitGemm;
  work.convolutions.push_back(c);
  work.kernels[0].convolution = 0;
  CHECK(move(work, here, there).way == TransferWay::ClassModel);
  CHECK(move(work, here, there).duration <= Seconds(1e-3));

  there.architecture = Architecture::Ampere;
  there.peaks.push_back({Precision::Tf32, MathUnit::TensorCore, 10.24_TFLOPps});
  const TransferredKernel tf32 = move(work, here, there);
  CHECK(tf32.way == TransferWay::Rechosen);
  const TransferredKernel fp32 =
      transfer(work, here, there, simple_profile(), {.tf32_convolutions = false}).at(0);
  CHECK(fp32.way == TransferWay::ClassModel);
  CHECK(tf32.duration < fp32.duration);
}

TEST_CASE("copies go with the link that carries them") {
  GpuSpec here = machine(), there = machine();
  here.pcie_bandwidth = 10.0_GBps, there.pcie_bandwidth = 20.0_GBps;
  here.nvlink_bandwidth = 100.0_GBps, there.nvlink_bandwidth = 50.0_GBps;
  there.dram_bandwidth = 400.0_GBps;
  const auto us = [&](CopyRoute route) {
    return transfer_copy(Seconds(100e-6), route, here, there, simple_profile()).in_us();
  };
  CHECK(us(CopyRoute::Device) == doctest::Approx(25));
  CHECK(us(CopyRoute::Link) == doctest::Approx(50));
  CHECK(us(CopyRoute::Peer) == doctest::Approx(200));
  CHECK(us(CopyRoute::Pageable) == doctest::Approx(100));
  here.nvlink_bandwidth = {};
  CHECK(us(CopyRoute::Peer) == doctest::Approx(50));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::cost
