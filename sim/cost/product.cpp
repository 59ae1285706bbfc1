#include "sim/cost/product.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "sim/cost/sustained_clock.hpp"

namespace tracecast::cost {
namespace {

constexpr double kPico = 1e-12;
constexpr double kReferenceNode_nm = 7, kReferenceClock = 1.41e9;
constexpr double kLeastClockShare = 0.05;
constexpr double kStartClock = 2e9;  // of product.start_us
constexpr double kResultBytes = 2, kPartialBytes = 4;
/// Slices of k shorter than this are not offered.
constexpr double kShortestSlice = 128;
/// Depth of one instruction's step: 16 values of 16 bits.
constexpr double kStep = 16;

struct Tile {
  int m, n;
};
// Either way round, since a library may compute the transposed product. Warp-level: names of cuBLAS's and CUTLASS's s884,
// s1688 and s16816 kernels.
constexpr std::array<Tile, 15> kWarpTiles = {{{256, 128},
                                              {128, 256},
                                              {128, 128},
                                              {256, 64},
                                              {64, 256},
                                              {128, 64},
                                              {64, 128},
                                              {64, 64},
                                              {32, 128},
                                              {128, 32},
                                              {32, 64},
                                              {64, 32},
                                              {16, 128},
                                              {128, 16},
                                              {64, 16}}};
// wgmma: 64 rows an instruction and warp group, 8 to 256 columns.
constexpr std::array<Tile, 16> kWarpGroupTiles = {{{128, 256},
                                                   {256, 128},
                                                   {128, 192},
                                                   {192, 128},
                                                   {128, 128},
                                                   {64, 256},
                                                   {256, 64},
                                                   {64, 128},
                                                   {128, 64},
                                                   {64, 64},
                                                   {64, 32},
                                                   {32, 64},
                                                   {16, 64},
                                                   {8, 64},
                                                   {16, 128},
                                                   {64, 8}}};
// tcgen05: 64 or 128 rows an SM, 256 over two that share operands; 8 to 256 columns.
constexpr std::array<Tile, 17> kTensorMemoryTiles = {{{256, 256},
                                                      {256, 128},
                                                      {128, 256},
                                                      {128, 192},
                                                      {192, 128},
                                                      {128, 128},
                                                      {256, 64},
                                                      {64, 256},
                                                      {128, 64},
                                                      {64, 128},
                                                      {64, 64},
                                                      {32, 128},
                                                      {32, 64},
                                                      {16, 128},
                                                      {16, 64},
                                                      {8, 64},
                                                      {64, 8}}};

std::span<const Tile> tiles_of(MmaKind kind) {
  switch (kind) {
    case MmaKind::Warp:
    case MmaKind::AsyncWarp:
      return kWarpTiles;
    case MmaKind::WarpGroup:
      return kWarpGroupTiles;
    case MmaKind::TensorMemory:
      break;
  }
  return kTensorMemoryTiles;
}

/// Steps from the first generation that copies asynchronously.
double generation_steps(MmaKind kind) {
  return std::max(0.0, static_cast<double>(kind) - static_cast<double>(MmaKind::AsyncWarp));
}

FlopsPerSecond peak_of(const GpuSpec& gpu, Precision math) {
  if (const auto peak = gpu.find_peak(math, MathUnit::TensorCore)) return *peak;
  if (const auto peak = gpu.find_peak(Precision::Fp16, MathUnit::TensorCore)) return *peak;
  return gpu.peak_fp32();
}

bool has_gddr(const GpuSpec& gpu) {
  return gpu.memory_type < MemoryType::Hbm2 || gpu.memory_type == MemoryType::Gddr7;
}

/// Two halves that keep data twice: A100, H100; data-centre Blackwell's two dies alike. Source: NVIDIA A100 whitepaper, "L2
/// cache"; Blackwell's is a guess that fits (notes/0011).
bool has_l2_halves(const GpuSpec& gpu) {
  return gpu.compute_capability / 10 == 9 || gpu.compute_capability / 10 == 10 ||
         gpu.compute_capability == 80;
}

/// Share of a use that misses L2: sharper than that of kernels one after the other, since repetitions of one product
/// turn over the same data in the same order.
double miss(double reuse_bytes, double kept_bytes) {
  if (!(reuse_bytes > 0)) return 0;
  const double z = kept_bytes / reuse_bytes;
  return 1 / (1 + z * z * z * z);
}

double joule_per_flop(const GpuSpec& gpu, double clock, ProductFormat format,
                      const ProductParameters& p) {
  const MmaKind kind = mma_kind(gpu);
  return kPico * p.flop_pj * std::pow(p.energy_step, generation_steps(kind)) * p.energy_of[kind] *
         std::pow(gpu.process_nm / kReferenceNode_nm, p.node_exponent) *
         std::pow(clock / kReferenceClock, p.clock_exponent - 1) * p.format(format).energy;
}

/// (1 + x^(-12/g))^(-1/12) with x = left / needed.
double throttle_of(double left, double needed, double exponent) {
  if (needed <= 0 || left > 3 * needed) return 1;
  const double x = std::max(left, 0.02 * needed) / needed;
  return std::pow(1 + std::pow(x, -12 / exponent), -1.0 / 12);
}

double clock_of(const GpuSpec& gpu, const CostProfile& profile) {
  return (gpu.set_clock > Hertz(0) ? gpu.set_clock : free_clock(gpu, profile)).in_si();
}

bool is_pinned_clock(const GpuSpec& gpu) { return gpu.base_clock >= gpu.boost_clock; }

double cube_root_sum(double a, double b, double c) {
  const double high = std::max({a, b, c});
  if (high <= 0) return 0;
  const double x = a / high, y = b / high, z = c / high;
  return high * std::cbrt(x * x * x + y * y * y + z * z * z);
}

}  // namespace

ProductMachine::ProductMachine(const GpuSpec& gpu, ProductFormat format, const CostProfile& profile)
    : p_(&profile.product), kind_(mma_kind(gpu)), format_(format) {
  const ProductParameters& p = *p_;
  const FormatParameters& f = p.format(format);
  const BoardFactors board = board_factors(profile, gpu);
  sms_ = std::max(gpu.sm_count, 1);
  clock_ = clock_of(gpu, profile);
  const double scale = clock_ / gpu.boost_clock.in_si();
  const double efficiency = p.efficiency * p.efficiency_of[kind_] * f.efficiency *
                            f.efficiency_of[kind_] * board.arithmetic;
  peak_ = peak_of(gpu, math_of(format)).in_si() * scale / sms_;
  sm_rate_ = peak_ * efficiency;
  const double shared_kib = gpu.shared_memory_per_sm.in_bytes() / 1024;
  stream_ = p.stream_bytes_per_clock * std::pow(p.stream_growth, generation_steps(kind_)) *
            p.stream_of[kind_] * f.stream * shared_kib * clock_;
  const bool gddr = has_gddr(gpu);
  const double ecc_loss = gddr && gpu.ecc_default_on ? 1 - gpu.ecc_bandwidth_fraction : 0;
  bandwidth_ = gpu.dram_bandwidth.in_si() * (1 - std::min(1.0, p.ecc_cost) * ecc_loss) *
               std::min(0.97, p.dram_efficiency * (gddr ? p.gddr : 1)) * board.bandwidth;
  l2_ = gpu.l2.in_bytes() * p.l2_share * (has_l2_halves(gpu) ? 0.5 : 1);
  start_ = p.start_us * p.start_of[kind_] * 1e-6 * (kStartClock / clock_);
  block_ = p.block_cycles / clock_;
  depth_ = p.block_depth * p.depth_of[kind_];
  awake_ = awake_power(gpu, profile).in_w();
  limit_ = gpu.tdp.in_w();
  joule_per_flop_ = joule_per_flop(gpu, clock_, format, p);
  joule_per_byte_ = kPico * (gddr ? p.gddr_pj_per_byte : p.hbm_pj_per_byte);
  base_w_ = p.base_share * std::max(0.0, limit_ - awake_);
  a_bytes_ = activation_bytes(format);
  b_bytes_ = weight_bytes(format);
  is_pinned_ = is_pinned_clock(gpu);
}

struct ProductMachine::Grid {
  double mma = 0, load = 0, fixed = 0, share = 1;
  int tile_m = 0, tile_n = 0, slices = 1;
};

double ProductMachine::call_seconds(const TensorProduct& product) const {
  if (!product.engine || format_ == ProductFormat::Half || format_ == ProductFormat::Tf32) return 0;
  const EngineParameters& e = p_->engine(*product.engine, format_);
  double seconds = e.call_us * 1e-6 * p_->format(format_).call_of[kind_];
  if (a_bytes_ < 2) {
    const double values = product.batch * product.m * product.k;
    const double passed = values * (2 + a_bytes_);
    seconds +=
        e.traffic * passed * miss(passed + product.n * product.k * b_bytes_, l2_) / bandwidth_;
  }
  return seconds;
}

ProductEstimate ProductMachine::estimate(const TensorProduct& product) const {
  const ProductParameters& p = *p_;
  const double m = product.m, n = product.n, k = product.k;
  const bool own_kernels =
      product.engine && format_ != ProductFormat::Half && a_bytes_ < 2 &&
      !(*product.engine == ProductEngine::TensorRtLlm &&
        (format_ == ProductFormat::Fp8 || format_ == ProductFormat::Fp8Static));
  const EngineParameters* engine =
      product.engine && format_ != ProductFormat::Half && format_ != ProductFormat::Tf32
          ? &p.engine(*product.engine, format_)
          : nullptr;
  // Whole vectors of 8 values are loaded at once, or not.
  const bool is_aligned = std::fmod(n, 8) == 0 && std::fmod(k, 8) == 0;
  const double pace = is_aligned ? 1 : p.unaligned;
  const double stream = pace * stream_ * (engine ? engine->stream : 1);
  const double rate = std::min(peak_, pace * sm_rate_ * (engine ? engine->efficiency : 1));
  const double a = product.batch * m * k * a_bytes_, b = product.batch * n * k * b_bytes_;
  const double c = product.batch * m * n * kResultBytes;
  const double dram_bytes = a * miss(product.reuse.activations, l2_) +
                            b * miss(product.reuse.weights, l2_) +
                            c * miss(product.reuse.results, l2_);
  const double dram = dram_bytes / (bandwidth_ * pace);
  const double inverse_sms = 1 / sms_;

  Grid best;
  double best_time = std::numeric_limits<double>::infinity();
  const auto consider = [&](const Tile& tile, double grid, double slices) {
    const double per_sm = grid * slices * inverse_sms;
    const double q = p.wave_quantization;
    const double waves = per_sm <= 1 ? 1.0 : q * std::ceil(per_sm) + (1 - q) * per_sm;
    const double depth = kStep * std::ceil(k / (slices * kStep));
    const double area = static_cast<double>(tile.m) * tile.n, edge = tile.m + tile.n;
    const double slowdown = 1 + p.operand_edge * edge / (2 * area);
    const double mma = waves * 2 * area * (depth + depth_) * slowdown / rate;
    const double load = waves * (tile.m * a_bytes_ + tile.n * b_bytes_) * depth / stream;
    double fixed = start_ + block_ * waves;
    if (slices > 1) {
      fixed += p.split_us * 1e-6 + 2 * kPartialBytes * product.batch * m * n * slices /
                                       (p.split_bytes_per_clock * sms_ * clock_);
    }
    if (fixed + std::max({mma, load, dram}) >= best_time) return;  // the roofs together take longer
    const double time = fixed + cube_root_sum(mma, load, dram);
    if (time >= best_time) return;
    best_time = time;
    best = {mma, load, fixed, std::min(1.0, per_sm), tile.m, tile.n, static_cast<int>(slices)};
  };
  const double most_slices = own_kernels ? 1 : std::max(1.0, std::floor(k / kShortestSlice));
  for (const Tile& tile : tiles_of(kind_)) {
    const double grid = product.batch * std::ceil(m / tile.m) * std::ceil(n / tile.n);
    consider(tile, grid, 1);
    const double filling = std::min(most_slices, std::floor(sms_ / grid));
    if (filling < 2) continue;
    consider(tile, grid, filling);
    if (filling >= 4) consider(tile, grid, std::floor(filling / 2));
    if (2 * filling <= most_slices) consider(tile, grid, 2 * filling);
  }

  ProductEstimate result;
  const double flops = 2 * product.batch * m * n * k;
  // Below the roofs nothing runs, whatever the parameters say.
  const double least_mma = flops / (peak_ * sms_);
  const double mma = std::max(best.mma, least_mma);
  const auto time_at = [&](double share) {
    return best.fixed + cube_root_sum(mma / share, best.load / share, dram);
  };
  const double memory_j = joule_per_byte_ * dram_bytes, arithmetic_j = joule_per_flop_ * flops;
  const double left = limit_ - awake_ - base_w_;
  const auto exceeds = [&](double share) {
    return memory_j + arithmetic_j * std::pow(share, p.clock_exponent - 1) > left * time_at(share);
  };
  result.throttle = 1;
  if (!is_pinned_ && exceeds(1)) {
    double low = kLeastClockShare, high = 1;
    for (int i = 0; i < 10; ++i) {
      const double middle = 0.5 * (low + high);
      (exceeds(middle) ? high : low) = middle;
    }
    result.throttle = low;
  }
  const double body = time_at(result.throttle) - best.fixed;
  const double busy = best.fixed + body;
  result.duration = Seconds(busy + call_seconds(product));
  const double voltage = std::pow(result.throttle, p.clock_exponent - 1);
  result.power = Watts(std::min(limit_, awake_ + base_w_ + joule_per_byte_ * dram_bytes / busy +
                                            voltage * joule_per_flop_ * flops / busy));
  result.roofs.compute = Seconds(cube_root_sum(mma, best.load, 0) / result.throttle);
  result.roofs.memory = Seconds(dram);
  result.roofs.starved = best.share < 1 || best.fixed > body;
  result.roofs.sm_share = best.share;
  result.tile_m = best.tile_m;
  result.tile_n = best.tile_n;
  result.split_k = best.slices;
  return result;
}

TensorBoard::TensorBoard(const GpuSpec& gpu, const CostProfile& profile)
    : kind(mma_kind(gpu)), gpu_(&gpu), profile_(&profile) {
  const ProductParameters& p = profile.product;
  sms = std::max(gpu.sm_count, 1);
  clock = clock_of(gpu, profile);
  shared_kib = gpu.shared_memory_per_sm.in_bytes() / 1024;
  const double ecc_loss = has_gddr(gpu) && gpu.ecc_default_on ? 1 - gpu.ecc_bandwidth_fraction : 0;
  bandwidth = gpu.dram_bandwidth.in_si() * (1 - std::min(1.0, p.ecc_cost) * ecc_loss) *
              board_factors(profile, gpu).bandwidth;
  l2 = gpu.l2.in_bytes() * (has_l2_halves(gpu) ? 0.5 : 1);
  left_w = (1 - p.base_share) * std::max(1.0, (gpu.tdp - awake_power(gpu, profile)).in_w());
  is_pinned = is_pinned_clock(gpu);
}

double TensorBoard::peak(ProductFormat format) const {
  return peak_of(*gpu_, math_of(format)).in_si() * clock / gpu_->boost_clock.in_si() *
         board_factors(*profile_, *gpu_).arithmetic;
}

double TensorBoard::joule_per_flop(ProductFormat format) const {
  return ::tracecast::cost::joule_per_flop(*gpu_, clock, format, profile_->product);
}

double TensorBoard::slowdown(double joules, double seconds) const {
  if (is_pinned || !(seconds > 0)) return 1;
  const double x = joules / (left_w * seconds);
  return std::pow(1 + x * x * x * x, 0.25 / profile_->product.clock_exponent);
}

double tensor_throttle(const GpuSpec& gpu, Precision precision, const CostProfile& profile) {
  if (is_pinned_clock(gpu)) return 1;
  const ProductParameters& p = profile.product;
  const double clock = clock_of(gpu, profile);
  const double rate = peak_of(gpu, precision).in_si() * clock / gpu.boost_clock.in_si() *
                      product_efficiency(gpu, profile);
  const double half = peak_of(gpu, Precision::Fp16).in_si();
  // Energy goes with the width of the operands, as the peaks do.
  const double width = half / std::max(peak_of(gpu, precision).in_si(), 1.0);
  const double left = (1 - p.base_share) * (gpu.tdp - awake_power(gpu, profile)).in_w();
  return throttle_of(left, joule_per_flop(gpu, clock, ProductFormat::Half, p) * width * rate,
                     p.clock_exponent);
}

double product_efficiency(const GpuSpec& gpu, const CostProfile& profile) {
  const ProductParameters& p = profile.product;
  constexpr double kLargeTile = 170;  // r of 128x256
  return std::min(1.0, p.efficiency * p.efficiency_of[mma_kind(gpu)] * kLargeTile /
                           (kLargeTile + p.operand_edge));
}

}  // namespace tracecast::cost
