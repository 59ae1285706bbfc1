#include "sim/job/forecast.hpp"

#include <algorithm>
#include <utility>

namespace tracecast {
namespace {

std::vector<StepPart> named(const std::vector<TimeShare>& shares) {
  std::vector<StepPart> parts;
  for (const TimeShare& share : shares) parts.push_back({std::string(share.name), share.time});
  return parts;
}

ForecastMemory memory_of(const MemoryPlan& plan) {
  const MemoryByClass& c = plan.by_class;
  return {.needed = plan.needed,
          .used = plan.device_used,
          .peak_live = plan.peak_live,
          .capacity = plan.capacity,
          .fits = plan.fits,
          .fit_probability = plan.fit().probability,
          .needed_bytes = plan.fit().needed,
          .by_class = {{"weights", c.weights},
                       {"gradients", c.gradients},
                       {"optimizer", c.optimizer},
                       {"activations", c.activations},
                       {"workspace", c.workspace},
                       {"pool", c.pool},
                       {"context", c.context}}};
}

ForecastMemory memory_of(const TransformerMemory& m) {
  return {.needed = m.total(),
          .used = m.total(),
          .peak_live = m.total() - m.context - m.pool,
          .capacity = m.capacity,
          .fits = m.fits(),
          .fit_probability = m.fit().probability,
          .needed_bytes = m.fit().needed,
          .by_class = {{"weights", m.weights},
                       {"gradients", m.gradients},
                       {"optimizer", m.optimizer},
                       {"activations", m.activations},
                       {"buffers", m.buffers},
                       {"pool", m.pool},
                       {"context", m.context}}};
}

/// What a job says of itself, whatever it runs on.
Forecast describe(const ResolvedJob& job) {
  Forecast f;
  const PlacedJob& o = job.options;
  f.network = job.forward->name;
  f.gpu = job.gpu.id;
  if (job.machine) f.machine = job.machine->id;
  if (job.host) f.host_cpu = job.host->id;
  f.framework = job.framework.id;
  f.precision = to_string(job.precision);
  if (job.phase == Phase::Train) f.optimizer = o.optimizer;
  f.phase = to_string(job.phase);
  f.batch_per_gpu = o.batch;
  f.samples_per_step = static_cast<double>(o.batch * o.accumulate);
  f.parameters = static_cast<std::int64_t>(job.forward->parameter_count());
  f.forward_macs_per_sample = job.forward->forward_macs() / static_cast<double>(job.forward->batch);
  f.assumptions = job.assumptions;
  f.warnings = job.warnings;
  f.inputs = job.inputs;
  return f;
}

/// Of as many boards as the answer has GPUs.
ForecastPower power_of(const PowerRange& board, const Forecast& f) {
  const Watts all = board.avg * static_cast<double>(f.gpus);
  return {board, all, Joules(all.in_w() / f.throughput_samples_per_s.value)};
}

Forecast forecast_of(const OneGpuDetails& details) {
  const Prediction& p = details.prediction;
  Forecast f = describe(details.job);
  f.step_time_s = p.step_time_s;
  f.throughput_samples_per_s = p.throughput_samples_per_s;
  f.by_cause = {{"kernels", p.timeline.critical_kernels},
                {"host", p.timeline.critical_host},
                {"input", p.timeline.critical_input}};
  f.by_class = named(p.by_class);
  f.by_basis = named(p.by_basis);
  f.sm_efficiency = p.sm_efficiency;
  f.cpu_utilization = p.cpu_utilization;
  f.bottleneck = to_string(p.bottleneck);
  f.memory = memory_of(p.memory);
  if (!details.job.cpu) {
    f.gpu_utilization = p.gpu_utilization;
    f.power = power_of(p.power, f);
  }
  return f;
}

Forecast forecast_of(const ManyGpusDetails& details) {
  const ManyGpus& p = details.prediction;
  Forecast f = describe(details.job);
  f.machine = p.fabric.machine_of(FabricNodeId{0}).id;
  f.gpus = p.fabric.num_ranks();
  f.nodes = p.fabric.num_nodes();
  f.parallel_layout = p.strategy->id;
  f.samples_per_step *= static_cast<double>(f.gpus);
  f.step_time_s = p.step_time_s;
  f.throughput_samples_per_s = p.throughput_samples_per_s;
  f.efficiency = p.efficiency;
  f.by_cause = named(parts_of(p.step));
  f.gpu_utilization = utilization_of_all(p);
  f.sm_efficiency = p.one_gpu.sm_efficiency * (p.one_gpu.step_time_s.value / p.step_time_s.value);
  f.by_class = named(p.step.account.by_class());
  f.by_basis = named(p.step.account.by_basis());
  f.bottleneck = bottleneck_of(p);
  if (p.input) f.cpu_utilization = p.input->busy_threads / p.input->cpu_limit;
  f.memory = memory_of(p.memory);
  f.power = power_of(p.step.power, f);
  return f;
}

Forecast forecast_of(const ServerDetails& details) {
  const ServerPrediction& p = details.prediction;
  Forecast f = describe(details.job);
  f.machine = p.fabric.machine_of(FabricNodeId{0}).id;
  f.gpus = p.step.workers;
  f.nodes = p.fabric.num_nodes();
  f.parallel_layout = "parameter_server";
  f.samples_per_step *= static_cast<double>(f.gpus);
  f.step_time_s = p.step_time_s;
  f.throughput_samples_per_s = p.throughput_samples_per_s;
  f.efficiency = p.efficiency;
  if (!p.options.asynchronous) {
    for (std::size_t part = 0; part < kServerPartCount; ++part) {
      f.by_cause.push_back(
          {std::string(to_string(static_cast<ServerPart>(part))), p.step.critical[part]});
    }
  }
  f.gpu_utilization = Range{.min = 0, .avg = computing_share(p), .max = 1};
  f.sm_efficiency = p.one_gpu.sm_efficiency * (p.one_gpu.step_time_s.value / p.step_time_s.value);
  f.by_class = named(p.step.account.by_class());
  f.by_basis = named(p.step.account.by_basis());
  f.memory = memory_of(p.one_gpu.memory);
  f.power = power_of(p.power, f);
  return f;
}

Forecast forecast_of(const ShardedStep& job) {
  const TransformerPrediction& p = job.prediction;
  Forecast f;
  f.network = job.network;
  f.gpu = job.gpu;
  f.machine = job.machine;
  f.framework = job.framework;
  f.precision = job.precision;
  f.optimizer = job.optimizer;
  f.phase = "train";
  f.parallel_layout = job.software.id;
  f.gpus = static_cast<std::int64_t>(job.plan.ranks());
  f.nodes = job.nodes;
  f.batch_per_gpu = job.plan.micro_batch;
  f.samples_per_step = static_cast<double>(job.plan.global_batch);
  f.parameters = static_cast<std::int64_t>(p.parameters);
  f.step_time_s = p.step_time_s;
  f.throughput_samples_per_s = samples_per_s(job);
  f.throughput_tokens_per_s = p.tokens_per_s;
  const TransformerShares& s = p.shares;
  f.by_cause = {{"compute", s.compute},
                {"tensor_parallel", s.tensor},
                {"context_parallel", s.context},
                {"expert_parallel", s.expert},
                {"host", s.host},
                {"pipeline_bubble", s.bubble},
                {"slowed_by_collectives", s.slowed},
                {"data_parallel", s.data},
                {"update", s.update},
                {"stragglers", s.stragglers}};
  f.by_class = named(p.by_class);
  f.by_basis = named(p.by_basis);
  f.memory = memory_of(p.memory);
  f.power = power_of(p.board, f);
  f.assumptions = job.assumptions;
  f.warnings = job.warnings;
  f.inputs = job.inputs;
  return f;
}

}  // namespace

Forecast make_forecast(ForecastDetails details) {
  auto kept = std::make_shared<const ForecastDetails>(std::move(details));
  Forecast forecast = std::visit([](const auto& d) { return forecast_of(d); }, *kept);
  forecast.details = std::move(kept);
  return forecast;
}

}  // namespace tracecast
