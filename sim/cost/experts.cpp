#include "sim/cost/experts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tracecast::cost {
namespace {

constexpr double kCallClock = 2e9;
constexpr double kLeastRows = 16;  ///< of an instruction
constexpr std::array<double, 5> kTileColumns = {16, 32, 64, 128, 256};
constexpr double kLargestTile = 256.0 * 128;
constexpr double kCycles = 100;  ///< in which expert and pair count

double cubes(double a, double b, double c) { return std::cbrt(a * a * a + b * b * b + c * c * c); }

/// Kernels for 4-bit floats of whole engines treat other ranks' tokens as absent.
bool is_whole(ExpertFormat format) {
  return format == ExpertFormat::Fp4 || format == ExpertFormat::Fp4Weights ||
         format == ExpertFormat::Fp4WeightsFp8;
}

/// Bytes of a weight as an engine keeps it: SGLang widens mxfp4 to 16 bits when it loads a network
/// where neither of its kernels for it runs. Source: its quantization/mxfp4.py,
/// process_weights_after_loading. CHOICE: that this is so before Hopper, by rows of L40S
/// (notes/0006). Blackwell's workstation boards run Triton's or Marlin's kernels over 4 bits:
/// arg_groups, moe_runner_backend of GPT-OSS.
double kept_weight_bytes(const ExpertsWork& work, int compute_capability) {
  const bool is_upcast = work.engine == GemmEngine::SgLang &&
                         work.format == ExpertFormat::Fp4Weights && compute_capability < 90;
  return expert_weight_bytes(is_upcast ? ExpertFormat::Half : work.format);
}

/// Marlin's kernels for 4-bit integers, which SGLang and vLLM run on every board, are of Ampere's
/// instructions (mma.sync, cp.async). Source: vllm, csrc/moe/marlin_moe_wna16; sglang,
/// sgl-kernel/csrc/moe/marlin_moe_wna16, the same.
bool is_marlin(const ExpertsWork& work) {
  return work.format == ExpertFormat::Int4Weights &&
         (work.engine == GemmEngine::SgLang || work.engine == GemmEngine::Vllm);
}

struct Grouped {
  double seconds = 0, mma = 0, memory = 0, share = 1;
};

/// One rank's experts on one board.
class Experts {
 public:
  Experts(const ExpertsWork& work, const TensorBoard& board, const CostProfile& profile)
      : w_(work), board_(board), p_(profile.moe.experts) {
    const std::size_t k = engine_kind(board.kind);
    const auto f = static_cast<std::size_t>(work.format);
    const auto at = [&](const ByEngineKindExperts& factors) {
      return work.engine ? factors.values[static_cast<std::size_t>(*work.engine)][k][f] : 1.0;
    };
    // Of the instructions, where these are older than the board: their generation's factors, and
    // their share of its tensor cores.
    const MmaKind kind = is_marlin(work) ? std::min(board.kind, MmaKind::AsyncWarp) : board.kind;
    const std::size_t own = engine_kind(kind);
    const double older = std::pow(profile.tensor_gemm.warp_share,
                                  static_cast<double>(board.kind) - static_cast<double>(kind));
    format_ = gemms_of(work.format);
    efficiency_ = older * std::min(0.97, p_.efficiency * p_.efficiency_by[f] *
                                             p_.efficiency_of[own] * at(p_.efficiency_at));
    rates_ = board.rates(format_);
    stream_ = p_.stream_bytes_per_clock * p_.stream_by[f] * p_.stream_of[own] * at(p_.stream_at) *
              board.shared_kib * board.clock;
    bandwidth_ = board.bandwidth * std::min(0.97, p_.dram_efficiency);
    l2_rate_ = board.sms * board.clock * p_.l2_bytes_per_clock;
    a_ = expert_activation_bytes(work.format);
    b_ = kept_weight_bytes(work, board.compute_capability);
    const double stray_of =
        work.engine ? p_.stray_of.values[static_cast<std::size_t>(*work.engine)][k] : 1;
    strays_ = work.strays + std::min(1.0, p_.stray * stray_of) * work.perhaps_strays;
    rows_ = work.load.rows + strays_;
    call_ = at(p_.call_of);
  }

