#include "models/lowering/engine_layers.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "models/lowering/lower.hpp"
#include "models/ops.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/models/lowering/gpus.hpp"
#include "tests/models/lowering/lowered.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

/// Kernels of the ops whose names begin so, in order.
std::vector<Kernel> kernels_of(const NetworkGraph& graph, const GpuTraits& gpu,
                               PrecisionMode precision, const std::string& prefix) {
  const LoweredStep step = lower(graph, find_framework("tensorrt"), gpu, {.precision = precision});
  std::vector<Kernel> found;
  for (const LoweredOp& op : step.ops) {
    if (!graph.op(op.op).name.starts_with(prefix)) continue;
    for (const Kernel& kernel : op.candidates.front().kernels) found.push_back(kernel);
  }
  return found;
}

std::vector<std::string> classes(const std::vector<Kernel>& kernels) {
  std::vector<std::string> list;
  for (const Kernel& kernel : kernels) list.emplace_back(to_string(kernel.kernel_class));
  return list;
}

constexpr double kBertTokens = 8.0 * 128, kBertWidth = 768;

NetworkGraph bert() { return build_network("bert_base", {.batch = 8, .seq_len = 128}); }

}  // namespace

TEST_SUITE("models/lowering/engine_layers") {
  TEST_CASE("an engine's convolutions transform filters and tabulate offsets when it is built") {
    const NetworkGraph graph = build_network("resnet18", {.batch = 1});
    for (const PrecisionMode precision : {PrecisionMode::Fp32, PrecisionMode::Fp16}) {
      const LoweredStep step =
          lower(graph, find_framework("tensorrt"), test::volta(), {.precision = precision});
      int spectra = 0;
      for (const LoweredOp& op : step.ops) {
        for (const Candidate& candidate : op.candidates) {
          for (const Kernel& kernel : candidate.kernels) {
            CAPTURE(kernel.name);
            CHECK(kernel.name != "offsets");
            CHECK(kernel.name != "filter_tf");
            CHECK(kernel.name != "flip_filter");
            if (kernel.name == "data_tf") ++spectra;
          }
        }
      }
      CHECK(spectra > 0);
    }
  }

  TEST_CASE("a layer of BERT is seven kernels: attention in one, one GEMM of three, two norms") {
    for (const PrecisionMode precision : {PrecisionMode::Fp16, PrecisionMode::Int8}) {
      const auto kernels = kernels_of(bert(), test::ampere(), precision, "layer.3.");
      CHECK(classes(kernels) ==
            Names{"gemm", "attention", "gemm", "normalization", "gemm", "gemm", "normalization"});
      REQUIRE(kernels.size() == 7);
      CHECK(std::get<MatrixWork>(kernels[0].work).n == 3 * 768);
      const auto& shape = std::get<AttentionWork>(kernels[1].work).shape;
      CHECK(shape.batch * shape.heads == 8 * 12);
      CHECK(shape.queries == 128);
      CHECK(shape.keys == 128);
      CHECK(shape.width == 64);
      const bool integers = precision == PrecisionMode::Int8;
      const double element = integers ? 1 : 2;
      for (const Kernel& kernel : kernels) {
        CHECK(kernel.is_chained);
        if (kernel.unit != MathUnit::TensorCore) continue;
        CHECK(kernel.math == (integers ? Precision::Int8 : Precision::Fp16));
      }
      // The norm reads the GEMM's result, the residual and two vectors, and writes one tensor.
      const double tensor = element * kBertTokens * kBertWidth;
      CHECK(kernels[3].read.in_bytes() == doctest::Approx(2 * tensor).epsilon(0.01));
      CHECK(kernels[3].written.in_bytes() == doctest::Approx(tensor));
      // Attention reads queries, keys, values and a mask, and writes as much as one of them.
      CHECK(kernels[1].read.in_bytes() == doctest::Approx(3 * tensor).epsilon(0.01));
      CHECK(kernels[1].written.in_bytes() == doctest::Approx(tensor));
    }
  }

  TEST_CASE("rows of tables, their sums and the norm after them are one kernel") {
    const auto kernels = kernels_of(bert(), test::ampere(), PrecisionMode::Fp16, "embeddings");
    REQUIRE(kernels.size() == 1);
    CHECK(kernels[0].kernel_class == KernelClass::Normalization);
    CHECK(kernels[0].written.in_bytes() == doctest::Approx(2 * kBertTokens * kBertWidth));
  }

  TEST_CASE("without a fused kernel heads are read as they lie, scale and mask cost nothing") {
    const auto kernels = kernels_of(bert(), test::volta(), PrecisionMode::Fp16, "layer.3.");
    CHECK(classes(kernels) == Names{"gemm", "batched_gemm", "softmax", "batched_gemm", "gemm",
                                    "normalization", "gemm", "gemm", "normalization"});
  }

  TEST_CASE("a framework runs the same ops one by one") {
    const NetworkGraph graph = bert();
    const LoweredStep step =
        lower(graph, find_framework("pytorch"), test::ampere(), {.precision = PrecisionMode::Fp16});
    std::size_t kernels = 0;
    for (const LoweredOp& op : step.ops) {
      for (const Kernel& kernel : op.candidates.front().kernels) {
        ++kernels;
        CHECK_FALSE(kernel.is_chained);
      }
    }
    CHECK(kernels > 12 * 15);
  }

  TEST_CASE("a norm writes the sum in front of it where something else reads it") {
    GraphBuilder b("pre_norm", 4);
    const TensorId in = b.input("x", {4, 16, 64});
    const TensorId first = b.linear_layer("first", in, 64, true);
    const TensorId sum = b.add("sum", first, in);
    const TensorId normed = b.layer_norm_layer("norm", sum);
    const TensorId second = b.linear_layer("second", normed, 64, true);
    b.graph().outputs = {b.layer_norm_layer("last", b.add("again", second, sum))};
    const NetworkGraph graph = std::move(b).take();
    CHECK(kernels_of(graph, test::ampere(), PrecisionMode::Fp16, "sum").empty());
    const auto norm = kernels_of(graph, test::ampere(), PrecisionMode::Fp16, "norm");
    REQUIRE(norm.size() == 1);
    CHECK(norm[0].written.in_bytes() == 2 * 2.0 * 4 * 16 * 64);
  }

  TEST_CASE("parts of a concatenation are written to their places unless something else reads") {
    GraphBuilder b("joined", 4);
    const TensorId in = b.input("x", {4, 32, 8, 8});
    const TensorId left = b.conv_layer("left", in, 32, Window::square(1, 1, 0), true);
    const TensorId right = b.conv_layer("right", in, 32, Window::square(1, 1, 0), true);
    const TensorId parts[] = {left, right};
    const TensorId joined = b.concat("joined", parts, 1);
    const TensorId more[] = {joined, right};
    b.graph().outputs = {b.concat("more", more, 1)};
    const NetworkGraph graph = std::move(b).take();
    const auto kernels = kernels_of(graph, test::ampere(), PrecisionMode::Fp16, "joined");
    REQUIRE(kernels.size() == 1);
    CHECK(kernels[0].written.in_bytes() == 2.0 * 4 * 32 * 8 * 8);  // `right` alone
  }

  TEST_CASE("batch norm behind no convolution scales in a kernel of its own") {
    GraphBuilder b("pre_activation", 4);
    TensorId x = b.input("x", {4, 32, 8, 8});
    x = b.batch_norm_layer("first_bn", x);
    x = b.activation("first_relu", x, "relu");
    x = b.batch_norm_layer("bn", b.conv_layer("conv", x, 32, Window::square(3, 1, 1), false));
    b.graph().outputs = {b.activation("relu", x, "relu")};
    const NetworkGraph graph = std::move(b).take();
    const auto count = [&](const char* prefix) {
      return kernels_of(graph, test::ampere(), PrecisionMode::Fp16, prefix).size();
    };
    CHECK(count("first_bn") == 1);
    CHECK(count("first_relu") == 0);
    CHECK(count("bn") == 0);
    CHECK(count("relu") == 0);
  }

  TEST_CASE("int8 takes both ends of a network, and no kernel only casts") {
    const NetworkGraph graph = build_network("resnet50", {.batch = 8});
    const LoweredStep step = lower(graph, find_framework("tensorrt"), test::ampere(),
                                   {.precision = PrecisionMode::Int8});
    for (const LoweredOp& op : step.ops) {
      CAPTURE(graph.op(op.op).name);
      for (const Kernel& kernel : op.candidates.front().kernels) {
        CHECK(kernel.name != "quantize");
        CHECK(kernel.name != "dequantize");
        if (kernel.unit == MathUnit::TensorCore) CHECK(kernel.math == Precision::Int8);
      }
    }
    // Three channels fill a word of four, not a vector of 32.
    const Kernel& first = step.ops.front().candidates.front().kernels.front();
    CHECK(std::get<ConvWork>(first.work).shape.c == 4);
  }
}
