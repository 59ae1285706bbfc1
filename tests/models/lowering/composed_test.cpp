#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/lowering/lower.hpp"
#include "tests/models/lowering/gpus.hpp"
#include "tests/models/lowering/lowered.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

std::vector<std::string> composed_ops(std::string_view framework, std::string_view version) {
  const SoftwareDefaults defaults =
      binary().defaults_of(find_framework(framework), {.version = version, .date = {}}, volta());
  std::vector<std::string> ops;
  for (const ComposedKernels& one : defaults.composed) ops.push_back(one.op);
  return ops;
}

}  // namespace

TEST_SUITE("models/lowering/composed") {
  TEST_CASE("versions decide which ops are composed") {
    CHECK(composed_ops("tensorflow", "1.15") == Names{"layer_norm", "gelu", "adamw", "lamb"});
    CHECK(composed_ops("tensorflow", "2.4") == Names{"gelu"});
    // A container of NVIDIA's with TensorFlow 1 runs the same scripts.
    CHECK(composed_ops("tensorflow", "NGC 19.08") == Names{"layer_norm", "gelu", "adamw", "lamb"});
    CHECK(composed_ops("pytorch", "1.3") == Names{"gelu"});
    CHECK(composed_ops("pytorch", "1.4").empty());
    CHECK(composed_ops("mxnet", "1.4") == Names{"layer_norm", "gelu"});
    CHECK(composed_ops("mxnet", "1.5").empty());
    CHECK(composed_ops("pytorch", "").empty());
  }

  TEST_CASE("an op that is composed is so many kernels, and so many ops of the host") {
    FrameworkProfile plain = find_framework("tensorflow");
    FrameworkProfile composing = plain;
    composing.kernels.composed = {{"layer_norm", 8, 20}, {"gelu", 8, 13}, {"lamb", 26, 1, true}};
    const NetworkGraph graph = training(varied_network(), OptimizerKind::Lamb);
    const auto one = kernels_by_op(graph, lower(graph, plain, volta(), {}));
    const auto many = kernels_by_op(graph, lower(graph, composing, volta(), {}));
    CHECK(one.at("layer_norm").size() == 1);
    CHECK(many.at("layer_norm").size() == 8);
    CHECK(many.at("layer_norm bwd").size() == 20);
    CHECK(many.at("gelu").size() == 8);
    CHECK(many.at("gelu bwd").size() == 13);
    // Eight passes that read one and a half tensors and write one.
    CHECK(bytes(many.at("gelu")) == doctest::Approx(8 * 2.5 * 4 * (4 * 64)));
    CHECK(many.at("relu").size() == one.at("relu").size());
    for (const Op& op : graph.ops()) {
      const double more = op.name == "layer_norm"       ? 8
                          : op.name == "gelu"           ? 8
                          : op.name == "layer_norm bwd" ? 20
                          : op.pass == Pass::Update     ? 26
                                                        : 1;
      if (more == 1 || op.name.starts_with("layer_norm")) continue;
      CAPTURE(op.name);
      CHECK(dispatch_time(op, composing, true) / dispatch_time(op, plain, true) ==
            doctest::Approx(more));
    }
  }

  TEST_CASE("a compiler makes its own kernels of what scripts compose") {
    FrameworkProfile xla = find_compiled_framework("tensorflow", "xla");
    const NetworkGraph graph = training(varied_network());
    const auto before = kernels_by_op(graph, lower(graph, xla, volta(), {}));
    xla.kernels.composed = {{"layer_norm", 8, 20}, {"gelu", 8, 13}};
    CHECK(names(kernels_by_op(graph, lower(graph, xla, volta(), {})).at("gelu")) ==
          names(before.at("gelu")));
  }

  TEST_CASE("a compiler that pads runs GEMMs of odd sizes as if they were even") {
    const auto head = [](std::int64_t words) {
      GraphBuilder b("head", 1);
      const TensorId x = b.input("x", {4096, 768});
      b.graph().outputs = {b.linear_layer("logits", x, words, false)};
      return std::move(b).take();
    };
    const FrameworkProfile& inductor = find_framework("pytorch_compile");
    const NetworkGraph odd = head(50257), even = head(50264);
    const LoweringOptions half{.precision = PrecisionMode::Fp16};
    const auto of_odd = kernels_by_op(odd, lower(odd, inductor, volta(), half)).at("logits");
    const auto of_even = kernels_by_op(even, lower(even, inductor, volta(), half)).at("logits");
    const auto is_pad = [](const Kernel& kernel) { return kernel.name == "pad"; };
    CHECK(std::count_if(of_odd.begin(), of_odd.end(), is_pad) == 1);  // of the weight
    CHECK(std::count_if(of_even.begin(), of_even.end(), is_pad) == 0);
    CHECK(of_odd.back().flops.in_flop() == of_even.back().flops.in_flop());
    // Eager mode asks the library as it is.
    const FrameworkProfile& eager = find_framework("pytorch_2");
    const auto as_is = kernels_by_op(odd, lower(odd, eager, volta(), half)).at("logits");
    CHECK(std::count_if(as_is.begin(), as_is.end(), is_pad) == 0);
    CHECK(as_is.back().flops.in_flop() == doctest::Approx(2.0 * 4096 * 768 * 50257));
  }

  TEST_CASE("operands of a recipe go through its passes") {
    GpuSpec gpu = ampere();
    gpu.architecture = Architecture::Blackwell;
    gpu.peaks.push_back({Precision::Fp8, MathUnit::TensorCore, 1000.0_TFLOPps});
    gpu.peaks.push_back({Precision::Fp4, MathUnit::TensorCore, 2000.0_TFLOPps});
    GraphBuilder b("layer", 1);
    TensorId x = b.linear_layer("first", b.input("x", {512, 256}), 256, false);
    b.graph().outputs = {b.linear_layer("second", x, 1024, false)};
    const NetworkGraph graph = training(std::move(b).take());
    FrameworkProfile framework = find_framework("megatron");
    framework.precision.recipe = binary().find_precision_recipe_or_null("nvfp4")->gemms;
    const auto kernels =
        kernels_by_op(graph, lower(graph, framework, gpu, {.precision = PrecisionMode::Fp8}));
    // Weight: greatest value, cast; input: greatest value, straight, turned.
    CHECK(names(kernels.at("second")) == Names{"operand_greatest", "operand_cast",
                                               "operand_greatest", "operand_cast", "operand_cast",
                                               "gemm"});
    CHECK(kernels.at("second").back().math == Precision::Fp4);
    CHECK(names(kernels.at("second dgrad")) ==
          Names{"operand_greatest", "operand_cast", "operand_cast", "gemm"});
    // 16 bits read twice; two copies of half a byte and a sixteenth for scales each.
    const double elements = 512 * 256;
    CHECK(kernels.at("second")[3].bytes().in_bytes() ==
          doctest::Approx(elements * (2 + 0.5 + 1.0 / 16)));
  }
}
