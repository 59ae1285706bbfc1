#include "sim/cost/transfer.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "models/lowering/formats.hpp"
#include "models/lowering/lower.hpp"
#include "models/lowering/precision.hpp"
#include "sim/cost/fill.hpp"
#include "sim/cost/occupancy.hpp"
#include "sim/cost/price.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast::cost {
namespace {

/// Guess: what specs alone leave open; Habitat reports 12 % mean error of whole networks.
constexpr double kWaveLogSd = 0.25, kWaveSharedLogSd = 0.15;
/// Guess: the inner size of the GEMM is inferred as well.
constexpr double kInferredLogSd = 0.40, kInferredSharedLogSd = 0.25;
/// A price further from the recorded time than this is that of other work.
constexpr double kCredible = 3;

bool is_gemm(KernelClass kernel_class) {
  return kernel_class == KernelClass::Convolution || kernel_class == KernelClass::Gemm ||
         kernel_class == KernelClass::BatchedGemm || kernel_class == KernelClass::GroupedGemm ||
         kernel_class == KernelClass::Attention || kernel_class == KernelClass::Recurrent;
}

struct Price {
  Seconds time{};
  Algorithm algorithm = Algorithm::None;
  double log_sd = 0, shared_log_sd = 0;
};

class Transferrer {
 public:
  Transferrer(const RecordedWork& recorded, const GpuSpec& from, const GpuSpec& to,
              const CostProfile& profile, const TransferOptions& options)
      : recorded_(recorded), from_(from), to_(to), profile_(profile), options_(options) {
    convolutions_.resize(recorded.convolutions.size());
    works_.resize(recorded.works.size());
    for (const RecordedKernel& kernel : recorded.kernels) {
      if (kernel.kernel_class == KernelClass::Convolution && changes_unit(kernel))
        leaves_tensor_cores_ |= kernel.unit == MathUnit::TensorCore;
    }
  }

  TransferredKernel move(const RecordedKernel& kernel) {
    if (kernel.kernel_class == KernelClass::Collective) return {kernel.duration};
    if (from_.id == to_.id)
      return {kernel.duration, kernel.convolution || kernel.work ? TransferWay::ClassModel
                                                                 : TransferWay::WaveScaling};
    if (kernel.convolution) {
      if (const auto& known = convolution(*kernel.convolution)) return scaled(kernel, *known);
    } else if (kernel.work) {
      if (auto moved = by_work(kernel)) return *moved;
    }
    if (kernel.changes_layout && leaves_tensor_cores_)
      return {Seconds(0), TransferWay::Rechosen, 0, 0};
    if (is_gemm(kernel.kernel_class) && (changes_unit(kernel) || can_infer(kernel)))
      return by_inferred_gemm(kernel);
    return by_waves(kernel);
  }

 private:
  /// What happens to all kernels of a convolution.
  struct Factor {
    double factor = 1;
    TransferWay way = TransferWay::ClassModel;
    double log_sd = 0, shared_log_sd = 0;
  };

  static TransferredKernel scaled(const RecordedKernel& kernel, const Factor& f) {
    return {kernel.duration * f.factor, f.way, f.log_sd, f.shared_log_sd};
  }

  [[nodiscard]] static bool has_tf32(const GpuSpec& gpu) {
    return gpu.find_peak(Precision::Tf32, MathUnit::TensorCore).has_value();
  }
  [[nodiscard]] PrecisionMode mode_there(PrecisionMode mode, KernelClass kernel_class) const {
    const bool wanted =
        kernel_class == KernelClass::Convolution ? options_.tf32_convolutions : options_.tf32_gemms;
    if (mode == PrecisionMode::Fp32 && wanted && has_tf32(to_) && !has_tf32(from_))
      return PrecisionMode::Tf32;
    return choose_precision(mode, false, to_).mode;
  }
  [[nodiscard]] lowering::Formats formats_there(const RecordedKernel& kernel) const {
    return lowering::choose_formats(mode_there(mode_of(kernel), kernel.kernel_class), to_);
  }
  /// Whether the kernel's GEMM runs in another format or on another unit there.
  [[nodiscard]] bool changes_unit(const RecordedKernel& kernel) const {
    if (kernel.math == Precision::Fp64) return false;
    return formats_there(kernel).unit != kernel.unit;
  }

  [[nodiscard]] Price price(const Kernel& kernel, const GpuSpec& gpu) const {
    const KernelEstimate e = estimate(kernel, gpu, profile_);
    return {e.duration, kernel.algorithm, e.log_sd, e.shared_log_sd};
  }

