#include "sim/step/cpu_run.hpp"

#include <utility>

namespace tracecast {

GpuSpec device_of(const CpuNode& node) {
  GpuSpec device;
  device.id = "cpu:" + (node.sockets > 1 ? std::to_string(node.sockets) + "x" : "") + node.cpu.id;
  device.name = (node.sockets > 1 ? std::to_string(node.sockets) + " x " : "") + node.cpu.name;
  device.values = node.cpu.values;
  device.sources = node.cpu.sources;
  device.release_year = node.cpu.release_year;
  device.memory = node.memory;
  device.dram_bandwidth = node.cpu.memory_bandwidth * node.sockets;
  device.tdp = node.cpu.tdp * node.sockets;
  const auto add = [&](Precision precision, int flop_per_cycle) {
    if (flop_per_cycle == 0) return;
    device.peaks.push_back(
        {precision, MathUnit::CudaCore,
         FlopsPerSecond(node.cpu.vector_clock.in_si() * node.cores() * flop_per_cycle)});
  };
  add(Precision::Fp32, node.cpu.fp32_flop_per_cycle);
  add(Precision::Bf16, node.cpu.bf16_flop_per_cycle);
  add(Precision::Int8, node.cpu.int8_op_per_cycle);
  return device;
}

FrameworkProfile on_cpu(FrameworkProfile framework) {
  framework.host.launch_per_kernel = Seconds();
  framework.host.pooling.reset();  // a kernel like the others
  framework.host.dispatch_per_library_call = Seconds();
  framework.convolutions.image_layout = framework.convolutions.tensor_core_image_layout =
      ImageLayout::Nchw;
  framework.convolutions.transforms_filters = false;
  framework.memory.pool_fraction = 0;
  framework.memory.context = Bytes();
  framework.host.synchronizes_each_step = true;
  return framework;
}

PricedStep price_on_cpu(std::shared_ptr<const LoweredStep> lowered, const cost::CpuTarget& target,
                        const CostProfile& profile) {
  PricedStep priced;
  priced.lowered = std::move(lowered);
  priced.choices.reserve(priced.lowered->ops.size());
  for (const LoweredOp& op : priced.lowered->ops) {
    priced.choices.push_back(cost::choose_on_cpu(op, target, profile));
  }
  return priced;
}

double cores_busy(const PricedStep& priced, const StepTimeline& timeline,
                  const cost::CpuTarget& target, const CostProfile& profile) {
  if (!(timeline.step_time > Seconds(0))) return 0;
  Seconds busy = timeline.host_busy;
  for (const cost::PricedCandidate& choice : priced.choices) {
    for (std::size_t k = 0; k < choice.estimates.size(); ++k) {
      const int threads = cost::cpu_threads(choice.candidate->kernels[k], target, profile);
      busy += choice.estimates[k].duration * static_cast<double>(threads);
    }
  }
  return busy / (timeline.step_time * static_cast<double>(target.node.cores()));
}

FrameworkProfile on_host(FrameworkProfile framework, const CpuSpec& reference,
                         const CpuSpec& host) {
  const double slower = reference.single_thread_speed() / host.single_thread_speed();
  for (Seconds* cost :
       {&framework.host.dispatch_per_op, &framework.host.dispatch_per_backward_op,
        &framework.host.dispatch_per_optimizer_op, &framework.host.dispatch_per_library_call,
        &framework.host.autograd_per_library_call, &framework.host.view,
        &framework.host.backward_view, &framework.host.update_per_parameter,
        &framework.host.launch_per_kernel, &framework.host.step_overhead}) {
    *cost *= slower;
  }
  if (framework.compiler) framework.compiler->argument *= slower;
  if (framework.host.pooling) {
    framework.host.pooling->forward_per_cell *= slower;
    framework.host.pooling->backward_per_cell *= slower;
  }
  return framework;
}

}  // namespace tracecast
