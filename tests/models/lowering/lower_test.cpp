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

using namespace tracecast;

namespace {

/// A little of everything, with weights on both sides of every branch.
NetworkGraph varied_network() {
  GraphBuilder b("varied", 4);
  TensorId x = b.input("images", {4, 8, 16, 16});
  x = b.conv_layer("conv", x, 16, Window::square(3, 1, 1), true);
  x = b.batch_norm_layer("bn", x);
  x = b.activation("relu", x, "relu", true);
  const TensorId branch = b.conv_layer("depthwise", x, 16, Window::square(3, 1, 1), false, 16);
  x = b.add("residual", x, branch);
  x = b.max_pool("max_pool", x, Window::square(3, 2, 1));
  x = b.lrn("lrn", x, 5);
  const TensorId joined[] = {x, x};
  x = b.concat("concat", joined, 1);
  x = b.global_avg_pool("avg_pool", x);
  x = b.flatten("flatten", x);
  x = b.linear_layer("hidden", x, 64, true);
  x = b.activation("gelu", x, "gelu");
  x = b.dropout("dropout", x);
  x = b.layer_norm_layer("layer_norm", x);
  const Shape shapes[] = {{4, 64}};
  const TensorId in[] = {x};
  x = b.unknown("mystery", "Mystery", in, shapes).front();
  x = b.linear_layer("logits", x, 10, true);
  x = b.softmax("softmax", x);
  b.graph().outputs = {x};
  return std::move(b).take();
}

NetworkGraph training(NetworkGraph graph, OptimizerKind optimizer = OptimizerKind::Momentum) {
  return make_training_graph(std::move(graph), {.optimizer = optimizer});
}

/// Kernels of the first candidate of every op, by the op's name.
std::map<std::string, std::vector<Kernel>> kernels_by_op(const NetworkGraph& graph,
                                                         const LoweredStep& step) {
  std::map<std::string, std::vector<Kernel>> found;
  for (const LoweredOp& op : step.ops) found[graph.op(op.op).name] = op.candidates.front().kernels;
  return found;
}

std::vector<std::string> names(const std::vector<Kernel>& kernels) {
  std::vector<std::string> list;
  for (const Kernel& kernel : kernels) list.push_back(kernel.name);
  return list;
}
using Names = std::vector<std::string>;

double bytes(const std::vector<Kernel>& kernels) {
  double sum = 0;
  for (const Kernel& kernel : kernels) sum += kernel.bytes().in_bytes();
  return sum;
}

}  // namespace

