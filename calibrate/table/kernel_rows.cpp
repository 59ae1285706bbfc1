#include "calibrate/table/measurement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/table/published_rows.hpp"
#include "calibrate/table/repeated_gemm.hpp"
#include "calibrate/table/row_fields.hpp"
#include "hwspecs/software/library_calls.hpp"
#include "hwspecs/software/software_version.hpp"
#include "models/lowering/lower.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "sim/base/error.hpp"
#include "sim/base/round_up.hpp"

namespace tracecast {
namespace {

/// A row as kernels to price.
struct Layer {
  LoweredStep step;
  OpKind kind = OpKind::Unknown;  ///< decides what the framework's host thread does for it
};
/// What a row needs to become kernels.
struct Lowering {
  const RowFields& row;
  const GpuSpec& gpu;
  PrecisionMode precision;
  const FrameworkProfile& framework;
  const CallFacts& facts;     ///< of the row's source
  const LibraryCalls& calls;  ///< of hwspecs/calls
};
/// The row's kernels. `reason` says why there are none.
using LowerRow = std::optional<Layer> (*)(const Lowering&, std::string& reason);

/// The forward ops of a graph that holds one layer.
Layer lower_layer(const Lowering& in, NetworkGraph graph, bool training = false) {
  Layer layer;
  layer.kind = graph.ops().front().kind;
  if (training) {
    graph = make_training_graph(std::move(graph), {.with_loss = false, .with_optimizer = false});
  }
  layer.step = lower(graph, in.framework, in.gpu, {.precision = in.precision, .wide_ends = false});
  std::erase_if(layer.step.ops,
                [&](const LoweredOp& op) { return graph.op(op.op).pass != Pass::Forward; });
  return layer;
}

NetworkGraph finish(GraphBuilder&& builder, TensorId output) {
  builder.graph().outputs = {output};
  return std::move(builder).take();
}

/// The least multiple of what the program pads to.
std::int64_t padded(std::int64_t value, const CallFacts& facts) {
  return round_up(value, facts.multiple.value_or(1));
}

std::optional<Layer> lower_gemm(const Lowering& in, std::string&) {
  const auto batch = in.row.integer("batch", 1);
  auto k = in.row.integer("k", 1), m = in.row.integer("m", 1), n = in.row.integer("n", 1);
  const std::string_view op = in.row.text("op");
  if (in.row.text("layout") == "col") {
    // The leading dimensions are those along which columns lie.
    const bool transpose_a = in.row.text_or_empty("transa") == "T";
    const bool transpose_b = in.row.text_or_empty("transb") == "T";
    m = padded(m, in.facts);
    if (transpose_a || !transpose_b) k = padded(k, in.facts);
    if (transpose_b) n = padded(n, in.facts);
    std::swap(m, n);  // a column-major GEMM is the transposed one
  }
  GraphBuilder builder("row", 1);
  if (op == "bmm") {
    const TensorId a = builder.input("a", {batch, m, k}), b = builder.input("b", {batch, k, n});
    const TensorId c = builder.matmul("c", a, b);
    return lower_layer(in, finish(std::move(builder), c));
  }
  const TensorId x = builder.input("x", {m, k});
  const TensorId y = builder.linear_layer("y", x, n, op == "linear_bias");
  Layer layer = lower_layer(in, finish(std::move(builder), y));
  if (!in.facts.cublas_lt.value_or(true)) {
    for (LoweredOp& lowered : layer.step.ops)
      for (Candidate& candidate : lowered.candidates)
        for (Kernel& kernel : candidate.kernels)
          if (auto* work = std::get_if<MatrixWork>(&kernel.work)) work->by_cublas_lt = false;
  }
  return layer;
}

/// The GEMMs that `calibrate` measures itself, over and over on the same operands, where tensor
/// cores multiply them: what stays in L2 and where rows begin counts. Nothing for other rows.
/// `reason` says why a row is none to learn from.
std::optional<GemmCall> repeated_call(const RowFields& row, const Layer& layer, const GpuSpec& gpu,
                                      PrecisionMode precision, std::string& reason) {
  if (row.text_or_empty("experiment").empty() || row.text("timing") != "cupti") return {};
  const std::vector<Candidate>& candidates = layer.step.ops.front().candidates;
  if (candidates.empty() || candidates.front().kernels.empty() ||
      candidates.front().kernels.front().unit != MathUnit::TensorCore) {
    return {};
  }
  const bool transpose_a = row.text("transa") == "T", transpose_b = row.text("transb") == "T";
  cost::TensorGemm gemm;
  gemm.batch = static_cast<double>(row.integer("batch", 1));
  gemm.m = static_cast<double>(row.integer("m", 1));
  gemm.n = static_cast<double>(row.integer("n", 1));
  gemm.k = static_cast<double>(row.integer("k", 1));
  if (precision == PrecisionMode::Tf32) {
    // Small ones run kernels of the generation before, large ones the chip's own: twice apart, and
    // no part of the model tells which.
    if (mma_kind(gpu) >= MmaKind::WarpGroup) reason = "TF32 by kernels of two generations";
    gemm.format = GemmFormat::Tf32;
  } else if (precision == PrecisionMode::Int8) {
    // cuBLAS, "Using the cuBLAS API": 8-bit GEMMs take tensor cores well where both operands lie
    // along k.
    if (transpose_a || !transpose_b) reason = "bytes that do not lie along k";
    gemm.format = GemmFormat::Int8;
  }
  // cuBLAS adds bytes up into 32 bits and leaves them so.
  const double result = precision == PrecisionMode::Int8 ? 4 : cost::result_bytes(gemm.format);
  gemm.alignment = cost::gemm_alignment(gemm, transpose_a, transpose_b, result);
  repeat_gemm(gemm, 1);
  GemmCall call;
  call.gemms.push_back(gemm);
  return call;
}

std::optional<Algorithm> find_algorithm(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Algorithm>, 8> kAlgorithms{{
      {"IMPLICIT_GEMM", Algorithm::ImplicitGemm},
      {"IMPLICIT_PRECOMP_GEMM", Algorithm::ImplicitPrecomputedGemm},
      {"GEMM", Algorithm::ExplicitGemm},
      {"DIRECT", Algorithm::Direct},
      {"FFT", Algorithm::Fft},
      {"FFT_TILING", Algorithm::FftTiling},
      {"WINOGRAD", Algorithm::WinogradFused},
      {"WINOGRAD_NONFUSED", Algorithm::WinogradNonfused},
  }};
  for (const auto& [known, algorithm] : kAlgorithms) {
    if (known == name) return algorithm;
  }
  return std::nullopt;
}

std::optional<ConvAttributes> read_convolution(const RowFields& row, std::string& reason) {
  ConvAttributes a;
  a.n = row.integer("n", 1), a.c = row.integer("c", 1);
  a.h = row.integer("h", 1), a.w = row.integer("w", 1);
  a.k = row.integer("k", 1), a.r = row.integer("r", 1), a.s = row.integer("s", 1);
  a.p = row.integer("p", 1), a.q = row.integer("q", 1);
  a.groups = row.integer("groups", 1);
  const auto small = [&](const char* name, std::int64_t low) {
    return static_cast<int>(row.integer(name, low, 100'000));
  };
  a.pad_top = a.pad_bottom = small("pad_h", 0), a.pad_left = a.pad_right = small("pad_w", 0);
  a.stride_h = small("stride_h", 1), a.stride_w = small("stride_w", 1);
  a.dilation_h = small("dil_h", 1), a.dilation_w = small("dil_w", 1);
  if (a.c % a.groups != 0 || a.k % a.groups != 0) {
    reason = "channels are no multiple of the groups";
    return std::nullopt;
  }
  return a;
}

bool on_tensor_cores(const Candidate& candidate) {
  return std::any_of(candidate.kernels.begin(), candidate.kernels.end(),
                     [](const Kernel& kernel) { return kernel.unit == MathUnit::TensorCore; });
}

/// Keeps the algorithm that was measured, where a row is about one and not about the library's
/// choice.
bool keep_algorithm(std::string_view name, bool is_depthwise, Layer& layer, std::string& reason) {
  auto algorithm = find_algorithm(name);
  // cuDNN 7's IMPLICIT_GEMM has a kernel of its own for depthwise convolutions.
  if (is_depthwise && algorithm == Algorithm::ImplicitGemm) algorithm = Algorithm::Direct;
  if (!algorithm) {
    reason = "algorithm " + std::string(name) + " is not known";
    return false;
  }
  for (LoweredOp& op : layer.step.ops) {
    std::erase_if(op.candidates, [&](const Candidate& c) { return c.algorithm != *algorithm; });
    // These tables allow tensor cores, and one algorithm takes them wherever the shape is legal.
    if (std::any_of(op.candidates.begin(), op.candidates.end(), on_tensor_cores)) {
      std::erase_if(op.candidates, std::not_fn(on_tensor_cores));
    }
    if (op.candidates.empty()) {
      reason = "lowering has no " + std::string(name) + " for this shape";
      return false;
    }
  }
  return true;
}

/// cudnnConvolutionBiasActivationForward on tensor cores in NCHW: a kernel after the convolution
/// adds the bias where it writes the result back to NCHW, every element from a sector of its own
/// (LibraryCalls::scattered_result_bytes).
void append_scattered_bias(const ConvAttributes& a, const LibraryCalls& calls, Layer& layer) {
  const double results = static_cast<double>(a.n) * static_cast<double>(a.k) *
                         static_cast<double>(a.p) * static_cast<double>(a.q);
  for (LoweredOp& op : layer.step.ops) {
    for (Candidate& candidate : op.candidates) {
      if (!on_tensor_cores(candidate) ||
          candidate.algorithm != Algorithm::ImplicitPrecomputedGemm) {
        continue;
      }
      Kernel kernel;
      kernel.name = "bias";
      kernel.kernel_class = KernelClass::Elementwise;
      kernel.algorithm = candidate.algorithm;
      kernel.math = kernel.data = Precision::Fp16;
      kernel.read = Bytes(2 * results);
      kernel.work =
          StreamWork{.elements = results, .access_efficiency = 2.0 / calls.scattered_result_bytes};
      candidate.kernels.push_back(std::move(kernel));
    }
  }
}

std::optional<Layer> lower_convolution(const Lowering& in, std::string& reason) {
  auto shape = read_convolution(in.row, reason);
  if (!shape) return std::nullopt;
  if (shape->groups == 1) {
    shape->c = padded(shape->c, in.facts);
    shape->k = padded(shape->k, in.facts);
  }
  const std::string_view algo = in.row.text("algo");
  const bool is_tensor_core = in.row.text("dtype") == "fp16_tensor_core";
  const std::string_view layout = in.facts.image_layout.empty()
                                      ? in.row.text("layout")
                                      : std::string_view(in.facts.image_layout);
  if (algo.find(':') != std::string_view::npos && algo.find("udnn") == std::string_view::npos &&
      algo.find("Dnn") == std::string_view::npos) {
    reason = "computed by " + std::string(algo) + ", not by cuDNN";
    return std::nullopt;
  }
  if (layout != "NCHW" && layout != "NHWC") {
    reason = "layout " + std::string(layout) + " is not known";
    return std::nullopt;
  }
  std::vector<Pass> passes;
  const std::string_view pass = in.row.text("pass");
  if (pass == "forward") passes = {Pass::Forward};
  if (pass == "backward_data" || pass == "backward") passes.push_back(Pass::BackwardData);
  if (pass == "backward_filter" || pass == "backward") passes.push_back(Pass::BackwardWeights);
  if (passes.empty()) {
    reason = "pass " + std::string(pass) + " is not known";
    return std::nullopt;
  }
  Layer layer{.step = {}, .kind = OpKind::Conv};
  for (const Pass one : passes) {
    LoweredOp op;
    op.candidates = convolution_candidates(
        *shape, one, in.precision, layout == "NHWC" ? ImageLayout::Nhwc : ImageLayout::Nchw, in.gpu,
        find_cudnn_version(in.row.text_or_empty("framework")).value_or(99));
    op.workspace_limit = Bytes(1e18);
    layer.step.ops.push_back(std::move(op));
  }
  // Only tables of single algorithms say what cuDNN would have picked instead.
  const bool is_depthwise = shape->groups > 1 && shape->groups == shape->c;
  if (!in.row.text("heur_algo").empty() && !keep_algorithm(algo, is_depthwise, layer, reason)) {
    return std::nullopt;
  }
  if (!in.facts.algorithm.empty() &&
      !keep_algorithm(in.facts.algorithm, is_depthwise, layer, reason)) {
    return std::nullopt;
  }
  if (is_tensor_core && layout == "NCHW" && in.row.text("op").starts_with("conv2d_bias")) {
    append_scattered_bias(*shape, in.calls, layer);
  }
  return layer;
}

/// Kernels of cuDNN's tensor ops compute each element's place from the strides of every operand.
Layer with_strides(Layer layer, double operands, const Lowering& in) {
  const double per_operand = in.gpu.architecture == Architecture::Kepler
                                 ? in.calls.strided_instructions_kepler
                                 : in.calls.strided_instructions;
  for (LoweredOp& op : layer.step.ops) {
    for (Candidate& candidate : op.candidates) {
      for (Kernel& kernel : candidate.kernels) {
        if (auto* work = std::get_if<StreamWork>(&kernel.work)) {
          work->instructions_per_element = per_operand * operands;
        }
      }
    }
  }
  return layer;
}

std::optional<Layer> lower_elementwise(const Lowering& in, std::string&) {
  const double strided_operands =
      in.row.text("timing") == "evlib" ? static_cast<double>(in.row.integer("n_in", 1, 8)) : 0.0;
  const auto numel = in.row.integer("numel", 1, 1LL << 40);
  const auto inputs = in.row.integer("n_in", 1, 8);
  const std::string op(in.row.text("op"));
  GraphBuilder builder("row", 1);
  const TensorId x = builder.input("x", {numel});
  if (op == "dropout") {
    const TensorId y = builder.dropout("y", x);
    return lower_layer(in, finish(std::move(builder), y));
  }
  if (inputs == 1) {
    const TensorId y = builder.activation("y", x, op);
    return with_strides(lower_layer(in, finish(std::move(builder), y)), strided_operands, in);
  }
  std::vector<TensorId> operands{x};
  for (std::int64_t i = 1; i < inputs; ++i) {
    operands.push_back(builder.input("x" + std::to_string(i), {numel}));
  }
  const TensorId y = builder.binary("y", op, operands);
  return with_strides(lower_layer(in, finish(std::move(builder), y)), strided_operands, in);
}

std::optional<Layer> lower_rows(const Lowering& in, std::string&) {
  const auto rows = in.row.integer("rows", 1), cols = in.row.integer("cols", 1);
  GraphBuilder builder("row", 1);
  const TensorId x = builder.input("x", {rows, cols});
  const TensorId y =
      in.row.text("op") == "softmax" ? builder.softmax("y", x) : builder.layer_norm_layer("y", x);
  return lower_layer(in, finish(std::move(builder), y));
}

Shape image_of(const RowFields& row) {
  return {row.integer("n", 1), row.integer("c", 1), row.integer("h", 1), row.integer("w", 1)};
}

/// cuDNN's mode of one scale per activation, which no network of ours uses. One of the images that
/// it moves is written.
Layer normalize_activations(const Lowering& in, bool training) {
  const double one = static_cast<double>(in.row.integer("c", 1) * in.row.integer("h", 1)) *
                     static_cast<double>(in.row.integer("w", 1));
  const double all = one * static_cast<double>(in.row.integer("n", 1));
  const Bytes e =
      element_size(in.precision == PrecisionMode::Fp32 ? Precision::Fp32 : Precision::Fp16);
  Kernel kernel;
  kernel.name = "per_activation";
  kernel.kernel_class = KernelClass::Normalization;
  kernel.data = in.precision == PrecisionMode::Fp32 ? Precision::Fp32 : Precision::Fp16;
  const LibraryCalls& calls = in.calls;
  kernel.read = e * (training ? (calls.activation_norm_training_images - 1) * all +
                                    calls.activation_norm_training_once * one
                              : (calls.activation_norm_inference_images - 1) * all +
                                    calls.activation_norm_inference_once * one);
  kernel.written = e * all;
  kernel.work = StreamWork{.elements = all, .operations_per_element = 2};
  Layer layer;
  layer.kind = OpKind::BatchNorm;
  layer.step.ops.emplace_back().candidates.push_back({.kernels = {std::move(kernel)}});
  layer.step.ops.back().workspace_limit = Bytes(1e18);
  return layer;
}

std::optional<Layer> lower_batch_norm(const Lowering& in, std::string&) {
  GraphBuilder builder("row", 1);
  const TensorId x = builder.input("x", image_of(in.row));
  const TensorId y = builder.batch_norm_layer("y", x);
  const bool training = in.row.text("op") == "batchnorm_fwd_training";
  if (in.row.text("algo") == "per_activation") return normalize_activations(in, training);
  return lower_layer(in, finish(std::move(builder), y), training);
}

std::optional<Layer> lower_pooling(const Lowering& in, std::string& reason) {
  const auto pad_h = in.row.integer("pad_h", 0, 100'000),
             pad_w = in.row.integer("pad_w", 0, 100'000);
  Window window;
  window.kernel_h = in.row.integer("r", 1), window.kernel_w = in.row.integer("s", 1);
  window.stride_h = in.row.integer("stride_h", 1), window.stride_w = in.row.integer("stride_w", 1);
  window.pads = {.top = pad_h, .left = pad_w, .bottom = pad_h, .right = pad_w};
  const auto p = in.row.integer("p", 1), q = in.row.integer("q", 1);
  for (const bool ceil_mode : {false, true}) {
    GraphBuilder builder("row", 1);
    const TensorId x = builder.input("x", image_of(in.row));
    const TensorId y = in.row.text("op") == "maxpool" ? builder.max_pool("y", x, window, ceil_mode)
                                                      : builder.avg_pool("y", x, window, ceil_mode);
    if (builder.shape(y)[2] == p && builder.shape(y)[3] == q) {
      return lower_layer(in, finish(std::move(builder), y));
    }
  }
  reason = "the output size does not follow from window, stride and pad";
  return std::nullopt;
}

std::string_view group_of(const RowFields& row, OpKind kind) {
  if (!row.text_or_empty("numel").empty()) return "elementwise";
  if (kind != OpKind::Conv) return row.text("op");
  const std::string_view pass = row.text("pass");
  if (!row.text("heur_algo").empty()) return row.text("algo");
  if (pass == "backward_data") return "convolution backward data";
  if (pass == "backward_filter") return "convolution backward filter";
  return pass == "backward" ? "convolution backward" : "convolution forward";
}

/// Kernels measured one at a time (data/kernels).
class KernelRows final : public MeasurementReader {
 public:
  KernelRows(std::string_view name, LowerRow lower_row, const MeasurementContext& context)
      : name_(name),
        lower_row_(lower_row),
        specs_(context.specs),
        library_files_(context.library),
        framework_(context.framework("pytorch")),
        library_(context.framework("ideal")) {
    library_.fusion.folds_inference_batch_norm =
        false;  // the call is the batch norm and nothing else
    convention_ = fmt::format(
        "ev5: one op of an idle host, kernels + {:.3g} us, {:.3g} us more for library calls, "
        "{:.3g} us less after which the second event follows the launch (no convolutions). "
        "evlib: one call between two events, kernels + {:.3g} us. loop: back to back, at least "
        "{:.3g} us per launch. Clocks as pinned. DeepBench's tensor-core convolutions are in NHWC "
        "(its source).",
        (framework_.host.dispatch_per_op + framework_.host.launch_per_kernel).in_us(),
        framework_.host.dispatch_per_library_call.in_us(), after_launch(OpKind::Binary).in_us(),
        framework_.host.launch_per_kernel.in_us(), framework_.host.launch_per_kernel.in_us());
  }
  std::string_view table() const override { return name_; }
  std::string_view convention() const override { return convention_; }

  MeasurementOrReason read(const CsvReader& reader) override {
    const RowFields row(reader);
    Measurement m;
    m.time = Seconds(row.positive("time_us") * 1e-6);
    m.line = reader.line();
    const auto precision = precision_of(row.text("dtype"));
    if (!precision) return "dtype " + std::string(row.text("dtype")) + " is not predicted";
    std::optional<double> clock;
    if (!row.text_or_empty("clock_mhz").empty()) clock = row.positive("clock_mhz");
    m.source = row.text_or_empty("source");
    const PublishedProgram program = program_of(reader);
    m.spec = specs_->find(row.gpu(), clock, program.calls.ecc.value_or(false));
    if (!m.spec) return "GPU " + std::string(row.text("gpu")) + " has no spec";
    m.gpu = m.spec->id;
    m.split = row.text_or_empty("split");

    const Timing timing = timing_of(row.text("timing"));
    const bool by_framework = timing == Timing::FrameworkOp || timing == Timing::FrameworkLoop;
    std::string reason;
    std::optional<Layer> layer;
    try {
      layer = lower_row_({.row = row,
                          .gpu = *m.spec,
                          .precision = *precision,
                          .framework = by_framework ? framework_of(program, *m.spec) : library_,
                          .facts = program.calls,
                          .calls = library_files_.library_calls()},
                         reason);
    } catch (const InputError& error) {
      throw InputError(reader.where(), error);
    }
    if (!layer) return reason;
    m.group = group_of(row, layer->kind);
    if (row.text("dtype") != "fp32") m.group += " " + std::string(row.text("dtype"));
    if (lower_row_ == lower_gemm) {
      if (auto call = repeated_call(row, *layer, *m.spec, *precision, reason)) {
        if (!reason.empty()) return reason;
        m.split = gemm_size_class(m.time);
        m.work = std::move(*call);
        return m;
      }
    }
    m.work = IsolatedOp{.step = std::move(layer->step),
                        .timing = timing,
                        .host_floor = host_floor(layer->kind),
                        .after_launch = after_launch(layer->kind),
                        .launch = framework_.host.launch_per_kernel,
                        .host_log_sd = framework_.host.log_sd};
    return m;
  }

 private:
  static std::optional<PrecisionMode> precision_of(std::string_view dtype) {
    if (dtype == "fp32") return PrecisionMode::Fp32;
    if (dtype == "tf32") return PrecisionMode::Tf32;
    if (dtype == "bf16") return PrecisionMode::Bf16;
    if (dtype.starts_with("fp16")) return PrecisionMode::Fp16;
    if (dtype == "int8") return PrecisionMode::Int8;
    return std::nullopt;
  }
  static Timing timing_of(std::string_view timing) {
    if (timing == "ev5") return Timing::FrameworkOp;
    if (timing == "evlib") return Timing::LibraryCall;
    if (timing == "loop_framework") return Timing::FrameworkLoop;
    if (timing == "derived" || timing == "cupti") return Timing::KernelOnly;
    return Timing::Loop;
  }

  /// What the row's source did that its columns do not say.
  PublishedProgram program_of(const CsvReader& reader) {
    if (!published_) published_.emplace(library_files_, reader);
    return published_->program_of(reader);
  }

  /// PyTorch of the version that the row's source states, today's without one: whether a GEMM's
  /// bias is fused.
  const FrameworkProfile& framework_of(const PublishedProgram& program, const GpuSpec& gpu) {
    const SoftwareWords words{.version = program.version, .date = ""};
    const FrameworkProfile& state = library_files_.find_framework("pytorch", words);
    framework_.fusion.gemm_bias = library_files_.defaults_of(state, words, gpu).fuses_gemm_bias;
    return framework_;
  }

  /// From the first event to the first kernel.
  Seconds host_floor(OpKind kind) const {
    const Op op{.kind = kind};
    return dispatch_time(op, framework_, false) + framework_.host.launch_per_kernel;
  }

  /// Half of an op's own dispatch follows its launch: the way back to the caller, who then records
  /// the event. Source: elementwise rows of NeuSight, whose times of large tensors extrapolate to 8
  /// to 13 us less than the smallest ones take. A convolution frees its workspace after that and
  /// waits; nothing is known to run meanwhile.
  Seconds after_launch(OpKind kind) const {
    return kind == OpKind::Conv ? Seconds(0) : framework_.host.dispatch_per_op * 0.5;
  }

  std::string_view name_;
  LowerRow lower_row_;
  std::shared_ptr<SpecsAtClock> specs_;
  SpecLibrary library_files_;
  std::optional<PublishedRows> published_;  ///< of the table, once its first row is read
  FrameworkProfile framework_, library_;
  std::string convention_;
};

MeasurementTable kernels(std::string_view name, std::vector<std::string_view> required,
                         LowerRow lower_row) {
  for (const char* column : {"gpu", "dtype", "op", "time_us", "timing"}) required.push_back(column);
  return {.name = name,
          .required = std::move(required),
          .make = [name, lower_row](const MeasurementContext& context) {
            return std::unique_ptr<MeasurementReader>(
                std::make_unique<KernelRows>(name, lower_row, context));
          }};
}

}  // namespace

std::vector<MeasurementTable> kernel_measurement_tables() {
  return {
      kernels("convolutions",
              {"n", "c", "h", "w", "k", "r", "s", "p", "q", "groups", "algo", "heur_algo"},
              lower_convolution),
      kernels("GEMMs", {"batch", "m", "n", "k", "layout"}, lower_gemm),
      kernels("pooling", {"n", "c", "h", "w", "r", "s", "p", "q", "stride_h"}, lower_pooling),
      kernels("batch norms", {"n", "c", "h", "w", "layout", "algo"}, lower_batch_norm),
      kernels("elementwise", {"numel", "n_in"}, lower_elementwise),
      kernels("softmax and layer norm", {"rows", "cols"}, lower_rows),
  };
}

}  // namespace tracecast
