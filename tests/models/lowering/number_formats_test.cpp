#include "models/lowering/lower.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "models/ops.hpp"
#include "tests/models/lowering/gpus.hpp"
#include "tests/models/lowering/lowered.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_SUITE("models/lowering/number_formats") {
  TEST_CASE("TF32 of convolutions alone leaves GEMMs in FP32, without casts") {
    const NetworkGraph graph = training(varied_network());
    FrameworkProfile framework = find_framework("pytorch");
    framework.precision.tf32_gemms = false;
    const LoweredStep step =
        lower(graph, framework, test::ampere(), {.precision = PrecisionMode::Tf32});
    bool on_tensor_cores = false;  // a convolution, in any of its algorithms
    int gemms = 0;
    for (const LoweredOp& op : step.ops) {
      for (const Kernel& kernel : op.candidates.front().kernels) {
        CHECK(kernel.name.find("cast") == std::string::npos);
        if (kernel.kernel_class != KernelClass::Gemm) continue;
        ++gemms;
        CHECK(kernel.math == Precision::Fp32);
        CHECK(kernel.unit == MathUnit::CudaCore);
      }
      for (const Candidate& candidate : op.candidates) {
        for (const Kernel& kernel : candidate.kernels) {
          on_tensor_cores = on_tensor_cores || kernel.unit == MathUnit::TensorCore;
        }
      }
    }
    CHECK(on_tensor_cores);
    CHECK(gemms == 6);  // two layers, each forward, data and weight gradient
  }

  TEST_CASE("autocast keeps what its list names in fp32, and promotes to the widest input") {
    const NetworkGraph graph = varied_network();
    const auto widths = [&](const char* framework) {
      std::map<std::string, Precision> found;
      const LoweredStep step =
          lower(graph, find_framework(framework), test::volta(), {.precision = PrecisionMode::Amp});
      for (const auto& [name, kernels] : kernels_by_op(graph, step)) {
        if (!kernels.empty()) found[name] = kernels.back().data;
      }
      return found;
    };
    const auto pytorch = widths("pytorch"), tensorflow = widths("tensorflow");
    for (const auto* low_precision :
         {"conv", "bn", "relu", "residual", "max_pool", "hidden", "gelu"}) {
      CAPTURE(low_precision);
      CHECK(pytorch.at(low_precision) == Precision::Fp16);
      CHECK(tensorflow.at(low_precision) == Precision::Fp16);
    }
    for (const auto* wide : {"layer_norm", "mystery", "softmax"}) {
      CAPTURE(wide);
      CHECK(pytorch.at(wide) == Precision::Fp32);
    }
    // TensorFlow's list leaves softmax to what surrounds it.
    CHECK(tensorflow.at("softmax") == Precision::Fp16);
  }

  TEST_CASE("the input and every other activation is cast where its format changes, once") {
    const NetworkGraph graph = varied_network();
    const auto casts = [&](PrecisionMode mode) {
      std::vector<std::string> found;
      for (const auto& [name, kernels] : kernels_by_op(
               graph,
               lower(graph, find_framework("pytorch"), test::volta(), {.precision = mode}))) {
        for (const Kernel& kernel : kernels) {
          if (kernel.name == "cast") found.push_back(name);
        }
      }
      return found;
    };
    // In order of names: the image, the layer norm's input, its result, the softmax's input.
    CHECK(casts(PrecisionMode::Amp) == Names{"conv", "layer_norm", "logits", "softmax"});
    CHECK(casts(PrecisionMode::Fp16).empty());  // the whole network and its input are half
    CHECK(casts(PrecisionMode::Fp32).empty());
  }

  TEST_CASE("an eager sum of two formats is one kernel that reads each as it is kept") {
    GraphBuilder b("residual", 2);
    const TensorId x = b.input("x", {2, 64});
    const TensorId y = b.linear_layer("linear", x, 64, false);
    b.graph().outputs = {b.binary("sum", "add", std::array{x, y})};
    const NetworkGraph graph = std::move(b).take();
    const auto sum = [&](const char* framework) {
      const LoweredStep step = lower(graph, find_framework(framework), test::ampere(),
                                     {.precision = PrecisionMode::Amp});
      return kernels_by_op(graph, step).at("sum");
    };
    // The input is fp32, the layer's result fp16, the sum fp32.
    const auto eager = sum("pytorch_2");
    REQUIRE(names(eager) == Names{"combine"});
    CHECK(eager.front().read == Bytes(128 * (4 + 2)));
    CHECK(eager.front().written == Bytes(128 * 4));
    CHECK(names(sum("tensorflow")) == Names{"cast", "combine"});
  }

  TEST_CASE("dynamic loss scaling looks at every gradient, and the host waits for the outcome") {
    const NetworkGraph graph = training(varied_network());
    const auto scaling = [&](const char* framework, PrecisionMode mode) {
      double bytes_seen = 0;
      Names found;
      for (const LoweredOp& op :
           lower(graph, find_framework(framework), test::volta(), {.precision = mode}).ops) {
        if (!op.host_waits) continue;
        for (const Kernel& kernel : op.candidates.front().kernels) {
          found.push_back(kernel.name);
          bytes_seen += kernel.bytes().in_bytes();
        }
      }
      return std::pair(found, bytes_seen);
    };
    const double parameters = static_cast<double>(graph.parameter_count());
    const auto [names, seen] = scaling("pytorch", PrecisionMode::Amp);
    // Far fewer than 110 gradients: one launch, fp32 gradients read and written; then the scale.
    CHECK(names == Names{"unscale_check", "update_scale"});
    CHECK(seen == doctest::Approx(8 * parameters + 20));
    // TensorFlow: 8 bytes of unscaling, 4 + 1 of the test, 1 of the reduction per element.
    const auto [each, seen_each] = scaling("tensorflow", PrecisionMode::Amp);
    CHECK((each.size() - 1) % 3 == 0);
    CHECK(seen_each >= 14 * parameters);
    CHECK(scaling("pytorch", PrecisionMode::Fp16).first.empty());
    CHECK(scaling("caffe", PrecisionMode::Amp).first.empty());
  }

  TEST_CASE("int8 runs the middle of a network in 8 bits, its ends and softmax wider") {
    const NetworkGraph graph = varied_network();
    FrameworkProfile engine = find_framework("tensorrt");
    engine.precision.quantizes_ends = false;  // as calibration recipes have it
    engine.fusion.layers = false;             // so that casts are kernels
    const auto kernels = kernels_by_op(
        graph, lower(graph, engine, test::ampere(), {.precision = PrecisionMode::Int8}));
    const auto data = [&](const char* name) { return kernels.at(name).back().data; };
    CHECK(data("conv") == Precision::Fp16);  // reads the image
    CHECK(data("hidden") == Precision::Int8);
    CHECK(kernels.at("hidden").back().unit == MathUnit::TensorCore);
    CHECK(kernels.at("hidden").front().name == "quantize");
    CHECK(data("logits") == Precision::Fp16);  // makes the result
    CHECK(data("softmax") == Precision::Fp16);
    // Without half tensor cores the wider format is fp32.
    const auto on_pascal = kernels_by_op(graph, lower(graph, engine, test::pascal_with_slow_half(),
                                                      {.precision = PrecisionMode::Int8}));
    CHECK(on_pascal.at("conv").back().data == Precision::Fp32);
    CHECK(on_pascal.at("hidden").back().unit == MathUnit::CudaCore);
  }

  TEST_CASE("half GEMMs off the tensor cores are computed in fp32, convolutions are not") {
    const NetworkGraph graph = varied_network();
    const auto kernels =
        kernels_by_op(graph, lower(graph, find_framework("pytorch"), test::pascal_with_fast_half(),
                                   {.precision = PrecisionMode::Fp16}));
    CHECK(kernels.at("hidden").front().math == Precision::Fp32);
    CHECK(kernels.at("hidden").front().data == Precision::Fp16);
    CHECK(kernels.at("conv").front().math == Precision::Fp16);
  }

  TEST_CASE("fp8 GEMMs cast their operands, in training with a transposed copy") {
    GraphBuilder b("two", 16);
    TensorId x = b.input("x", {16, 32});
    x = b.linear_layer("first", x, 64, false);
    x = b.linear_layer("second", x, 10, false);  // 10 is no multiple of 16
    b.graph().outputs = {x};
    const NetworkGraph forward = std::move(b).take(), step = training(forward);
    const LoweringOptions fp8{.precision = PrecisionMode::Fp8};
    const FrameworkProfile& pytorch = find_framework("pytorch");
    const auto infer = kernels_by_op(forward, lower(forward, pytorch, test::hopper(), fp8));
    CHECK(names(infer.at("first")) == Names{"operand_cast", "operand_cast", "gemm"});
    CHECK(infer.at("first").back().math == Precision::Fp8);
    CHECK(bytes({infer.at("first")[0]}) == 3.0 * 32 * 64);  // the weight: 2 read, 1 written
    // Operands of a byte, a result of two.
    CHECK(bytes({infer.at("first")[2]}) == 16 * 32 + 32 * 64 + 2 * 16 * 64);
    CHECK(infer.at("second").back().math == Precision::Bf16);
    const auto train = kernels_by_op(step, lower(step, pytorch, test::hopper(), fp8));
    CHECK(bytes({train.at("first")[1]}) == 4.0 * 16 * 32);  // 2 read, 2 written
    CHECK(names(train.at("first wgrad")).front() == "gemm");
  }

  TEST_CASE(
      "mixed precision casts each weight once per use and its gradient once, and runs GEMMs on "
      "tensor cores") {
    const NetworkGraph graph = training(varied_network());
    const LoweringOptions amp{.precision = PrecisionMode::Amp};
    const auto kernels =
        kernels_by_op(graph, lower(graph, find_framework("pytorch"), test::volta(), amp));
    // Layer norm is fp32 in autocast, and what follows keeps its width up to the next GEMM.
    CHECK(names(kernels.at("logits")) == Names{"cast", "weight_cast", "gemm", "bias_add"});
    // The gradient comes from the fp32 loss and is cast once, by the first who reads it.
    CHECK(names(kernels.at("logits dgrad")) == Names{"cast", "gemm"});
    CHECK(names(kernels.at("logits wgrad")) == Names{"gemm", "bias_gradient", "weight_cast"});
    CHECK(kernels.at("logits")[2].unit == MathUnit::TensorCore);
    CHECK(kernels.at("logits")[2].data == Precision::Fp16);
    CHECK(bytes({kernels.at("logits")[0]}) == 6.0 * 4 * 64);  // 4 in, 2 out
    CHECK(bytes({kernels.at("logits")[1]}) == 6.0 * 10 * 64);
    CHECK(kernels.at("update logits.weight").front().data == Precision::Fp32);
  }

  TEST_CASE(
      "PyTorch's own batch norm takes a network cast whole to float16, cuDNN one under autocast") {
    const NetworkGraph graph = training(varied_network());
    const auto first_kernel = [&](const char* framework, PrecisionMode mode) {
      const LoweredStep step =
          lower(graph, find_framework(framework), test::volta(), {.precision = mode});
      return kernels_by_op(graph, step).at("bn").front().name;
    };
    CHECK(first_kernel("pytorch", PrecisionMode::Fp16) == "own_statistics");
    CHECK(first_kernel("pytorch", PrecisionMode::Amp) != "own_statistics");
    CHECK(first_kernel("pytorch", PrecisionMode::Fp32) != "own_statistics");
    CHECK(first_kernel("tensorflow", PrecisionMode::Fp16) != "own_statistics");
  }

  TEST_CASE(
      "PyTorch divides to find the place of what is broadcast or moved, and of nothing else") {
    GraphBuilder b("moved", 4);
    TensorId x = b.input("x", {4, 8, 16, 32});
    x = b.mul("by_row", x, b.weight("w", {32}));
    x = b.mul("by_scalar", x, b.buffer("s", {}));
    x = b.add("twice", x, x);
    constexpr std::array<std::int64_t, 4> kAxes{0, 2, 1, 3};
    b.graph().outputs = {b.transpose("heads", x, kAxes)};
    const NetworkGraph graph = std::move(b).take();
    const auto instructions = [&](const char* framework, const char* op) {
      const LoweredStep step = lower(graph, find_framework(framework), test::ampere(), {});
      return std::get<StreamWork>(kernels_by_op(graph, step).at(op).front().work)
          .instructions_per_element;
    };
    for (const char* op : {"by_row", "heads"}) {
      CHECK(instructions("pytorch_2", op) > 0);
      CHECK(instructions("tensorflow", op) == 0);
      CHECK(instructions("megatron", op) == 0);
    }
    for (const char* op : {"by_scalar", "twice"}) CHECK(instructions("pytorch_2", op) == 0);
  }
}
