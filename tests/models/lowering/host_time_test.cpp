#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/lowering/lower.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "tests/models/lowering/gpus.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;

namespace {

/// A step of a convolution, its activation and a GEMM.
NetworkGraph trained(OptimizerKind optimizer) {
  GraphBuilder b("small", 2);
  TensorId x = b.conv_layer("conv", b.input("x", {2, 4, 8, 8}), 8, Window::square(3), true);
  x = b.flatten("flat", b.activation("relu", x, "relu"));
  b.graph().outputs = {b.linear_layer("logits", x, 10, true)};
  return make_training_graph(std::move(b).take(), {.optimizer = optimizer});
}

}  // namespace

TEST_SUITE("models/lowering/host_time") {
  TEST_CASE("the host pays by pass, and more for library calls") {
    const NetworkGraph graph = trained(OptimizerKind::Momentum);
    const FrameworkProfile& p = find_framework("pytorch");
    const std::pair<const char*, Seconds> expected[] = {
        {"relu", p.host.dispatch_per_op},
        {"relu bwd", p.host.dispatch_per_backward_op},
        {"conv", p.host.dispatch_per_op + p.host.dispatch_per_library_call},
        {"update conv.weight", p.host.dispatch_per_optimizer_op}};
    for (const auto& row : expected) {
      CAPTURE(row.first);
      const auto op =
          std::find_if(graph.ops().begin(), graph.ops().end(),
                       [&](const Op& candidate) { return candidate.name == row.first; });
      REQUIRE(op != graph.ops().end());
      CHECK(dispatch_time(*op, p, true) == row.second);
    }
    // Several results and weights cost as much as a library's descriptors.
    for (const OpKind kind : {OpKind::LayerNorm, OpKind::GroupNorm}) {
      const Op op{.kind = kind};
      CHECK(dispatch_time(op, p, true) ==
            p.host.dispatch_per_op + p.host.dispatch_per_library_call);
    }
  }

  TEST_CASE(
      "a layer with weights leaves autograd more in training, and own kernels call no library") {
    const FrameworkProfile& p = find_framework("pytorch_2");
    const Op conv{.kind = OpKind::Conv}, relu{.kind = OpKind::Activation};
    CHECK(p.host.autograd_per_library_call > Seconds());
    CHECK((dispatch_time(conv, p, true) - dispatch_time(conv, p, false)).in_us() ==
          doctest::Approx(p.host.autograd_per_library_call.in_us()));
    CHECK(dispatch_time(relu, p, true) == dispatch_time(relu, p, false));
    const Op norm{.kind = OpKind::BatchNorm};
    CHECK(dispatch_time(norm, p, false, true) == p.host.dispatch_per_op);
  }

  TEST_CASE("eager casts are ops of their own, those of a rewritten graph or a compiler are not") {
    std::vector<Kernel> kernels(3);
    kernels[0].name = "cast", kernels[1].name = "weight_cast", kernels[2].name = "conv";
    const FrameworkProfile& p = find_framework("pytorch");
    const Op forward{.kind = OpKind::Conv},
        gradient{.kind = OpKind::Conv, .pass = Pass::BackwardWeights};
    CHECK(cast_time(forward, kernels, p) == 2.0 * p.host.dispatch_per_op);
    CHECK(cast_time(gradient, kernels, p) == 2.0 * p.host.dispatch_per_backward_op);
    CHECK(cast_time({.kind = OpKind::Cast}, kernels, p) == Seconds());
    for (const FrameworkProfile& other :
         {find_framework("tensorflow"), find_framework("pytorch_1_6"),
          find_compiled_framework("pytorch", "inductor")}) {
      CHECK(cast_time(forward, kernels, other) == Seconds());
    }
  }

  TEST_CASE("another view costs the host where the framework says so, before a copy too") {
    const FrameworkProfile& p = find_framework("pytorch_2");
    const Op view{.kind = OpKind::Reshape},
        gradient{.kind = OpKind::Reshape, .pass = Pass::Backward};
    CHECK(view_time(view, p) == p.host.view);
    CHECK(view_time(gradient, p) == p.host.backward_view);
    CHECK(view_time({.kind = OpKind::Activation}, p) == Seconds());
    CHECK(dispatch_time({.kind = OpKind::Transpose}, p, true).in_us() ==
          doctest::Approx((p.host.dispatch_per_op + p.host.view).in_us()));
    CHECK(view_time(view, find_compiled_framework("pytorch", "inductor")) == Seconds());
  }

  TEST_CASE("PyTorch counts the batches of a batch norm with an op of its own, in training only") {
    const Op forward{.kind = OpKind::BatchNorm};
    const Op backward{.kind = OpKind::BatchNorm, .pass = Pass::Backward};
    const FrameworkProfile& p = find_framework("pytorch");
    const Seconds call = p.host.dispatch_per_library_call;
    CHECK(dispatch_time(forward, p, false) == p.host.dispatch_per_op + call);
    CHECK(dispatch_time(forward, p, true).in_us() ==
          doctest::Approx((p.host.dispatch_per_op * 2.0 + call).in_us()));
    CHECK(dispatch_time(backward, p, true) == p.host.dispatch_per_backward_op + call);
    // TensorFlow's six small kernels belong to one op.
    const FrameworkProfile& t = find_framework("tensorflow");
    CHECK(dispatch_time(forward, t, true) == dispatch_time(forward, t, false));
  }

  TEST_CASE(
      "without an optimizer gradients are kept as the framework keeps them, and nothing is "
      "updated") {
    const NetworkGraph graph = trained(OptimizerKind::None);
    const auto names_of = [&](const char* framework) {
      std::set<std::string> names;
      std::size_t updates = 0;
      const LoweredStep step = lower(graph, find_framework(framework), test::volta(), {});
      for (const LoweredOp& lowered : step.ops) {
        const Op& op = graph.op(lowered.op);
        if (op.kind != OpKind::Optimizer) continue;
        ++updates;
        CHECK(op.inputs.size() == 2);  // no states
        const FrameworkProfile& p = find_framework(framework);
        CHECK(dispatch_time(op, p, true) == p.host.dispatch_per_backward_op);
        for (const Kernel& kernel : lowered.candidates.front().kernels) names.insert(kernel.name);
      }
      CHECK(updates > 0);
      return names;
    };
    CHECK(names_of("pytorch") == std::set<std::string>{"accumulate", "zero"});
    CHECK(names_of("pytorch_2").empty());  // gradients are taken over as they are
    CHECK(names_of("mxnet").empty());
  }
}
