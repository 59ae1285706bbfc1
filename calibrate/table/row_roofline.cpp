#include "calibrate/table/row_roofline.hpp"

#include <algorithm>
#include <limits>

namespace tracecast {
namespace {

constexpr double kPeakShare = 0.75, kBandwidthShare = 0.8;
constexpr Seconds kRooflineStart = Seconds(3e-6);
constexpr double kHalfValue = 2;  // bytes

/// Operations in seconds at the peak, and bytes.
struct RooflineWork {
  double arithmetic_s = 0;
  double bytes = 0;
};

double roofline_peak(const GpuSpec& gpu, Precision math, MathUnit unit) {
  if (const auto known = gpu.find_peak(math, unit)) return known->in_si();
  if (const auto wider = gpu.find_peak(Precision::Fp16, unit); wider && math != Precision::Fp32)
    return wider->in_si();
  return gpu.peak_fp32().in_si();
}

double tensor_peak(const GpuSpec& gpu, GemmFormat format) {
  return roofline_peak(gpu, math_of(format), MathUnit::TensorCore);
}

RooflineWork roofline_work(const cost::TensorGemm& p, const GpuSpec& gpu) {
  return {.arithmetic_s = 2 * p.batch * p.m * p.n * p.k / tensor_peak(gpu, p.format),
          .bytes = p.batch * (p.m * p.k * activation_bytes(p.format) +
                              p.n * p.k * weight_bytes(p.format) + kHalfValue * p.m * p.n)};
}

RooflineWork roofline_work(const PrefillWork& w, const GpuSpec& gpu) {
  const double keys = w.keys > 0 ? w.keys : w.tokens;
  double seen = w.causal ? w.tokens * (w.tokens + 1) / 2 : w.tokens * keys;
  if (w.causal && w.window > 0 && w.window < w.tokens)
    seen = w.window * w.tokens - w.window * (w.window - 1) / 2;
  const double width = w.key_width + w.value_width;
  const auto format = w.format == AttentionFormat::Fp8 ? GemmFormat::Fp8 : GemmFormat::Half;
  return {.arithmetic_s = w.gemms * w.batch * w.heads * seen * width / tensor_peak(gpu, format),
          .bytes = kHalfValue * w.batch * width * (w.tokens * w.heads + keys * w.kv_heads)};
}

RooflineWork roofline_work(const DecodeWork& w, const GpuSpec& gpu) {
  const double keys = w.window > 0 ? std::min(w.keys, w.window) : w.keys;
  const double heads_of_keys = w.latent ? 1 : w.kv_heads;
  return {
      .arithmetic_s = 2 * w.batch * w.heads * keys * w.gemms / tensor_peak(gpu, GemmFormat::Half),
      .bytes = w.batch * (keys * heads_of_keys * w.key_values * (w.fp8_cache ? 1 : kHalfValue) +
                          kHalfValue * w.heads * w.gemms)};
}

RooflineWork roofline_work(const ExpertsWork& w, const GpuSpec& gpu) {
  const double size = w.hidden * w.width * (w.gated ? 3 : 2);
  return {.arithmetic_s = 2 * w.load.rows * size / tensor_peak(gpu, gemms_of(w.format)),
          .bytes = std::min(w.load.experts, w.load.rows) * size * expert_weight_bytes(w.format) +
                   w.load.rows * w.hidden * (expert_activation_bytes(w.format) + kHalfValue)};
}

std::optional<RooflineWork> roofline_work(const Work& work, const GpuSpec& gpu) {
  if (const auto* prefill = std::get_if<PrefillWork>(&work)) return roofline_work(*prefill, gpu);
  if (const auto* decode = std::get_if<DecodeWork>(&work)) return roofline_work(*decode, gpu);
  if (const auto* experts = std::get_if<ExpertsWork>(&work)) return roofline_work(*experts, gpu);
  if (const auto* downcast = std::get_if<QuantizationWork>(&work))
    return RooflineWork{.arithmetic_s = 0,
                        .bytes = (kHalfValue + 1) * downcast->rows * downcast->cols};
  return std::nullopt;
}

RooflineWork roofline_work(const LoweredOp& op, const GpuSpec& gpu) {
  RooflineWork least;
  double least_s = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : op.candidates) {
    RooflineWork work;
    for (const Kernel& kernel : candidate.kernels) {
      work.arithmetic_s += kernel.flops.in_si() / roofline_peak(gpu, kernel.math, kernel.unit);
      work.bytes += kernel.bytes().in_bytes();
    }
    const double seconds = std::max(work.arithmetic_s, work.bytes / gpu.dram_bandwidth.in_si());
    if (seconds < least_s) least_s = seconds, least = work;
  }
  return least;
}

std::optional<RooflineWork> roofline_work(const Measurement& row) {
  if (const auto* call = std::get_if<GemmCall>(&row.work)) {
    if (call->is_power || call->gemms.empty()) return std::nullopt;
    return roofline_work(call->gemms.front(), *row.spec);
  }
  if (const auto* call = std::get_if<EngineCall>(&row.work)) {
    if (call->calls.empty()) return std::nullopt;
    return roofline_work(call->calls.front(), *row.spec);
  }
  const auto* isolated = std::get_if<IsolatedOp>(&row.work);
  if (!isolated) return std::nullopt;
  RooflineWork all;
  for (const LoweredOp& op : isolated->step.ops) {
    const RooflineWork one = roofline_work(op, *row.spec);
    all.arithmetic_s += one.arithmetic_s;
    all.bytes += one.bytes;
  }
  return all;
}

}  // namespace

std::optional<RowRoofline> roofline_of(const Measurement& measurement) {
  const auto work = roofline_work(measurement);
  if (!work || !(work->arithmetic_s + work->bytes > 0)) return std::nullopt;
  const double memory_s = work->bytes / measurement.spec->dram_bandwidth.in_si();
  return RowRoofline{.plain = Seconds(std::max(work->arithmetic_s, memory_s)),
                     .three_constants = Seconds(std::max(work->arithmetic_s / kPeakShare,
                                                         memory_s / kBandwidthShare)) +
                                        kRooflineStart};
}

}  // namespace tracecast