  [[nodiscard]] Grouped gemm(double n, double k) const {
    const double bytes = w_.load.experts * n * k * b_ + rows_ * (k * a_ + n * 2);
    const double kept = board_.l2 * p_.l2_share / bytes;
    const double dram = bytes / (1 + std::pow(kept, 4)) / bandwidth_;
    const double q = p_.wave_quantization;
    Grouped best;
    best.seconds = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < kExpertTileRows.size(); ++i) {
      const double tm = kExpertTileRows[i];
      const double row_tiles = w_.load.tiles[i] + (strays_ > 0 ? std::ceil(strays_ / tm) : 0);
      for (const double tn : kTileColumns) {
        if (tm * tn > kLargestTile) continue;
        const double per_sm = row_tiles * std::ceil(n / tn) / board_.sms;
        const double waves = per_sm <= 1 ? 1 : q * std::ceil(per_sm) + (1 - q) * per_sm;
        const double edge = 1 + p_.operand_edge * (tm + tn) / (2 * tm * tn);
        const double operations = 2 * std::max(tm, kLeastRows) * tn;
        // A pipeline fills as fast where tensor cores are held back.
        const double mma = waves * operations *
                           (k / rates_.at(efficiency_ / edge) +
                            p_.block_depth * edge / (rates_.whole * efficiency_));
        const double load = waves * (tm * a_ + tn * b_) * k / stream_;
        const double fixed = p_.block_cycles * waves / board_.clock;
        if (fixed + std::max({mma, load, dram}) >= best.seconds) continue;
        const double seconds = fixed + cubes(mma, load, dram);
        if (seconds < best.seconds) best = {seconds, mma, dram, std::min(1.0, per_sm)};
      }
    }
    const double flops = 2 * rows_ * n * k;
    best.seconds *= board_.slowdown(format_, 1, flops, best.seconds);
    best.seconds = std::max(best.seconds, 2 * w_.load.rows * n * k / (rates_.peak * board_.sms));
    return best;
  }

  /// Permutation, activation and sum: rows in and out at 16 bits, but what GEMMs read.
  [[nodiscard]] double moves() const {
    const double halves = w_.gated ? 2 : 1;
    const double rows = w_.load.rows + (strays_ > 0 ? strays_ : passing() * w_.load.others);
    const double passed = 2 * w_.tokens * w_.hidden * 2 + rows * w_.hidden * (a_ + 2) +
                          rows * w_.width * (2 * halves + a_);
    const double kept = board_.l2 * p_.l2_share /
                        (2 * (rows * (3 * w_.hidden + 4 * w_.width) + 2 * w_.tokens * w_.hidden));
    const double miss = 1 / (1 + kept * kept);
    const double alone = w_.gemms_alone ? p_.alone : 1;
    return alone * factor(p_.traffic) * passed * (miss / bandwidth_ + 1 / l2_rate_);
  }
  [[nodiscard]] double routes() const {
    if (w_.gemms_alone) return 0;
    const double sm_clock = board_.sms * board_.clock;
    const double kind =
        w_.engine
            ? p_.expert_of.values[static_cast<std::size_t>(*w_.engine)][engine_kind(board_.kind)]
            : 1.0;
    return factor(p_.route) * w_.tokens * w_.all_experts / sm_clock +
           kind * kCycles *
               (factor(p_.expert) * w_.load.experts / board_.clock +
                factor(p_.pair) * w_.tokens * w_.per_token / sm_clock);
  }
  [[nodiscard]] double call() const {
    double us = 0;
    for (const double engine : p_.call_us) us += engine / kGemmEngineCount;
    if (w_.engine) us = p_.call_us[static_cast<std::size_t>(*w_.engine)];
    return us * call_ * 1e-6 * std::pow(kCallClock / board_.clock, p_.clock_exponent);
  }

