#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "models/graph.hpp"
#include "models/kernel.hpp"
#include "sim/base/units.hpp"

namespace tracecast::calibrate {

/// C[b, m, n] = A[b, m, k] B[b, k, n], row-major; a transposed operand is stored with its two sizes
/// swapped.
struct GemmShape {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false;
};
/// One pass of a convolution by one algorithm. Pads are equal at both ends. `Algorithm::None`: what
/// the library's heuristic picks.
struct ConvolutionShape {
  ConvAttributes shape{};
  Pass pass = Pass::Forward;
  ImageLayout layout = ImageLayout::Nchw;
  Algorithm algorithm = Algorithm::ImplicitGemm;
};
/// Forward, NCHW, square window.
struct PoolingShape {
  bool average = false;
  std::int64_t n = 1, c = 1, h = 1, w = 1, window = 2, stride = 2, pad = 0;
};
/// Forward over N, C, H, W: one mean per channel; in training the statistics are computed.
struct BatchNormShape {
  std::int64_t n = 1, c = 1, h = 1, w = 1;
  bool training = true;
};
/// `rows` softmaxes or layer norms over `cols` contiguous elements.
struct RowsShape {
  bool softmax = true;
  std::int64_t rows = 1, cols = 1;
};
/// `function` of `inputs` tensors of `elements` each: "relu", "gelu", "tanh" of one, "add", "mul"
/// of two.
struct ElementwiseShape {
  std::string function = "relu";
  std::int64_t elements = 1;
  int inputs = 1;
};
/// Sums over the inner dimension.
struct ReductionShape {
  std::int64_t outer = 1, inner = 1;
};
/// `tokens` rows of `width` elements gathered by index out of `vocabulary` rows.
struct EmbeddingShape {
  std::int64_t tokens = 1, width = 1, vocabulary = 1;
};
/// One pass of a layer of recurrent cells, the library's standard algorithm.
struct RecurrentShape {
  CellKind cell = CellKind::Lstm;
  std::int64_t hidden = 1, batch = 1, steps = 1;
  Pass pass = Pass::Forward;
};
/// One update of `parameters` weights in one kernel, all state in FP32.
struct OptimizerShape {
  bool adam = false;  ///< else SGD with momentum
  std::int64_t parameters = 1;
};
enum class CopyDirection { HostToDevice, DeviceToHost, DeviceToDevice, Peer };
struct CopyShape {
  CopyDirection direction = CopyDirection::HostToDevice;
  bool pinned = true;  ///< host memory; without meaning within the device
  std::int64_t bytes = 1;
};
/// What a launch costs. One launch: the duration of an empty kernel on the GPU. More: host time per
/// launch of so many empty kernels issued back to back.
struct LaunchShape {
  std::int64_t launches = 1;
};
/// Sum over all ranks, in place.
struct AllReduceShape {
  std::int64_t gpus = 2, bytes = 4;
};

using ExperimentShape =
    std::variant<GemmShape, ConvolutionShape, PoolingShape, BatchNormShape, RowsShape,
                 ElementwiseShape, ReductionShape, EmbeddingShape, RecurrentShape, OptimizerShape,
                 CopyShape, LaunchShape, AllReduceShape>;

/// The classes among which a calibration divides its time; each has a table of its own.
enum class ExperimentClass {
  Gemm,
  BatchedGemm,
  Convolution,
  Pooling,
  BatchNorm,
  LayerNorm,
  Softmax,
  Elementwise,
  Reduction,
  Embedding,
  Recurrent,
  Optimizer,
  Copy,
  Launch,
  AllReduce,
};
inline constexpr std::size_t kExperimentClassCount = 15;
[[nodiscard]] std::string_view to_string(ExperimentClass experiment_class);
[[nodiscard]] std::string_view to_string(CopyDirection direction);

/// Something to time on a GPU, described and not done.
struct Experiment {
  ExperimentShape shape{};
  /// Of operands. Fp32 is arithmetic on CUDA cores; Tf32 FP32 data on tensor cores; Fp16, Bf16 and
  /// Int8 use tensor cores where the library does.
  Precision precision = Precision::Fp32;
};

[[nodiscard]] ExperimentClass class_of(const Experiment& experiment);
/// What distinguishes an experiment from all others, in one line without blanks at the ends:
/// "gemm fp32 1x1024x1024x4096 NT". Journals identify measurements by it.
[[nodiscard]] std::string describe(const Experiment& experiment);

/// Arithmetic operations (multiply-add: 2; a convolution's direct count) and compulsory bytes (each
/// operand once).
struct ExperimentWork {
  Flops flops{};
  Bytes bytes{};
};
[[nodiscard]] ExperimentWork work_of(const Experiment& experiment);
/// Where an experiment lies among those of its class: log2 of its sizes, and one coordinate per
/// choice (pass, algorithm, precision ...), equal choices at distance 0, others at 4: as far apart
/// as shapes 16 times as large. Same length for all of a class.
[[nodiscard]] std::vector<double> coordinates_of(const Experiment& experiment);

/// cuDNN's name of an algorithm as the tables spell it: "IMPLICIT_PRECOMP_GEMM". Empty for None.
[[nodiscard]] std::string_view table_name(Algorithm algorithm);

}  // namespace tracecast::calibrate
