#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "models/lowering/lower.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/models/lowering/gpus.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;

namespace {

/// A framework that fuses nothing by itself, with a compiler of every ability.
FrameworkProfile compiled() {
  FrameworkProfile framework = find_framework("tensorflow_xla");
  framework.optimizer.weight_decay = WeightDecay::None;
  framework.convolutions.transforms_filters = false;
  return framework;
}
FrameworkProfile plain() {
  FrameworkProfile framework = compiled();
  framework.compiler.reset();
  return framework;
}

/// Kernels other than those of convolutions and GEMMs, by op, as "name read written" in elements
/// of fp32.
using Kernels = std::map<std::string, std::vector<std::string>>;
Kernels streams(const NetworkGraph& graph, const FrameworkProfile& framework,
                const GpuSpec& gpu = test::kepler()) {
  Kernels found;
  for (const LoweredOp& lowered : lower(graph, framework, gpu, {}).ops) {
    for (const Kernel& kernel : lowered.candidates.front().kernels) {
      if (!std::holds_alternative<StreamWork>(kernel.work) &&
          !std::holds_alternative<ReductionWork>(kernel.work)) {
        continue;
      }
      if (kernel.kernel_class == KernelClass::Convolution) continue;
      found[graph.op(lowered.op).name].push_back(
          kernel.name + ' ' + std::to_string(static_cast<int>(kernel.read.in_bytes() / 4)) + ' ' +
          std::to_string(static_cast<int>(kernel.written.in_bytes() / 4)));
    }
  }
  return found;
}

/// Bytes that all kernels of the first candidates move when nothing stays in caches.
double traffic(const LoweredStep& step) {
  double bytes = 0;
  for (const LoweredOp& lowered : step.ops) {
    for (const Kernel& kernel : lowered.candidates.front().kernels) {
      double moved = kernel.bytes().in_bytes();
      if (const auto* work = std::get_if<ReductionWork>(&kernel.work)) {
        moved = std::max(moved, work->passes * static_cast<double>(work->rows) *
                                    static_cast<double>(work->cols) *
                                    element_size(kernel.data).in_bytes());
      }
      bytes += moved;
    }
  }
  return bytes;
}
std::size_t count_kernels(const LoweredStep& step) {
  std::size_t count = 0;
  for (const LoweredOp& lowered : step.ops) count += lowered.candidates.front().kernels.size();
  return count;
}

/// 2 images of 4 channels, 8 x 8: 512 elements; convolution 3x3 to 8 channels: 1024 elements.
constexpr int kImage = 2 * 8 * 8 * 8;
NetworkGraph conv_bn_relu(bool with_second_convolution = false) {
  GraphBuilder b("block", 2);
  TensorId x = b.input("images", {2, 4, 8, 8});
  x = b.conv_layer("conv", x, 8, Window::square(3, 1, 1), false);
  x = b.batch_norm_layer("bn", x);
  x = b.activation("relu", x, "relu", true);
  if (with_second_convolution) x = b.conv_layer("next", x, 8, Window::square(1, 1, 0), false);
  b.graph().outputs = {x};
  return std::move(b).take();
}

NetworkGraph training(NetworkGraph graph) {
  return make_training_graph(std::move(graph), {.with_loss = false});
}

/// Elementwise ops one after the other.
NetworkGraph chain(int length) {
  GraphBuilder b("chain", 2);
  TensorId x = b.input("x", {2, 100});
  for (int i = 0; i < length; ++i) x = b.activation("f" + std::to_string(i), x, "sigmoid");
  b.graph().outputs = {x};
  return std::move(b).take();
}

}  // namespace

