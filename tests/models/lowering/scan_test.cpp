#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/lowering/lower.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "tests/models/lowering/gpus.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;

namespace {

/// Kernels of one scan in half precision, by pass.
std::vector<Kernel> kernels_of(const ScanAttributes& a, Pass pass) {
  GraphBuilder b("one", a.batch);
  const TensorId x = b.input("x", {a.batch, a.tokens, 64});
  const std::int64_t wide = a.heads * a.value_width + 2 * a.groups * a.key_width;
  const TensorId mixed = b.linear_layer("in", x, wide, false);
  b.graph().outputs = {
      b.append({.name = "scan", .kind = OpKind::Scan, .attributes = a, .inputs = {mixed}},
               {a.batch, a.tokens, a.heads * a.value_width})};
  const NetworkGraph graph = make_training_graph(std::move(b).take(), {.with_loss = false});
  const LoweredStep step =
      lower(graph, find_framework("pytorch"), test::volta(), {.precision = PrecisionMode::Fp16});
  for (const LoweredOp& op : step.ops) {
    const Op& what = graph.op(op.op);
    if (what.kind == OpKind::Scan && what.pass == pass) return op.candidates.front().kernels;
  }
  return {};
}

double flops(const std::vector<Kernel>& kernels) {
  double sum = 0;
  for (const Kernel& kernel : kernels) {
    if (kernel.name != "solve_tril") sum += kernel.flops.in_flop();
  }
  return sum;
}

const ChainWork* chain_of(const std::vector<Kernel>& kernels) {
  for (const Kernel& kernel : kernels) {
    if (const auto* work = std::get_if<ChainWork>(&kernel.work)) return work;
  }
  return nullptr;
}

// 2 sequences of 1024 tokens, 8 heads in 2 groups, states of 128 x 64, chunks of 256: 4 chunks, 64
// tiles.
constexpr ScanAttributes kStateSpace{.rule = ScanRule::StateSpace,
                                     .batch = 2,
                                     .tokens = 1024,
                                     .heads = 8,
                                     .groups = 2,
                                     .key_width = 128,
                                     .value_width = 64,
                                     .chunk = 256};
constexpr ScanAttributes kDelta{.rule = ScanRule::GatedDelta,
                                .batch = 2,
                                .tokens = 1024,
                                .heads = 8,
                                .groups = 4,
                                .key_width = 128,
                                .value_width = 128,
                                .chunk = 64};

TEST_SUITE_BEGIN("models/lowering/scan");

TEST_CASE("a state space scan makes the GEMMs of its chunks") {
  const double states = 64. * 64 * 128 * 256;           // per tile value x key x chunk
  const double scores = 2. * 4 * 2 * 256 * 256 * 128;   // per chunk and group
  const double outputs = 64. * 256 * 64 * (128 + 128);  // states before it, half of the chunk
  CHECK(flops(kernels_of(kStateSpace, Pass::Forward)) == 2 * (states + scores + outputs));
}

TEST_CASE("a delta rule's chain takes a state per head and block of values through all chunks") {
  const std::vector<Kernel> forward = kernels_of(kDelta, Pass::Forward);
  const ChainWork* chain = chain_of(forward);
  REQUIRE(chain != nullptr);
  CHECK(chain->chains == 2 * 8 * 2);  // sequences, heads, blocks of 64 of 128 values
  CHECK(chain->steps == 16);
  CHECK(chain->flops_per_step == 2. * 2 * 64 * 128 * 64);
  // 256 tiles: k k^T, right sides, scores and outputs; and the chain.
  const double tiles = 256. * (64. * 64 * 128 + 64. * 256 * 64 + 64. * 64 * 128 + 64. * 128 * 192);
  CHECK(flops(forward) == 2 * tiles + 32. * 16 * 2 * 2 * 64 * 128 * 64);
}

TEST_CASE("a gradient computes states again, and two to four times as many GEMMs") {
  for (const ScanAttributes& a : {kStateSpace, kDelta}) {
    const double ratio = flops(kernels_of(a, Pass::Backward)) / flops(kernels_of(a, Pass::Forward));
    CHECK(ratio > 2);
    CHECK(ratio < 4);
  }
}

TEST_CASE("twice the tokens are twice the work, and one token reads and writes its states") {
  ScanAttributes twice = kStateSpace;
  twice.tokens *= 2;
  CHECK(flops(kernels_of(twice, Pass::Forward)) ==
        2 * flops(kernels_of(kStateSpace, Pass::Forward)));
  ScanAttributes one = kDelta;
  one.tokens = 1;
  const std::vector<Kernel> kernels = kernels_of(one, Pass::Forward);
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].read.in_bytes() > 4. * 2 * 8 * 128 * 128);
  CHECK(kernels[0].written.in_bytes() > 4. * 2 * 8 * 128 * 128);
}

TEST_SUITE_END();

}  // namespace
