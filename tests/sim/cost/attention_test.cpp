#include "sim/cost/attention.hpp"

#include <doctest/doctest.h>

#include "models/lowering/lower.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "sim/cost/price.hpp"
#include "tests/sim/cost/simple_machine.hpp"
#include "tests/support/specs.hpp"

namespace tracecast::cost {
namespace {

TEST_SUITE_BEGIN("sim/cost/attention");

Kernel attention(const AttentionAttributes& shape, int gemms) {
  Kernel kernel;
  kernel.unit = MathUnit::TensorCore;
  kernel.math = Precision::Fp16;
  kernel.flops = Flops(2.0 * gemms * shape.scores() * static_cast<double>(shape.width));
  kernel.read = Bytes(3e6);
  kernel.written = Bytes(1e6);
  kernel.work = AttentionWork{.shape = shape, .gemms = gemms};
  return kernel;
}

TEST_CASE("GEMMs and softmax of attention add up on every SM") {
  const GpuSpec gpu = simple_gpu();
  const CostProfile profile = simple_profile();
  const AttentionAttributes shape{
      .batch = 8, .heads = 128, .kv_heads = 128, .queries = 1024, .keys = 1024, .width = 128};
  const Kernel kernel = attention(shape, 2);
  const SustainedGpu machine = sustain(gpu, kernel.math, kernel.unit, profile);
  const Roofs roofs =
      estimate_attention(kernel, std::get<AttentionWork>(kernel.work), machine, gpu, profile);
  // 8 x 128 x 1024 x 1024 = 2^30 scores, 2 x 2 x 128 flop each.
  const double scores = 1073741824.0;
  const double gemms = scores * 512 / (machine.arithmetic.in_si() * gemm_efficiency(gpu, profile));
  const double softmax = scores * (6.0 / gpu.fp32_lanes_per_sm + 1.0 / 16) /
                         (machine.sm_count * machine.clock.in_si());
  CHECK(roofs.compute.in_s() == doctest::Approx(gemms + softmax));
  CHECK(roofs.memory.in_us() == doctest::Approx(4e12 / machine.stream.in_si()));
  CHECK_FALSE(roofs.under_occupied);
}

TEST_CASE("a causal mask halves long attention, all but the tiles on the diagonal") {
  const GpuSpec gpu = simple_gpu();
  const CostProfile profile = simple_profile();
  AttentionAttributes shape{
      .batch = 8, .heads = 128, .kv_heads = 128, .queries = 4096, .keys = 4096, .width = 64};
  const Kernel whole = attention(shape, 2);
  shape.causal = true;
  const Kernel half = attention(shape, 2);
  const SustainedGpu machine = sustain(gpu, whole.math, whole.unit, profile);
  const auto compute = [&](const Kernel& kernel) {
    return estimate_attention(kernel, std::get<AttentionWork>(kernel.work), machine, gpu, profile)
        .compute.in_s();
  };
  // 4096 / 2 + 64 / 2 keys per query instead of 4096
  CHECK(compute(half) / compute(whole) == doctest::Approx(2080.0 / 4096));
}

TEST_CASE("the gradient of attention reads what forward wrote and makes five GEMMs") {
  GraphBuilder b("one", 2);
  const TensorId x = b.input("x", {2, 256, 384});
  const TensorId qkv = b.linear_layer("qkv", x, 384, false);
  const TensorId y = b.append(
      {.name = "core",
       .kind = OpKind::Attention,
       .attributes =
           AttentionAttributes{
               .batch = 2, .heads = 2, .kv_heads = 2, .queries = 256, .keys = 256, .width = 64},
       .inputs = {qkv}},
      {2, 256, 128});
  b.graph().outputs = {y};
  const NetworkGraph step =
      make_training_graph(std::move(b).take(), {.with_loss = false, .with_optimizer = false});
  const FrameworkProfile& framework = find_framework("pytorch");
  GpuSpec gpu = simple_gpu();
  const LoweredStep lowered = lower(step, framework, gpu, {.precision = PrecisionMode::Fp32});
  double forward = 0, backward = 0;
  for (const LoweredOp& op : lowered.ops) {
    if (step.op(op.op).kind != OpKind::Attention) continue;
    for (const Kernel& kernel : op.candidates.front().kernels) {
      if (!std::holds_alternative<AttentionWork>(kernel.work)) continue;
      (kernel.pass == Pass::Forward ? forward : backward) += kernel.flops.in_flop();
    }
  }
  // 2 x 2 x 256 x 256 scores x 64 wide, 2 flop: 2 GEMMs forward, 5 backward
  CHECK(forward == doctest::Approx(2.0 * 2 * 2 * 2 * 256 * 256 * 64));
  CHECK(backward == doctest::Approx(2.5 * forward));
}

TEST_CASE("attention of 32-bit operands multiplies three times on tensor cores, in whole tiles") {
  GpuSpec gpu = simple_gpu();
  gpu.architecture = Architecture::Ampere;
  gpu.peaks.push_back({Precision::Tf32, MathUnit::TensorCore, 5.12_TFLOPps});
  const CostProfile profile = simple_profile();
  const AttentionAttributes exact{
      .batch = 8, .heads = 128, .kv_heads = 128, .queries = 1024, .keys = 1024, .width = 64};
  AttentionAttributes ragged = exact;
  ragged.keys = 961;  // fills 1024, too
  const auto compute = [&](const AttentionAttributes& shape) {
    Kernel kernel = attention(shape, 2);
    kernel.data = Precision::Fp32;
    kernel.math = Precision::Tf32;
    const SustainedGpu machine = sustain(gpu, kernel.math, kernel.unit, profile);
    return estimate_attention(kernel, std::get<AttentionWork>(kernel.work), machine, gpu, profile)
        .compute.in_s();
  };
  CHECK(compute(ragged) == doctest::Approx(compute(exact)));
  const SustainedGpu machine = sustain(gpu, Precision::Tf32, MathUnit::TensorCore, profile);
  const double gemms = 3 * exact.scores() * 256 / machine.arithmetic.in_si();
  CHECK(compute(exact) > gemms);
}

TEST_CASE("workstation Blackwell has no other instructions than Ampere, Hopper has") {
  const CostProfile profile = simple_profile();
  const AttentionAttributes shape{
      .batch = 8, .heads = 128, .kv_heads = 128, .queries = 1024, .keys = 1024, .width = 64};
  const Kernel kernel = attention(shape, 2);
  const auto compute = [&](Architecture architecture, int capability) {
    GpuSpec gpu = simple_gpu();
    const SustainedGpu machine = sustain(gpu, kernel.math, kernel.unit, profile);
    gpu.architecture = architecture;
    gpu.compute_capability = capability;
    return estimate_attention(kernel, std::get<AttentionWork>(kernel.work), machine, gpu, profile)
        .compute.in_s();
  };
  const double ampere = compute(Architecture::Ampere, 80);
  CHECK(compute(Architecture::Blackwell, 120) == ampere);
  CHECK(compute(Architecture::Hopper, 90) > 1.1 * ampere);
  CHECK(compute(Architecture::Blackwell, 100) > 1.1 * ampere);
}

TEST_CASE("attention of 32-bit operands is on tensor cores that take tf32, in any mode of GEMMs") {
  GraphBuilder b("one", 2);
  const TensorId x = b.input("x", {2, 256, 384});
  b.graph().outputs = {b.append(
      {.name = "core",
       .kind = OpKind::Attention,
       .attributes =
           AttentionAttributes{
               .batch = 2, .heads = 2, .kv_heads = 2, .queries = 256, .keys = 256, .width = 64},
       .inputs = {x}},
      {2, 256, 128})};
  const NetworkGraph graph = std::move(b).take();
  GpuSpec volta = simple_gpu(), ampere = volta;
  ampere.architecture = Architecture::Ampere;
  ampere.peaks.push_back({Precision::Tf32, MathUnit::TensorCore, 5.12_TFLOPps});
  const auto kernel_on = [&](const GpuSpec& gpu, PrecisionMode mode) {
    return lower(graph, find_framework("pytorch"), gpu, {.precision = mode})
        .ops.front()
        .candidates.front()
        .kernels.front();
  };
  for (const PrecisionMode mode : {PrecisionMode::Fp32, PrecisionMode::Tf32}) {
    CHECK(kernel_on(ampere, mode).unit == MathUnit::TensorCore);
    CHECK(kernel_on(ampere, mode).math == Precision::Tf32);
  }
  CHECK(kernel_on(volta, PrecisionMode::Fp32).unit == MathUnit::CudaCore);
  CHECK(kernel_on(ampere, PrecisionMode::Fp16).math == Precision::Fp16);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::cost
