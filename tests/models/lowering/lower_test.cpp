#include "models/lowering/lower.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "models/lowering/dump.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/models/lowering/gpus.hpp"
#include "tests/models/lowering/lowered.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_SUITE("models/lowering/lower") {
  TEST_CASE("every op of a training step does work, except views and what fuses") {
    const NetworkGraph graph = training(varied_network());
    for (const std::string& framework : framework_ids()) {
      const FrameworkProfile& profile = find_framework(framework);
      const LoweredStep step = lower(graph, profile, test::volta(), {});
      for (const LoweredOp& lowered : step.ops) {
        const Op& op = graph.op(lowered.op);
        CAPTURE(framework);
        CAPTURE(op.name);
        REQUIRE_FALSE(lowered.candidates.empty());
        const bool may_be_empty =
            op.kind == OpKind::Reshape || profile.compiler ||
            (op.kind == OpKind::Binary && op.pass == Pass::Backward &&
             profile.backward.adds_gradients_in_convolutions) ||
            (op.kind == OpKind::Activation &&
             (profile.fusion.activations || profile.fusion.batch_norm_activation));
        for (const Candidate& candidate : lowered.candidates) {
          CHECK((may_be_empty || !candidate.kernels.empty()));
          for (const Kernel& kernel : candidate.kernels) {
            CAPTURE(kernel.name);
            CHECK(kernel.bytes().in_bytes() > 0);
            CHECK(kernel.flops.in_flop() >= 0);
            CHECK(kernel.name.size() <= 15);
            CHECK(kernel.is_bounded_guess == (op.kind == OpKind::Unknown));
          }
        }
      }
    }
  }

  TEST_CASE(
      "a residual sum runs in a batch norm's kernel of 16 bits, with the activation after it") {
    GraphBuilder b("residual", 2);
    TensorId x = b.input("images", {2, 8, 16, 16});
    x = b.conv_layer("first", x, 8, Window::square(3, 1, 1), false);
    TensorId y =
        b.batch_norm_layer("bn", b.conv_layer("conv", x, 8, Window::square(3, 1, 1), false));
    y = b.activation("relu", b.add("sum", y, x), "relu");
    const TensorId kept = b.add("kept", y, x);  // not after a batch norm
    b.graph().outputs = {b.linear_layer("logits", b.flatten("flat", kept), 10, false)};
    const NetworkGraph graph = training(std::move(b).take());

    FrameworkProfile framework = find_framework("pytorch");
    framework.batch_norm.update_kernels = 0;
    framework.convolutions.image_layout = ImageLayout::Nhwc;
    const auto lowered = [&](PrecisionMode precision) {
      return kernels_by_op(graph, lower(graph, framework, test::volta(), {.precision = precision}));
    };
    const auto apart = lowered(PrecisionMode::Fp16), wide = lowered(PrecisionMode::Fp32);
    framework.fusion.batch_norm_residual = true;
    const auto fused = lowered(PrecisionMode::Fp16);
    for (const auto& [name, kernels] : lowered(PrecisionMode::Fp32)) {
      CHECK(bytes(kernels) == bytes(wide.at(name)));
    }

    const double image = 2.0 * 2 * 8 * 16 * 16, bits = image / 16;
    for (const char* gone : {"sum", "relu"}) {
      CHECK(apart.at(gone).size() == 1);
      CHECK(fused.at(gone).empty());
    }
    CHECK(names(fused.at("kept")) == names(apart.at("kept")));
    double before = 0, after = 0;
    for (const auto& [name, kernels] : apart) before += bytes(kernels);
    for (const auto& [name, kernels] : fused) after += bytes(kernels);
    // Gone: the sum's three images, the activation's two and its gradient's three. New: the
    // residual and its gradient once each, and twice a bit per element.
    CHECK(before - after == doctest::Approx(6 * image - 2 * bits));
  }

  TEST_CASE("a convolution may add its gradient to the one that is there") {
    GraphBuilder b("residual", 2);
    const TensorId in = b.input("images", {2, 8, 16, 16});
    const TensorId x = b.conv_layer("first", in, 8, Window::square(3, 1, 1), false);
    const TensorId y = b.conv_layer("second", x, 8, Window::square(3, 1, 1), false);
    const TensorId sum = b.add("sum", y, x);
    b.graph().outputs = {b.linear_layer("logits", b.flatten("flat", sum), 10, false)};
    const NetworkGraph graph = training(std::move(b).take());

    FrameworkProfile framework = find_framework("mxnet");
    const LoweredStep apart = lower(graph, framework, test::volta(), {});
    framework.backward.adds_gradients_in_convolutions = true;
    const LoweredStep fused = lower(graph, framework, test::volta(), {});
    REQUIRE(apart.ops.size() == fused.ops.size());
    const double image = 4.0 * 2 * 8 * 16 * 16;
    int sums = 0, convolutions = 0;
    for (std::size_t i = 0; i < apart.ops.size(); ++i) {
      const Op& op = graph.op(apart.ops[i].op);
      const double before = bytes(apart.ops[i].candidates.front().kernels);
      const double after = bytes(fused.ops[i].candidates.front().kernels);
      if (op.kind == OpKind::Binary && op.pass == Pass::Backward && before > 0) {
        ++sums;  // two images read, one written
        CHECK(before == doctest::Approx(3 * image));
        CHECK(after == 0);
      } else if (op.kind == OpKind::Conv && after > before) {
        ++convolutions;
        CHECK(op.pass == Pass::BackwardData);
        CHECK(after - before == doctest::Approx(image));
      } else {
        CHECK(after == before);
      }
    }
    CHECK(sums == 1);
    CHECK(convolutions == 1);
  }

  TEST_CASE("an engine that folds batch norms adds the residual in the convolution's epilogue") {
    GraphBuilder b("residual", 2);
    const TensorId in = b.input("images", {2, 8, 16, 16});
    const TensorId x = b.conv_layer("first", in, 8, Window::square(3, 1, 1), false);
    TensorId y =
        b.batch_norm_layer("bn", b.conv_layer("conv", x, 8, Window::square(3, 1, 1), false));
    y = b.activation("relu", b.add("sum", y, x), "relu");
    // The first convolution has two readers: only the one behind the norm can take the sum.
    b.graph().outputs = {y};
    const NetworkGraph graph = std::move(b).take();

    FrameworkProfile framework = find_framework("tensorrt");
    framework.fusion.layers = false;  // which joins sums by itself
    const auto fused = kernels_by_op(graph, lower(graph, framework, test::volta(), {}));
    framework.fusion.batch_norm_residual = false;
    const auto apart = kernels_by_op(graph, lower(graph, framework, test::volta(), {}));
    CHECK(apart.at("sum").size() == 1);
    for (const char* gone : {"bn", "sum", "relu"}) CHECK(fused.at(gone).empty());
    const double image = 4.0 * 2 * 8 * 16 * 16;
    CHECK(bytes(fused.at("conv")) - bytes(apart.at("conv")) == doctest::Approx(image));
    CHECK(bytes(fused.at("first")) == doctest::Approx(bytes(apart.at("first"))));
  }

  TEST_CASE(
      "one entry per op in the graph's order, updates together where the framework launches them "
      "together") {
    const NetworkGraph graph = training(varied_network());
    const LoweredStep eager = lower(graph, find_framework("pytorch"), test::volta(), {});
    REQUIRE(eager.ops.size() == graph.ops().size());
    for (std::uint32_t i = 0; i < eager.ops.size(); ++i) CHECK(eager.ops[i].op.index == i);

    const auto updates = std::count_if(graph.ops().begin(), graph.ops().end(),
                                       [](const Op& op) { return op.kind == OpKind::Optimizer; });
    const LoweredStep ideal = lower(graph, find_framework("ideal"), test::volta(), {});
    CHECK(ideal.ops.size() == graph.ops().size() - static_cast<std::size_t>(updates) + 1);
  }

  TEST_CASE("GEMMs of a training step execute two operations per multiply-add") {
    const NetworkGraph graph = training(build_network("vgg16", {.batch = 2, .training = true}));
    const LoweredStep step = lower(graph, find_framework("tensorflow"), test::kepler(), {});
    for (const LoweredOp& lowered : step.ops) {
      const Op& op = graph.op(lowered.op);
      if (op.kind != OpKind::Conv && op.kind != OpKind::Linear) continue;
      double flops = 0;
      for (const Kernel& kernel : lowered.candidates.front().kernels) {
        const bool is_gemm = std::holds_alternative<ConvWork>(kernel.work) ||
                             std::holds_alternative<MatrixWork>(kernel.work);
        if (is_gemm) flops += kernel.flops.in_flop();
      }
      CAPTURE(op.name);
      CHECK(flops == 2 * macs(op));
    }
  }

  TEST_CASE("bytes of simple ops are those of their operands") {
    const NetworkGraph graph = training(varied_network());
    const auto kernels =
        kernels_by_op(graph, lower(graph, find_framework("tensorflow"), test::volta(), {}));
    const double image = 4 * 16 * 16 * 16;  // elements after the first convolution
    const double pooled = 4 * 16 * 8 * 8;   // after the max pool
    CHECK(bytes(kernels.at("relu")) == 4 * 2 * image);
    CHECK(bytes(kernels.at("relu bwd")) == 4 * 3 * image);  // y, dy in, dx out
    CHECK(bytes(kernels.at("residual")) == 4 * 3 * image);
    CHECK(bytes(kernels.at("max_pool")) == 4 * (image + pooled));
    CHECK(bytes(kernels.at("max_pool bwd")) ==
          4 * (2 * image + 2 * pooled));  // x, y, dy in, dx out
    CHECK(bytes(kernels.at("avg_pool bwd")) == 4 * (4 * 32 + 2 * pooled));
    CHECK(bytes(kernels.at("concat")) == 4 * 2 * (2 * pooled));
    CHECK(bytes(kernels.at("lrn bwd")) == 4 * 4 * pooled);
    // PyTorch's max pool keeps an 8-byte index per result and needs x and y no more.
    const auto eager =
        kernels_by_op(graph, lower(graph, find_framework("pytorch"), test::volta(), {}));
    CHECK(bytes(eager.at("max_pool")) == 4 * (image + pooled) + 8 * pooled);
    CHECK(bytes(eager.at("max_pool bwd")) == 4 * (image + pooled) + 8 * pooled);
  }

  TEST_CASE("a pooling's gradient visits the windows that a cell lies in, one where it is global") {
    const NetworkGraph graph = training(varied_network());
    const auto kernels =
        kernels_by_op(graph, lower(graph, find_framework("pytorch"), test::volta(), {}));
    const auto windows = [&](const char* op) {
      return std::get<StreamWork>(kernels.at(op).front().work).operations_per_element;
    };
    CHECK(windows("max_pool bwd") == 9.0 * 8 * 8 / (16 * 16));
    CHECK(windows("avg_pool bwd") == 1);
  }

  TEST_CASE("a reduction gives short rows as many threads as they have elements") {
    const auto threads = [](std::int64_t cols) {
      GraphBuilder b("sums", 1);
      const std::int64_t last[] = {1};
      b.graph().outputs = {b.reduce("sum", b.input("x", {1000, cols}), last, false, "sum")};
      const NetworkGraph graph = std::move(b).take();
      const auto kernels =
          kernels_by_op(graph, lower(graph, find_framework("pytorch"), test::volta(), {}));
      return std::get<ReductionWork>(kernels.at("sum").front().work).row_threads;
    };
    CHECK(threads(4) == 4);
    CHECK(threads(63) == 32);
    CHECK(threads(4096) == 128);
  }

  TEST_CASE("batch norm: statistics in training, a stream in inference, nothing where it folds") {
    NetworkGraph forward = varied_network();
    const auto inference =
        kernels_by_op(forward, lower(forward, find_framework("pytorch"), test::volta(), {}));
    REQUIRE(inference.at("bn").size() == 1);
    CHECK(std::holds_alternative<StreamWork>(inference.at("bn").front().work));
    const auto folded =
        kernels_by_op(forward, lower(forward, find_framework("ideal"), test::volta(), {}));
    CHECK(folded.at("bn").empty());

    const NetworkGraph graph = training(std::move(forward));
    const auto kernels =
        kernels_by_op(graph, lower(graph, find_framework("pytorch"), test::volta(), {}));
    REQUIRE(names(kernels.at("bn")) == Names{"forward", "running_update"});
    const auto& work = std::get<ReductionWork>(kernels.at("bn").front().work);
    CHECK(work.rows == 16);
    CHECK(work.cols == 4 * 16 * 16);
    CHECK(work.passes == 3);
    CHECK(work.strided);
    CHECK(std::get<ReductionWork>(kernels.at("bn bwd").front().work).passes == 5);
  }

  TEST_CASE("batch norm composed of elementary kernels moves as many images as the profile says") {
    const NetworkGraph graph = training(varied_network());
    const auto kernels =
        kernels_by_op(graph, lower(graph, find_framework("caffe"), test::kepler(), {}));
    const double image = 4.0 * (4 * 16 * 16 * 16);  // bytes
    // The fused kernel states its operands once: x, y; x, dy, dx. Of 16 passes forward 13 remain,
    // of 24 backward 19: kernels of three and one of the rest.
    CHECK(kernels.at("bn").size() == 1 + 5);
    CHECK(bytes(kernels.at("bn")) == doctest::Approx((2 + 13) * image));
    CHECK(kernels.at("bn bwd").size() == 1 + 7);
    CHECK(bytes(kernels.at("bn bwd")) == doctest::Approx((3 + 19) * image));
    const auto fused =
        kernels_by_op(graph, lower(graph, find_framework("torch7"), test::kepler(), {}));
    CHECK(fused.at("bn").size() == 1);
  }

  TEST_CASE("half-width images on tensor cores have a layout of their own") {
    const NetworkGraph graph = training(varied_network());
    const auto transposes = [&](const GpuSpec& gpu, PrecisionMode precision) {
      FrameworkProfile framework = find_framework("pytorch");
      framework.convolutions.tensor_core_image_layout = ImageLayout::Nhwc;
      const LoweredStep step = lower(graph, framework, gpu, {.precision = precision});
      std::set<std::string> found;
      for (const LoweredOp& op : step.ops) {
        if (graph.op(op.op).name != "conv") continue;
        for (const Candidate& candidate : op.candidates) {
          for (const Kernel& kernel : candidate.kernels) {
            if (kernel.kernel_class == KernelClass::Transpose) {
              found.insert(std::string(to_string(candidate.algorithm)) + " " + kernel.name);
            }
          }
        }
      }
      return found;
    };
    // NHWC data suit tensor cores as they are; the algorithms on CUDA cores want NCHW.
    CHECK(transposes(test::volta(), PrecisionMode::Fp16)
              .contains(std::string(to_string(Algorithm::ImplicitGemm)) + " to_nchw"));
    CHECK(transposes(test::volta(), PrecisionMode::Fp32).empty());
    CHECK(transposes(test::kepler(), PrecisionMode::Fp16).empty());
    // TF32 works on four-byte images: the ordinary layout.
    for (const std::string& name : transposes(test::ampere(), PrecisionMode::Tf32)) {
      CHECK_FALSE(name.starts_with(std::string(to_string(Algorithm::ImplicitGemm)) + " "));
    }
  }

  TEST_CASE("a bias is a kernel of its own unless it fuses, and its gradient a reduction") {
    const NetworkGraph graph = training(varied_network());
    const auto eager =
        kernels_by_op(graph, lower(graph, find_framework("pytorch"), test::kepler(), {}));
    CHECK(names(eager.at("conv")) == Names{"conv", "bias_add"});
    CHECK(names(eager.at("hidden")) == Names{"gemm", "bias_add"});
    CHECK(names(eager.at("conv wgrad")) == Names{"clear", "conv", "bias_gradient"});
    CHECK(names(eager.at("hidden wgrad")) == Names{"gemm", "bias_gradient"});
    const auto& work = std::get<ReductionWork>(eager.at("hidden wgrad").back().work);
    CHECK(work.rows == 64);
    CHECK(work.cols == 4);
    const auto ideal =
        kernels_by_op(graph, lower(graph, find_framework("ideal"), test::kepler(), {}));
    CHECK(names(ideal.at("conv")) == Names{"conv"});
    CHECK(names(ideal.at("hidden")) == Names{"gemm"});
  }

  TEST_CASE("fused activations cost nothing in either direction") {
    const NetworkGraph graph = training(varied_network());
    const auto ideal =
        kernels_by_op(graph, lower(graph, find_framework("ideal"), test::volta(), {}));
    for (const char* name : {"relu", "relu bwd", "gelu", "gelu bwd"}) {
      CAPTURE(name);
      CHECK(ideal.at(name).empty());
    }
  }

  TEST_CASE("GEMMs carry the age of the framework's matrix library") {
    GraphBuilder b("aged", 2);
    TensorId x = b.linear_layer("hidden", b.input("x", {2, 8}), 4, false);
    b.graph().outputs = {x};
    const NetworkGraph graph = std::move(b).take();
    FrameworkProfile framework = find_framework("pytorch");
    for (const bool is_early : {false, true}) {
      framework.kernels.early_gemms = is_early;
      const auto kernels = kernels_by_op(graph, lower(graph, framework, test::volta(), {}));
      CHECK(std::get<MatrixWork>(kernels.at("hidden").back().work).by_early_library == is_early);
    }
  }

  TEST_CASE("a bias goes into the GEMM's epilogue where the framework's version does that") {
    const NetworkGraph graph = varied_network();
    FrameworkProfile framework = find_framework("pytorch");
    framework.fusion.gemm_bias = true;
    const auto kernels = kernels_by_op(graph, lower(graph, framework, test::volta(), {}));
    CHECK(names(kernels.at("hidden")) == Names{"gemm"});
    CHECK(names(kernels.at("conv")).back() == "bias_add");  // convolutions keep their own
  }

  TEST_CASE(
      "small ops cost the host one dispatch and one launch each, and it waits for what it reads") {
    GraphBuilder b("boxes", 2);
    const TensorId x = b.linear_layer("scores", b.input("x", {2, 8}), 4, false);
    const TensorId read[] = {x};
    b.routine("choose", read, {.ops = 30, .waits = true});
    b.graph().outputs = {x};
    const NetworkGraph graph = std::move(b).take();
    const FrameworkProfile& pytorch = find_framework("pytorch");
    const LoweredStep step = lower(graph, pytorch, test::volta(), {});
    const LoweredOp& choose = step.ops.back();
    CHECK(choose.host_waits);
    CHECK(choose.candidates.front().kernels.front().more_launches == 29);
    CHECK(dispatch_time(graph.op(choose.op), pytorch, false).in_us() ==
          doctest::Approx(30 * pytorch.host.dispatch_per_op.in_us()));
    // What it gives has no gradient: of the training step's ops only the forward one is a routine.
    const NetworkGraph trained = training(graph);
    CHECK(std::count_if(trained.ops().begin(), trained.ops().end(),
                        [](const Op& op) { return op.kind == OpKind::Routine; }) == 1);
  }

  TEST_CASE(
      "a composed batch norm is sums of a pass each and elementwise kernels of what is left") {
    const NetworkGraph graph = training(varied_network());
    FrameworkProfile framework = find_framework("generic");
    framework.batch_norm.update_kernels = 0;
    framework.batch_norm.forward_passes = 6;
    framework.batch_norm.backward_passes = 14;
    framework.batch_norm.composed = ComposedBatchNorm{
        .forward_sums = 2, .backward_sums = 4, .block_threads = 256, .address_instructions = 60};
    const auto kernels = kernels_by_op(graph, lower(graph, framework, test::volta(), {}));
    const double image = 4.0 * 4 * 16 * 16 * 16, vector = 4.0 * 16;
    // 6 - 2 passes in kernels of up to three: 2; 14 - 4: 4.
    CHECK(kernels.at("bn").size() == 2 + 2);
    CHECK(bytes(kernels.at("bn")) == doctest::Approx(6 * image + 2 * vector));
    CHECK(kernels.at("bn bwd").size() == 4 + 4);
    CHECK(bytes(kernels.at("bn bwd")) == doctest::Approx(14 * image + 4 * vector));
    const auto& sum = std::get<ReductionWork>(kernels.at("bn").front().work);
    CHECK(sum.rows == 16);
    CHECK(sum.passes == 1);
    CHECK(sum.block_threads == 256);
    CHECK(std::get<StreamWork>(kernels.at("bn").back().work).instructions_per_element == 60);
  }

  TEST_CASE("the host pools what rounds up and overlaps, and averages that round up") {
    const auto on_host = [](bool is_max, std::int64_t kernel, bool ceil_mode) {
      GraphBuilder b("pool", 2);
      TensorId x = b.input("images", {2, 3, 13, 13});
      const Window window = Window::square(kernel, 2);
      b.graph().outputs = {is_max ? b.max_pool("pool", x, window, ceil_mode)
                                  : b.avg_pool("pool", x, window, ceil_mode)};
      const NetworkGraph graph = std::move(b).take();
      FrameworkProfile framework = find_framework("generic");
      CHECK_FALSE(lower(graph, framework, test::volta(), {}).ops.back().runs_on_host);
      framework.host.pooling = HostPooling{.forward_per_cell = 1.0_us, .copy = BytesPerSecond(1e6)};
      return lower(graph, framework, test::volta(), {}).ops.back().runs_on_host;
    };
    CHECK(on_host(true, 3, true));
    CHECK_FALSE(on_host(true, 3, false));
    CHECK_FALSE(on_host(true, 2, true));  // the framework's own kernel
    CHECK(on_host(false, 2, true));
    CHECK_FALSE(on_host(false, 2, false));
  }

  TEST_CASE("pooling on the host costs its cells, and copies of what it has not yet") {
    GraphBuilder b("pool", 2);
    TensorId x =
        b.conv_layer("conv", b.input("images", {2, 3, 12, 12}), 4, Window::square(1), false);
    x = b.max_pool("pool", x, Window::square(3, 2), true);
    b.graph().outputs = {b.linear_layer("fc", b.flatten("flatten", x), 10, false)};
    const NetworkGraph graph = training(std::move(b).take());
    const HostPooling host{
        .forward_per_cell = 1.0_us, .backward_per_cell = 5.0_us, .copy = BytesPerSecond(1e6)};
    // 2 x 4 images of 12x12 become 6x6: 288 windows of 9 cells. 1 MB/s: an element of 4 bytes takes
    // 4 us.
    const double in = 2 * 4 * 144, out = 2 * 4 * 36;
    for (const Op& op : graph.ops()) {
      if (op.name == "pool") {
        CHECK(host_pooling_time(graph, op, host).in_us() ==
              doctest::Approx(out * 9 + 4 * (in + out)));
      }
      if (op.name == "pool bwd") {  // the image is there already: the gradient in, the gradient out
        CHECK(host_pooling_time(graph, op, host).in_us() ==
              doctest::Approx(out * 9 * 5 + 4 * (out + in)));
      }
    }
  }

  TEST_CASE("a weight gradient that is added to the old one reads it") {
    GraphBuilder b("two", 2);
    TensorId x =
        b.conv_layer("conv", b.input("images", {2, 8, 8, 8}), 16, Window::square(3, 1, 1), false);
    b.graph().outputs = {b.linear_layer("fc", b.flatten("flatten", x), 10, false)};
    const NetworkGraph graph = training(std::move(b).take());
    const auto bytes = [&](bool adds, const char* op) {
      FrameworkProfile framework = find_framework("generic");
      framework.backward.adds_weight_gradients_in_place = adds;
      const auto found = kernels_by_op(graph, lower(graph, framework, test::volta(), {}));
      double sum = 0;
      for (const Kernel& kernel : found.at(op)) sum += kernel.read.in_bytes();
      return sum;
    };
    CHECK(bytes(true, "conv wgrad") - bytes(false, "conv wgrad") == 4.0 * 16 * 8 * 9);
    CHECK(bytes(true, "fc wgrad") - bytes(false, "fc wgrad") == 4.0 * 10 * 1024);
  }

  TEST_CASE("an unknown op is bounded: three times its operands, and says so") {
    const NetworkGraph graph = varied_network();
    const auto kernels =
        kernels_by_op(graph, lower(graph, find_framework("pytorch"), test::volta(), {}));
    CHECK(bytes(kernels.at("mystery")) == 3 * 2 * 4.0 * (4 * 64));
    CHECK(kernels.at("mystery").front().is_bounded_guess);
  }

  TEST_CASE("an op on an empty tensor runs nothing") {
    GraphBuilder b("empty", 1);
    const TensorId x = b.input("x", {0, 8});
    b.graph().outputs = {b.activation("relu", x, "relu")};
    const NetworkGraph graph = std::move(b).take();
    const LoweredStep step = lower(graph, find_framework("pytorch"), test::volta(), {});
    CHECK(step.ops.front().candidates.front().kernels.empty());
  }

  TEST_CASE("NVIDIA's MXNet runs an instance norm in batch norm's kernel, its activation with it") {
    GraphBuilder b("norm", 2);
    TensorId x = b.input("x", {2, 8, 16, 16});
    x = b.conv_layer("conv", x, 8, Window::square(3, 1, 1), false);
    x = b.instance_norm("norm", x, b.weight("scale", {8}), b.weight("bias", {8}));
    b.graph().outputs = {b.activation("relu", x, "relu", true)};
    const NetworkGraph graph = training(std::move(b).take());
    const auto kernels_of = [&](const char* framework, const std::string& op) {
      const LoweredStep step =
          lower(graph, find_framework(framework), test::volta(), {.precision = PrecisionMode::Amp});
      std::size_t count = 0;
      for (const LoweredOp& lowered : step.ops) {
        if (graph.op(lowered.op).name == op) count += lowered.candidates.front().kernels.size();
      }
      return count;
    };
    CHECK(kernels_of("mxnet", "relu") > 0);
    CHECK(kernels_of("mxnet_nvidia", "relu") == 0);
    CHECK(kernels_of("mxnet_nvidia", "relu bwd") == 0);
    const auto format_of = [&](const char* framework) {
      const LoweredStep step =
          lower(graph, find_framework(framework), test::volta(), {.precision = PrecisionMode::Amp});
      const auto norm = std::find_if(
          step.ops.begin(), step.ops.end(),
          [&](const LoweredOp& lowered) { return graph.op(lowered.op).name == "norm"; });
      return norm->candidates.front().kernels.back().data;
    };
    CHECK(format_of("mxnet") == Precision::Fp32);  // where norms are computed wide
    CHECK(format_of("mxnet_nvidia") == Precision::Fp16);
  }

  TEST_CASE("the same graph lowers to the same step, to the byte, and every kernel has its line") {
    const NetworkGraph graph = training(varied_network());
    const auto text = [&] {
      return dump(lower(graph, find_framework("pytorch"), test::volta(), {}), graph);
    };
    const std::string once = text();
    CHECK(once == text());
    CHECK(once.find("op 0 Conv forward \"conv\" heuristic\n  candidate implicit_gemm kernels=2") ==
          0);
    CHECK(once.find("convolution backward_weights fp32 on fp32") != std::string::npos);
  }

  TEST_CASE("kernels per ResNet-50 step agree with profiler traces of PyTorch on V100") {
    // Both traces: 53 convolutions, 53 batch norms and 49 relus forward and backward, 16 additions
    // each way, 161 parameters (notes/0001). The older one, torch 1.8: 161 each of accumulate,
    // scale, add, update, fill.
    const NetworkGraph graph = training(build_network("resnet50", {.batch = 32, .training = true}));
    const LoweredStep step = lower(graph, find_framework("pytorch"), test::volta(), {});
    std::map<std::string, int> counts;
    for (const LoweredOp& op : step.ops) {
      for (const Kernel& kernel : op.candidates.front().kernels) ++counts[kernel.name];
    }
    CHECK(counts["running_update"] == 53);
    CHECK(counts["forward"] == 53);
    CHECK(counts["backward"] == 53);
    CHECK(counts["activation"] == 49);
    CHECK(counts["activation_grad"] == 49);
    CHECK(counts["combine"] == 16 + 16);
    CHECK(counts["accumulate"] == 161);
    CHECK(counts["scale"] == 161);
    CHECK(counts["add"] == 161);
    CHECK(counts["update"] == 161);
    CHECK(counts["zero"] == 161);
    CHECK(counts["conv"] == 3 * 53 - 1);  // the images need no gradient
  }
}
