#include "sim/step/step_program.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "models/lowering/lower.hpp"
#include "sim/base/error.hpp"

namespace tracecast {

namespace {

/// What lives on between steps and is handed to compiled code.
double count_arguments(const NetworkGraph& graph) {
  return static_cast<double>(
      std::count_if(graph.tensors().begin(), graph.tensors().end(), [](const Tensor& tensor) {
        return tensor.role == TensorRole::Weight || tensor.role == TensorRole::Buffer ||
               tensor.role == TensorRole::OptimizerState;
      }));
}

}  // namespace

PricedStep price(std::shared_ptr<const LoweredStep> lowered, const GpuSpec& gpu,
                 const CostProfile& profile, std::optional<Bytes> most_workspace) {
  PricedStep priced;
  priced.lowered = std::move(lowered);
  const std::vector<LoweredOp>& ops = priced.lowered->ops;
  TRACECAST_CHECK(
      priced.lowered->first_alike.empty() || priced.lowered->first_alike.size() == ops.size(),
      "like ops are those of this step");
  const cost::SustainedBoard board(gpu, profile);
  priced.choices.reserve(ops.size());
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    const std::uint32_t first = priced.first_alike(i);
    if (first == i) {
      priced.choices.push_back(cost::choose(ops[i], board, most_workspace));
      continue;
    }
    const cost::PricedCandidate& known = priced.choices[first];
    const auto which = known.candidate - ops[first].candidates.data();
    priced.choices.push_back({.candidate = &ops[i].candidates[static_cast<std::size_t>(which)],
                              .estimates = known.estimates,
                              .duration = known.duration});
  }
  return priced;
}

PricedStep price(LoweredStep lowered, const GpuSpec& gpu, const CostProfile& profile) {
  return price(std::make_shared<const LoweredStep>(std::move(lowered)), gpu, profile);
}

StepProgram build_step_program(const NetworkGraph& graph, const PricedStep& priced,
                               const FrameworkProfile& framework, Seconds input_copy) {
  StepProgram program;
  program.step_overhead = framework.host.step_overhead;
  if (framework.compiler) {
    program.step_overhead += framework.compiler->argument * count_arguments(graph);
  }
  program.launch = framework.host.launch_per_kernel;
  program.input_copy = input_copy;
  program.synchronizes = framework.host.synchronizes_each_step;
  // An engine that cuts a training graph into pieces runs an inference graph as one (framework
  // profile of MXNet, "bulk").
  const bool is_training = std::any_of(graph.ops().begin(), graph.ops().end(),
                                       [](const Op& op) { return op.pass != Pass::Forward; });
  const double parameters =
      static_cast<double>(std::count_if(graph.ops().begin(), graph.ops().end(),
                                        [](const Op& op) { return op.kind == OpKind::Optimizer; }));
  int ops_since_wait = 0;
  bool result_awaited = false;
  Seconds views;
  for (std::uint32_t i = 0; i < priced.choices.size(); ++i) {
    const cost::PricedCandidate& choice = priced.choices[i];
    const Op& op = graph.op(priced.lowered->ops[i].op);
    if (choice.estimates.empty()) {
      views += view_time(op, framework);
      continue;
    }
    const int ops_per_wait = op.pass == Pass::Update ? framework.host.updates_per_synchronization
                             : is_training           ? framework.host.graph_ops_per_synchronization
                                                     : 0;
    const bool reads = op.kind == OpKind::Routine && priced.lowered->ops[i].host_waits;
    const bool on_host = priced.lowered->ops[i].runs_on_host;
    const bool waits =
        result_awaited || reads || on_host || (ops_per_wait > 0 && ops_since_wait >= ops_per_wait);
    result_awaited = priced.lowered->ops[i].host_waits;
    ops_since_wait = waits ? 1 : ops_since_wait + 1;
    const Seconds waking = waits ? framework.host.synchronization : Seconds();
    const Seconds host_work =
        on_host ? host_pooling_time(graph, op, *framework.host.pooling) : Seconds();
    const LoweredOp& lowered = priced.lowered->ops[i];
    const bool updates_all =
        framework.optimizer.multi_tensor && op.kind == OpKind::Optimizer && !lowered.host_waits;
    const Seconds gathering =
        updates_all ? framework.host.update_per_parameter * parameters : Seconds();
    program.ops.push_back(
        {.dispatch = dispatch_time(op, framework, is_training, lowered.spares_library) +
                     cast_time(op, choice.candidate->kernels, framework) + waking + host_work +
                     gathering + std::exchange(views, Seconds()),
         .first_kernel = static_cast<std::uint32_t>(program.kernels.size()),
         .num_kernels = static_cast<std::uint32_t>(choice.estimates.size()),
         .waits_for_gpu = waits});
    for (std::uint32_t k = 0; k < choice.estimates.size(); ++k) {
      const Kernel& kernel = choice.candidate->kernels[k];
      // Launches of a loop follow each other no faster than the host issues them.
      const double launches = static_cast<double>(kernel.launches);
      const Seconds issued = launches > 1 ? framework.host.launch_per_kernel * launches : Seconds();
      program.kernels.push_back(
          {.duration = std::max(choice.estimates[k].duration, issued),
           .more_launch = framework.host.launch_per_kernel * kernel.more_launches +
                          framework.recurrence.step * kernel.driven_steps,
           .op = i,
           .kernel = k});
    }
  }
  return program;
}

}  // namespace tracecast