  /// One pass, by `algorithm` where there is one, else as a library would choose.
  [[nodiscard]] Price price(const RecordedConvolution& c, Pass pass, PrecisionMode mode,
                            Algorithm algorithm, const GpuSpec& gpu) const {
    LoweredOp op;
    op.candidates = convolution_candidates(c.shape, pass, mode, c.layout, gpu);
    op.workspace_limit = Bytes(1e18);
    const bool known = std::any_of(op.candidates.begin(), op.candidates.end(),
                                   [&](const Candidate& x) { return x.algorithm == algorithm; });
    if (known)
      std::erase_if(op.candidates, [&](const auto& x) { return x.algorithm != algorithm; });
    const PricedCandidate chosen = choose(op, gpu, profile_);
    Price result{chosen.duration, chosen.candidate->algorithm};
    double shared = 0, all = 0;
    for (const KernelEstimate& e : chosen.estimates) {
      all += e.duration * e.log_sd / Seconds(1);
      shared += e.duration * e.shared_log_sd / Seconds(1);
    }
    if (chosen.duration > Seconds(0)) {
      result.log_sd = all / chosen.duration.in_s();
      result.shared_log_sd = shared / chosen.duration.in_s();
    }
    return result;
  }

  const std::optional<Factor>& convolution(std::uint32_t index) {
    Known<Factor>& known = convolutions_[index];
    if (known.asked) return known.value;
    known.asked = true;
    const RecordedConvolution& c = recorded_.convolutions[index];
    const PrecisionMode there = mode_there(c.mode, KernelClass::Convolution);
    Seconds here{}, moved{};
    Factor f;
    for (const Pass pass : c.passes) {
      const Price a = price(c, pass, c.mode, c.algorithm, from_);
      const Algorithm wanted = there == c.mode ? a.algorithm : Algorithm::None;
      const Price b = price(c, pass, there, wanted, to_);
      if (there != c.mode || b.algorithm != a.algorithm) f.way = TransferWay::Rechosen;
      here += a.time, moved += b.time;
      f.log_sd = std::max(f.log_sd, b.log_sd);
      f.shared_log_sd = std::max(f.shared_log_sd, b.shared_log_sd);
    }
    if (here > Seconds(0) && moved > Seconds(0)) {
      f.factor = moved / here;
      known.value = f;
    }
    return known.value;
  }

  std::optional<TransferredKernel> by_work(const RecordedKernel& kernel) {
    Known<Pair>& known = works_[*kernel.work];
    if (!known.asked) {
      known.asked = true;
      const Kernel& here = recorded_.works[*kernel.work];
      Kernel there = here;
      const bool moves = is_gemm(kernel.kernel_class) && changes_unit(kernel);
      if (moves) set_formats(kernel, there);
      known.value = Pair{price(here, from_), price(there, to_), moves};
    }
    const Pair& pair = *known.value;
    const double ratio = kernel.duration / pair.here.time;
    if (!(ratio < kCredible && ratio > 1 / kCredible)) return std::nullopt;
    return TransferredKernel{kernel.duration * (pair.there.time / pair.here.time),
                             pair.moves ? TransferWay::Rechosen : TransferWay::ClassModel,
                             pair.there.log_sd, pair.there.shared_log_sd};
  }

  void set_formats(const RecordedKernel& kernel, Kernel& there) const {
    const lowering::Formats formats = formats_there(kernel);
    there.math = formats.math;
    there.unit = formats.unit;
  }

  static constexpr std::int64_t kVector = 8;

  /// The GEMM that tile and grid tell but for its inner size.
  [[nodiscard]] static Kernel gemm(const RecordedKernel& kernel, double k) {
    MatrixWork work;
    const bool has_tile = kernel.tile_m > 0 && kernel.tiles_m > 0;
    // Guess: 128 x 64 a block where the name does not say.
    work.m = has_tile ? kernel.tile_m * kernel.tiles_m : 128;
    work.n = has_tile ? kernel.tile_n * kernel.tiles_n : 64;
    work.batch = std::max<std::int64_t>(
        1, has_tile ? kernel.gemms : static_cast<std::int64_t>(kernel.launch.blocks));
    // What a time tells is no exact size; rows of networks begin at whole vectors.
    work.k =
        std::max<std::int64_t>(kVector, std::llround(k / static_cast<double>(kVector)) * kVector);
    const double b = static_cast<double>(work.batch), m = static_cast<double>(work.m);
    const double n = static_cast<double>(work.n), depth = static_cast<double>(work.k);
    Kernel result;
    result.kernel_class = KernelClass::Gemm;
    result.math = kernel.math;
    result.unit = kernel.unit;
    const bool half = kernel.math == Precision::Fp16 || kernel.math == Precision::Bf16;
    result.data = half ? kernel.math : Precision::Fp32;
    result.flops = Flops(2 * b * m * n * depth);
    result.read = element_size(result.data) * (b * (m * depth + n * depth));
    result.written = element_size(result.data) * (b * m * n);
    result.work = work;
    return result;
  }

  /// Multiply-adds of the direct method per one that Winograd's executes: F(2x2,3x3) and
  /// F(4x4,3x3).
  static double saving(Algorithm algorithm) {
    return algorithm == Algorithm::WinogradFused      ? 2.25
           : algorithm == Algorithm::WinogradNonfused ? 4
                                                      : 1;
  }

