#include "sim/serve/step_price.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/cost/price.hpp"
#include "sim/cost/tensor_board.hpp"
#include "sim/network/collective.hpp"
#include "sim/step/power.hpp"

namespace tracecast::serve {
namespace {

constexpr std::size_t index(StepPart part) { return static_cast<std::size_t>(part); }

/// One kernel's time and what is known of it.
struct OneKernel {
  StepPart part{};
  double seconds = 0, log_sd = 0;
  double roof_seconds = 0;  ///< of its arithmetic
  double active_w = 0;      ///< of the board, over one that waits
};

/// The grid's points around `x`: whole numbers to 16, then eighths of an octave.
std::pair<std::int64_t, std::int64_t> around(double x) {
  if (x <= 16) {
    const auto low = static_cast<std::int64_t>(std::floor(x));
    return {std::max<std::int64_t>(low, 1), std::max<std::int64_t>(low, 1) + (x > std::floor(x))};
  }
  const auto octave = static_cast<int>(std::floor(std::log2(x)));
  const double step = std::ldexp(1.0, octave - 3);
  const auto low = static_cast<std::int64_t>(std::floor(x / step) * step);
  return {low, static_cast<double>(low) == x ? low : low + static_cast<std::int64_t>(step)};
}

constexpr double kKeyStep = 8;  // of an octave

}  // namespace

std::string_view to_string(StepPart part) {
  constexpr std::array<std::string_view, kStepParts> names = {"gemms",
                                                              "prompt attention",
                                                              "token attention",
                                                              "experts",
                                                              "communications",
                                                              "memory passes",
                                                              "gaps",
                                                              "host"};
  return names[index(part)];
}

double PartTimes::total() const {
  double sum = 0;
  for (const double s : seconds) sum += s;
  return sum;
}

void PartTimes::add(const PartTimes& other, double factor) {
  for (std::size_t i = 0; i < kStepParts; ++i) {
    seconds[i] += factor * other.seconds[i];
    uncertainty[i] += factor * other.uncertainty[i];
  }
  joules += factor * other.joules;
  calls += factor * other.calls;
  library_calls += factor * other.library_calls;
  launches += factor * other.launches;
  prompt_calls += factor * other.prompt_calls;
  sums += factor * other.sums;
  communicated += factor * other.communicated;
  guessed += factor * other.guessed;
  roof_seconds += factor * other.roof_seconds;
}

void StepBatch::add_prompt(std::int64_t tokens, std::int64_t cached) {
  const auto n = static_cast<double>(tokens), c = static_cast<double>(cached);
  prompt_tokens += tokens;
  prompt_square += n * n;
  prompt_pairs += n * (c + (n + 1) / 2);
  has_cached = has_cached || cached > 0;
}

/// The board, its rates and the ways among its peers.
struct StepPrice::Board {
  Board(const ServedNetwork& served, const EngineProfile& engine, const GpuSpec& board,
        const CostProfile& costs, const Fabric& wiring)
      : spec(board),
        profile(costs),
        fabric(wiring),
        rates(board, costs),
        kernels(served.engine),
        early_gemms(engine.early_gemms) {
    const ModelSharing& s = served.sharing;
    const CollectiveLibrary& library = fabric.specs().find_collective_library(engine.collectives);
    const auto ranks = [](std::int64_t count) {
      std::vector<Rank> all;
      for (std::int64_t i = 0; i < count; ++i) all.push_back(Rank{static_cast<std::uint32_t>(i)});
      return all;
    };
    if (s.tensor > 1) tensor.emplace(fabric, ranks(s.tensor), library);
    if (s.tensor * s.data > 1) experts.emplace(fabric, ranks(s.tensor * s.data), library);
    if (s.pipeline > 1) {
      const std::vector<Rank> ends = {Rank{0}, Rank{static_cast<std::uint32_t>(s.tensor * s.data)}};
      stage.emplace(fabric, ends, library);
    }
  }

