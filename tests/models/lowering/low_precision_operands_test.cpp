#include "models/lowering/low_precision_operands.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "models/lowering/lower.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "tests/models/lowering/gpus.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;

namespace {

constexpr std::int64_t kTokens = 64, kWidth = 32;

/// Attention between two GEMMs, then a wide GEMM, GELU and a narrow one, as a layer of BERT without
/// its norms.
NetworkGraph layer() {
  GraphBuilder b("layer", 1);
  TensorId x = b.linear_layer("first", b.input("x", {1, kTokens, kWidth}), kWidth, true);
  x = b.linear_layer("qkv", x, 3 * kWidth, true);
  Op op{.name = "attention",
        .kind = OpKind::Attention,
        .attributes =
            AttentionAttributes{
                .heads = 1, .kv_heads = 1, .queries = kTokens, .keys = kTokens, .width = kWidth},
        .inputs = {x}};
  const TensorId context = b.tensor({.name = "context", .shape = {1, kTokens, kWidth}});
  op.outputs = {context, b.tensor({.name = "statistics", .shape = {1, 1, kTokens}})};
  b.graph().add_op(std::move(op));
  x = b.linear_layer("projection", context, kWidth, true);
  x = b.linear_layer("wide", x, 4 * kWidth, true);
  x = b.linear_layer("low_precision", b.activation("gelu", x, "gelu"), kWidth, true);
  b.graph().outputs = {x};
  return std::move(b).take();
}

/// Kernels of a training step in 8-bit GEMMs, with the op that they stand under.
struct Named {
  std::string op;
  Kernel kernel;
};
std::vector<Named> kernels(bool joins) {
  FrameworkProfile framework = find_framework("pytorch_nvidia");
  framework.fusion.operand_casts = joins;
  const NetworkGraph graph = make_training_graph(layer(), {.optimizer = OptimizerKind::Sgd});
  std::vector<Named> all;
  for (const LoweredOp& op :
       lower(graph, framework, test::hopper(), {.precision = PrecisionMode::Fp8}).ops) {
    for (const Kernel& kernel : op.candidates.front().kernels)
      all.push_back({graph.op(op.op).name, kernel});
  }
  return all;
}
std::vector<Named> named(const std::vector<Named>& all, std::string_view name) {
  std::vector<Named> found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found),
               [&](const Named& k) { return k.kernel.name == name; });
  return found;
}

}  // namespace

TEST_SUITE_BEGIN("models/lowering/low_precision_operands");

TEST_CASE("an activation between GEMMs, its gradient and attention spare casts") {
  const std::vector<Named> apart = kernels(false), joined = kernels(true);
  // Five GEMMs cast a weight and an input each, and all but the first, whose input has no gradient,
  // the output's gradient.
  CHECK(named(apart, "operand_cast").size() == 5 + 5 + 4);
  CHECK(named(apart, "operand_turn").empty());
  // Cast no more: what attention and GELU give, and what their gradients do.
  CHECK(named(joined, "operand_cast").size() == 5 + 5 + 4 - 4);
  const std::vector<Named> turns = named(joined, "operand_turn");
  REQUIRE(turns.size() == 3);
  for (const Named& turn : turns) {
    CAPTURE(turn.op);
    CHECK(turn.kernel.read == turn.kernel.written);
    CHECK(turn.kernel.data == Precision::Fp8);
  }
  CHECK(turns[0].op == "projection");
  CHECK(turns[0].kernel.read == Bytes(kTokens * kWidth));
  CHECK(turns[1].kernel.read ==
        Bytes(kTokens * 4 * kWidth));  // GELU's, beside the weight's gradient
  CHECK(turns[2].kernel.read == Bytes(kTokens * 3 * kWidth));
  const auto under = [&](const std::vector<Named>& all, std::string_view op) {
    return std::count_if(all.begin(), all.end(), [&](const Named& k) { return k.op == op; });
  };
  CHECK(under(apart, "gelu") == 1);
  CHECK(under(joined, "gelu") == 0);
}

TEST_CASE("attention beside 8-bit GEMMs reads and writes 8 bits") {
  const std::vector<Named> apart = named(kernels(false), "attention"),
                           joined = named(kernels(true), "attention");
  REQUIRE(apart.size() == 2);
  REQUIRE(joined.size() == 2);
  for (std::size_t i = 0; i < joined.size(); ++i) {
    CHECK(apart[i].kernel.math == Precision::Bf16);
    CHECK(joined[i].kernel.math == Precision::Fp8);
    CHECK(joined[i].kernel.read * 2.0 == apart[i].kernel.read);
    CHECK(joined[i].kernel.written * 2.0 == apart[i].kernel.written);
  }
}

TEST_SUITE_END();
