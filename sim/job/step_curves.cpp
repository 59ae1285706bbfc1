#include "sim/job/step_curves.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/step/power_limit.hpp"

namespace tracecast {
namespace {

constexpr int kFineWindows = 240;  ///< of one step: what a chart can show

/// When each op of the graph begins: its first kernel, or that of the op before it.
std::vector<Seconds> begin_of_ops(const Prediction& p, std::size_t num_ops) {
  std::vector<std::optional<Seconds>> first(num_ops);
  for (std::size_t k = 0; k < p.program.kernels.size(); ++k) {
    const OpId op = p.priced.lowered->ops[p.program.kernels[k].op].op;
    if (!first[op.index]) first[op.index] = p.timeline.kernels[k].start;
  }
  std::vector<Seconds> begin(num_ops);
  Seconds latest{};
  for (std::size_t i = 0; i < num_ops; ++i) {
    latest = max(latest, first[i].value_or(latest));
    begin[i] = latest;
  }
  return begin;
}

std::vector<MemoryMoment> memory_over_step(const ResolvedJob& job, const Prediction& p) {
  const auto prepared =
      job.prepared->of(job.step, job.framework, job.gpu,
                       {.precision = job.precision, .keeps_gradients = job.micro_batch != nullptr});
  const StepLives& lives = prepared->lives;
  const double block = std::max(1.0, job.framework.memory.allocator_block.in_bytes());
  const auto held = [&](const TensorBuffer& buffer) {
    return Bytes(std::ceil(static_cast<double>(buffer.bytes) / block) * block);
  };
  std::vector<Bytes> workspace(lives.num_ops);
  for (std::size_t i = 0; i < p.priced.choices.size(); ++i) {
    workspace[p.priced.lowered->ops[i].op.index] = p.priced.choices[i].candidate->workspace;
  }
  MemoryByClass now;
  now.weights = Bytes(static_cast<double>(lives.half_copies));
  for (const TensorBuffer& buffer : lives.buffers) {
    if (buffer.permanent) part_of(now, buffer.memory_class) += held(buffer);
  }
  const std::vector<Seconds> begin = begin_of_ops(p, lives.num_ops);
  std::vector<MemoryMoment> moments;
  moments.reserve(lives.num_ops);
  for (std::uint32_t i = 0; i < lives.num_ops; ++i) {
    for (const std::uint32_t b : lives.born.of(i)) {
      part_of(now, lives.buffers[b].memory_class) += held(lives.buffers[b]);
    }
    now.workspace = workspace[i];
    moments.push_back({.begin = begin[i], .op = OpId{i}, .live = now});
    for (const std::uint32_t b : lives.dead.of(i)) {
      part_of(now, lives.buffers[b].memory_class) -= held(lives.buffers[b]);
    }
  }
  return moments;
}

/// `base` and what is inside kernels, over `most` windows at most.
SampledCurve sampled(const StepTimeline& timeline, const std::vector<double>& inside, double base,
                     Seconds width, std::size_t most) {
  SampledCurve curve{.window = width, .values = windows_of(timeline, inside, width).means};
  if (curve.values.size() > most) curve.values.resize(most);
  for (double& value : curve.values) value += base;
  return curve;
}

}  // namespace

StepCurves step_curves(const ResolvedJob& job, const Prediction& p) {
  StepCurves curves;
  if (job.prepared) curves.memory = memory_over_step(job, p);
  if (job.cpu || job.micro_batch || !(p.timeline.step_time > Seconds(0))) return curves;
  const std::vector<double> busy(p.timeline.kernels.size(), 1.0);
  const Seconds fine = p.timeline.step_time / kFineWindows;
  constexpr std::size_t kMost = 512;
  curves.busy = sampled(p.timeline, busy, 0,
                        Seconds(job.gpu.has_utilization_window_1s ? 1.0 : 1.0 / 6.0), kMost);
  curves.busy_in_step = sampled(p.timeline, busy, 0, fine, kFineWindows);
  for (SampledCurve* curve : {&curves.busy, &curves.busy_in_step}) {
    for (double& value : curve->values) value = std::min(value, 1.0);
  }
  if (p.kernel_w.size() == p.timeline.kernels.size()) {
    const double active_idle = p.power.active_idle.in_w();
    curves.power_w = sampled(p.timeline, p.kernel_w, active_idle, kPowerWindow, kMost);
    curves.power_in_step_w = sampled(p.timeline, p.kernel_w, active_idle, fine, kFineWindows);
  }
  return curves;
}

}  // namespace tracecast
