#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/lowering/lower.hpp"
#include "models/ops.hpp"
#include "models/zoo/parts/attention.hpp"
#include "tests/models/lowering/gpus.hpp"
#include "tests/models/lowering/lowered.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

/// A GEMM, a root mean square norm of 8 x 64, attention's softmax over 4 rows of 16, a GEMM, wide
/// logits.
NetworkGraph casting_network(bool casts) {
  GraphBuilder b("casting", 1);
  const TensorId constant = zoo_builders::scalar(b, "constant");
  TensorId x = b.linear_layer("in", b.input("x", {1, 8, 64}), 64, false);
  x = zoo_builders::rms_norm(b, "norm", x, constant,
                             casts ? zoo_builders::WideNorm::All : zoo_builders::WideNorm::None);
  x = b.reshape("rows", x, {4, 8, 16});
  x = zoo_builders::softmax_in(b, "attention", x, casts);
  x = b.linear_layer("out", x, 10, false);
  b.graph().outputs = {casts ? b.upcast("logits.float", x) : x};
  return std::move(b).take();
}

auto kernels_in(const NetworkGraph& graph, const char* framework, PrecisionMode mode) {
  return kernels_by_op(graph,
                       lower(graph, find_framework(framework), ampere(), {.precision = mode}));
}

}  // namespace