 private:
  /// Share of other ranks' rows that kernels around the GEMMs pass over.
  [[nodiscard]] double passing() const {
    if (!w_.engine || w_.gemms_alone) return 0;
    const bool is_others = *w_.engine != GemmEngine::TensorRtLlm;
    return factor(p_.passed) * (is_others && is_whole(w_.format) ? p_.passed_whole : 1);
  }
  /// Of the work's engine, or 1 without one.
  [[nodiscard]] double factor(const std::array<double, kGemmEngineCount>& by_engine) const {
    return w_.engine ? by_engine[static_cast<std::size_t>(*w_.engine)] : 1.0;
  }
  const ExpertsWork& w_;
  const TensorBoard& board_;
  const ExpertParameters& p_;
  GemmFormat format_;
  TensorRates rates_;
  double efficiency_, stream_, bandwidth_, l2_rate_, a_, b_, strays_, rows_, call_;
};

}  // namespace

CallEstimate estimate_experts(const ExpertsWork& w, const TensorBoard& board,
                              const CostProfile& profile) {
  const Experts experts(w, board, profile);
  const Grouped in = experts.gemm(w.gated ? 2 * w.width : w.width, w.hidden);
  const Grouped out = experts.gemm(w.hidden, w.width);
  const double call = experts.call(), around = experts.moves() + experts.routes();
  CallEstimate result;
  result.duration = Seconds(call + around + in.seconds + out.seconds);
  const double share = 0.5 * (in.share + out.share);
  result.roofs = {.compute = Seconds(in.mma + out.mma),
                  .memory = Seconds(in.memory + out.memory),
                  .under_occupied = share < 1 || call > in.seconds + out.seconds,
                  .sm_share = share};
  result.body_share = 1 - Seconds(call) / result.duration;
  return result;
}

CallEstimate estimate_quantization(const QuantizationWork& w, const TensorBoard& board,
                                   const CostProfile& profile) {
  const QuantizationParameters& p = profile.moe.quantization;
  const std::size_t k = engine_kind(board.kind);
  const auto e = static_cast<std::size_t>(w.engine.value_or(GemmEngine::Vllm));
  const double values = w.rows * w.cols, bytes = 3 * values;
  const double sm_clock = board.sms * board.clock;
  const double kept = board.l2 * p.l2_share / bytes;
  const double miss = 1 / (1 + std::pow(kept, p.l2_sharpness));
  const double dram = p.traffic[e] * bytes * miss / (board.bandwidth * p.dram_efficiency);
  const double cached = p.traffic[e] * bytes / (sm_clock * p.l2_bytes_per_clock * p.cache[e]);
  const double converted = values / (sm_clock * p.values_per_clock * p.values_of.values[e][k]);
  double body = cubes(dram, cached, converted);
  // vLLM's kernel gives a row to a block: few rows take as long as one (data/modern/quantize.csv).
  if (w.engine == GemmEngine::Vllm) {
    const double waves = std::max(1.0, w.rows / (2 * board.sms));
    body = std::max(body, waves * w.cols / (board.clock * p.row_values_per_clock));
  }
  const double call = p.call_us[e] * p.call_of.values[e][k] * 1e-6 *
                      std::pow(kCallClock / board.clock, p.clock_exponent);
  CallEstimate result;
  result.duration = Seconds(call + body);
  result.roofs = {.compute = Seconds(converted),
                  .memory = Seconds(dram),
                  .under_occupied = call > body,
                  .sm_share = std::min(1.0, w.rows / board.sms)};
  result.body_share = 1 - Seconds(call) / result.duration;
  return result;
}

}  // namespace tracecast::cost