TEST_SUITE("models/lowering/lower") {
  TEST_CASE("TF32 of convolutions alone leaves products in FP32, without casts") {
    const NetworkGraph graph = training(varied_network());
    FrameworkProfile framework = find_framework("pytorch");
    framework.tf32_products = false;
    const LoweredStep step =
        lower(graph, framework, test::ampere(), {.precision = PrecisionMode::Tf32});
    bool on_tensor_cores = false;  // a convolution, in any of its algorithms
    int products = 0;
    for (const LoweredOp& op : step.ops) {
      for (const Kernel& kernel : op.candidates.front().kernels) {
        CHECK(kernel.name.find("cast") == std::string::npos);
        if (kernel.kernel_class != KernelClass::Gemm) continue;
        ++products;
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
    CHECK(products == 6);  // two layers, each forward, data and weight gradient
  }

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
             profile.adds_gradients_in_convolutions) ||
            (op.kind == OpKind::Activation &&
             (profile.fuses_activations || profile.fuses_batch_norm_activation));
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

  TEST_CASE("a residual sum runs in a batch norm's kernel, with the activation after it") {
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
    framework.batch_norm_update_kernels = 0;
    const auto apart = kernels_by_op(graph, lower(graph, framework, test::volta(), {}));
    framework.fuses_batch_norm_residual = true;
    const auto fused = kernels_by_op(graph, lower(graph, framework, test::volta(), {}));

    const double image = 4.0 * 2 * 8 * 16 * 16, bits = image / 32;
    for (const char* gone : {"sum", "relu"}) {
      CHECK(apart.at(gone).size() == 1);
      CHECK(fused.at(gone).empty());
    }
    CHECK(names(fused.at("kept")) == names(apart.at("kept")));
    double before = 0, after = 0;
    for (const auto& [name, kernels] : apart) before += bytes(kernels);
    for (const auto& [name, kernels] : fused) after += bytes(kernels);
    // Gone: the sum's three images, the activation's two and its gradient's three. New: the residual and its gradient once
    // each, and twice a bit per element.
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
    framework.adds_gradients_in_convolutions = true;
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
    const auto fused = kernels_by_op(graph, lower(graph, framework, test::volta(), {}));
    framework.fuses_batch_norm_residual = false;
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

  TEST_CASE("products of a training step execute two operations per multiply-add") {
    const NetworkGraph graph = training(build_network("vgg16", {.batch = 2, .training = true}));
    const LoweredStep step = lower(graph, find_framework("tensorflow"), test::kepler(), {});
    for (const LoweredOp& lowered : step.ops) {
      const Op& op = graph.op(lowered.op);
      if (op.kind != OpKind::Conv && op.kind != OpKind::Linear) continue;
      double flops = 0;
      for (const Kernel& kernel : lowered.candidates.front().kernels) {
        const bool is_product = std::holds_alternative<ConvWork>(kernel.work) ||
                                std::holds_alternative<MatrixWork>(kernel.work);
        if (is_product) flops += kernel.flops.in_flop();
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
      framework.tensor_core_image_layout = ImageLayout::Nhwc;
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

  TEST_CASE("an algorithm exists from the cuDNN on that brought it") {
    const NetworkGraph graph = training(varied_network());
    const auto algorithms = [&](double version, const char* name) {
      FrameworkProfile framework = find_framework("torch7");
      framework.cudnn_version = version;
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

  TEST_CASE("an update touches weight, gradient and states as the framework's own loop does") {
    const double w = 4 * (10 * 64);  // bytes of logits.weight
    const struct {
      const char* what;
      OptimizerKind optimizer;
      const char* framework;
      Names kernels;
      double traffic;  ///< in tensors
    } rows[] = {
        // accumulate 3, scale 2, add 3, update 3, zero 1
        {"momentum, a kernel per term",
         OptimizerKind::Momentum,
         "pytorch",
         {"accumulate", "scale", "add", "update", "zero"},
         12},
        {"sgd, a kernel per term",
         OptimizerKind::Sgd,
         "pytorch",
         {"accumulate", "update", "zero"},
         7},
        // accumulate 3; 2 + 3 + 2 + 3 + 2 + 2 + 2 + 4; zero 1
        {"adam, a kernel per term",
         OptimizerKind::Adam,
         "pytorch",
         {"accumulate", "scale", "add", "scale", "addcmul", "sqrt", "divide", "add", "update",
          "zero"},
         24},
        // reads w, v, g, writes w, v
        {"momentum in one kernel", OptimizerKind::Momentum, "mxnet", {"update"}, 5},
        // l2_loss 1, l2_gradient 2, add 3; v from v and g 3; w from w and v 3
        {"momentum, a kernel per assignment, decay through the loss",
         OptimizerKind::Momentum,
         "tensorflow",
         {"l2_loss", "l2_gradient", "add_gradient", "accumulate", "update"},
         12},
        // each moment from itself and g 3; w from w and both moments 4
        {"adam, a kernel per assignment",
         OptimizerKind::Adam,
         "tensorflow",
         {"l2_loss", "l2_gradient", "add_gradient", "moment1", "moment2", "update"},
         16},
        // the sum from itself and g 3; w from w, g and the sum 4
        {"adagrad, a kernel per assignment",
         OptimizerKind::Adagrad,
         "tensorflow",
         {"l2_loss", "l2_gradient", "add_gradient", "accumulate", "update"},
         13},
        // the square from itself and g 3; momentum from itself, the square and g 4; w from w and momentum 3
        {"rmsprop, a kernel per assignment",
         OptimizerKind::RmsProp,
         "tensorflow",
         {"l2_loss", "l2_gradient", "add_gradient", "mean_square", "momentum", "update"},
         16},
        // the square from itself and g 3; w from w, g and both squares 5; the step's square from both and g 4
        {"adadelta, a kernel per assignment",
         OptimizerKind::Adadelta,
         "tensorflow",
         {"l2_loss", "l2_gradient", "add_gradient", "accumulate", "update", "accumulate_step"},
         18},
    };
    for (const auto& row : rows) {
      CAPTURE(row.what);
      const NetworkGraph graph = training(varied_network(), row.optimizer);
      const auto kernels =
          kernels_by_op(graph, lower(graph, find_framework(row.framework), test::volta(), {}));
      CHECK(names(kernels.at("update logits.weight")) == row.kernels);
      CHECK(bytes(kernels.at("update logits.weight")) == row.traffic * w);
    }
  }

  TEST_CASE("a bias is a kernel of its own unless it fuses, and its gradient a reduction") {
    const NetworkGraph graph = training(varied_network());
    const auto eager =
        kernels_by_op(graph, lower(graph, find_framework("pytorch"), test::kepler(), {}));
    CHECK(names(eager.at("conv")) == Names{"conv", "bias_add"});
    CHECK(names(eager.at("hidden")) == Names{"product", "bias_add"});
    CHECK(names(eager.at("conv wgrad")) == Names{"clear", "conv", "bias_gradient"});
    CHECK(names(eager.at("hidden wgrad")) == Names{"product", "bias_gradient"});
    const auto& work = std::get<ReductionWork>(eager.at("hidden wgrad").back().work);
    CHECK(work.rows == 64);
    CHECK(work.cols == 4);
    const auto ideal =
        kernels_by_op(graph, lower(graph, find_framework("ideal"), test::kepler(), {}));
    CHECK(names(ideal.at("conv")) == Names{"conv"});
    CHECK(names(ideal.at("hidden")) == Names{"product"});
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

  TEST_CASE(
      "mixed precision casts each weight once per use and its gradient once, and runs products on "
      "tensor cores") {
    const NetworkGraph graph = training(varied_network());
    const LoweringOptions amp{.precision = PrecisionMode::Amp};
    const auto kernels =
        kernels_by_op(graph, lower(graph, find_framework("pytorch"), test::volta(), amp));
    // Layer norm is fp32 in autocast, and what follows keeps its width up to the next product.
    CHECK(names(kernels.at("logits")) == Names{"cast", "weight_cast", "product", "bias_add"});
    // The gradient comes from the fp32 loss and is cast once, by the first who reads it.
    CHECK(names(kernels.at("logits dgrad")) == Names{"cast", "product"});
    CHECK(names(kernels.at("logits wgrad")) == Names{"product", "bias_gradient", "weight_cast"});
    CHECK(kernels.at("logits")[2].unit == MathUnit::TensorCore);
    CHECK(kernels.at("logits")[2].data == Precision::Fp16);
    CHECK(bytes({kernels.at("logits")[0]}) == 6.0 * 4 * 64);  // 4 in, 2 out
    CHECK(bytes({kernels.at("logits")[1]}) == 6.0 * 10 * 64);
    CHECK(kernels.at("update logits.weight").front().data == Precision::Fp32);
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
    for (const auto* narrow : {"conv", "bn", "relu", "residual", "max_pool", "hidden", "gelu"}) {
      CAPTURE(narrow);
      CHECK(pytorch.at(narrow) == Precision::Fp16);
      CHECK(tensorflow.at(narrow) == Precision::Fp16);
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
    const FrameworkProfile& engine = find_framework("tensorrt");
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

  TEST_CASE("half products off the tensor cores are computed in fp32, convolutions are not") {
    const NetworkGraph graph = varied_network();
    const auto kernels =
        kernels_by_op(graph, lower(graph, find_framework("pytorch"), test::pascal_with_fast_half(),
                                   {.precision = PrecisionMode::Fp16}));
    CHECK(kernels.at("hidden").front().math == Precision::Fp32);
    CHECK(kernels.at("hidden").front().data == Precision::Fp16);
    CHECK(kernels.at("conv").front().math == Precision::Fp16);
  }

  TEST_CASE("a bias goes into the product's epilogue where the framework's version does that") {
    const NetworkGraph graph = varied_network();
    FrameworkProfile framework = find_framework("pytorch");
    framework.fuses_product_bias = true;
    const auto kernels = kernels_by_op(graph, lower(graph, framework, test::volta(), {}));
    CHECK(names(kernels.at("hidden")) == Names{"product"});
    CHECK(names(kernels.at("conv")).back() == "bias_add");  // convolutions keep their own
  }

  TEST_CASE("fp8 products cast their operands, in training with a transposed copy") {
    GraphBuilder b("two", 16);
    TensorId x = b.input("x", {16, 32});
    x = b.linear_layer("first", x, 64, false);
    x = b.linear_layer("second", x, 10, false);  // 10 is no multiple of 16
    b.graph().outputs = {x};
    const NetworkGraph forward = std::move(b).take(), step = training(forward);
    const LoweringOptions fp8{.precision = PrecisionMode::Fp8};
    const FrameworkProfile& pytorch = find_framework("pytorch");
    const auto infer = kernels_by_op(forward, lower(forward, pytorch, test::hopper(), fp8));
    CHECK(names(infer.at("first")) == Names{"operand_cast", "operand_cast", "product"});
    CHECK(infer.at("first").back().math == Precision::Fp8);
    CHECK(bytes({infer.at("first")[0]}) == 3.0 * 32 * 64);  // the weight: 2 read, 1 written
    // Operands of a byte, a result of two.
    CHECK(bytes({infer.at("first")[2]}) == 16 * 32 + 32 * 64 + 2 * 16 * 64);
    CHECK(infer.at("second").back().math == Precision::Bf16);
    const auto train = kernels_by_op(step, lower(step, pytorch, test::hopper(), fp8));
    CHECK(bytes({train.at("first")[1]}) == 4.0 * 16 * 32);  // 2 read, 2 written
    CHECK(names(train.at("first wgrad")).front() == "product");
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
      framework.image_layout = ImageLayout::Nhwc;
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
      framework.avoids_nonfused_winograd = avoids;
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
    // 28x28 pixels, per image or 16 of them: 36 * 49 = 1764 multiplications against 16 * 196 = 3136 of fused Winograd;
    // padded to 16 images, 9 are the first that save any: 16 * 1764 = 28224 = 9 * 3136.
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
      framework.autotunes_convolutions = row.autotunes;
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
      framework.autotunes_convolutions = autotunes;
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
    const std::pair product{Algorithm::ExplicitGemm, MathUnit::TensorCore};
    CHECK(algorithms(1, PrecisionMode::Tf32, false).contains(product));
    CHECK_FALSE(algorithms(1, PrecisionMode::Fp16, false).contains(product));
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
          doctest::Approx(30 * pytorch.dispatch_per_op.in_us()));
    // What it gives has no gradient: of the training step's ops only the forward one is a routine.
    const NetworkGraph trained = training(graph);
    CHECK(std::count_if(trained.ops().begin(), trained.ops().end(),
                        [](const Op& op) { return op.kind == OpKind::Routine; }) == 1);
  }

  TEST_CASE(
      "a composed batch norm is sums of a pass each and elementwise kernels of what is left") {
    const NetworkGraph graph = training(varied_network());
    FrameworkProfile framework = find_framework("generic");
    framework.batch_norm_update_kernels = 0;
    framework.batch_norm_forward_passes = 6;
    framework.batch_norm_backward_passes = 14;
    framework.composed_batch_norm = ComposedBatchNorm{
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
      framework.host_pooling = HostPooling{.forward_per_cell = 1.0_us, .copy = BytesPerSecond(1e6)};
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
    // 2 x 4 images of 12x12 become 6x6: 288 windows of 9 cells. 1 MB/s: an element of 4 bytes takes 4 us.
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
      framework.adds_weight_gradients_in_place = adds;
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
    // Both traces: 53 convolutions, 53 batch norms and 49 relus forward and backward, 16 additions each way, 161
    // parameters (notes/0001). The older one, torch 1.8: 161 each of accumulate, scale, add, update, fill.
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
