#include "calibrate/collect/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "calibrate/collect/plan_shapes.hpp"
#include "calibrate/device/experiment_kernels.hpp"

namespace tracecast::calibrate {
namespace {

std::uint64_t hash_of(std::uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

/// Collects experiments, each once, those that the device cannot hold left out.
class Planner {
 public:
  Planner(Device& device, PlanSize size)
      : device_(device),
        precisions_(precisions_of(device.identity().compute_capability)),
        most_bytes_(std::min(device.identity().memory * 0.25, Bytes(1e9))) {
    plan_.size = size;
  }

  void add(ExperimentShape shape, Precision precision, bool sustained = false,
           Algorithm heuristic = Algorithm::None) {
    PlannedExperiment planned{.experiment = {std::move(shape), precision},
                              .sustained = sustained,
                              .heuristic = heuristic};
    const ExperimentWork work = work_of(planned.experiment);
    // Tensor cores are ten times as fast and more.
    const Flops most = kMostWork * (precision == Precision::Fp32 ? 1.0 : 5.0);
    if (work.bytes > most_bytes_ || work.flops > most) return;
    if (names_.insert(describe(planned.experiment)).second) {
      plan_.experiments.push_back(std::move(planned));
    }
  }

  /// Every algorithm that the library offers for the pass.
  void add_convolution(ConvolutionShape shape, Precision precision) {
    const bool wide = precision != Precision::Fp32 && precision != Precision::Int8;
    shape.layout = wide || precision == Precision::Int8 ? ImageLayout::Nhwc : ImageLayout::Nchw;
    const OfferedAlgorithms offered = device_.offered(shape, precision);
    for (const Algorithm algorithm : offered.algorithms) {
      shape.algorithm = algorithm;
      add(shape, precision, false, offered.heuristic);
    }
  }
  void add_convolution_passes(const ConvAttributes& a, Precision precision) {
    add_convolution({.shape = a, .pass = Pass::Forward}, precision);
    if (precision == Precision::Int8) return;
    add_convolution({.shape = a, .pass = Pass::BackwardData}, precision);
    add_convolution({.shape = a, .pass = Pass::BackwardWeights}, precision);
  }

  [[nodiscard]] const std::vector<Precision>& precisions() const { return precisions_; }
  /// Fp16 where the GPU computes in it.
  [[nodiscard]] Precision half_or_single() const {
    const bool has_half =
        std::find(precisions_.begin(), precisions_.end(), Precision::Fp16) != precisions_.end();
    return has_half ? Precision::Fp16 : Precision::Fp32;
  }
  [[nodiscard]] int gpus() const { return device_.identity().gpus; }
  [[nodiscard]] Plan take() {
    std::uint64_t hash = hash_of(0xcbf29ce484222325ULL, to_string(plan_.size));
    for (const PlannedExperiment& planned : plan_.experiments) {
      hash = hash_of(hash, describe(planned.experiment));
      hash = hash_of(hash, planned.sustained ? "!\n" : "\n");
    }
    plan_.hash = fmt::format("{:016x}", hash);
    return std::move(plan_);
  }

 private:
  static constexpr Flops kMostWork{4e11};

  Device& device_;
  std::vector<Precision> precisions_;
  Bytes most_bytes_;
  std::set<std::string, std::less<>> names_;
  Plan plan_;
};

/// Sustained rates in each format, bandwidth, floors: what a calibration cannot do without.
void add_anchors(Planner& to) {
  for (const Precision precision : to.precisions()) {
    for (const std::int64_t side : {8192, 4096, 2048}) {
      to.add(GemmShape{.m = side, .n = side, .k = side, .transpose_b = true}, precision, true);
    }
  }
  for (const std::int64_t elements : {1LL << 22, 1LL << 25, 100'000'000LL}) {
    to.add(ElementwiseShape{"relu", elements, 1}, Precision::Fp32, elements > 1 << 25);
    to.add(ElementwiseShape{"add", elements, 2}, Precision::Fp32);
  }
  for (const std::int64_t launches : {1, 1000}) {
    to.add(LaunchShape{.launches = launches}, Precision::Fp32);
  }
  for (const CopyDirection direction : {CopyDirection::HostToDevice, CopyDirection::DeviceToHost}) {
    for (const bool pinned : {false, true}) {
      to.add(CopyShape{direction, pinned, 1 << 26}, Precision::Fp32);
      to.add(CopyShape{direction, pinned, 4096}, Precision::Fp32);
    }
  }
  to.add(CopyShape{CopyDirection::DeviceToDevice, true, 1 << 28}, Precision::Fp32, true);
}

void add_gemms(Planner& to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    for (const Precision precision : to.precisions()) {
      to.add(gemm_shape(i), precision);
      if (precision != Precision::Int8) to.add(batched_gemm_shape(i), precision);
    }
  }
}

void add_convolutions(Planner& to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const ConvAttributes shape = convolution_shape(i);
    const std::size_t turn = pick(i, 20, 3);
    for (const Precision precision : to.precisions()) {
      // Tf32 and Bf16 take the shapes of Fp16 by turns: their kernels differ little.
      if (precision == Precision::Tf32 && turn != 0) continue;
      if (precision == Precision::Bf16 && turn != 1) continue;
      if (precision == Precision::Int8 && turn != 2) continue;
      to.add_convolution_passes(shape, precision);
    }
  }
}

void add_memory_bound(Planner& to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const Precision precision = pick(i, 21, 2) == 0 ? Precision::Fp32 : to.half_or_single();
    to.add(elementwise_shape(i), precision);
    to.add(rows_shape(i, true), precision);
    to.add(rows_shape(i, false), precision);
    to.add(pooling_shape(i), precision);
    to.add(batch_norm_shape(i), precision);
    to.add(reduction_shape(i), precision);
    to.add(embedding_shape(i), precision);
    to.add(optimizer_shape(i), Precision::Fp32);
  }
}

void add_copies(Planner& to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to.add(copy_shape(i, to.gpus()), Precision::Fp32);
  for (std::size_t i = 0; to.gpus() > 1 && i < count; ++i) {
    to.add(all_reduce_shape(i, to.gpus()), Precision::Fp32);
  }
}

void add_recurrent(Planner& to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    to.add(recurrent_shape(i), pick(i, 21, 2) == 0 ? Precision::Fp32 : to.half_or_single());
  }
}

}  // namespace

std::string_view to_string(PlanSize size) { return size == PlanSize::Quick ? "quick" : "full"; }

Plan make_plan(Device& device, PlanSize size) {
  Planner planner(device, size);
  add_anchors(planner);
  if (size == PlanSize::Quick) {
    add_gemms(planner, 5);
    add_convolutions(planner, 5);
    add_memory_bound(planner, 4);
  } else {
    add_gemms(planner, 130);
    add_convolutions(planner, 60);
    add_memory_bound(planner, 60);
    add_recurrent(planner, 36);
    add_copies(planner, 60);
  }
  return planner.take();
}

}  // namespace tracecast::calibrate