TEST_SUITE("models/lowering/fusion") {
  TEST_CASE("a chain of elementwise ops becomes one kernel that reads once and writes once") {
    CHECK(streams(chain(4), compiled()) == Kernels{{"f3", {"loop_fusion 200 200"}}});
    CHECK(streams(chain(1), compiled()) == Kernels{{"f0", {"activation 200 200"}}});
    CHECK(streams(chain(4), plain()).size() == 4);
  }

  TEST_CASE("conv, batch norm and relu in inference: one kernel after the convolution") {
    // x, and four numbers per channel; y.
    const std::string expected =
        "loop_fusion " + std::to_string(kImage + 4 * 8) + " " + std::to_string(kImage);
    CHECK(streams(conv_bn_relu(), compiled()) == Kernels{{"relu", {expected}}});
  }

  TEST_CASE("conv, batch norm and relu in training: statistics, normalise; sums, gradient") {
    const auto kernels = streams(training(conv_bn_relu(true)), compiled());
    const auto text = [](const char* name, int read, int written) {
      return std::string(name) + ' ' + std::to_string(read) + ' ' + std::to_string(written);
    };
    // Statistics: x in, 2 numbers per channel out. Running averages: those and two buffers in, two
    // buffers out.
    CHECK(kernels.at("bn") ==
          std::vector{text("statistics", kImage, 2 * 8), text("running_update", 4 * 8, 2 * 8)});
    // y = relu(normalise(x)): x, statistics, scale, shift in, y out.
    CHECK(kernels.at("relu") == std::vector{text("loop_fusion", kImage + 4 * 8, kImage)});
    // relu's gradient, computed from y and dy in both: (y, dy), x in; two sums, which are the
    // gradients of scale and shift, out. Then dx from (y, dy), x, sums and scale.
    CHECK(kernels.count("relu bwd") == 0);
    CHECK(kernels.at("bn bwd") == std::vector{text("reduce_fusion", 3 * kImage, 2 * 8 + 2 * 8),
                                              text("loop_fusion", 3 * kImage + 3 * 8, kImage)});
    // Momentum: weight, gradient, velocity in; weight, velocity out.
    CHECK(kernels.at("update conv.weight") == std::vector{text("update", 3 * 288, 2 * 288)});
  }

  TEST_CASE("a reduction ends a fusion") {
    GraphBuilder b("reduce", 4);
    TensorId x = b.input("x", {4, 100});
    x = b.activation("before", x, "relu");
    x = b.softmax("softmax", x);
    x = b.activation("after", x, "relu");
    b.graph().outputs = {x};
    const NetworkGraph graph = std::move(b).take();
    // relu costs one operation: repeated in all three readers, it saves a write and three reads at
    // the price of three reads. Maximum: x in, 4 out. Sum: x and maxima in. Quotient and the second
    // relu: x, maxima, sums in, y out.
    CHECK(streams(graph, compiled()) ==
          Kernels{{"softmax", {"reduce_fusion 400 4", "reduce_fusion 404 4"}},
                  {"after", {"loop_fusion 408 400"}}});
  }

  TEST_CASE("what a library reads is written, and a reduction of it joins the kernel that writes") {
    // relu -> linear with bias. dy of the linear layer is the relu's gradient: both GEMMs read
    // it, so it is written; the bias's gradient sums it in the same kernel.
    GraphBuilder b("library", 4);
    TensorId x = b.input("x", {4, 10});
    x = b.linear_layer("fc", x, 20, true);
    x = b.activation("relu", x, "relu");
    b.graph().outputs = {x};
    const auto kernels = streams(training(std::move(b).take()), compiled());
    // Bias and relu: GEMM, bias in, y out.
    CHECK(kernels.at("relu") == std::vector<std::string>{"loop_fusion 100 80"});
    // y, dy in; masked dy and the sums out.
    CHECK(kernels.at("relu bwd") == std::vector<std::string>{"reduce_fusion 160 100"});
    CHECK(kernels.count("fc wgrad") == 0);
  }

  TEST_CASE("an expensive op with two readers is not repeated") {
    const auto count = [](const char* function) {
      GraphBuilder b("repeat", 4);
      TensorId x = b.input("x", {4, 10});
      x = b.activation("first", x, function);
      const TensorId left = b.softmax("left", x);
      const TensorId right = b.activation("right", x, "relu");
      b.graph().outputs = {left, right};
      return streams(std::move(b).take(), compiled()).count("first");
    };
    CHECK(count("relu") == 0);
    CHECK(count("gelu") == 1);
  }

  TEST_CASE("siblings that read the same tensor share a kernel") {
    GraphBuilder b("siblings", 4);
    TensorId x = b.input("x", {4, 10});
    const TensorId left = b.activation("left", x, "relu");
    const TensorId right = b.activation("right", x, "tanh");
    b.graph().outputs = {left, right};
    const NetworkGraph graph = std::move(b).take();
    CHECK(streams(graph, compiled()) == Kernels{{"left", {"loop_fusion 40 80"}}});
    FrameworkProfile apart = compiled();
    apart.compiler->merges_siblings = false;
    CHECK(streams(graph, apart) ==
          Kernels{{"left", {"activation 40 40"}}, {"right", {"activation 40 40"}}});
  }

  TEST_CASE("a convolution takes bias and relu into its epilogue where nothing else reads them") {
    GraphBuilder b("epilogue", 2);
    TensorId x = b.input("images", {2, 4, 8, 8});
    x = b.conv_layer("conv", x, 8, Window::square(3, 1, 1), true);
    x = b.activation("relu", x, "relu", true);
    b.graph().outputs = {x};
    const NetworkGraph graph = std::move(b).take();
    CHECK(streams(graph, compiled()).empty());
    FrameworkProfile without = compiled();
    without.compiler->fuses_convolution_epilogue = false;
    CHECK(streams(graph, without) ==
          Kernels{{"relu",
                   {"loop_fusion " + std::to_string(kImage + 8) + " " + std::to_string(kImage)}}});
  }

  TEST_CASE("no more operands in a kernel than the compiler allows") {
    GraphBuilder b("sum", 2);
    std::vector<TensorId> xs;
    for (int i = 0; i < 6; ++i) xs.push_back(b.input("x" + std::to_string(i), {2, 50}));
    TensorId sum = xs[0];
    for (int i = 1; i < 6; ++i) sum = b.add("add" + std::to_string(i), sum, xs[i]);
    b.graph().outputs = {sum};
    const NetworkGraph graph = std::move(b).take();
    CHECK(streams(graph, compiled()) == Kernels{{"add5", {"loop_fusion 600 100"}}});
    FrameworkProfile low_precision = compiled();
    low_precision.compiler->most_operands = 4;  // three in, one out
    CHECK(streams(graph, low_precision) == Kernels{{"add2", {"loop_fusion 300 100"}},
                                                   {"add4", {"loop_fusion 300 100"}},
                                                   {"add5", {"combine 200 100"}}});
  }

  TEST_CASE("a compiler that joins rows makes one kernel of a softmax, its scale and its dropout") {
    FrameworkProfile inductor = compiled();
    inductor.compiler->joins_rows = inductor.compiler->draws_in_kernels = true;
    inductor.compiler->longest_kept_row = 1024;
    const auto softmax_of = [](std::int64_t cols, bool normed = false) {
      GraphBuilder b("rows", 1);
      TensorId x = b.activation("act", b.input("x", {64, cols}), "tanh");
      x = normed ? b.layer_norm_layer("rows", x) : b.softmax("rows", x);
      b.graph().outputs = {b.dropout("dropout", x)};
      return std::move(b).take();
    };
    const auto the_kernel = [&](std::int64_t cols, bool normed = false) {
      const NetworkGraph graph = softmax_of(cols, normed);
      const LoweredStep step = lower(graph, inductor, test::volta(), {});
      std::vector<Kernel> kernels;
      for (const LoweredOp& op : step.ops) {
        for (const Kernel& kernel : op.candidates.front().kernels) kernels.push_back(kernel);
      }
      REQUIRE(kernels.size() == 1);
      return kernels.front();
    };
    const Kernel kept = the_kernel(512), again = the_kernel(4096);
    CHECK(kept.kernel_class == KernelClass::Softmax);
    CHECK(kept.read.in_bytes() == 4 * 64 * 512);  // once: the row stays in registers
    CHECK(kept.written.in_bytes() >= 4 * 64 * 512);
    // Ten rounds of two wide GEMMs and two logical operations for every number that is drawn.
    CHECK(kept.flops.in_flop() >= 60 * 64 * 512);
    // 512 elements: one warp. Longer than 1024: maximum, sum and quotient read their row anew, and
    // write.
    CHECK(std::get<ReductionWork>(kept.work).row_threads == 32);
    CHECK(std::get<ReductionWork>(again.work).row_threads == 8 * 32);
    CHECK(std::get<ReductionWork>(again.work).passes >= 4);
    // Statistics, then the rows again; a scale and a shift beside them.
    const Kernel norm = the_kernel(4096, true);
    CHECK(std::get<ReductionWork>(norm.work).passes ==
          std::get<ReductionWork>(again.work).passes - 1);
    CHECK(norm.read.in_bytes() == 4 * (64 * 4096 + 2 * 4096));
    // XLA ends a kernel with every reduction.
    CHECK(count_kernels(lower(softmax_of(512), compiled(), test::volta(), {})) >= 3);
  }

  TEST_CASE("fusion moves no more bytes and launches no more kernels, whatever the network") {
    for (const char* network : {"resnet50", "vgg16", "inception_v3", "densenet121", "mobilenet_v2",
                                "bert_base", "alexnet"}) {
      CAPTURE(network);
      for (const bool trains : {false, true}) {
        CAPTURE(trains);
        NetworkGraph graph = build_network(network, {.batch = 2, .training = trains});
        if (trains) graph = make_training_graph(std::move(graph), {});
        for (const PrecisionMode precision : {PrecisionMode::Fp32, PrecisionMode::Amp}) {
          const auto lowered = [&](const FrameworkProfile& framework) {
            return lower(graph, framework, test::volta(), {.precision = precision});
          };
          const LoweredStep fused = lowered(compiled()), unfused = lowered(plain());
          CHECK(traffic(fused) < traffic(unfused));
          CHECK(count_kernels(fused) < count_kernels(unfused));
          // Mixed precision scales the loss op by op, and not in compiled graphs.
          const std::size_t scaling = trains && precision == PrecisionMode::Amp ? 1 : 0;
          CHECK(fused.ops.size() + scaling == unfused.ops.size());
        }
      }
    }
  }

  TEST_CASE("every kernel reads what is there: the graph in memory is a valid graph") {
    const NetworkGraph graph =
        make_training_graph(build_network("resnet50", {.batch = 2, .training = true}), {});
    // Building it checks that every operand was written before.
    const NetworkGraph fused = graph_in_memory(graph, compiled(), test::volta(), {});
    REQUIRE(fused.ops().size() == graph.ops().size());
    REQUIRE(fused.tensors().size() == graph.tensors().size());
    const auto written = [](const NetworkGraph& g) {
      double elements = 0;
      for (const Op& op : g.ops()) {
        for (const TensorId output : op.outputs) {
          elements += static_cast<double>(element_count(g.tensor(output).shape));
        }
      }
      return elements;
    };
    // Of convolution, norm and relu the norm's result disappears, and so does the relu's gradient.
    CHECK(written(fused) < 0.75 * written(graph));
  }

  TEST_CASE("without a compiler the graph in memory is the graph, and nothing is fused") {
    const NetworkGraph graph = training(conv_bn_relu());
    const NetworkGraph same = graph_in_memory(graph, plain(), test::volta(), {});
    REQUIRE(same.ops().size() == graph.ops().size());
    for (std::uint32_t i = 0; i < same.ops().size(); ++i) {
      CHECK(same.op(OpId{i}).inputs == graph.op(OpId{i}).inputs);
      CHECK(same.op(OpId{i}).outputs == graph.op(OpId{i}).outputs);
    }
    const auto kernels = streams(graph, plain());
    CHECK(kernels.count("relu bwd") == 1);
    CHECK(kernels.at("bn").front().starts_with("forward "));
  }
}