  [[nodiscard]] OneKernel price(const ForwardGemm& w) const {
    cost::TensorGemm gemm;
    gemm.batch = w.batch;
    gemm.m = w.m;
    gemm.n = w.n;
    gemm.k = w.k;
    gemm.format = w.format;
    gemm.by_early_library = early_gemms;
    // GEMMs of 16 bits, and of 8 with scales given beforehand or one per row, are those of the
    // vendor's library: norms and activations before them write their results in 8 bits at once.
    // Others have kernels of the engine before them.
    if (w.format != GemmFormat::Half && w.format != GemmFormat::Fp8) gemm.engine = kernels;
    const cost::GemmEstimate e = rates.gemms(w.format).estimate(gemm);
    const double flops = 2 * w.batch * w.m * w.n * w.k;
    const double bytes = w.batch * (w.m * w.k * activation_bytes(w.format) +
                                    w.k * w.n * weight_bytes(w.format) + w.m * w.n * 2);
    const auto& power = rates.at(Precision::Fp16, MathUnit::TensorCore).kernel_power;
    const Watts reported =
        power ? power->in_long_run(e.power, bytes, e.duration, e.throttle) : e.power;
    return {StepPart::Gemms, e.duration.in_s(), cost::gemm_log_sd(gemm, spec, profile),
            at_peak(flops, w.format),
            active_w(flops, bytes, e.duration, e.roofs.sm_share, reported)};
  }
  /// Of a kernel on tensor cores: what its price reports from Ampere on, before that its causes, as
  /// `predict` has them.
  [[nodiscard]] double active_w(double flops, double bytes, Seconds duration, double sm_share,
                                Watts reported) const {
    Kernel kernel;
    kernel.data = kernel.math = Precision::Fp16;
    kernel.unit = MathUnit::TensorCore;
    kernel.flops = Flops(flops);
    kernel.read = Bytes(bytes);
    cost::KernelEstimate estimate;
    estimate.duration = duration;
    estimate.sm_share = sm_share;
    if (mma_kind(spec) >= MmaKind::AsyncWarp) estimate.power = reported;
    return active_power(kernel, estimate, spec, profile).in_w();
  }
  [[nodiscard]] OneKernel of(const Kernel& kernel) const {
    const cost::KernelEstimate e = cost::estimate(kernel, rates);
    return {StepPart::Streams, e.duration.in_s(), e.log_sd, 0,
            active_power(kernel, e, spec, profile).in_w()};
  }
  [[nodiscard]] OneKernel price(const ForwardPass& w) const {
    Kernel kernel;
    kernel.kernel_class = KernelClass::Elementwise;
    kernel.data = kernel.math = Precision::Fp16;
    kernel.read = Bytes(w.read_bytes);
    kernel.written = Bytes(w.written_bytes);
    StreamWork work;
    work.elements = w.elements;
    work.operations_per_element = w.operations_per_element;
    kernel.work = work;
    kernel.flops = Flops(w.elements * w.operations_per_element);
    return of(kernel);
  }
  [[nodiscard]] OneKernel price(const ForwardNorm& w) const {
    Kernel kernel;
    kernel.kernel_class = KernelClass::Normalization;
    kernel.data = kernel.math = Precision::Fp16;
    kernel.read = kernel.written =
        Bytes(w.rows * w.cols * w.passes);  // half of the passes each, 2 bytes
    ReductionWork work;
    work.rows = std::max<std::int64_t>(1, std::llround(w.rows));
    work.cols = std::max<std::int64_t>(1, std::llround(w.cols));
    work.passes = w.passes;
    kernel.work = work;
    kernel.flops = Flops(w.rows * w.cols * 4);
    return of(kernel);
  }
  /// Seconds of so many operations at the peak that the board's spec states for them.
  [[nodiscard]] double at_peak(double flops, GemmFormat format) const {
    return flops / cost::stated_peak(spec, format).rate.in_si();
  }
  [[nodiscard]] OneKernel call(const Work& work, StepPart part, double flops, GemmFormat format,
                               double bytes) const {
    const std::optional<cost::CallPrice> p = cost::price_call(work, spec, profile);
    TRACECAST_CHECK(p.has_value(), "calls of engines have prices");
    const double roof = at_peak(flops, format);
    const cost::SustainedGpu& board = rates.at(Precision::Fp16, MathUnit::TensorCore);
    const cost::CallEstimate& e = p->estimate;
    const Seconds body = e.duration * std::clamp(e.body_share, 0.0, 1.0);
    const double sm_share = e.roofs.sm_share * (body / e.duration);
    Watts reported;
    if (board.kernel_power) {
      reported = board.kernel_power->of({.flops = flops * profile.tensor_gemm.format(format).energy,
                                         .dram_bytes = bytes,
                                         .passed_bytes = bytes,
                                         .working = min(e.roofs.compute, body),
                                         .at_peak = Seconds(roof),
                                         .duration = e.duration,
                                         .sm_share = sm_share});
    }
    return {part, e.duration.in_s(), p->log_sd, roof,
            active_w(flops, bytes, e.duration, sm_share, reported)};
  }
  [[nodiscard]] OneKernel price(const PrefillWork& w) const {
    const double keys = w.causal ? w.tokens / 2 : w.keys;
    return call(w, StepPart::PromptAttention,
                2 * w.batch * w.tokens * keys * w.heads * (w.key_width + w.value_width),
                w.format == AttentionFormat::Fp8 ? GemmFormat::Fp8 : GemmFormat::Half,
                2 * w.batch * (w.tokens * w.heads + 2 * keys * w.kv_heads) * w.key_width);
  }
  [[nodiscard]] OneKernel price(const DecodeWork& w) const {
    const double keys = w.window > 0 ? std::min(w.keys, w.window) : w.keys;
    return call(w, StepPart::TokenAttention, 2 * w.batch * keys * w.heads * w.gemms,
                w.fp8_cache ? GemmFormat::Fp8 : GemmFormat::Half,
                w.batch * keys * w.kv_heads * w.key_values * (w.fp8_cache ? 1 : 2));
  }
  [[nodiscard]] OneKernel price(const ExpertsWork& w) const {
    const double weights = w.hidden * w.width * (w.gated ? 3 : 2);
    return call(w, StepPart::Experts, 2 * w.load.rows * weights, gemms_of(w.format),
                w.load.experts * weights * expert_weight_bytes(w.format));
  }
  [[nodiscard]] OneKernel price(const ForwardCommunication& w) const {
    const std::optional<Communicator>& among = w.group == ForwardGroup::Tensor    ? tensor
                                               : w.group == ForwardGroup::Experts ? experts
                                                                                  : stage;
    if (!among || !(w.bytes > 0)) return {StepPart::Communications, 0, 0, 0, 0};
    const Bytes bytes(w.bytes);
    const Seconds time = time_alone(among->plan(w.collective, bytes), fabric);
    return {StepPart::Communications, time.in_s(), among->log_sd(bytes), 0,
            communication_w(2 * w.bytes, time)};
  }

