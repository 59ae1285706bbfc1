#include "sim/parallel/gradients.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "sim/parallel/kernels_of_ops.hpp"

namespace tracecast {
namespace {

Pass pass_of(const NetworkGraph& graph, const PricedStep& priced, const ProgramKernel& kernel) {
  return graph.op(priced.lowered->ops[kernel.op].op).pass;
}

/// The first op that reads each tensor.
std::vector<std::optional<OpId>> first_readers(const NetworkGraph& graph) {
  std::vector<std::optional<OpId>> readers(graph.tensors().size());
  for (std::uint32_t i = static_cast<std::uint32_t>(graph.ops().size()); i-- > 0;) {
    for (const TensorId input : graph.op(OpId{i}).inputs) readers[input.index] = OpId{i};
  }
  return readers;
}

}  // namespace

GradientSchedule find_gradients(const NetworkGraph& graph, const PricedStep& priced,
                                const StepProgram& program, std::span<const Bytes> element_bytes) {
  GradientSchedule schedule;
  const auto num_kernels = static_cast<std::uint32_t>(program.kernels.size());
  if (num_kernels == 0) return schedule;
  schedule.updates_begin = num_kernels;
  while (schedule.updates_begin > 0 &&
         pass_of(graph, priced, program.kernels[schedule.updates_begin - 1]) == Pass::Update) {
    --schedule.updates_begin;
  }
  const KernelsOfOps kernels(graph, priced, program);
  const auto readers = first_readers(graph);
  const std::uint32_t last = schedule.updates_begin == 0 ? 0 : schedule.updates_begin - 1;
  std::vector<std::optional<std::uint32_t>> gradient_of_op(graph.ops().size());
  std::optional<OpId> first_update;
  for (std::uint32_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.op(OpId{i});
    // What is updated within the backward pass is this rank's alone.
    if (op.kind != OpKind::Optimizer || op.inputs.size() < 2 || op.pass != Pass::Update) continue;
    if (!first_update) first_update = OpId{i};
    const TensorId weight = op.inputs[0], gradient = op.inputs[1];
    const auto producer = graph.producer(gradient);
    Gradient g{.weight = weight,
               .bytes = element_bytes[gradient.index] *
                        static_cast<double>(element_count(graph.tensor(gradient).shape))};
    g.ready_after = producer ? std::min(kernels.last(*producer), last) : last;
    const auto reader = readers[weight.index];
    g.first_use = reader ? std::min(kernels.first(*reader), last) : 0;
    gradient_of_op[i] = static_cast<std::uint32_t>(schedule.gradients.size());
    schedule.gradients.push_back(std::move(g));
  }
  for (std::uint32_t k = schedule.updates_begin; k < num_kernels; ++k) {
    const std::uint32_t op = priced.lowered->ops[program.kernels[k].op].op.index;
    if (gradient_of_op[op]) schedule.gradients[*gradient_of_op[op]].updates.push_back(k);
  }
  std::stable_sort(
      schedule.gradients.begin(), schedule.gradients.end(),
      [](const Gradient& a, const Gradient& b) { return a.ready_after < b.ready_after; });
  return schedule;
}

std::vector<GradientBucket> make_buckets(const GradientSchedule& schedule,
                                         const StrategyProfile& strategy,
                                         std::span<const Seconds> ends) {
  std::vector<GradientBucket> buckets;
  const double cycle = strategy.cycle.in_s();
  const auto cycle_of = [&](const Gradient& g) {
    return cycle > 0 ? std::ceil(ends[g.ready_after].in_s() / cycle) : 0.0;
  };
  double open_cycle = 0;
  for (std::uint32_t i = 0; i < schedule.gradients.size(); ++i) {
    const Gradient& g = schedule.gradients[i];
    const Bytes limit = buckets.size() <= 1 ? strategy.first_bucket : strategy.bucket;
    const bool opens = buckets.empty() || buckets.back().bytes + g.bytes > limit ||
                       (cycle > 0 && cycle_of(g) != open_cycle);
    if (opens) {
      buckets.push_back({.gradients = {}, .first_use = g.first_use});
      open_cycle = cycle_of(g);
    }
    GradientBucket& bucket = buckets.back();
    bucket.gradients.push_back(i);
    bucket.bytes += g.bytes;
    bucket.ready_after = std::max(bucket.ready_after, g.ready_after);
    bucket.first_use = std::min(bucket.first_use, g.first_use);
    if (cycle > 0) bucket.delay = Seconds(open_cycle * cycle) - ends[bucket.ready_after];
  }
  return buckets;
}

}  // namespace tracecast