  /// Transforms before and after the GEMMs of non-fused Winograd: they stream.
  static bool is_winograd_transform(const RecordedKernel& kernel) {
    return kernel.algorithm == Algorithm::WinogradNonfused && kernel.tile_m == 0;
  }
  /// A GEMM on lanes of which enough is known to be priced on lanes again: how much of their peak
  /// tiles reach differs from GPU to GPU. Of convolutions that is the number of blocks.
  static bool can_infer(const RecordedKernel& kernel) {
    if (kernel.unit != MathUnit::CudaCore || kernel.math != Precision::Fp32) return false;
    if (kernel.kernel_class == KernelClass::Convolution)
      return kernel.launch.blocks > 0 && !is_winograd_transform(kernel);
    return kernel.tile_m > 0 && kernel.tiles_m > 0;
  }

  TransferredKernel by_inferred_gemm(const RecordedKernel& kernel) const {
    const bool rechosen = changes_unit(kernel);
    // Not needed by another algorithm.
    if (is_winograd_transform(kernel)) return {Seconds(0), TransferWay::Rechosen, 0, 0};
    double low = 1, high = 1 << 20;
    for (int i = 0; i < 40; ++i) {
      const double k = std::sqrt(low * high);
      (price(gemm(kernel, k), from_).time < kernel.duration ? low : high) = k;
    }
    const Seconds here = price(gemm(kernel, high), from_).time;
    Kernel there = gemm(kernel, rechosen ? high * saving(kernel.algorithm) : high);
    if (rechosen) set_formats(kernel, there);
    return {kernel.duration * (price(there, to_).time / here),
            rechosen ? TransferWay::Rechosen : TransferWay::ClassModel, kInferredLogSd,
            kInferredSharedLogSd};
  }

  [[nodiscard]] TransferredKernel by_waves(const RecordedKernel& kernel) const {
    const SustainedGpu here = sustain(from_, kernel.math, kernel.unit, profile_);
    const SustainedGpu there = sustain(to_, kernel.math, kernel.unit, profile_);
    double factor = here.stream / there.stream;
    const double blocks = kernel.launch.blocks;
    if (is_gemm(kernel.kernel_class) && !is_winograd_transform(kernel)) {
      factor = here.arithmetic * wave_fill(kernel.launch, from_) /
               (there.arithmetic * wave_fill(kernel.launch, to_));
    } else if (blocks > 0 && blocks < std::min(from_.sm_count, to_.sm_count)) {
      factor = here.free_clock / there.free_clock;
    }
    const Seconds fill = fill_time(here, from_, profile_);
    const Seconds fixed = std::min(kernel.duration, fill);
    return {fixed * (fill_time(there, to_, profile_) / fill) + (kernel.duration - fixed) * factor,
            TransferWay::WaveScaling, kWaveLogSd, kWaveSharedLogSd};
  }

  template <class T>
  struct Known {
    bool asked = false;
    std::optional<T> value;
  };
  struct Pair {
    Price here, there;
    bool moves = false;
  };

  const RecordedWork& recorded_;
  const GpuSpec &from_, &to_;
  const CostProfile& profile_;
  TransferOptions options_;
  std::vector<Known<Factor>> convolutions_;
  std::vector<Known<Pair>> works_;
  bool leaves_tensor_cores_ = false;
};

}  // namespace

std::string_view to_string(TransferWay way) {
  switch (way) {
    case TransferWay::ClassModel:
      return "class model";
    case TransferWay::Rechosen:
      return "re-chosen";
    case TransferWay::WaveScaling:
      return "wave scaling";
    case TransferWay::Kept:
      return "kept";
  }
  return "kept";
}

std::vector<TransferredKernel> transfer(const RecordedWork& recorded, const GpuSpec& from,
                                        const GpuSpec& to, const CostProfile& profile,
                                        const TransferOptions& options) {
  Transferrer transferrer(recorded, from, to, profile, options);
  std::vector<TransferredKernel> result;
  result.reserve(recorded.kernels.size());
  for (const RecordedKernel& kernel : recorded.kernels) result.push_back(transferrer.move(kernel));
  return result;
}

Seconds transfer_copy(Seconds duration, CopyRoute route, const GpuSpec& from, const GpuSpec& to,
                      const CostProfile& profile) {
  const auto stream = [&](const GpuSpec& gpu) {
    return gpu.effective_bandwidth() * dram_efficiency(gpu, profile);
  };
  const BytesPerSecond none{};
  switch (route) {
    case CopyRoute::Device:
      return duration * (stream(from) / stream(to));
    case CopyRoute::Link:
      break;
    case CopyRoute::Pageable:
      return duration;
    case CopyRoute::Peer:
      if (from.nvlink_bandwidth > none && to.nvlink_bandwidth > none)
        return duration * (from.nvlink_bandwidth / to.nvlink_bandwidth);
      break;
  }
  if (!(from.pcie_bandwidth > none) || !(to.pcie_bandwidth > none)) return duration;
  return duration * (from.pcie_bandwidth / to.pcie_bandwidth);
}

}  // namespace tracecast::cost
