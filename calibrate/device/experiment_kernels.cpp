#include "calibrate/device/experiment_kernels.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "hwspecs/library.hpp"
#include "models/lowering/lower.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "sim/cost/price.hpp"

namespace tracecast::calibrate {
namespace {

PrecisionMode mode_of(Precision precision) {
  switch (precision) {
    case Precision::Tf32:
      return PrecisionMode::Tf32;
    case Precision::Fp16:
      return PrecisionMode::Fp16;
    case Precision::Bf16:
      return PrecisionMode::Bf16;
    case Precision::Int8:
      return PrecisionMode::Int8;
    default:
      return PrecisionMode::Fp32;
  }
}

/// A library that does each op as one call, nothing folded into another.
FrameworkProfile bare_library() {
  FrameworkProfile library = SpecLibrary::embedded().find_framework("ideal");
  library.fusion.folds_inference_batch_norm = false;
  library.optimizer.fused = true;
  library.optimizer.multi_tensor = true;
  return library;
}

struct Lowering {
  const GpuSpec& gpu;
  PrecisionMode mode;
  double cudnn_version;
};

/// The ops of one pass of a graph that holds one layer.
std::vector<LoweredOp> lower_graph(const Lowering& in, NetworkGraph graph, bool training,
                                   Pass pass) {
  FrameworkProfile library = bare_library();
  library.convolutions.cudnn_version = in.cudnn_version;
  if (training) {
    graph = make_training_graph(std::move(graph), {.with_loss = false, .with_optimizer = false});
  }
  LoweredStep step = lower(graph, library, in.gpu, {.precision = in.mode, .wide_ends = false});
  std::erase_if(step.ops, [&](const LoweredOp& op) { return graph.op(op.op).pass != pass; });
  return std::move(step.ops);
}

std::vector<LoweredOp> lower_layer(const Lowering& in, GraphBuilder&& builder, TensorId output,
                                   bool training = false) {
  builder.graph().outputs = {output};
  return lower_graph(in, std::move(builder).take(), training, Pass::Forward);
}

std::vector<LoweredOp> lower_shape(const Lowering& in, const GemmShape& s) {
  GraphBuilder builder("row", 1);
  const auto pair = [&](const char* name, std::int64_t rows, std::int64_t cols, bool swapped) {
    return builder.input(name, {s.batch, swapped ? cols : rows, swapped ? rows : cols});
  };
  if (s.batch == 1) {  // which operand is stored transposed is not in the cost model
    const TensorId x = builder.input("a", {s.m, s.k});
    const TensorId y = builder.linear_layer("c", x, s.n, false);
    return lower_layer(in, std::move(builder), y);
  }
  const TensorId a = pair("a", s.m, s.k, s.transpose_a), b = pair("b", s.k, s.n, s.transpose_b);
  const TensorId c = builder.matmul("c", a, b, s.transpose_a, s.transpose_b);
  return lower_layer(in, std::move(builder), c);
}

std::vector<LoweredOp> lower_shape(const Lowering& in, const ConvolutionShape& s) {
  LoweredOp op;
  op.candidates =
      convolution_candidates(s.shape, s.pass, in.mode, s.layout, in.gpu, in.cudnn_version);
  op.workspace_limit = Bytes(1e18);
  if (s.algorithm != Algorithm::None) {
    std::erase_if(op.candidates, [&](const Candidate& c) { return c.algorithm != s.algorithm; });
  }
  const auto on_tensor_cores = [](const Candidate& candidate) {
    return std::any_of(candidate.kernels.begin(), candidate.kernels.end(),
                       [](const Kernel& k) { return k.unit == MathUnit::TensorCore; });
  };
  if (std::any_of(op.candidates.begin(), op.candidates.end(), on_tensor_cores)) {
    std::erase_if(op.candidates, std::not_fn(on_tensor_cores));
  }
  if (op.candidates.empty()) return {};
  return {std::move(op)};
}

std::vector<LoweredOp> lower_shape(const Lowering& in, const PoolingShape& s) {
  GraphBuilder builder("row", 1);
  const TensorId x = builder.input("x", {s.n, s.c, s.h, s.w});
  const Window window = Window::square(s.window, s.stride, s.pad);
  const TensorId y =
      s.average ? builder.avg_pool("y", x, window) : builder.max_pool("y", x, window);
  return lower_layer(in, std::move(builder), y);
}

std::vector<LoweredOp> lower_shape(const Lowering& in, const BatchNormShape& s) {
  GraphBuilder builder("row", 1);
  const TensorId x = builder.input("x", {s.n, s.c, s.h, s.w});
  const TensorId y = builder.batch_norm_layer("y", x);
  return lower_layer(in, std::move(builder), y, s.training);
}

std::vector<LoweredOp> lower_shape(const Lowering& in, const RowsShape& s) {
  GraphBuilder builder("row", 1);
  const TensorId x = builder.input("x", {s.rows, s.cols});
  const TensorId y = s.softmax ? builder.softmax("y", x) : builder.layer_norm_layer("y", x);
  return lower_layer(in, std::move(builder), y);
}

std::vector<LoweredOp> lower_shape(const Lowering& in, const ElementwiseShape& s) {
  GraphBuilder builder("row", 1);
  const TensorId x = builder.input("x", {s.elements});
  if (s.inputs == 1) {
    const TensorId y = builder.activation("y", x, s.function);
    return lower_layer(in, std::move(builder), y);
  }
  std::vector<TensorId> operands{x};
  for (int i = 1; i < s.inputs; ++i) {
    operands.push_back(builder.input("x" + std::to_string(i), {s.elements}));
  }
  const TensorId y = builder.binary("y", s.function, operands);
  return lower_layer(in, std::move(builder), y);
}

std::vector<LoweredOp> lower_shape(const Lowering& in, const ReductionShape& s) {
  GraphBuilder builder("row", 1);
  const TensorId x = builder.input("x", {s.outer, s.inner});
  const std::int64_t axes[] = {1};
  const TensorId y = builder.reduce("y", x, axes, false, "sum");
  return lower_layer(in, std::move(builder), y);
}

std::vector<LoweredOp> lower_shape(const Lowering& in, const EmbeddingShape& s) {
  GraphBuilder builder("row", 1);
  const TensorId ids = builder.input("ids", {s.tokens}, true);
  const TensorId y = builder.embedding_layer("y", ids, s.vocabulary, s.width);
  return lower_layer(in, std::move(builder), y);
}

std::vector<LoweredOp> lower_shape(const Lowering& in, const RecurrentShape& s) {
  GraphBuilder builder("row", s.batch);
  const TensorId x = builder.weight("x", {s.steps, s.batch, s.hidden});
  builder.graph().outputs = {
      builder.recurrent_layer("y", x, {.cell = s.cell, .hidden = s.hidden, .skip_input = true}).y};
  const bool training = s.pass != Pass::Forward;
  return lower_graph(in, std::move(builder).take(), training, s.pass);
}

std::vector<LoweredOp> lower_shape(const Lowering&, const OptimizerShape& s) {
  const double n = static_cast<double>(s.parameters), states = s.adam ? 2 : 1;
  Kernel kernel;
  kernel.name = "update";
  kernel.kernel_class = KernelClass::Optimizer;
  kernel.pass = Pass::Update;
  kernel.flops = Flops((4 + 6 * states) * n);
  kernel.read = Bytes(4 * (2 + states) * n);
  kernel.written = Bytes(4 * (1 + states) * n);
  kernel.work = StreamWork{.elements = n, .operations_per_element = 4 + 6 * states};
  LoweredOp op;
  op.candidates = {{.algorithm = Algorithm::None, .kernels = {kernel}, .workspace = {}}};
  return {std::move(op)};
}

std::vector<LoweredOp> lower_shape(const Lowering&, const CopyShape&) { return {}; }
std::vector<LoweredOp> lower_shape(const Lowering&, const LaunchShape&) { return {}; }
std::vector<LoweredOp> lower_shape(const Lowering&, const AllReduceShape&) { return {}; }

}  // namespace

std::vector<LoweredOp> lower_experiment(const Experiment& experiment, const GpuSpec& gpu,
                                        double cudnn_version) {
  const Lowering in{
      .gpu = gpu, .mode = mode_of(experiment.precision), .cudnn_version = cudnn_version};
  return std::visit([&](const auto& shape) { return lower_shape(in, shape); }, experiment.shape);
}

std::optional<Expectation> expect(const Experiment& experiment, const GpuSpec& gpu,
                                  const CostProfile& profile, double cudnn_version) {
  const std::vector<LoweredOp> ops = lower_experiment(experiment, gpu, cudnn_version);
  Expectation sum;
  Seconds longest(-1);
  for (const LoweredOp& op : ops) {
    const cost::PricedCandidate choice = cost::choose(op, gpu, profile);
    sum.time += choice.duration;
    for (const cost::KernelEstimate& kernel : choice.estimates) {
      if (kernel.duration <= longest) continue;
      longest = kernel.duration;
      sum.log_sd = kernel.log_sd;
    }
  }
  return longest >= Seconds(0) ? std::optional(sum) : std::nullopt;
}

std::optional<Seconds> expected_time(const Experiment& experiment, const GpuSpec& gpu,
                                     const CostProfile& profile, double cudnn_version) {
  const auto expectation = expect(experiment, gpu, profile, cudnn_version);
  return expectation ? std::optional(expectation->time) : std::nullopt;
}

std::vector<Precision> precisions_of(int compute_capability) {
  std::vector<Precision> result = {Precision::Fp32};
  if (compute_capability >= 80) result.push_back(Precision::Tf32);
  if (compute_capability >= 53 && compute_capability != 61) result.push_back(Precision::Fp16);
  if (compute_capability >= 80) result.push_back(Precision::Bf16);
  if (compute_capability >= 61 && compute_capability != 62) result.push_back(Precision::Int8);
  return result;
}

}  // namespace tracecast::calibrate
