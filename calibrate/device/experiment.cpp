#include "calibrate/device/experiment.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <initializer_list>

namespace tracecast::calibrate {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

constexpr double kChoiceDistance = 4;

double gemm_of(std::initializer_list<std::int64_t> sizes) {
  double gemm = 1;
  for (const std::int64_t size : sizes) gemm *= static_cast<double>(size);
  return gemm;
}

std::vector<double> logs(std::initializer_list<std::int64_t> sizes) {
  std::vector<double> result;
  for (const std::int64_t size : sizes) result.push_back(std::log2(static_cast<double>(size)));
  return result;
}

/// One-hot over `count` values, scaled so that two different ones are kChoiceDistance apart.
void add_choice(std::vector<double>& to, std::size_t value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    to.push_back(i == value ? kChoiceDistance / std::sqrt(2.0) : 0.0);
}

double gates(CellKind cell) { return cell == CellKind::Lstm ? 4 : cell == CellKind::Gru ? 3 : 1; }

}  // namespace

std::string_view to_string(ExperimentClass experiment_class) {
  constexpr std::array<std::string_view, kExperimentClassCount> kNames = {
      "gemm",      "bmm",       "convolution", "pooling",   "batchnorm",
      "layernorm", "softmax",   "elementwise", "reduction", "embedding",
      "recurrent", "optimizer", "copy",        "launch",    "allreduce"};
  return kNames[static_cast<std::size_t>(experiment_class)];
}

std::string_view to_string(CopyDirection direction) {
  constexpr std::array<std::string_view, 4> kNames = {"host_to_device", "device_to_host",
                                                      "device_to_device", "peer"};
  return kNames[static_cast<std::size_t>(direction)];
}

std::string_view table_name(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::ImplicitGemm:
      return "IMPLICIT_GEMM";
    case Algorithm::ImplicitPrecomputedGemm:
      return "IMPLICIT_PRECOMP_GEMM";
    case Algorithm::ExplicitGemm:
      return "GEMM";
    case Algorithm::Direct:
      return "DIRECT";
    case Algorithm::Fft:
      return "FFT";
    case Algorithm::FftTiling:
      return "FFT_TILING";
    case Algorithm::WinogradFused:
      return "WINOGRAD";
    case Algorithm::WinogradNonfused:
      return "WINOGRAD_NONFUSED";
    default:
      return "";
  }
}

ExperimentClass class_of(const Experiment& experiment) {
  using Class = ExperimentClass;
  return std::visit(
      Overloaded{[](const GemmShape& s) { return s.batch > 1 ? Class::BatchedGemm : Class::Gemm; },
                 [](const ConvolutionShape&) { return Class::Convolution; },
                 [](const PoolingShape&) { return Class::Pooling; },
                 [](const BatchNormShape&) { return Class::BatchNorm; },
                 [](const RowsShape& s) { return s.softmax ? Class::Softmax : Class::LayerNorm; },
                 [](const ElementwiseShape&) { return Class::Elementwise; },
                 [](const ReductionShape&) { return Class::Reduction; },
                 [](const EmbeddingShape&) { return Class::Embedding; },
                 [](const RecurrentShape&) { return Class::Recurrent; },
                 [](const OptimizerShape&) { return Class::Optimizer; },
                 [](const CopyShape&) { return Class::Copy; },
                 [](const LaunchShape&) { return Class::Launch; },
                 [](const AllReduceShape&) { return Class::AllReduce; }},
      experiment.shape);
}

