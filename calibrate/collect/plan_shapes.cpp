#include "calibrate/collect/plan_shapes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "sim/base/random.hpp"

namespace tracecast::calibrate {
namespace {

/// Radical inverse of i + 1 in the prime of a dimension: one coordinate of Halton's sequence, in
/// (0, 1).
double halton(std::size_t i, std::size_t dimension) {
  constexpr std::array<std::size_t, 8> kPrimes = {2, 3, 5, 7, 11, 13, 17, 19};
  const std::size_t base = kPrimes[dimension];
  double value = 0, weight = 1;
  for (std::size_t rest = i + 1; rest > 0; rest /= base) {
    weight /= static_cast<double>(base);
    value += weight * static_cast<double>(rest % base);
  }
  return value;
}

/// The i-th point's coordinates, each read as a size or a choice.
class Point {
 public:
  explicit Point(std::size_t i) : i_(i) {}

  /// Between `low` and `high`, even in the logarithm. One point in four keeps it as it is; the
  /// others round to a multiple of 8 (of 64 from 512 on).
  std::int64_t size(std::int64_t low, std::int64_t high) {
    const std::int64_t raw = plain_size(low, high);
    if (pick(i_, 0, 4) == 0) return raw;
    const std::int64_t step = raw >= 512 ? 64 : raw >= 16 ? 8 : 1;
    return std::clamp((raw + step / 2) / step * step, low, high);
  }
  std::int64_t plain_size(std::int64_t low, std::int64_t high) {
    const double from = std::log2(static_cast<double>(low)),
                 to = std::log2(static_cast<double>(high));
    return std::clamp(std::llround(std::exp2(from + (to - from) * next())) + 0LL,
                      static_cast<long long>(low), static_cast<long long>(high));
  }
  std::size_t choice(std::size_t count) {
    return std::min(static_cast<std::size_t>(next() * static_cast<double>(count)), count - 1);
  }

