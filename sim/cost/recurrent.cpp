#include "sim/cost/recurrent.hpp"

#include <algorithm>

#include "sim/cost/fill.hpp"
#include "sim/cost/issue.hpp"
#include "sim/cost/tensor_gemm.hpp"
#include "sim/cost/tile_gemm.hpp"

namespace tracecast::cost {
namespace {

/// What all parts of a step need to know.
struct Step {
  const Kernel& kernel;
  const RecurrentWork& work;
  const SustainedGpu& machine;
  const GpuSpec& gpu;
  const CostProfile& profile;

  [[nodiscard]] double element_bytes() const { return element_size(kernel.data).in_bytes(); }
  [[nodiscard]] double cells() const { return static_cast<double>(work.cells); }
  [[nodiscard]] double bandwidth() const { return machine.stream.in_si(); }
  /// All weights that one step reads: what L2 has to keep until the next.
  [[nodiscard]] double weight_bytes() const {
    const double projection = static_cast<double>(work.projection) * work.elements /
                              static_cast<double>(std::max<std::int64_t>(work.gemm.m, 1));
    return cells() * element_bytes() *
           (static_cast<double>(work.gemm.n) * static_cast<double>(work.gemm.k) + projection);
  }
};

/// One GEMM of a step, all cells of it.
Roofs estimate_gemm(const Step& s, double m, double n, double k) {
  const bool tensor_core = s.kernel.unit == MathUnit::TensorCore;
  const double weights = s.cells() * n * k * s.element_bytes();
  const double miss = miss_share(s.weight_bytes(), s.machine.l2_bytes, s.profile.memory.l2_share);
  TileProblem t;
  t.batch = s.cells();
  t.m = m;
  t.n = n;
  t.k = k;
  t.efficiency =
      tensor_core ? gemm_efficiency(s.gpu, s.profile) : library_efficiency(s.gpu, s.profile);
  t.traffic_bytes = weights * miss;
  t.result_bytes = s.cells() * m * n * 4.0;
  // Kepler's kernels for a few rows neither split the inner dimension nor spare the rows that a
  // tile lacks: notes/0003.
  const bool is_rigid = s.gpu.architecture == Architecture::Kepler && m > 1;
  t.most_slices = s.work.may_split_k && !is_rigid ? kMostSlices : 1;
  t.may_be_vectors = !is_rigid;
  t.by_matrix_library = true;
  t.tiles = tensor_core ? TileSet::TensorCore : TileSet::Gemm;
  Roofs roofs = estimate_tiles(t, s.machine, s.gpu, s.profile).roofs;
  const double all = weights + s.cells() * m * (n + k) * s.element_bytes();
  roofs.memory = combine({roofs.memory, Seconds(all / s.machine.l2.in_si()), false});
  return roofs;
}

RecurrentEstimate step_by_step(const Step& s) {
  const RecurrentWork& w = s.work;
  const double m = static_cast<double>(w.gemm.m), k = static_cast<double>(w.gemm.k);
  const Seconds fill = fill_time(s.machine, s.gpu, s.profile);
  RecurrentEstimate result;
  result.roofs = estimate_gemm(s, m, static_cast<double>(w.gemm.n), k);
  Seconds step = combine(result.roofs) / s.profile.recurrent.efficiency + fill;
  if (w.projection > 0 && m > 0) {
    const Roofs second = estimate_gemm(s, m, static_cast<double>(w.projection), w.elements / m);
    step += combine(second) / s.profile.recurrent.efficiency + fill;
    result.roofs.compute += second.compute;
    result.roofs.memory += second.memory;
  }
  // What the GEMM has just written and the step before has left: it comes from L2.
  step += Seconds(s.cells() * w.elementwise_bytes / s.machine.l2.in_si()) + fill;
  const auto steps = static_cast<double>(w.steps);
  result.duration = step * steps - fill;
  result.roofs.compute *= steps;
  result.roofs.memory *= steps;
  return result;
}

RecurrentEstimate persistent(const Step& s) {
  const RecurrentWork& w = s.work;
  const RecurrentParameters& p = s.profile.recurrent;
  const double m = static_cast<double>(w.gemm.m);
  const double flops =
      2.0 * s.cells() * m * static_cast<double>(w.gemm.n) * static_cast<double>(w.gemm.k);
  const Seconds arithmetic(flops / (s.machine.arithmetic.in_si() * p.persistent_efficiency));
  // Every SM reads the whole state of its cell.
  const double state = m * static_cast<double>(w.gemm.k) * s.element_bytes();
  const Seconds communication((state * s.machine.sm_count + s.cells() * w.elementwise_bytes) /
                              s.machine.l2.in_si());
  const Seconds step = arithmetic + communication + Seconds(p.persistent_step_us * 1e-6);
  const auto steps = static_cast<double>(w.steps);
  const Seconds loading(s.weight_bytes() / s.bandwidth());
  return {.roofs = {arithmetic * steps, loading + communication * steps, arithmetic < step * 0.5},
          .duration = loading + step * steps};
}

}  // namespace

RecurrentEstimate estimate_recurrent(const Kernel& kernel, const RecurrentWork& work,
                                     const SustainedGpu& machine, const GpuSpec& gpu,
                                     const CostProfile& profile) {
  const Step step{kernel, work, machine, gpu, profile};
  return work.persistent ? persistent(step) : step_by_step(step);
}

Roofs estimate_chain(const Kernel& kernel, const ChainWork& work, const SustainedGpu& machine,
                     const GpuSpec& gpu, const CostProfile& profile) {
  constexpr double kWaitCycles = 2000, kChainsPerSm = 4;
  const double efficiency = kernel.unit == MathUnit::TensorCore ? gemm_efficiency(gpu, profile)
                                                                : library_efficiency(gpu, profile);
  const double sms = machine.sm_count;
  const double rate = machine.arithmetic.in_si() * efficiency / sms;
  const double rounds = std::max(1.0, work.chains / (kChainsPerSm * sms));
  const double step = kWaitCycles / machine.clock.in_si() * rounds +
                      std::max(1.0, work.chains / sms) * work.flops_per_step / rate;
  const double share = std::min(1.0, work.chains / sms);
  return {.compute = Seconds(work.steps * step),
          .memory = kernel.bytes() / machine.stream,
          .under_occupied = share < 1,
          .sm_share = share};
}

}  // namespace tracecast::cost