std::string describe(const Experiment& experiment) {
  const std::string text = std::visit(
      Overloaded{[](const GemmShape& s) {
                   return fmt::format("{}x{}x{}x{} {}{}", s.batch, s.m, s.n, s.k,
                                      s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N');
                 },
                 [](const ConvolutionShape& s) {
                   const ConvAttributes& a = s.shape;
                   return fmt::format(
                       "{} {}x{}x{}x{} k{} f{}x{} s{}x{} p{}x{} d{}x{} g{} {} {}",
                       to_string(s.pass), a.n, a.c, a.h, a.w, a.k, a.r, a.s, a.stride_h, a.stride_w,
                       a.pad_top, a.pad_left, a.dilation_h, a.dilation_w, a.groups,
                       s.layout == ImageLayout::Nhwc ? "NHWC" : "NCHW",
                       s.algorithm == Algorithm::None ? "heuristic" : table_name(s.algorithm));
                 },
                 [](const PoolingShape& s) {
                   return fmt::format("{} {}x{}x{}x{} f{} s{} p{}", s.average ? "avg" : "max", s.n,
                                      s.c, s.h, s.w, s.window, s.stride, s.pad);
                 },
                 [](const BatchNormShape& s) {
                   return fmt::format("{} {}x{}x{}x{}", s.training ? "training" : "inference", s.n,
                                      s.c, s.h, s.w);
                 },
                 [](const RowsShape& s) { return fmt::format("{}x{}", s.rows, s.cols); },
                 [](const ElementwiseShape& s) {
                   return fmt::format("{} {} x{}", s.function, s.elements, s.inputs);
                 },
                 [](const ReductionShape& s) { return fmt::format("{}x{}", s.outer, s.inner); },
                 [](const EmbeddingShape& s) {
                   return fmt::format("{}x{} of {}", s.tokens, s.width, s.vocabulary);
                 },
                 [](const RecurrentShape& s) {
                   return fmt::format("{} {} h{} b{} t{}", to_string(s.cell), to_string(s.pass),
                                      s.hidden, s.batch, s.steps);
                 },
                 [](const OptimizerShape& s) {
                   return fmt::format("{} {}", s.adam ? "adam" : "momentum", s.parameters);
                 },
                 [](const CopyShape& s) {
                   return fmt::format("{} {} {}", to_string(s.direction),
                                      s.pinned ? "pinned" : "pageable", s.bytes);
                 },
                 [](const LaunchShape& s) { return fmt::format("{}", s.launches); },
                 [](const AllReduceShape& s) { return fmt::format("{}x{}", s.gpus, s.bytes); }},
      experiment.shape);
  return fmt::format("{} {} {}", to_string(class_of(experiment)), to_string(experiment.precision),
                     text);
}

ExperimentWork work_of(const Experiment& experiment) {
  const double e = element_size(experiment.precision).in_bytes();
  const auto work = [](double flops, double bytes) {
    return ExperimentWork{.flops = Flops(flops), .bytes = Bytes(bytes)};
  };
  return std::visit(
      Overloaded{[&](const GemmShape& s) {
                   const double wide =
                       experiment.precision == Precision::Int8 ? 4 : e;  // int32 results
                   return work(2 * gemm_of({s.batch, s.m, s.n, s.k}),
                               e * (gemm_of({s.batch, s.m, s.k}) + gemm_of({s.batch, s.k, s.n})) +
                                   wide * gemm_of({s.batch, s.m, s.n}));
                 },
                 [&](const ConvolutionShape& s) {
                   const ConvAttributes& a = s.shape;
                   return work(2 * a.macs(),
                               e * (gemm_of({a.n, a.c, a.h, a.w}) + gemm_of({a.n, a.k, a.p, a.q}) +
                                    gemm_of({a.k, a.c / a.groups, a.r, a.s})));
                 },
                 [&](const PoolingShape& s) {
                   const double in = gemm_of({s.n, s.c, s.h, s.w});
                   const double out = in / static_cast<double>(s.stride * s.stride);
                   return work(out * static_cast<double>(s.window * s.window), e * (in + out));
                 },
                 [&](const BatchNormShape& s) {
                   const double x = gemm_of({s.n, s.c, s.h, s.w});
                   return work((s.training ? 3 : 2) * x, e * (s.training ? 3 : 2) * x);
                 },
                 [&](const RowsShape& s) {
                   const double x = gemm_of({s.rows, s.cols});
                   return work(5 * x, 2 * e * x);
                 },
                 [&](const ElementwiseShape& s) {
                   const double x = static_cast<double>(s.elements);
                   return work(x, e * x * (1 + s.inputs));
                 },
                 [&](const ReductionShape& s) {
                   const double x = gemm_of({s.outer, s.inner});
                   return work(x, e * (x + static_cast<double>(s.outer)));
                 },
                 [&](const EmbeddingShape& s) {
                   return work(
                       0, 2 * e * gemm_of({s.tokens, s.width}) + 8 * static_cast<double>(s.tokens));
                 },
                 [&](const RecurrentShape& s) {
                   const double g = gates(s.cell);
                   const double weights = g * gemm_of({s.hidden, s.hidden});
                   return work(4 * weights * gemm_of({s.batch, s.steps}),
                               e * (2 * weights + 2 * gemm_of({s.hidden, s.batch, s.steps})));
                 },
                 [&](const OptimizerShape& s) {
                   // Momentum reads weight, gradient, velocity and writes two; Adam has one state
                   // more.
                   const double n = static_cast<double>(s.parameters);
                   return work((s.adam ? 12 : 4) * n, 4.0 * (s.adam ? 7 : 5) * n);
                 },
                 [&](const CopyShape& s) {
                   const bool inside = s.direction == CopyDirection::DeviceToDevice;
                   return work(0, static_cast<double>(s.bytes) * (inside ? 2 : 1));
                 },
                 [&](const LaunchShape&) { return work(0, 0); },
                 [&](const AllReduceShape& s) { return work(0, static_cast<double>(s.bytes)); }},
      experiment.shape);
}

std::vector<double> coordinates_of(const Experiment& experiment) {
  std::vector<double> at = std::visit(
      Overloaded{
          [](const GemmShape& s) {
            std::vector<double> c = logs({s.batch, s.m, s.n, s.k});
            add_choice(c, (s.transpose_a ? 2 : 0) + (s.transpose_b ? 1 : 0), 4);
            return c;
          },
          [](const ConvolutionShape& s) {
            const ConvAttributes& a = s.shape;
            std::vector<double> c = logs({a.n, a.c, a.h, a.w, a.k, a.r, a.s, a.stride_h, a.groups});
            add_choice(c, static_cast<std::size_t>(s.pass), 3);
            add_choice(c, static_cast<std::size_t>(s.algorithm), kAlgorithmCount);
            add_choice(c, s.layout == ImageLayout::Nhwc ? 1 : 0, 2);
            return c;
          },
          [](const PoolingShape& s) {
            std::vector<double> c = logs({s.n, s.c, s.h, s.w, s.window, s.stride});
            add_choice(c, s.average ? 1 : 0, 2);
            return c;
          },
          [](const BatchNormShape& s) {
            std::vector<double> c = logs({s.n, s.c, s.h, s.w});
            add_choice(c, s.training ? 1 : 0, 2);
            return c;
          },
          [](const RowsShape& s) {
            return logs({s.rows, s.cols});
          },
          [](const ElementwiseShape& s) {
            std::vector<double> c = logs({s.elements, s.inputs});
            add_choice(c, s.function == "relu" || s.function == "add" ? 0 : 1, 2);
            return c;
          },
          [](const ReductionShape& s) {
            return logs({s.outer, s.inner});
          },
          [](const EmbeddingShape& s) {
            return logs({s.tokens, s.width, s.vocabulary});
          },
          [](const RecurrentShape& s) {
            std::vector<double> c = logs({s.hidden, s.batch, s.steps});
            add_choice(c, static_cast<std::size_t>(s.cell), 4);
            add_choice(c, static_cast<std::size_t>(s.pass), 3);
            return c;
          },
          [](const OptimizerShape& s) {
            std::vector<double> c = logs({s.parameters});
            add_choice(c, s.adam ? 1 : 0, 2);
            return c;
          },
          [](const CopyShape& s) {
            std::vector<double> c = logs({s.bytes});
            add_choice(c, static_cast<std::size_t>(s.direction), 4);
            add_choice(c, s.pinned ? 1 : 0, 2);
            return c;
          },
          [](const LaunchShape& s) { return logs({s.launches}); },
          [](const AllReduceShape& s) {
            return logs({s.gpus, s.bytes});
          }},
      experiment.shape);
  add_choice(at, static_cast<std::size_t>(experiment.precision), 7);
  return at;
}

}  // namespace tracecast::calibrate
