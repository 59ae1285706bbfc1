#include "traces/transfer/recorded_work.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "models/lowering/kernels.hpp"
#include "sim/base/text.hpp"
#include "traces/classify.hpp"
#include "traces/contains.hpp"
#include "traces/transfer/convolution_shapes.hpp"

namespace tracecast::traces {
namespace {

constexpr std::uint32_t kNoLaunch = LaunchIndex::kNone;
/// Of a real tensor; more is damage.
constexpr double kMostElements = 1e13;

double gemm_of(const std::vector<std::int64_t>& dims, std::size_t from, std::size_t to) {
  double gemm = 1;
  for (std::size_t i = from; i < to; ++i) gemm *= static_cast<double>(dims[i]);
  return gemm;
}

/// C = A B of the last two inputs with that many dimensions.
std::optional<MatrixWork> find_gemm(const std::vector<InputTensor>& inputs, std::size_t rank) {
  std::vector<const std::vector<std::int64_t>*> operands;
  for (const InputTensor& input : inputs) {
    if (input.dims.size() == rank) operands.push_back(&input.dims);
  }
  if (operands.size() < 2) return std::nullopt;
  const auto& a = *operands[operands.size() - 2];
  const auto& b = *operands.back();
  MatrixWork work{
      .batch = rank == 3 ? a[0] : 1, .m = a[rank - 2], .n = b[rank - 1], .k = a[rank - 1]};
  if (b[rank - 2] != work.k || (rank == 3 && b[0] != work.batch)) return std::nullopt;
  if (std::min({work.batch, work.m, work.n, work.k}) < 1) return std::nullopt;
  return work;
}

/// Works of kernels whose operators say their inputs.
class WorkFinder {
 public:
  WorkFinder(const Trace& trace, RecordedWork& result)
      : trace_(trace), inputs_(trace), convolutions_(trace, inputs_), result_(result) {}

  void find(RecordedKernel& kernel, const KernelNameInfo& info, std::uint32_t op) {
    if (kernel.kernel_class == KernelClass::Convolution) return find_convolution(kernel, op);
    const auto key =
        std::tuple(trace_.ops.name[op].index, trace_.ops.dims[op].index, trace_.ops.types[op].index,
                   kernel.kernel_class, kernel.math, kernel.unit);
    const auto [at, is_new] = works_.try_emplace(key);
    if (is_new) {
      if (auto work = make_work(kernel, info, op)) {
        at->second = static_cast<std::uint32_t>(result_.works.size());
        result_.works.push_back(std::move(*work));
      }
    }
    kernel.work = at->second;
  }

  /// The main kernel, which takes longest, says algorithm and arithmetic.
  void settle_convolutions() {
    std::vector<Seconds> longest(result_.convolutions.size());
    std::vector<bool> changes_layout(result_.convolutions.size(), false);
    for (const RecordedKernel& kernel : result_.kernels) {
      if (!kernel.convolution) continue;
      RecordedConvolution& c = result_.convolutions[*kernel.convolution];
      if (kernel.changes_layout) changes_layout[*kernel.convolution] = true;
      if (kernel.changes_layout || kernel.duration <= longest[*kernel.convolution]) continue;
      longest[*kernel.convolution] = kernel.duration;
      if (c.passes.size() == 1) c.algorithm = kernel.algorithm;
      c.mode = mode_of(kernel);
    }
    for (std::size_t i = 0; i < result_.convolutions.size(); ++i) {
      RecordedConvolution& c = result_.convolutions[i];
      const bool half = c.mode != PrecisionMode::Fp32 && c.mode != PrecisionMode::Tf32;
      if (half && !changes_layout[i]) c.layout = ImageLayout::Nhwc;
      const bool depthwise = c.shape.groups > 1 && c.shape.groups == c.shape.c;
      if (depthwise && c.algorithm == Algorithm::ImplicitGemm) c.algorithm = Algorithm::Direct;
    }
  }

 private:
  void find_convolution(RecordedKernel& kernel, std::uint32_t op) {
    const auto [at, is_new] = convolution_of_op_.try_emplace(op);
    if (is_new) {
      if (const auto call = convolutions_.of(op)) {
        at->second = static_cast<std::uint32_t>(result_.convolutions.size());
        RecordedConvolution c;
        c.shape = call->shape;
        c.passes = call->passes;
        result_.convolutions.push_back(std::move(c));
      }
    }
    kernel.convolution = at->second;
  }

  std::optional<Kernel> make_work(const RecordedKernel& kernel, const KernelNameInfo& info,
                                  std::uint32_t op) {
    const std::vector<InputTensor>& inputs = inputs_.of(op);
    const auto largest =
        std::max_element(inputs.begin(), inputs.end(),
                         [](const auto& a, const auto& b) { return a.elements() < b.elements(); });
    if (largest == inputs.end() || largest->elements() < 1) return std::nullopt;
    if (largest->elements() > kMostElements) return std::nullopt;
    const std::string name = to_lower(trace_[trace_.ops.name[op]]);
    const bool backward = contains(name, "backward") || info.pass == Pass::Backward;
    switch (kernel.kernel_class) {
      case KernelClass::Gemm:
        return contains(name, "mm") ? gemm(kernel, find_gemm(inputs, 2), *largest) : std::nullopt;
      case KernelClass::BatchedGemm:
        return gemm(kernel, find_gemm(inputs, 3), *largest);
      case KernelClass::Normalization:
      case KernelClass::Softmax:
        return rows(kernel.kernel_class, name, *largest, backward);
      case KernelClass::Elementwise:
      case KernelClass::Optimizer:
      case KernelClass::Pooling:
      case KernelClass::Reduction:
      case KernelClass::Transpose:
      case KernelClass::Copy:
        return stream(kernel.kernel_class, inputs, *largest);
      default:
        return std::nullopt;
    }
  }