TEST_SUITE("models/lowering/wide_tensors") {
  TEST_CASE("what the code casts to 32 bits takes four bytes an element until it is cast back") {
    const NetworkGraph graph = training(casting_network(true));
    const auto kernels = kernels_in(graph, "pytorch", PrecisionMode::Bf16);
    const double n = 8 * 64;
    struct Row {
      const char* op;
      double expected;  ///< bytes read and written
    };
    const Row rows[] = {
        {"in", 2 * (n + 64 * 64 + n)},
        {"norm.float", n * (2 + 4)},
        {"norm.pow", n * (4 + 4)},
        {"norm.mean", n * 4 + 8 * 4},
        {"norm.rsqrt", 8 * (4 + 4)},
        {"norm.scaled", n * 4 + 8 * 4 + n * 4},
        {"norm.normalize", n * (4 + 2)},
        {"norm", n * 2 + 64 * 2 + n * 2},
        {"attention.float", n * (2 + 4)},
        {"attention.softmax", n * (4 + 4)},
        {"attention.probabilities", n * (4 + 2)},
        {"logits.float", 320 * (2 + 4)},
        // Gradients are kept as what they are gradients of: dy and y in, y * dy between, dx out.
        {"attention.softmax bwd", n * (3 * 4) + n * (3 * 4)},
        {"attention.float bwd", n * (4 + 2)},
        {"logits.float bwd", 320 * (4 + 2)},
    };
    for (const Row& row : rows) {
      CAPTURE(row.op);
      REQUIRE(kernels.contains(row.op));
      CHECK(bytes(kernels.at(row.op)) == row.expected);
    }
    // The weight, and its gradient, stay narrow.
    CHECK(bytes(kernels.at("out wgrad")) == 2 * (32. * 10 + 32 * 16 + 16 * 10));
    CHECK(kernels.at("attention.softmax").front().data == Precision::Fp32);
    CHECK(kernels.at("norm").front().data == Precision::Bf16);
  }

  TEST_CASE("a network without casts has the same kernels, and in memory they cost what they are") {
    const NetworkGraph plain = casting_network(false), cast = casting_network(true);
    const auto kernels = kernels_in(plain, "pytorch", PrecisionMode::Bf16);
    CHECK(bytes(kernels.at("norm.pow")) == 8 * 64 * 4);
    CHECK_FALSE(kernels.contains("norm.float"));
    const auto sizes =
        element_sizes(cast, find_framework("pytorch"), ampere(), PrecisionMode::Bf16);
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      CAPTURE(cast.tensors()[t].name);
      CHECK(sizes[t] == Bytes(cast.tensors()[t].is_wide ? 4 : 2));
    }
  }

  TEST_CASE("a widening cast takes one element at a time, one back takes vectors") {
    const auto kernels = kernels_in(casting_network(true), "pytorch", PrecisionMode::Bf16);
    const auto instructions = [&](const char* op) {
      return std::get<StreamWork>(kernels.at(op).front().work).instructions_per_element;
    };
    CHECK(instructions("norm.float") == find_framework("pytorch").kernels.strided_instructions);
    CHECK(instructions("norm.normalize") == 0);
  }

  TEST_CASE("gradients of softmax, powers and slices are composed where the framework composes") {
    GraphBuilder b("gradients", 1);
    TensorId x = b.linear_layer("in", b.input("x", {1, 8, 64}), 64, false);
    x = b.softmax("softmax", b.activation("square", x, "pow"));
    b.graph().outputs = {b.linear_layer("out", b.slice("part", x, {1, 2, 64}), 10, false)};
    const NetworkGraph graph = training(std::move(b).take());
    const auto eager = kernels_in(graph, "pytorch", PrecisionMode::Fp32);
    CHECK(names(eager.at("softmax bwd")) == Names{"y_times_dy", "backward"});
    CHECK(names(eager.at("square bwd")) == Names{"power", "scale", "activation_grad"});
    CHECK(names(eager.at("part bwd")) == Names{"clear", "copy"});
    // 512 values: x in and out, in and out again, then with dy.
    CHECK(bytes(eager.at("square bwd")) == 512 * 4 * (2 + 2 + 3));
    CHECK(bytes(eager.at("part bwd")) == 512 * 4 + 128 * 4 * 2);
    const auto whole = kernels_in(graph, "tensorflow", PrecisionMode::Fp32);
    CHECK(names(whole.at("softmax bwd")) == Names{"backward"});
    CHECK(names(whole.at("square bwd")) == Names{"activation_grad"});
    CHECK(names(whole.at("part bwd")) == Names{"copy"});
  }

  TEST_CASE("rows of a tensor are a view of it where frameworks give views") {
    GraphBuilder b("rows", 1);
    TensorId x = b.linear_layer("in", b.input("x", {8, 64}), 64, false);
    x = b.slice("whole", b.slice("rows", x, {2, 64}), {2, 64});
    b.graph().outputs = {b.linear_layer("out", b.slice("columns", x, {2, 16}), 10, false)};
    const NetworkGraph graph = std::move(b).take();
    const auto eager = kernels_in(graph, "pytorch", PrecisionMode::Fp32);
    CHECK(eager.at("rows").empty());
    CHECK(names(eager.at("whole")) == Names{"copy"});
    CHECK(names(eager.at("columns")) == Names{"copy"});
    CHECK(names(kernels_in(graph, "tensorflow", PrecisionMode::Fp32).at("rows")) == Names{"copy"});
  }

  TEST_CASE("a slice that readers take as it lies is a view where frameworks give views") {
    GraphBuilder b("views", 1);
    const TensorId x = b.linear_layer("in", b.input("x", {8, 64}), 64, false);
    b.graph().outputs = {b.linear_layer("out", b.slice_view("columns", x, {8, 16}), 10, false)};
    const NetworkGraph graph = training(std::move(b).take());
    const auto eager = kernels_in(graph, "pytorch", PrecisionMode::Fp32);
    CHECK(eager.at("columns").empty());
    CHECK(names(eager.at("columns bwd")) == Names{"clear", "copy"});
    CHECK(names(kernels_in(graph, "tensorflow", PrecisionMode::Fp32).at("columns")) ==
          Names{"copy"});
  }

  TEST_CASE("the gradient of a resize between pixels is added up by atomic additions") {
    const auto gradient = [](const char* mode) {
      GraphBuilder b("resize", 2);
      const TensorId x =
          b.conv_layer("conv", b.input("x", {2, 3, 8, 8}), 4, Window::square(1), false);
      b.graph().outputs = {b.resize("grown", x, {2, 4, 32, 32}, mode)};
      return kernels_in(training(std::move(b).take()), "pytorch", PrecisionMode::Bf16)
          .at("grown bwd");
    };
    const auto linear = gradient("linear");
    CHECK(names(linear) == Names{"clear", "resize_add"});
    // Each of 2 x 4 x 32 x 32 gradients goes to four of 2 x 4 x 8 x 8.
    CHECK(std::get<StreamWork>(linear.back().work).additions == 4 * 8192);
    CHECK(linear.back().written == Bytes(2 * 512));
    CHECK(std::get<StreamWork>(gradient("cubic").back().work).additions == 16 * 8192);
    CHECK(std::get<StreamWork>(gradient("nearest").back().work).additions == 0);
  }

  TEST_CASE(
      "ids of many rows are sorted before their gradients are summed, where the framework sorts") {
    const auto launches = [](std::int64_t ids, const char* framework) {
      GraphBuilder b("rows", 1);
      const TensorId x = b.embedding_layer("table", b.input("ids", {1, ids}, true), 100, 16);
      b.graph().outputs = {b.linear_layer("out", x, 10, false)};
      return kernels_in(training(std::move(b).take()), framework, PrecisionMode::Fp32)
          .at("table bwd")
          .back()
          .more_launches;
    };
    CHECK(launches(3072, "pytorch") == 0);
    CHECK(launches(3073, "pytorch") == 29);
    CHECK(launches(3073, "tensorflow") == 0);
  }

  TEST_CASE("a depthwise convolution of an image that lies channels last needs no other layout") {
    const auto kernels_of = [](bool channels_last, const char* framework) {
      GraphBuilder b("depthwise", 2);
      const TensorId y = b.conv_layer("conv", b.input("x", {2, 64, 14, 14}), 64,
                                      Window::square(7, 1, 3), false, 64);
      if (channels_last) b.lay_channels_last(y);
      b.graph().outputs = {y};
      return kernels_in(std::move(b).take(), framework, PrecisionMode::Bf16).at("conv");
    };
    CHECK(names(kernels_of(true, "pytorch_2")) == Names{"conv"});
    CHECK(names(kernels_of(false, "pytorch_2")) == Names{"conv"});
    const auto library = [&](bool channels_last) {
      const ConvWork work = std::get<ConvWork>(kernels_of(channels_last, "pytorch_2").front().work);
      return is_library_depthwise(work.shape, work.cudnn_version);
    };
    CHECK(library(true));
    CHECK_FALSE(library(false));
  }
}