  /// Beside what moves, ranks that wait for each other draw what a busy board draws whatever it
  /// does.
  [[nodiscard]] double communication_w(double bytes, Seconds time) const {
    const double left = std::max(0.0, (spec.tdp - cost::waiting_power(spec, profile)).in_w());
    const double memory = bytes * cost::joule_per_byte(spec, profile) / time.in_s();
    return std::min(left, profile.tensor_gemm.base_share * left + memory);
  }

  /// Beyond what the board draws active-idle, at most what its limit leaves.
  [[nodiscard]] double joules(const OneKernel& k) const {
    const double left = std::max(0.0, (spec.tdp - cost::waiting_power(spec, profile)).in_w());
    return std::min(left, k.active_w) * k.seconds;
  }

  const GpuSpec& spec;
  const CostProfile& profile;
  const Fabric& fabric;
  cost::SustainedBoard rates;
  std::optional<GemmEngine> kernels;
  bool early_gemms;  ///< EngineProfile::early_gemms
  std::optional<Communicator> tensor, experts, stage;
};

StepPrice::StepPrice(ServedNetwork served, EngineProfile engine, const GpuSpec& gpu,
                     const CostProfile& profile, const Fabric& fabric)
    : served_(std::move(served)),
      engine_(std::move(engine)),
      gpu_(gpu),
      board_(std::make_unique<const Board>(served_, engine_, gpu, profile, fabric)) {}
StepPrice::~StepPrice() = default;

Watts StepPrice::active_idle() const { return cost::waiting_power(gpu_, board_->profile); }

PartTimes StepPrice::sum(const std::vector<ForwardKernel>& kernels) const {
  PartTimes out;
  for (const ForwardKernel& kernel : kernels) {
    const OneKernel one =
        std::visit([&](const auto& work) { return board_->price(work); }, kernel.work);
    out.seconds[index(one.part)] += kernel.times * one.seconds;
    out.uncertainty[index(one.part)] += kernel.times * one.seconds * one.log_sd;
    out.joules += kernel.times * board_->joules(one);
    out.calls += kernel.times;
    if (std::holds_alternative<ForwardGemm>(kernel.work) ||
        std::holds_alternative<ForwardCommunication>(kernel.work))
      out.library_calls += kernel.times;
    out.launches += kernel.times * kernel.launches;
    if (one.part == StepPart::PromptAttention) out.prompt_calls += kernel.times;
    if (const auto* communication = std::get_if<ForwardCommunication>(&kernel.work);
        communication != nullptr && communication->collective == Collective::AllReduce) {
      out.sums += kernel.times;
      out.communicated += kernel.times * communication->bytes;
    }
    out.roof_seconds += kernel.times * one.roof_seconds;
    if (kernel.is_guess) out.guessed += kernel.times * one.seconds;
  }
  return out;
}

const PartTimes& StepPrice::rows_at(std::int64_t rows) {
  const auto known = rows_.find(rows);
  if (known != rows_.end()) return known->second;
  return rows_.emplace(rows, sum(row_kernels(served_, static_cast<double>(rows)))).first->second;
}

const PartTimes& StepPrice::words_at(std::int64_t rows) {
  const auto known = words_.find(rows);
  if (known != words_.end()) return known->second;
  return words_.emplace(rows, sum(logit_kernels(served_, static_cast<double>(rows)))).first->second;
}

const PartTimes& StepPrice::tokens_at(std::int64_t sequences, int key_step) {
  const auto known = tokens_.find({sequences, key_step});
  if (known != tokens_.end()) return known->second;
  const DecodeShape shape{static_cast<double>(sequences), std::exp2(key_step / kKeyStep)};
  return tokens_.emplace(std::pair{sequences, key_step}, sum(decode_kernels(served_, shape)))
      .first->second;
}

void StepPrice::add_rows(PartTimes& to, double rows) {
  const auto [low, high] = around(rows);
  if (low == high) return to.add(rows_at(low), 1);
  const double share = (rows - static_cast<double>(low)) / static_cast<double>(high - low);
  to.add(rows_at(low), 1 - share);
  to.add(rows_at(high), share);
}

double StepPrice::add_tokens(PartTimes& to, double sequences, double keys) {
  const auto [low, high] = around(sequences);
  const double at = kKeyStep * std::log2(std::max(1.0, keys));
  const int key = static_cast<int>(std::floor(at));
  const double from = std::exp2(key / kKeyStep), until = std::exp2((key + 1) / kKeyStep);
  const double key_share = (std::max(1.0, keys) - from) / (until - from);
  const double share =
      low == high ? 0 : (sequences - static_cast<double>(low)) / static_cast<double>(high - low);
  for (const auto& [count, part] : {std::pair{low, 1 - share}, std::pair{high, share}}) {
    if (part == 0) continue;
    to.add(tokens_at(count, key), part * (1 - key_share));
    to.add(tokens_at(count, key + 1), part * key_share);
  }
  return until;
}

/// Host time of giving back and taking memory anew.
double StepPrice::renewal(const PartTimes& parts, double launches) const {
  const double gpu = parts.total();
  if (!(engine_.renewed_seconds_per_byte > 0) || !(gpu > launches)) return 0;
  const double left =
      gpu_.memory.in_bytes() * (1 - engine_.memory_share) - engine_.context.in_bytes();
  const double ahead = parts.communicated * (1 - launches / gpu);
  return std::max(0.0, ahead - left) * engine_.renewed_seconds_per_byte;
}

double StepPrice::covariance(const StepTime& a, const StepTime& b) const {
  const std::size_t host = index(StepPart::Host);
  double sum = std::pow(engine_.system_log_sd, 2) * a.seconds * b.seconds +
               std::pow(engine_.host_log_sd, 2) * a.parts.seconds[host] * b.parts.seconds[host];
  for (std::size_t i = 0; i < kStepParts; ++i)
    sum += a.parts.uncertainty[i] * b.parts.uncertainty[i];
  return sum;
}

StepTime StepPrice::price(const StepBatch& batch) {
  ++priced_;
  StepTime time;
  PartTimes& parts = time.parts;
  const std::int64_t decoded = batch.decodes * batch.verified;
  std::int64_t rows = batch.prompt_tokens + decoded;
  if (rows == 0) return time;
  if (batch.prompt_tokens == 0) {
    if (const auto graph =
            engine_.graph_of(static_cast<int>(std::min<std::int64_t>(decoded, 1 << 30)))) {
      rows = *graph;
      time.in_graph = true;
    }
  } else {
    time.in_graph = rows <= engine_.graph_tokens;
  }
  add_rows(parts, static_cast<double>(rows));
  if (batch.words > 0) {
    const auto [low, high] = around(static_cast<double>(batch.words));
    const double share =
        low == high ? 0 : static_cast<double>(batch.words - low) / static_cast<double>(high - low);
    parts.add(words_at(low), 1 - share);
    if (share > 0) parts.add(words_at(high), share);
  }
  if (batch.decodes > 0) {
    const auto sequences = static_cast<double>(batch.decodes);
    const double until = add_tokens(parts, sequences, batch.keys / sequences);
    // What is given back and taken anew depends on the share of launches.
    const bool renews = !time.in_graph && engine_.renewed_seconds_per_byte > 0;
    if (batch.prompt_tokens == 0 && !renews) time.linear_until = sequences * until;
  }
  if (batch.prompt_tokens > 0) {
    const auto tokens = static_cast<double>(batch.prompt_tokens);
    PrefillShape shape;
    shape.tokens = batch.prompt_square / tokens;
    shape.sequences = tokens / shape.tokens;
    if (batch.has_cached) shape.keys = batch.prompt_pairs / tokens;
    parts.add(sum(prefill_kernels(served_, shape)), 1);
  }
  const double gap = board_->profile.tensor_gemm.graph_gap_us * 1e-6;
  const double hops = time.in_graph ? 0 : engine_.communication_hop.in_s() * parts.sums;
  parts.seconds[index(StepPart::Gaps)] = gap * parts.calls + hops;
  parts.uncertainty[index(StepPart::Gaps)] = 0.5 * gap * parts.calls;
  time.gpu_seconds = parts.total();
  const double launches = time.in_graph ? 0
                                        : parts.launches * engine_.launch.in_s() +
                                              parts.library_calls * engine_.library_call.in_s() +
                                              parts.prompt_calls * engine_.prompt_call.in_s();
  const double own =
      engine_.step.in_s() +
      static_cast<double>(batch.decodes + batch.begins) * engine_.sequence.in_s() +
      static_cast<double>(batch.begins) * engine_.request.in_s() +
      (batch.keys + static_cast<double>(batch.prompt_tokens)) * engine_.context_token.in_s();
  const double renewed = time.in_graph ? 0 : renewal(parts, launches);
  time.host_seconds = own + launches + renewed;
  time.seconds = engine_.overlaps_host ? std::max(time.gpu_seconds, time.host_seconds)
                                       : own + std::max(time.gpu_seconds, launches) + renewed;
  time.is_host_bound = time.gpu_seconds < (engine_.overlaps_host ? time.host_seconds : launches);
  parts.seconds[index(StepPart::Host)] = time.seconds - time.gpu_seconds;
  time.log_sd = std::sqrt(covariance(time, time)) / time.seconds;
  return time;
}

}  // namespace tracecast::serve