 private:
  double next() { return halton(i_, dimension_++ % 8); }
  std::size_t i_, dimension_ = 0;
};

std::int64_t output_size(std::int64_t in, std::int64_t filter, std::int64_t stride,
                         std::int64_t pad) {
  return (in + 2 * pad - filter) / stride + 1;
}

}  // namespace

std::size_t pick(std::size_t i, std::size_t salt, std::size_t count) {
  Random random(i * 64 + salt);
  return static_cast<std::size_t>(random.below(count));
}

GemmShape gemm_shape(std::size_t i) {
  Point at(i);
  GemmShape s;
  s.m = at.size(1, 16384), s.n = at.size(16, 8192), s.k = at.size(32, 8192);
  // Forward, data gradient and weight gradient of a linear layer.
  const std::size_t kind = at.choice(3);
  s.transpose_b = kind == 0;
  s.transpose_a = kind == 2;
  return s;
}

GemmShape batched_gemm_shape(std::size_t i) {
  Point at(i);
  GemmShape s;
  s.batch = at.plain_size(2, 768);
  s.m = at.size(16, 2048), s.n = at.size(16, 2048), s.k = at.size(16, 512);
  s.transpose_b = at.choice(2) == 0;
  return s;
}

ConvAttributes convolution_shape(std::size_t i) {
  Point at(i);
  constexpr std::array<std::int64_t, 8> kFilters = {1, 3, 3, 1, 3, 5, 3, 7};
  ConvAttributes a;
  a.n = at.plain_size(1, 128);
  a.c = at.size(3, 1024), a.k = at.size(16, 1024);
  a.h = a.w = at.plain_size(7, 224);
  a.r = a.s = kFilters[pick(i, 1, kFilters.size())];
  a.stride_h = a.stride_w = at.choice(4) == 0 ? 2 : 1;
  a.pad_top = a.pad_left = a.pad_bottom = a.pad_right = static_cast<int>(a.r / 2);
  const std::size_t grouping = pick(i, 2, 10);
  if (grouping == 0) {  // depthwise
    a.c = std::max<std::int64_t>(a.c / 8 * 8, 8);
    a.k = a.groups = a.c;
  } else if (grouping == 1) {  // groups, as in ResNeXt
    a.c = std::max<std::int64_t>(a.c / 128 * 128, 128);
    a.k = std::max<std::int64_t>(a.k / 128 * 128, 128);
    a.groups = 32;
  }
  a.p = output_size(a.h, a.r, a.stride_h, a.pad_top);
  a.q = output_size(a.w, a.s, a.stride_w, a.pad_left);
  return a;
}

PoolingShape pooling_shape(std::size_t i) {
  Point at(i);
  PoolingShape s;
  s.n = at.plain_size(1, 128), s.c = at.size(16, 1024);
  s.h = s.w = at.plain_size(7, 224);
  s.average = at.choice(2) == 1;
  s.window = 2 + static_cast<std::int64_t>(at.choice(2));
  s.stride = at.choice(4) == 0 ? 1 : 2;
  s.pad = s.window == 3 ? 1 : 0;
  return s;
}

BatchNormShape batch_norm_shape(std::size_t i) {
  Point at(i);
  BatchNormShape s;
  s.n = at.plain_size(1, 128), s.c = at.size(16, 2048);
  s.h = s.w = at.plain_size(7, 112);
  s.training = at.choice(3) != 0;
  return s;
}

RowsShape rows_shape(std::size_t i, bool softmax) {
  Point at(i);
  RowsShape s{.softmax = softmax};
  s.rows = at.plain_size(64, 262144), s.cols = at.size(32, softmax ? 32768 : 8192);
  return s;
}

ElementwiseShape elementwise_shape(std::size_t i) {
  Point at(i);
  constexpr std::array<std::string_view, 6> kFunctions = {"relu", "add",  "gelu",
                                                          "mul",  "tanh", "add"};
  ElementwiseShape s;
  s.elements = at.plain_size(1 << 10, 1 << 27);
  s.function = kFunctions[pick(i, 3, kFunctions.size())];
  s.inputs = s.function == "add" || s.function == "mul" ? 2 : 1;
  return s;
}

ReductionShape reduction_shape(std::size_t i) {
  Point at(i);
  ReductionShape s;
  s.outer = at.plain_size(1, 65536), s.inner = at.plain_size(64, 65536);
  return s;
}

EmbeddingShape embedding_shape(std::size_t i) {
  Point at(i);
  EmbeddingShape s;
  s.tokens = at.plain_size(64, 65536), s.width = at.size(32, 4096);
  s.vocabulary = at.plain_size(1000, 60000);
  return s;
}

RecurrentShape recurrent_shape(std::size_t i) {
  Point at(i);
  constexpr std::array<CellKind, 3> kCells = {CellKind::Lstm, CellKind::Gru, CellKind::RnnTanh};
  constexpr std::array<Pass, 3> kPasses = {Pass::Forward, Pass::BackwardData,
                                           Pass::BackwardWeights};
  RecurrentShape s;
  s.hidden = at.size(128, 2048), s.batch = at.size(1, 128), s.steps = at.plain_size(5, 200);
  s.cell = kCells[pick(i, 4, 3)];
  s.pass = kPasses[pick(i, 5, 3)];
  return s;
}

OptimizerShape optimizer_shape(std::size_t i) {
  Point at(i);
  OptimizerShape s;
  s.parameters = at.plain_size(1 << 10, 1 << 25);
  s.adam = at.choice(2) == 1;
  return s;
}

CopyShape copy_shape(std::size_t i, int gpus) {
  Point at(i);
  CopyShape s;
  s.bytes = at.plain_size(256, 1 << 28);
  const std::size_t directions = gpus > 1 ? 4 : 3;
  s.direction = static_cast<CopyDirection>(pick(i, 6, directions));
  const bool touches_host =
      s.direction == CopyDirection::HostToDevice || s.direction == CopyDirection::DeviceToHost;
  s.pinned = !touches_host || pick(i, 7, 2) == 0;
  return s;
}

AllReduceShape all_reduce_shape(std::size_t i, int gpus) {
  Point at(i);
  AllReduceShape s;
  s.bytes = at.plain_size(1 << 10, 1 << 28) / 4 * 4;
  // 2, 4, 8 ... and all there are.
  s.gpus = gpus;
  for (std::int64_t n = 2, skip = static_cast<std::int64_t>(pick(i, 8, 4)); n < gpus;
       n *= 2, --skip) {
    if (skip == 0) s.gpus = n;
  }
  return s;
}

}  // namespace tracecast::calibrate
