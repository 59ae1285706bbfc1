#include "sim/cluster/step_program.hpp"

#include <utility>

#include "models/lowering/lower.hpp"

namespace tracecast {

PricedStep price(LoweredStep lowered, const GpuSpec& gpu, const CostProfile& profile) {
  PricedStep priced;
  priced.lowered = std::move(lowered);
  priced.choices.reserve(priced.lowered.ops.size());
  for (const LoweredOp& op : priced.lowered.ops) {
    priced.choices.push_back(cost::choose(op, gpu, profile));
  }
  return priced;
}

StepProgram build_step_program(const NetworkGraph& graph, const PricedStep& priced,
                               const FrameworkProfile& framework, Seconds input_copy) {
  StepProgram program;
  program.step_overhead = framework.step_overhead;
  program.launch = framework.launch_per_kernel;
  program.input_copy = input_copy;
  program.synchronizes = framework.synchronizes_each_step;
  for (std::uint32_t i = 0; i < priced.choices.size(); ++i) {
    const cost::PricedCandidate& choice = priced.choices[i];
    if (choice.estimates.empty()) continue;
    program.ops.push_back({.dispatch = dispatch_time(graph.op(priced.lowered.ops[i].op), framework),
                           .first_kernel = static_cast<std::uint32_t>(program.kernels.size()),
                           .num_kernels = static_cast<std::uint32_t>(choice.estimates.size())});
    for (std::uint32_t k = 0; k < choice.estimates.size(); ++k) {
      program.kernels.push_back({.duration = choice.estimates[k].duration, .op = i, .kernel = k});
    }
  }
  return program;
}

}  // namespace tracecast