  static std::optional<Kernel> gemm(const RecordedKernel& kernel,
                                    const std::optional<MatrixWork>& work,
                                    const InputTensor& largest) {
    if (!work) return std::nullopt;
    const lowering::Formats formats{.storage = largest.precision,
                                    .operands = largest.precision,
                                    .math = kernel.math,
                                    .unit = kernel.unit};
    return lowering::matrix_kernel("gemm", kernel.kernel_class, Pass::Forward, formats, *work);
  }

  /// Batch norm: a row per channel through all images. Softmax and layer norm: the last dimension.
  static std::optional<Kernel> rows(KernelClass kernel_class, const std::string& name,
                                    const InputTensor& largest, bool backward) {
    const auto& dims = largest.dims;
    if (dims.size() < 2) return std::nullopt;
    const bool strided = contains(name, "batch_norm");
    ReductionWork work;
    const std::size_t axis = strided ? 1 : dims.size() - 1;
    const double cols = strided ? largest.elements() / std::max(1.0, gemm_of(dims, 1, 2))
                                : gemm_of(dims, axis, axis + 1);
    work.cols = static_cast<std::int64_t>(cols);
    work.rows = static_cast<std::int64_t>(largest.elements() / std::max(1.0, cols));
    work.passes = backward ? 5 : 3;
    work.strided = strided;
    if (!strided && kernel_class == KernelClass::Softmax && work.cols <= 1024) {
      work.passes = backward ? 3 : 2;
      work.row_threads = 32;
    }
    return lowering::reduction_kernel(
        "rows", kernel_class, backward ? Pass::Backward : Pass::Forward, largest.precision,
        Bytes(largest.bytes() * (backward ? 2 : 1)), Bytes(largest.bytes()), work);
  }

  static Kernel stream(KernelClass kernel_class, const std::vector<InputTensor>& inputs,
                       const InputTensor& largest) {
    double read = 0;
    for (const InputTensor& input : inputs) read += input.bytes();
    const double written = kernel_class == KernelClass::Reduction ? 0 : largest.bytes();
    return lowering::stream_kernel("stream", kernel_class, Pass::Forward, largest.precision,
                                   Bytes(read), Bytes(written), largest.elements());
  }

  using Key =
      std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, KernelClass, Precision, MathUnit>;
  const Trace& trace_;
  InputShapes inputs_;
  ConvolutionShapes convolutions_;
  RecordedWork& result_;
  std::map<Key, std::optional<std::uint32_t>> works_;
  std::map<std::uint32_t, std::optional<std::uint32_t>> convolution_of_op_;
};

void read_launch(const Geometry& geometry, const KernelNameInfo& info, RecordedKernel& kernel) {
  LaunchGeometry& launch = kernel.launch;
  launch.blocks = static_cast<double>(geometry.grid[0]) * geometry.grid[1] * geometry.grid[2];
  launch.threads = static_cast<int>(std::min<std::uint64_t>(
      std::uint64_t{geometry.block[0]} * geometry.block[1] * geometry.block[2], 1024));
  launch.registers = static_cast<int>(std::min(geometry.registers_per_thread, 255U));
  launch.shared_bytes = static_cast<int>(std::min(geometry.shared_bytes, 1U << 20));
  kernel.tile_m = info.tile_m, kernel.tile_n = info.tile_n;
  kernel.tiles_m = geometry.grid[0], kernel.tiles_n = geometry.grid[1];
  kernel.gemms = geometry.grid[2];
}

/// Where the bytes of a copy go.
CopyRoute copy_route(const Trace& trace, std::size_t index) {
  switch (trace.copies.kind[index]) {
    case CopyKind::HostToDevice:
    case CopyKind::DeviceToHost:
      return trace.copies.memory[index] == HostMemory::Pinned ? CopyRoute::Link
                                                              : CopyRoute::Pageable;
    case CopyKind::PeerToPeer:
      return CopyRoute::Peer;
    default:
      return CopyRoute::Device;
  }
}

}  // namespace

RecordedWork recorded_work(const Trace& trace, const KernelNames& names) {
  const LaunchIndex launches(trace);
  const std::vector<KernelNameInfo> infos = classify_kernels(trace, names, launches);
  RecordedWork result;
  result.kernels.reserve(trace.kernels.size());
  WorkFinder finder(trace, result);
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    RecordedKernel kernel;
    kernel.kernel_class = infos[i].kernel_class;
    kernel.algorithm = infos[i].algorithm;
    kernel.math = infos[i].precision.value_or(Precision::Fp32);
    kernel.unit = infos[i].unit;
    kernel.duration = Seconds(static_cast<double>(trace.kernels.span[i].duration_ns) * 1e-9);
    const std::string_view name = trace[trace.kernels.name[i]];
    kernel.changes_layout = contains(name, "nchwToNhwc") || contains(name, "nhwcToNchw");
    read_launch(trace.geometries[trace.kernels.geometry[i].index], infos[i], kernel);
    const std::uint32_t op = launches.op_of(trace.kernels.op[i], trace.kernels.correlation[i]);
    if (op != kNoLaunch && trace.ops.dims[op].index != 0) finder.find(kernel, infos[i], op);
    result.kernels.push_back(std::move(kernel));
  }
  finder.settle_convolutions();
  result.copies.reserve(trace.copies.size());
  for (std::size_t i = 0; i < trace.copies.size(); ++i)
    result.copies.push_back(copy_route(trace, i));
  return result;
}

}  // namespace tracecast::traces
