#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "models/ops.hpp"
#include "models/recompute.hpp"
#include "models/training.hpp"
#include "sim/base/random.hpp"
#include "sim/step/memory/caching_allocator.hpp"
#include "sim/step/memory/memory.hpp"

namespace tracecast {
namespace {

GpuSpec gpu_of(Bytes memory) {
  GpuSpec gpu;
  gpu.memory = memory;
  return gpu;
}

/// Contexts of no size: gpu_of() has no threads.
const CostProfile kProfile;

/// To the byte, on demand.
FrameworkProfile plain_framework() {
  FrameworkProfile framework;
  framework.memory.allocator_block = Bytes(1);
  return framework;
}

/// x [1, 100] -> linear [1, 50] -> relu -> linear [1, 10]; no biases.
NetworkGraph three_ops(bool in_place) {
  GraphBuilder builder("three", 1);
  const TensorId x = builder.input("x", {1, 100});
  const TensorId h = builder.linear_layer("h", x, 50, false);
  const TensorId r = builder.activation("r", h, "relu", in_place);
  const TensorId y = builder.linear_layer("y", r, 10, false);
  builder.graph().outputs = {y};
  return std::move(builder).take();
}

TEST_SUITE_BEGIN("sim/step/memory/memory");

TEST_CASE("peak memory of three ops, by hand") {
  // 4 bytes each. Weights 100 * 50 + 50 * 10 = 5500: 22000 B. x lives throughout: 400 B.
  // At relu: h 200 + r 200; at the last linear: r 200 + y 40. Peak: 22000 + 400 + 400.
  const FrameworkProfile framework = plain_framework();
  const MemoryPlan plan = plan_memory(three_ops(false), {}, framework, gpu_of(Bytes(1e9)), kProfile,
                                      {.precision = PrecisionMode::Fp32});
  CHECK(plan.by_class.weights.in_bytes() == 22000);
  CHECK(plan.by_class.activations.in_bytes() == 800);
  CHECK(plan.peak_live.in_bytes() == 22800);
  CHECK(plan.peak_op->index == 1);
  CHECK(plan.fits);
}

TEST_CASE("what is done in place costs nothing where the framework does it") {
  FrameworkProfile framework = plain_framework();
  const auto peak = [&] {
    return plan_memory(three_ops(true), {}, framework, gpu_of(Bytes(1e9)), kProfile,
                       {.precision = PrecisionMode::Fp32})
        .peak_live.in_bytes();
  };
  CHECK(peak() == 22800);
  framework.kernels.in_place_activations = true;
  CHECK(peak() == 22000 + 400 + 200 + 40);  // h is r; the peak moves to the last linear
}

TEST_CASE("autocast keeps half copies of what GEMMs read, not of tables that are looked up") {
  GraphBuilder builder("table", 1);
  const TensorId ids = builder.input("ids", {1, 1}, true);
  const TensorId row = builder.embedding_bag("bag", ids, builder.weight("table", {1000, 100}));
  builder.graph().outputs = {builder.linear_layer("h", row, 50, false)};
  const NetworkGraph graph = std::move(builder).take();
  const auto weights = [&](PrecisionMode mode) {
    return plan_memory(graph, {}, plain_framework(), gpu_of(Bytes(1e9)), kProfile,
                       {.precision = mode})
        .by_class.weights.in_bytes();
  };
  CHECK(weights(PrecisionMode::Amp) - weights(PrecisionMode::Fp32) == 2 * 100 * 50);
}

TEST_CASE("where nothing is freed, what is computed again is written where it was") {
  FrameworkProfile framework = plain_framework();
  NetworkGraph step = make_training_graph(three_ops(false), {});
  for (const TensorMemory tensors : {TensorMemory::WholeStep, TensorMemory::SharedGradients}) {
    framework.memory.tensors = tensors;
    const auto needed = [&](const NetworkGraph& graph) {
      return plan_memory(graph, {}, framework, gpu_of(Bytes(1e9)), kProfile,
                         {.precision = PrecisionMode::Fp32})
          .needed.in_bytes();
    };
    const NetworkGraph again = recompute_activations(step, Recompute::Selective);
    CHECK(again.ops().size() > step.ops().size());
    CHECK(needed(again) == needed(step));
  }
}

TEST_CASE("workspace counts while its op runs") {
  const std::array<Bytes, 3> workspaces{Bytes(0), Bytes(0), Bytes(1000)};
  const MemoryPlan plan =
      plan_memory(three_ops(false), workspaces, plain_framework(), gpu_of(Bytes(1e9)), kProfile,
                  {.precision = PrecisionMode::Fp32});
  CHECK(plan.by_class.workspace.in_bytes() == 1000);
  CHECK(plan.peak_live.in_bytes() == 22000 + 400 + 200 + 40 + 1000);
}

TEST_CASE("16-bit activations halve what is not kept wide") {
  const MemoryPlan plan = plan_memory(three_ops(false), {}, plain_framework(), gpu_of(Bytes(1e9)),
                                      kProfile, {.precision = PrecisionMode::Amp});
  // The input as it was fed, in fp32; h and r in 16 bits.
  CHECK(plan.by_class.activations.in_bytes() == 400 + 100 + 100);
  CHECK(plan.by_class.weights.in_bytes() == 22000 + 11000);  // and a 16-bit copy of the weights
}

TEST_CASE("trying algorithms takes the largest scratch that is left, and gives it back") {
  // 2 MiB segments from the driver, 40 MiB in all; three ops need one small segment between them.
  constexpr double kMiB = 1 << 20;
  FrameworkProfile framework = plain_framework();
  framework.memory.allocator_block = Bytes(512);
  framework.memory.allocator_large_segment = Bytes(20 * kMiB);
  const std::array<std::vector<Bytes>, 3> tried = {
      {{Bytes(4 * kMiB), Bytes(30 * kMiB), Bytes(50 * kMiB)}, {}, {Bytes(2 * kMiB)}}};
  MemoryOptions options{.precision = PrecisionMode::Fp32};
  const auto plan = [&] {
    return plan_memory(three_ops(false), {}, framework, gpu_of(Bytes(40 * kMiB)), kProfile,
                       options);
  };
  CHECK(plan().device_used.in_mib() == 2);
  options.tried_workspaces = tried;
  // 50 MiB are more than there is and are not tried; of the rest 30 is the largest.
  CHECK(plan().device_used.in_mib() == 2 + 30);
  CHECK(plan().needed.in_mib() == 2);
  CHECK(plan().fits);
  // A framework that took its share at the start tries within it.
  framework.memory.pool_fraction = 0.5;
  CHECK(plan().device_used.in_mib() == 20);
}

TEST_CASE("training keeps activations, gradients and optimizer state") {
  const NetworkGraph step =
      make_training_graph(three_ops(false), {.optimizer = OptimizerKind::Momentum});
  const MemoryPlan plan = plan_memory(step, {}, plain_framework(), gpu_of(Bytes(1e9)), kProfile,
                                      {.precision = PrecisionMode::Fp32});
  CHECK(plan.by_class.optimizer.in_bytes() == 22000);  // one state per weight
  CHECK(plan.by_class.gradients.in_bytes() > 0);
  CHECK(plan.peak_live > Bytes(22800));
}

TEST_CASE("what is kept for the backward pass of a small network, byte by byte") {
  // x [2, 3, 4, 4] -> conv 8 filters 3x3 pad 1, no bias -> batch norm -> max pool 2x2 -> linear 5.
  GraphBuilder builder("small", 2);
  TensorId t = builder.input("x", {2, 3, 4, 4});
  t = builder.conv_layer("conv", t, 8, Window::square(3, 1, 1), false);
  t = builder.batch_norm_layer("bn", t);
  t = builder.max_pool("pool", t, Window::square(2, 2));
  t = builder.linear_layer("fc", builder.flatten("flat", t), 5, false);
  builder.graph().outputs = {t};
  const NetworkGraph step = make_training_graph(std::move(builder).take(), {});
  FrameworkProfile framework = plain_framework();
  const auto activations = [&] {
    return plan_memory(step, {}, framework, gpu_of(Bytes(1e9)), kProfile, {})
        .by_class.activations.in_bytes();
  };
  // The peak is the gradient of the pool. Floats: x 2*3*16; conv out, bn out and the new gradient
  // 2*8*16 each; pool out and its gradient 2*8*4 each; mean and deviation of 8 channels; logits
  // 2*5. Labels: 2 integers of 8 bytes.
  const double without_indices = 4 * (96 + 3 * 256 + 2 * 64 + 2 * 8 + 10) + 2 * 8;
  CHECK(activations() == without_indices);
  framework.kernels.max_pool_saves_indices = true;
  CHECK(activations() == without_indices + 8 * 64);  // an int64 per output of the pool
}

TEST_CASE("a framework that frees nothing needs the sum of all its tensors") {
  FrameworkProfile framework = plain_framework();
  const auto activations = [&](const NetworkGraph& graph) {
    return plan_memory(graph, {}, framework, gpu_of(Bytes(1e9)), kProfile, {})
        .by_class.activations.in_bytes();
  };
  framework.memory.tensors = TensorMemory::WholeStep;
  // x 400, h 200, r 200, y 40 bytes.
  CHECK(activations(three_ops(false)) == 840);
  const NetworkGraph step = make_training_graph(three_ops(false), {});
  // Their gradients but x's: 200, 200, 40; labels 8, log-probabilities 40, loss 4.
  CHECK(activations(step) == 840 + 440 + 52);
  // Gradients that take turns: at the peak, the gradient of the first weight, only dh is left.
  framework.memory.tensors = TensorMemory::SharedGradients;
  CHECK(activations(step) == 840 + 200 + 52);
}

TEST_CASE("a gradient added to the one that is kept needs memory of its own while it is added") {
  FrameworkProfile framework = plain_framework();
  framework.optimizer.zeroes_gradients = true;
  const NetworkGraph step = make_training_graph(three_ops(false), {});
  const auto gradients = [&](const MemoryOptions& options) {
    const MemoryPlan plan = plan_memory(step, {}, framework, gpu_of(Bytes(1e9)), kProfile, options);
    return plan.by_class.gradients.in_bytes();
  };
  CHECK(gradients({}) == 22000);  // written where they are kept
  framework.optimizer.accumulates_gradients = true;
  CHECK(gradients({}) == 22000 + 20000);  // the greatest, of the first layer
  framework = plain_framework();
  CHECK(gradients({.keeps_gradients = true}) == 22000 + 20000);
}

TEST_CASE("a step that needs more than the device has does not fit") {
  const FrameworkProfile framework = plain_framework();
  const MemoryPlan plan = plan_memory(three_ops(false), {}, framework, gpu_of(Bytes(20000)),
                                      kProfile, {.precision = PrecisionMode::Fp32});
  CHECK_FALSE(plan.fits);
  CHECK(plan.headroom() < Bytes(0));
}

TEST_CASE("a framework that takes a share of the device shows that share") {
  FrameworkProfile framework = plain_framework();
  framework.memory.pool_fraction = 0.9;
  framework.memory.context = Bytes(5e7);
  const MemoryPlan plan = plan_memory(three_ops(false), {}, framework, gpu_of(Bytes(1e9)), kProfile,
                                      {.precision = PrecisionMode::Fp32});
  // The libraries come after the pool, into the tenth that it left.
  CHECK(plan.device_used.in_bytes() == doctest::Approx(0.9e9 + 5e7));
  CHECK(plan.needed.in_bytes() == doctest::Approx(5e7 + 22800));
  CHECK(plan.fits);
}

TEST_CASE("a framework that takes a share leaves room for its libraries") {
  FrameworkProfile framework = plain_framework();
  framework.memory.pool_fraction = 0.95;
  framework.memory.context = Bytes(3e8);  // more than a twentieth of 1 GB
  const MemoryPlan plan = plan_memory(three_ops(false), {}, framework, gpu_of(Bytes(1e9)), kProfile,
                                      {.precision = PrecisionMode::Fp32});
  CHECK(plan.device_used.in_bytes() == doctest::Approx(1e9));
}

TEST_CASE("a context grows with the threads that fit on the device") {
  CostProfile profile;
  profile.context.bytes_per_thread = 1000;
  GpuSpec gpu = gpu_of(Bytes(1e9));
  gpu.sm_count = 10;
  gpu.max_threads_per_sm = 2048;
  CHECK(device_context(gpu, profile).in_bytes() == 20'480'000);
  const MemoryPlan plan = plan_memory(three_ops(false), {}, plain_framework(), gpu, profile,
                                      {.precision = PrecisionMode::Fp32});
  CHECK(plan.by_class.context.in_bytes() == 20'480'000);
  CHECK(plan.needed == plan.by_class.total());
}

TEST_CASE("the allocator takes segments, splits blocks and joins what is free") {
  constexpr std::int64_t kMiB = 1 << 20;
  CachingAllocator allocator(512, 20 * kMiB);
  const auto a = allocator.allocate(1);  // a 512-byte block of a 2 MiB segment
  CHECK(allocator.reserved() == 2 * kMiB);
  const auto b = allocator.allocate(kMiB);  // fits behind it
  CHECK(allocator.reserved() == 2 * kMiB);
  const auto c = allocator.allocate(4 * kMiB);  // a large segment, of which 16 MiB stay free
  CHECK(allocator.reserved() == 22 * kMiB);
  const auto d = allocator.allocate(9 * kMiB);
  CHECK(allocator.reserved() == 22 * kMiB);
  allocator.release(c);
  allocator.release(d);
  (void)allocator.allocate(20 * kMiB);  // the whole segment is one block again
  CHECK(allocator.reserved() == 22 * kMiB);
  (void)allocator.allocate(21 * kMiB);  // too large to share: rounded up to 2 MiB
  CHECK(allocator.reserved() == 44 * kMiB);
  allocator.release(a);
  allocator.release(b);
}

TEST_CASE("an allocator at its limit gives free segments back before it asks for more") {
  constexpr std::int64_t kMiB = 1 << 20;
  CachingAllocator allocator(512, 20 * kMiB, 64 * kMiB);
  const auto a = allocator.allocate(30 * kMiB);
  const auto b = allocator.allocate(30 * kMiB);
  allocator.release(a);
  CHECK(allocator.largest_available() == 30 * kMiB);  // the free segment; the driver has 4
  const auto c = allocator.allocate(34 * kMiB);  // 60 + 34 > 64: the free segment of 30 goes first
  CHECK(allocator.reserved() == 64 * kMiB);
  CHECK(allocator.most_reserved() == 64 * kMiB);
  allocator.release(b);
  (void)allocator.allocate(1 * kMiB + 1);  // from the free block of b
  CHECK(allocator.reserved() == 64 * kMiB);
  (void)allocator.allocate(40 * kMiB);  // nothing to give back: beyond the limit
  CHECK(allocator.most_reserved() == 104 * kMiB);
  allocator.release(c);
}

TEST_CASE("an allocator gives back segments that nothing uses, and no others") {
  constexpr std::int64_t kMiB = 1 << 20;
  CachingAllocator allocator(512, 20 * kMiB, 64 * kMiB);
  const auto a = allocator.allocate(4 * kMiB);  // of a segment of 20
  const auto b = allocator.allocate(30 * kMiB);
  allocator.release(b);
  allocator.release_cached();
  CHECK(allocator.reserved() == 20 * kMiB);
  CHECK(allocator.largest_available() == 44 * kMiB);
  allocator.release(a);
  allocator.release_cached();
  CHECK(allocator.reserved() == 0);
  CHECK(allocator.most_reserved() == 50 * kMiB);
}

// A program unrolled step by step that does not fit asks so often. If all free blocks were looked
// at each time, this would be 1e11 steps: more than ten minutes.
TEST_CASE("an allocator beyond its limit does not search all that it keeps") {
  constexpr std::int64_t kMiB = 1 << 20, kBlocks = 500'000;
  CachingAllocator allocator(512, 20 * kMiB, 64 * kMiB);
  // Pairs in segments of 2 MiB, of which every second block is free: no segment can be given back.
  std::vector<CachingAllocator::Handle> freed;
  for (std::int64_t i = 0; i < kBlocks; ++i) {
    (void)allocator.allocate(3 * kMiB / 4);
    freed.push_back(allocator.allocate(3 * kMiB / 4));
    (void)allocator.allocate(kMiB / 2);
  }
  for (const CachingAllocator::Handle handle : freed) allocator.release(handle);
  CHECK(allocator.reserved() == kBlocks * 2 * kMiB);
  for (std::int64_t i = 0; i < kBlocks; ++i) (void)allocator.allocate(kMiB);
  CHECK(allocator.num_returned() == 0);
  CHECK(allocator.most_reserved() == kBlocks * 3 * kMiB);
}

TEST_CASE("a step whose tensors alone are too much does not fit") {
  const NetworkGraph graph = three_ops(false);
  const FrameworkProfile framework = plain_framework();
  for (const double bytes : {22800.0, 22799.0}) {
    CAPTURE(bytes);
    const GpuSpec gpu = gpu_of(Bytes(bytes));
    CHECK(tensors_fit(graph, framework, gpu, kProfile, {}) == (bytes == 22800));
    // An allocator that rounds up needs more.
    CHECK_FALSE(plan_memory(graph, {}, framework, gpu, kProfile, {}).fits);
  }
}

TEST_CASE("whether a plan fits is known without it") {
  const NetworkGraph step =
      make_training_graph(three_ops(false), {.optimizer = OptimizerKind::Momentum});
  FrameworkProfile caches = plain_framework(), takes_share = plain_framework();
  caches.memory.allocator_block = Bytes(512);
  caches.memory.allocator_large_segment = Bytes(20 << 20);
  takes_share.memory.pool_fraction = 0.7;
  Random random(1);
  std::size_t fitting = 0, asked = 0;
  for (const FrameworkProfile& framework : {plain_framework(), caches, takes_share}) {
    for (int draw = 0; draw < 100; ++draw) {
      std::vector<Bytes> scratch(step.ops().size());
      for (Bytes& bytes : scratch) bytes = Bytes((draw < 50 ? 1e6 : 8e6) * random.uniform());
      const GpuSpec wide = gpu_of(Bytes(1e12));
      const Bytes needed = plan_memory(step, scratch, framework, wide, kProfile, {}).needed;
      const GpuSpec gpu = gpu_of(needed * (0.8 + 0.8 * random.uniform()));
      const bool fits = plan_memory(step, scratch, framework, gpu, kProfile, {}).fits;
      const StepLives lives = find_lives(step, framework, gpu, {});
      CHECK(plan_fits(lives, scratch, framework, gpu, kProfile) == fits);
      fitting += fits ? 1 : 0;
      ++asked;
    }
  }
  CHECK(fitting > asked / 5);
  CHECK(fitting < asked * 4 / 5);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
