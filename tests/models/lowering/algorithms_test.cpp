#include "models/lowering/lower.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "models/ops.hpp"
#include "tests/models/lowering/gpus.hpp"
#include "tests/models/lowering/lowered.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_SUITE("models/lowering/algorithms") {
  TEST_CASE("an algorithm exists from the cuDNN on that brought it") {
    const NetworkGraph graph = training(varied_network());
    const auto algorithms = [&](double version, const char* name) {
      FrameworkProfile framework = find_framework("torch7");
      framework.convolutions.cudnn_version = version;
      const LoweredStep step = lower(graph, framework, test::kepler(), {});
      std::set<Algorithm> found;
      for (const LoweredOp& op : step.ops) {
        if (graph.op(op.op).name != name) continue;
        for (const Candidate& candidate : op.candidates) found.insert(candidate.algorithm);
      }
      return found;
    };
    const std::set<Algorithm> oldest{Algorithm::ImplicitGemm, Algorithm::ImplicitPrecomputedGemm,
                                     Algorithm::ExplicitGemm};
    CHECK(algorithms(2, "conv") == oldest);
    CHECK(algorithms(3, "conv").contains(Algorithm::Fft));
    CHECK_FALSE(algorithms(3, "conv").contains(Algorithm::FftTiling));
    CHECK(algorithms(4, "conv").contains(Algorithm::FftTiling));
    CHECK_FALSE(algorithms(4, "conv").contains(Algorithm::WinogradFused));
    CHECK(algorithms(5, "conv").contains(Algorithm::WinogradFused));
    CHECK_FALSE(algorithms(5, "conv").contains(Algorithm::WinogradNonfused));
    CHECK(algorithms(5.1, "conv").contains(Algorithm::WinogradNonfused));
    CHECK_FALSE(algorithms(5.1, "conv wgrad").contains(Algorithm::FftTiling));
    CHECK(algorithms(6, "conv wgrad").contains(Algorithm::FftTiling));
  }

  TEST_CASE("TensorFlow turns its filters round every convolution") {
    const NetworkGraph graph = training(varied_network());
    const auto kernels =
        kernels_by_op(graph, lower(graph, find_framework("tensorflow"), test::kepler(), {}));
    CHECK(names(kernels.at("conv")) == Names{"filter_layout", "conv", "bias_add"});
    CHECK(names(kernels.at("conv wgrad")) ==
          Names{"clear", "conv", "filter_layout", "bias_gradient"});
  }

  TEST_CASE("TensorFlow evens out a padding that the library does not know") {
    GraphBuilder b("even", 4);
    const TensorId x = b.weight("x", {4, 8, 16, 16});
    Window window = Window::square(2);
    window.pads = same_padding(16, 16, window);  // one row below, one column to the right
    const TensorId y = b.conv_layer("conv", x, 16, window, false);
    b.graph().outputs = {y};
    const NetworkGraph graph = training(std::move(b).take());
    const auto kernels =
        kernels_by_op(graph, lower(graph, find_framework("tensorflow"), test::kepler(), {}));
    CHECK(names(kernels.at("conv")) == Names{"filter_layout", "pad", "conv"});
    CHECK(names(kernels.at("conv wgrad")) == Names{"pad", "clear", "conv", "filter_layout"});
    CHECK(names(kernels.at("conv dgrad")) == Names{"filter_layout", "clear", "conv", "crop"});
    // 32 planes of 16x16 become 17x17.
    CHECK(bytes({kernels.at("conv")[1]}) == 4.0 * 32 * (16 * 16 + 17 * 17));
    const auto pytorch =
        kernels_by_op(graph, lower(graph, find_framework("pytorch"), test::kepler(), {}));
    CHECK(names(pytorch.at("conv")) == Names{"conv"});
  }

  TEST_CASE("an image of one channel lies alike in NHWC and NCHW") {
    for (const std::int64_t channels : {1, 2}) {
      GraphBuilder b("thin", 4);
      const TensorId x = b.input("x", {4, channels, 16, 16});
      const TensorId y = b.conv_layer("conv", x, 16, Window::square(3, 1, 1), false);
      b.graph().outputs = {y};
      const NetworkGraph graph = std::move(b).take();
      FrameworkProfile framework = find_framework("tensorflow");
      framework.convolutions.image_layout = ImageLayout::Nhwc;
      const auto kernels = kernels_by_op(graph, lower(graph, framework, test::kepler(), {}));
      // The filter's turn is one of to_nchw; no filter_layout besides.
      CHECK(names(kernels.at("conv")) == (channels == 1
                                              ? Names{"to_nchw", "conv", "to_nhwc"}
                                              : Names{"to_nchw", "to_nchw", "conv", "to_nhwc"}));
    }
  }

  TEST_CASE("TensorFlow leaves tiled FFT to gradients of data") {
    const NetworkGraph graph = training(varied_network());
    const auto has_tiled_fft = [&](const char* framework, const char* name) {
      const LoweredStep step = lower(graph, find_framework(framework), test::kepler(), {});
      return std::any_of(step.ops.begin(), step.ops.end(), [&](const LoweredOp& op) {
        return graph.op(op.op).name == name &&
               std::any_of(op.candidates.begin(), op.candidates.end(),
                           [](const Candidate& c) { return c.algorithm == Algorithm::FftTiling; });
      });
    };
    CHECK_FALSE(has_tiled_fft("tensorflow", "conv"));
    CHECK_FALSE(has_tiled_fft("tensorflow", "conv wgrad"));
    CHECK(has_tiled_fft("pytorch", "conv"));
    CHECK(has_tiled_fft("pytorch", "conv wgrad"));
  }

  TEST_CASE("a framework that never asks for non-fused Winograd does not get it") {
    GraphBuilder b("three", 8);
    b.graph().outputs = {b.conv_layer("conv", b.input("images", {8, 64, 28, 28}), 64,
                                      Window::square(3, 1, 1), false)};
    const NetworkGraph graph = std::move(b).take();
    const auto offers = [&](bool avoids) {
      FrameworkProfile framework = find_framework("generic");
      framework.convolutions.avoids_nonfused_winograd = avoids;
      const LoweredStep step = lower(graph, framework, test::volta(), {});
      const auto& candidates = step.ops.front().candidates;
      return std::any_of(candidates.begin(), candidates.end(), [](const Candidate& c) {
        return c.algorithm == Algorithm::WinogradNonfused;
      });
    };
    CHECK(offers(false));
    CHECK_FALSE(offers(true));
  }

  TEST_CASE("the heuristic leaves non-fused Winograd out where padding costs what it saves") {
    struct Row {
      const char* what;
      std::int64_t batch;
      PrecisionMode precision;
      bool autotunes;
      bool forward, data, weights;  ///< passes that may take it
    };
    // 28x28 pixels, per image or 16 of them: 36 * 49 = 1764 multiplications against 16 * 196 = 3136
    // of fused Winograd; padded to 16 images, 9 are the first that save any: 16 * 1764 = 28224 = 9
    // * 3136.
    const Row rows[] = {
        {"one image", 1, PrecisionMode::Fp32, false, false, false, true},
        {"9 images: as many multiplications", 9, PrecisionMode::Fp32, false, false, false, true},
        {"10 images: fewer", 10, PrecisionMode::Fp32, false, true, true, true},
        {"tried out, all run", 1, PrecisionMode::Fp32, true, true, true, true},
        {"half width was not looked at", 1, PrecisionMode::Fp16, false, true, true, true},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      GraphBuilder b("three", row.batch);
      const TensorId images = b.input("images", {row.batch, 16, 28, 28});
      const TensorId first = b.conv_layer("first", images, 64, Window::square(1, 1, 0), false);
      b.graph().outputs = {b.conv_layer("conv", first, 64, Window::square(3, 1, 1), false)};
      const NetworkGraph graph = training(std::move(b).take());
      FrameworkProfile framework = find_framework("pytorch");
      framework.convolutions.autotunes = row.autotunes;
      const LoweredStep step = lower(graph, framework, test::volta(), {.precision = row.precision});
      const auto offers = [&](std::string_view name) {
        return std::any_of(step.ops.begin(), step.ops.end(), [&](const LoweredOp& op) {
          return graph.op(op.op).name == name &&
                 std::any_of(op.candidates.begin(), op.candidates.end(), [](const Candidate& c) {
                   return c.algorithm == Algorithm::WinogradNonfused;
                 });
        });
      };
      CHECK(offers("conv") == row.forward);
      CHECK(offers("conv dgrad") == row.data);
      CHECK(offers("conv wgrad") == row.weights);
    }
  }

  TEST_CASE(
      "on Ampere's tensor cores the heuristic leaves Winograd out, and 16-bit images are turned "
      "first") {
    const auto algorithms = [](std::int64_t window, PrecisionMode precision, bool autotunes) {
      GraphBuilder b("one", 16);
      b.graph().outputs = {b.conv_layer("conv", b.input("images", {16, 64, 28, 28}), 64,
                                        Window::square(window, 1, window / 2), false)};
      FrameworkProfile framework = find_framework("pytorch");
      framework.convolutions.autotunes = autotunes;
      const LoweredStep step =
          lower(std::move(b).take(), framework, test::ampere(), {.precision = precision});
      std::set<std::pair<Algorithm, MathUnit>> found;
      for (const Candidate& c : step.ops.front().candidates) {
        for (const Kernel& kernel : c.kernels) found.insert({c.algorithm, kernel.unit});
      }
      return found;
    };
    const std::pair winograd{Algorithm::WinogradNonfused, MathUnit::TensorCore};
    CHECK_FALSE(algorithms(3, PrecisionMode::Tf32, false).contains(winograd));
    CHECK(algorithms(3, PrecisionMode::Tf32, true).contains(winograd));
    CHECK(algorithms(3, PrecisionMode::Fp32, false)
              .contains({Algorithm::WinogradNonfused, MathUnit::CudaCore}));
    // A 1x1 filter multiplies the images as they lie in TF32 alone.
    const std::pair gemm{Algorithm::ExplicitGemm, MathUnit::TensorCore};
    CHECK(algorithms(1, PrecisionMode::Tf32, false).contains(gemm));
    CHECK_FALSE(algorithms(1, PrecisionMode::Fp16, false).contains(gemm));
  }
}
