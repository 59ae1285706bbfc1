#include "sim/cost/price.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/cost/attention.hpp"
#include "sim/cost/convolution.hpp"
#include "sim/cost/decode.hpp"
#include "sim/cost/experts.hpp"
#include "sim/cost/fill.hpp"
#include "sim/cost/issue.hpp"
#include "sim/cost/recurrent.hpp"
#include "sim/cost/reduction.hpp"
#include "sim/cost/roofs.hpp"
#include "sim/cost/streaming.hpp"
#include "sim/cost/sustained_clock.hpp"
#include "sim/cost/tensor_gemm.hpp"
#include "sim/cost/tensor_power.hpp"
#include "sim/cost/tile_gemm.hpp"
#include "sim/cost/uncertainty.hpp"

namespace tracecast::cost {
namespace {

Roofs estimate_matrix(const Kernel& kernel, const MatrixWork& work, const SustainedGpu& machine,
                      const GpuSpec& gpu, const CostProfile& profile) {
  TileProblem t;
  t.batch = static_cast<double>(work.batch);
  t.m = static_cast<double>(work.m);
  t.n = static_cast<double>(work.n);
  t.k = static_cast<double>(work.k);
  t.efficiency = library_efficiency(gpu, profile);
  const bool in_convolution = kernel.kernel_class == KernelClass::Convolution;
  const bool is_spectra =
      kernel.algorithm == Algorithm::Fft || kernel.algorithm == Algorithm::FftTiling;
  if (kernel.algorithm == Algorithm::WinogradNonfused) {
    t.efficiency = winograd_gemm_efficiency(gpu, profile);
  } else if (is_spectra) {
    t.efficiency = issue_efficiency(gpu, profile.convolution.spectra_issue, profile);
  } else if (in_convolution) {
    t.efficiency *= profile.convolution.explicit_gemm;
  }
  t.traffic_bytes = kernel.bytes().in_bytes();
  t.result_bytes = t.batch * t.m * t.n * 4.0;
  t.most_slices = work.batch == 1 ? kMostSlices : 1;
  if (in_convolution) {
    // An im2col matrix's GEMM: long slices, and never as a matrix times a vector. Source: single
    // images in data/kernels/conv_cudnn_algos.csv.gz, 490 us at k = 1024, 825 us at 4608 (K80).
    constexpr double kSlice = 1024;
    t.most_slices = std::min(t.most_slices, std::max(1, static_cast<int>(t.k / kSlice)));
    t.may_be_vectors = false;
  }
  t.by_matrix_library = !in_convolution;
  t.depth_per_step = depth_per_step(kernel);
  if (is_spectra) {
    t.depth_per_step = 4;  // a complex multiply-add is four real ones
    t.most_slices = 1;
  }
  if (t.by_matrix_library) {
    t.a_by_rows = !work.transpose_a;
    t.b_by_columns = work.transpose_b;
    t.row_bytes = t.k * element_size(kernel.data).in_bytes();
  }
  t.tiles =
      work.by_cublas_lt                   ? TileSet::CublasLt
      : is_spectra                        ? TileSet::Spectra
      : work.batch > 1 && !in_convolution ? TileSet::Batched
      : kernel.algorithm == Algorithm::WinogradNonfused && gpu.architecture >= Architecture::Ampere
          ? TileSet::Batched
          : TileSet::Gemm;
  return estimate_tiles(t, machine, gpu, profile).roofs;
}

/// Format of a GEMM on tensor cores, by its operands and by what its weights are kept in.
GemmFormat format_of(const Kernel& kernel, const MatrixWork& work) {
  switch (work.weights) {
    case WeightFormat::AsOperands:
      break;
    case WeightFormat::Int8:
      return GemmFormat::Int8Weights;
    case WeightFormat::Int4:
      return GemmFormat::Int4Weights;
    case WeightFormat::Blocks:
      return GemmFormat::Fp8Block;
  }
  switch (kernel.math) {
    case Precision::Fp32:
    case Precision::Fp64:
    case Precision::Tf32:
      return GemmFormat::Tf32;
    case Precision::Fp8:
      return GemmFormat::Fp8;
    case Precision::Int8:
      return GemmFormat::Int8;
    case Precision::Fp4:
      return GemmFormat::Fp4;
    case Precision::Fp16:
    case Precision::Bf16:
      break;
  }
  return GemmFormat::Half;
}

TensorGemm gemm_of(const MatrixWork& work, GemmFormat format) {
  TensorGemm gemm;
  gemm.batch = static_cast<double>(work.batch);
  gemm.m = static_cast<double>(work.m);
  gemm.n = static_cast<double>(work.n);
  gemm.k = static_cast<double>(work.k);
  gemm.format = format;
  gemm.by_early_library = work.by_early_library;
  gemm.alignment = gemm_alignment(gemm, work.transpose_a, work.transpose_b, result_bytes(format));
  return gemm;
}

/// What an engine's layers hand to each other, and what their epilogues read.
void chain(TensorGemm& gemm, const Kernel& kernel) {
  const double passed = kernel.bytes().in_bytes();
  gemm.reuse.activations = gemm.reuse.results = passed;
  const double results = gemm.batch * gemm.m * gemm.n;
  gemm.value_of_result = kernel.written.in_bytes() / results;
  const double operands =
      gemm.batch * gemm.k *
      (gemm.m * activation_bytes(gemm.format) + gemm.n * weight_bytes(gemm.format));
  gemm.addend = std::max(0.0, kernel.read.in_bytes() - operands);
}

/// What a price of a call rests on: rows of this GPU, of its generation, or its spec.
Basis call_basis(CostForm form, const GpuSpec& gpu, const CostProfile& profile) {
  const auto index = static_cast<std::size_t>(form);
  const std::vector<std::string>& known = profile.fitted_gpus[index];
  const bool is_known = std::find(known.begin(), known.end(), gpu.id) != known.end();
  if (is_known || (!profile.measured_gpu.empty() && profile.measured_gpu == gpu.id))
    return Basis::Measured;
  return profile.fitted[index][static_cast<std::size_t>(gpu.architecture)] ? Basis::Transferred
                                                                           : Basis::Spec;
}

/// Attention of a network on the tensor cores of GPUs that inference engines know: the library's
/// kernel, without calls around it.
std::optional<Work> as_call(const Kernel& kernel, const AttentionWork& work, const GpuSpec& gpu) {
  const bool is_wide = kernel.math == Precision::Tf32;
  if (kernel.unit != MathUnit::TensorCore || is_wide || mma_kind(gpu) == MmaKind::Warp)
    return std::nullopt;
  const AttentionAttributes& a = work.shape;
  if (a.queries == 1 && a.keys > 1 && work.gemms == 2) {
    DecodeWork call;
    call.batch = static_cast<double>(a.batch);
    call.keys = static_cast<double>(a.keys);
    call.heads = static_cast<double>(a.heads);
    call.kv_heads = static_cast<double>(a.kv_heads);
    call.width = static_cast<double>(a.width);
    call.key_values = call.gemms = static_cast<double>(a.width + a.width_of_values());
    call.fp8_cache = element_size(kernel.data) < Bytes(2);
    return call;
  }
  PrefillWork call;
  call.batch = static_cast<double>(a.batch);
  call.tokens = static_cast<double>(a.queries);
  call.keys = static_cast<double>(a.keys);
  call.causal = a.causal && a.queries == a.keys;
  call.gemms = work.gemms;
  if (element_size(kernel.math) == Bytes(1)) call.format = AttentionFormat::Fp8;
  call.in_integers = kernel.math == Precision::Int8;
  call.by_warps = work.by_warps;
  call.heads = static_cast<double>(a.heads);
  call.kv_heads = static_cast<double>(a.kv_heads);
  call.key_width = static_cast<double>(a.width);
  call.value_width = static_cast<double>(a.width_of_values());
  call.window = static_cast<double>(a.window);
  if (a.chosen > 0 && a.chosen < a.keys) {
    // Every query is a sequence of its own over the keys that it chose.
    call.batch *= call.tokens;
    call.tokens = 1;
    call.keys = a.keys_per_query();
    call.causal = false;
  }
  return call;
}

Basis basis_of(const Kernel& kernel, CostForm form, const GpuSpec& gpu,
               const CostProfile& profile) {
  if (kernel.is_bounded_guess) return Basis::Unknown;
  if (std::holds_alternative<ChainWork>(kernel.work)) return Basis::Spec;
  if (!profile.measured_gpu.empty() && profile.measured_gpu == gpu.id) return Basis::Measured;
  if (form == CostForm::TensorGemm) return gemm_basis(gpu, profile);
  if (form > CostForm::TensorGemm) return call_basis(form, gpu, profile);
  const bool fitted =
      profile.fitted[static_cast<std::size_t>(form)][static_cast<std::size_t>(gpu.architecture)];
  return fitted ? Basis::Transferred : Basis::Spec;
}

}  // namespace

std::string_view to_string(Bound bound) {
  switch (bound) {
    case Bound::Compute:
      return "compute";
    case Bound::Memory:
      return "memory";
    case Bound::Latency:
      return "latency";
  }
  return "unknown";
}

std::string_view to_string(Basis basis) {
  switch (basis) {
    case Basis::Measured:
      return "measured";
    case Basis::Transferred:
      return "transferred";
    case Basis::Spec:
      return "spec";
    case Basis::Unknown:
      return "unknown";
  }
  return "unknown";
}

Basis gemm_basis(const GpuSpec& gpu, const CostProfile& profile) {
  if (!profile.measured_gpu.empty() && profile.measured_gpu == gpu.id) return Basis::Measured;
  const std::vector<std::string>& known = profile.fitted_gemm_gpus;
  if (std::find(known.begin(), known.end(), gpu.id) != known.end()) return Basis::Measured;
  const bool fitted = profile.fitted[static_cast<std::size_t>(CostForm::TensorGemm)]
                                    [static_cast<std::size_t>(gpu.architecture)];
  return fitted ? Basis::Transferred : Basis::Spec;
}

double gemm_log_sd(const TensorGemm& gemm, const GpuSpec& gpu, const CostProfile& profile) {
  const ErrorSd& e = profile.error[static_cast<std::size_t>(CostForm::TensorGemm)];
  const ErrorCauses& causes = profile.error_causes;
  const Basis basis = gemm_basis(gpu, profile);
  const double base = basis == Basis::Measured      ? e.measured
                      : basis == Basis::Transferred ? std::max(e.transferred, e.spec)
                                                    : e.spec;
  const bool is_plain = gemm.format == GemmFormat::Half || gemm.format == GemmFormat::Tf32;
  const std::size_t whose = gemm.engine ? 1 + static_cast<std::size_t>(*gemm.engine) : 0;
  const auto family = static_cast<std::size_t>(family_of(gemm.format));
  const double format =
      is_plain ? 0
               : std::hypot(causes.tensor_gemm_format[whose], causes.tensor_gemm_family[family]);
  return std::hypot(std::hypot(base, format), gemm_board_uncertainty(gpu, profile));
}

namespace {

std::optional<CostForm> call_form(const Work& work) {
  if (const auto* prefill = std::get_if<PrefillWork>(&work))
    return prefill->latent ? CostForm::LatentPrefill : CostForm::Prefill;
  if (const auto* decode = std::get_if<DecodeWork>(&work))
    return decode->latent ? CostForm::LatentDecode : CostForm::Decode;
  if (std::holds_alternative<ExpertsWork>(work)) return CostForm::Experts;
  if (std::holds_alternative<QuantizationWork>(work)) return CostForm::Quantization;
  return std::nullopt;
}

CallEstimate estimate_call(const Work& work, const TensorBoard& board, const CostProfile& profile) {
  if (const auto* prefill = std::get_if<PrefillWork>(&work)) {
    const auto decode = as_decode(*prefill);
    return decode ? estimate_decode(*decode, board, profile)
                  : estimate_prefill(*prefill, board, profile);
  }
  if (const auto* decode = std::get_if<DecodeWork>(&work))
    return estimate_decode(*decode, board, profile);
  if (const auto* experts = std::get_if<ExpertsWork>(&work))
    return estimate_experts(*experts, board, profile);
  return estimate_quantization(std::get<QuantizationWork>(work), board, profile);
}

}  // namespace

CallUncertainty uncertainty_of(const Work& work, const CallEstimate& estimate) {
  CallUncertainty uncertainty;
  if (estimate.duration > Seconds(0)) {
    const Seconds roof = std::max(estimate.roofs.compute, estimate.roofs.memory);
    uncertainty.roof_share = std::min(1.0, roof / estimate.duration);
  }
  const auto is_common = [](double width) { return width == 64 || width == 128; };
  if (const auto* w = std::get_if<PrefillWork>(&work)) {
    uncertainty.engine = w->engine;
    uncertainty.is_low_precision = w->format != AttentionFormat::Half;
    uncertainty.is_rare = w->latent ? w->absorbed : !is_common(w->key_width);
    uncertainty.has_window = w->window > 0;
  } else if (const auto* d = std::get_if<DecodeWork>(&work)) {
    uncertainty.engine = d->engine;
    uncertainty.is_low_precision = d->fp8_cache;
    uncertainty.is_rare = !d->latent && !is_common(d->width);
    uncertainty.has_window = d->window > 0;
  } else if (const auto* x = std::get_if<ExpertsWork>(&work)) {
    uncertainty.engine = x->engine;
    uncertainty.is_low_precision = x->format != ExpertFormat::Half;
    uncertainty.is_rare = x->load.others > 0;
  } else if (const auto* q = std::get_if<QuantizationWork>(&work)) {
    uncertainty.engine = q->engine;
  }
  return uncertainty;
}

std::optional<CallPrice> price_call(const Work& work, const GpuSpec& gpu,
                                    const CostProfile& profile) {
  const auto form = call_form(work);
  if (!form) return std::nullopt;
  CallPrice price{.estimate = estimate_call(work, TensorBoard(gpu, profile), profile),
                  .form = *form,
                  .basis = call_basis(*form, gpu, profile)};
  const ErrorSd& e = profile.error[static_cast<std::size_t>(*form)];
  price.log_sd = price.basis == Basis::Measured      ? e.measured
                 : price.basis == Basis::Transferred ? std::max(e.transferred, e.spec)
                                                     : e.spec;
  price.uncertainty = uncertainty_of(work, price.estimate);
  const CallUncertainty& uncertainty = price.uncertainty;
  price.log_sd *=
      std::hypot(1.0, e.body * price.estimate.body_share) *
      (uncertainty.engine ? e.engine[static_cast<std::size_t>(*uncertainty.engine)] : 1) *
      (uncertainty.is_low_precision ? e.low_precision : 1) * (uncertainty.is_rare ? e.rare : 1) *
      (uncertainty.has_window ? e.window : 1) * std::pow(e.roof, uncertainty.roof_share);
  return price;
}

CostForm form_of(const Kernel& kernel) {
  if (const auto form = call_form(kernel.work)) return *form;
  if (std::holds_alternative<StreamWork>(kernel.work)) return CostForm::Streaming;
  if (std::holds_alternative<ReductionWork>(kernel.work)) return CostForm::Reduction;
  if (std::holds_alternative<RecurrentWork>(kernel.work)) return CostForm::Recurrent;
  if (kernel.unit == MathUnit::TensorCore) {
    return std::holds_alternative<MatrixWork>(kernel.work) ? CostForm::TensorGemm
                                                           : CostForm::TensorCore;
  }
  return kernel.kernel_class == KernelClass::Convolution ? CostForm::Convolution : CostForm::Gemm;
}

namespace {

/// Slows a kernel on tensor cores to the clock that the board's limit leaves it.
void limit_power(KernelEstimate& result, Roofs& roofs, const Kernel& kernel, Seconds fill,
                 const TensorPower& power) {
  const TensorLoad load{.flops = kernel.flops.in_si(),
                        .dram_bytes = kernel.bytes().in_bytes(),
                        .fixed = fill,
                        .arithmetic = roofs.compute,
                        .operands = {},
                        .memory = roofs.memory};
  result.throttle = power.clock_share(load);
  roofs.compute = roofs.compute / result.throttle;
}

/// What a kernel moves and multiplies, whatever its time.
KernelLoad load_of(const Kernel& kernel, const SustainedGpu& machine, const CostProfile& profile) {
  const double bytes = kernel.bytes().in_bytes();
  KernelLoad load;
  if (machine.tensor_power) {
    load.flops = kernel.flops.in_si();
  } else {
    load.lane_flops = kernel.flops.in_si() * (element_size(kernel.math) / Bytes(4));
  }
  load.dram_bytes = bytes * miss_share(bytes, machine.l2_bytes, profile.memory.l2_share);
  load.passed_bytes = bytes;
  return load;
}

Watts power_of(const KernelEstimate& estimate, const Kernel& kernel, const Roofs& roofs,
               const SustainedGpu& machine, const CostProfile& profile) {
  KernelLoad load = load_of(kernel, machine, profile);
  load.working = roofs.compute;
  if (machine.tensor_power) load.at_peak = kernel.flops / (machine.arithmetic * estimate.throttle);
  load.duration = estimate.duration;
  load.sm_share = estimate.sm_share;
  load.throttle = estimate.throttle;
  return machine.kernel_power->of(load);
}

KernelEstimate estimate_at(const Kernel& kernel, const SustainedGpu& machine, const GpuSpec& gpu,
                           const CostProfile& profile, const SustainedBoard* board) {
  if (kernel.launches > 1) {
    const double launches = static_cast<double>(kernel.launches);
    Kernel one = kernel;
    one.launches = 1;
    one.flops = kernel.flops / launches;
    one.read = kernel.read / launches;
    one.written = kernel.written / launches;
    KernelEstimate all = estimate_at(one, machine, gpu, profile, board);
    all.duration = all.duration * launches;
    all.compute_time = all.compute_time * launches;
    all.memory_time = all.memory_time * launches;
    return all;
  }
  KernelEstimate result;
  result.throttle = machine.throttle;
  Roofs roofs;
  std::optional<Seconds> duration;
  bool slows_itself = form_of(kernel) == CostForm::TensorGemm;  // the clock is in its price
  if (const auto* recurrent = std::get_if<RecurrentWork>(&kernel.work)) {
    const RecurrentEstimate all = estimate_recurrent(kernel, *recurrent, machine, gpu, profile);
    roofs = all.roofs;
    duration = all.duration;
  } else if (const auto* stream = std::get_if<StreamWork>(&kernel.work)) {
    roofs = estimate_streaming(kernel, *stream, machine, gpu, profile);
  } else if (const auto* matrix = std::get_if<MatrixWork>(&kernel.work);
             matrix && kernel.unit == MathUnit::TensorCore) {
    const GemmFormat format = format_of(kernel, *matrix);
    TensorGemm work = gemm_of(*matrix, format);
    if (kernel.is_chained) chain(work, kernel);
    const GemmEstimate gemm = board ? board->gemms(format).estimate(work)
                                    : TensorGemmMachine(gpu, format, profile).estimate(work);
    roofs = gemm.roofs;
    duration = gemm.duration - fill_time(machine, gpu, profile);  // its start is in it
    result.throttle = gemm.throttle;
    result.power = gemm.power;
  } else if (matrix) {
    roofs = estimate_matrix(kernel, *matrix, machine, gpu, profile);
  } else if (const auto* conv = std::get_if<ConvWork>(&kernel.work);
             conv && as_tensor_gemm(kernel, *conv, format_of(kernel, {}), profile)) {
    const GemmFormat format = format_of(kernel, {});
    const TensorGemm work = *as_tensor_gemm(kernel, *conv, format, profile);
    const GemmEstimate gemm = board ? board->gemms(format).estimate(work)
                                    : TensorGemmMachine(gpu, format, profile).estimate(work);
    roofs = gemm.roofs;
    duration = gemm.duration - fill_time(machine, gpu, profile);
    result.throttle = gemm.throttle;
    result.power = gemm.power;
    slows_itself = true;
  } else if (conv) {
    roofs = estimate_convolution(kernel, *conv, machine, gpu, profile);
  } else if (call_form(kernel.work)) {
    const CallEstimate call = estimate_call(kernel.work, TensorBoard(gpu, profile), profile);
    roofs = call.roofs;
    duration = call.duration - fill_time(machine, gpu, profile);
  } else if (const auto* attention = std::get_if<AttentionWork>(&kernel.work);
             attention && as_call(kernel, *attention, gpu)) {
    const CallEstimate call =
        estimate_call(*as_call(kernel, *attention, gpu), TensorBoard(gpu, profile), profile);
    roofs = call.roofs;
    duration = call.duration - fill_time(machine, gpu, profile);
  } else if (const auto* chain = std::get_if<ChainWork>(&kernel.work)) {
    roofs = estimate_chain(kernel, *chain, machine, gpu, profile);
  } else if (attention) {
    roofs = estimate_attention(kernel, *attention, machine, gpu, profile);
  } else {
    roofs = estimate_reduction(kernel, std::get<ReductionWork>(kernel.work), machine, gpu, profile);
  }

  const Seconds fill = fill_time(machine, gpu, profile);
  const bool by_lanes = machine.kernel_power && !machine.tensor_power;
  if ((machine.tensor_power && !slows_itself) || by_lanes) {
    const Seconds at_full_clock = combine(roofs);
    if (by_lanes) {
      result.throttle =
          machine.kernel_power->clock_share(load_of(kernel, machine, profile), roofs, fill);
      roofs.compute = roofs.compute / result.throttle;
    } else {
      limit_power(result, roofs, kernel, fill, *machine.tensor_power);
    }
    if (duration && at_full_clock > Seconds(0)) {
      duration = *duration * (combine(roofs) / at_full_clock);
    }
  }
  const Seconds busy = duration.value_or(combine(roofs));
  result.duration = busy + fill;
  result.compute_time = roofs.compute;
  result.memory_time = roofs.memory;
  if (result.duration > Seconds(0)) result.sm_share = roofs.sm_share * (busy / result.duration);
  result.bound = roofs.under_occupied || fill > busy ? Bound::Latency
                 : roofs.compute > roofs.memory      ? Bound::Compute
                                                     : Bound::Memory;
  const CostForm form = form_of(kernel);
  if (!machine.kernel_power) {
    result.power = {};  // causes are fitted to such boards
  } else if (!slows_itself) {
    result.power = power_of(result, kernel, roofs, machine, profile);
  } else if (board) {
    result.power = machine.kernel_power->in_long_run(result.power, kernel.bytes().in_bytes(),
                                                     result.duration, result.throttle);
  }
  result.basis = basis_of(kernel, form, gpu, profile);
  const Uncertainty uncertainty = error_sd(result, kernel, result.throttle, gpu, profile);
  result.log_sd = uncertainty.log_sd;
  result.shared_log_sd = uncertainty.shared_log_sd;
  return result;
}

}  // namespace

KernelEstimate estimate(const Kernel& kernel, const GpuSpec& gpu, const CostProfile& profile) {
  return estimate_at(kernel, sustain(gpu, kernel.math, kernel.unit, profile), gpu, profile,
                     nullptr);
}

KernelEstimate estimate(const Kernel& kernel, const SustainedBoard& board) {
  return estimate_at(kernel, board.at(kernel.math, kernel.unit), board.gpu(), board.profile(),
                     &board);
}

Seconds burst_duration(const KernelEstimate& sustained, const CostProfile& profile) {
  const Seconds busy = combine({sustained.compute_time, sustained.memory_time});
  if (!(busy > Seconds(0))) return sustained.duration;
  const ClockParameters& p = profile.clock;
  const double lost = 1 - sustained.throttle;
  const double gain =
      1 + p.burst_gain * lost / (1 + sustained.duration.in_us() / (1000 * p.burst_span_ms));
  const Seconds burst = combine({sustained.compute_time / gain, sustained.memory_time});
  return sustained.duration * (burst / busy);
}

namespace {

template <class Estimate>
PricedCandidate choose_by(const LoweredOp& op, Bytes limit, const Estimate& estimate_of) {
  TRACECAST_CHECK(!op.candidates.empty(), "an op that does work has at least one candidate");
  const auto eligible = [&](const Candidate& c) { return c.workspace <= limit; };
  const bool any = std::any_of(op.candidates.begin(), op.candidates.end(), eligible);
  PricedCandidate result;
  std::vector<KernelEstimate> estimates;
  for (const Candidate& candidate : op.candidates) {
    if (any && !eligible(candidate)) continue;
    Seconds duration{};
    estimates.clear();
    estimates.reserve(candidate.kernels.size());
    for (const Kernel& kernel : candidate.kernels) {
      estimates.push_back(estimate_of(kernel));
      duration = duration + estimates.back().duration;
      if (result.candidate && duration >= result.duration) break;  // lost already
    }
    if (result.candidate && duration >= result.duration) continue;
    result.candidate = &candidate;
    result.duration = duration;
    std::swap(result.estimates, estimates);
  }
  return result;
}

}  // namespace

PricedCandidate choose(const LoweredOp& op, const GpuSpec& gpu, const CostProfile& profile) {
  return choose_by(op, op.workspace_limit,
                   [&](const Kernel& kernel) { return estimate(kernel, gpu, profile); });
}

PricedCandidate choose(const LoweredOp& op, const SustainedBoard& board,
                       std::optional<Bytes> most_workspace) {
  return choose_by(op, min(op.workspace_limit, most_workspace.value_or(op.workspace_limit)),
                   [&](const Kernel& kernel) { return estimate(kernel, board); });
}

}  // namespace tracecast::cost
