#include "sim/parallel/parameter_server.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/parallel/gradients.hpp"
#include "sim/parallel/multi_rank_run.hpp"
#include "sim/parallel/server_run.hpp"

namespace tracecast {
namespace {

using engine::Picoseconds;
using engine::Schedule;
using Task = MultiRankProgram::Task;

constexpr int kAsynchronousSteps = 8, kFirstCounted = 4;

std::array<Seconds, kServerPartCount> critical_parts(const ServerRun& run,
                                                     const Schedule& schedule) {
  std::array<Seconds, kServerPartCount> parts{};
  for (const Task task : schedule.critical_path()) {
    const auto time = schedule.end[task.index] - schedule.start[task.index];
    parts[run.program.actions()[task.index].tag] += time.in_seconds();
  }
  return parts;
}

/// Mean number of updates of a variable by others between a worker's reading it and its own update.
double mean_staleness(const ServerRun& run, const Schedule& schedule) {
  double others = 0, own = 0;
  for (const auto& of_variable : run.communications) {
    std::vector<Picoseconds> ends;
    for (const VariableCommunication& e : of_variable) {
      ends.push_back(schedule.end[e.update.index]);
    }
    std::sort(ends.begin(), ends.end());
    const auto ended_by = [&](Picoseconds time) {
      return std::upper_bound(ends.begin(), ends.end(), time) - ends.begin();
    };
    const auto ended_before = [&](Picoseconds time) {
      return std::lower_bound(ends.begin(), ends.end(), time) - ends.begin();
    };
    for (const VariableCommunication& e : of_variable) {
      if (e.step < kFirstCounted) continue;
      const auto between =
          ended_before(schedule.end[e.update.index]) - ended_by(schedule.start[e.read.index]);
      others += static_cast<double>(std::max<std::ptrdiff_t>(between, 0));
      ++own;
    }
  }
  return own > 0 ? others / own : 0;
}

/// Steps per second of every worker, over the steps that count.
std::vector<double> steady_rates(const ServerRun& run, const Schedule& schedule) {
  std::vector<double> rates;
  for (const std::vector<Task>& ends : run.step_ends) {
    const auto time = schedule.end[ends.back().index] - schedule.end[ends[kFirstCounted - 1].index];
    rates.push_back(static_cast<double>(ends.size() - kFirstCounted) / time.in_seconds().in_s());
  }
  return rates;
}

/// Of the mean step: `rates` are those of the workers.
void add_account(const ParameterServerRequest& request, std::span<const double> rates,
                 ParameterServerStep& step) {
  const double sum = std::accumulate(rates.begin(), rates.end(), 0.0);
  for (std::size_t w = 0; w < rates.size(); ++w) {
    const ServerWorker& worker = request.kinds[request.kind_of[w]];
    step.account.add({.work = worker.mix, .input = worker.feeding}, rates[w] / sum);
  }
  step.account.servers = max(step.step_time - step.account.total(), Seconds());
}

void add_loads(const ParameterServerRequest& request, const ServerRun& run,
               const Schedule& schedule, ParameterServerStep& step) {
  const double whole = schedule.makespan.in_seconds().in_s();
  if (!(whole > 0)) return;
  for (const ServerUse& server : run.servers) {
    const ChannelProfile& c = request.channel.channel;
    const auto share = [&](Seconds busy, int threads) { return busy.in_s() / threads / whole; };
    Seconds sending{}, receiving{};
    for (const Task task : server.sends) {
      sending += (schedule.end[task.index] - schedule.start[task.index]).in_seconds();
    }
    for (const Task task : server.receives) {
      receiving += (schedule.end[task.index] - schedule.start[task.index]).in_seconds();
    }
    step.send_busy = std::max(step.send_busy, share(sending, c.one_thread ? 1 : c.send_threads));
    step.receive_busy =
        std::max(step.receive_busy, share(receiving, c.one_thread ? 1 : c.receive_threads));
    step.update_busy =
        std::max(step.update_busy, schedule.busy[server.update.index].in_seconds().in_s() / whole);
    const double wire = request.channel.wire.in_si() * whole;
    step.wire_in = std::max(step.wire_in, server.bytes_in.in_bytes() / wire);
    step.wire_out = std::max(step.wire_out, server.bytes_out.in_bytes() / wire);
  }
}

}  // namespace

std::string_view to_string(ServerPart part) {
  switch (part) {
    case ServerPart::Feeding:
      return "feeding";
    case ServerPart::Compute:
      return "compute";
    case ServerPart::DeviceCopy:
      return "copies to and from the GPU";
    case ServerPart::ServerSend:
      return "server sends";
    case ServerPart::ServerReceive:
      return "server receives";
    case ServerPart::Wire:
      return "wire";
    case ServerPart::WorkerSend:
      return "worker sends";
    case ServerPart::WorkerReceive:
      return "worker receives";
    case ServerPart::Update:
      return "server updates";
  }
  return "";
}

ServerWorker cut_for_servers(const NetworkGraph& graph, const Prediction& prediction,
                             std::span<const Bytes> element_bytes, double time_factor) {
  const GradientSchedule schedule =
      find_gradients(graph, prediction.priced, prediction.program, element_bytes);
  const auto& kernels = prediction.timeline.kernels;
  std::vector<std::uint32_t> cuts{0, schedule.updates_begin};
  for (const Gradient& g : schedule.gradients) {
    cuts.push_back(std::min(g.first_use, schedule.updates_begin));
    cuts.push_back(std::min(g.ready_after + 1, schedule.updates_begin));
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());

  ServerWorker worker;
  Seconds before{};
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    const Seconds end = kernels[cuts[i] - 1].end;
    worker.segments.push_back(max(end - before, Seconds()) * time_factor);
    for (std::uint32_t k = cuts[i - 1]; k < cuts[i]; ++k) {
      const Seconds last = k == 0 ? Seconds() : kernels[k - 1].end;
      add_kernel(worker.mix, prediction, k, (kernels[k].end - kernels[k].start) * time_factor,
                 max(kernels[k].end - last, Seconds()) * time_factor);
    }
    before = max(end, before);
  }
  const auto segment_at = [&](std::uint32_t kernel) {
    const auto after = std::upper_bound(cuts.begin(), cuts.end(), kernel);
    const auto index = static_cast<std::uint32_t>(after - cuts.begin()) - 1;
    return std::min(index, static_cast<std::uint32_t>(worker.segments.size()) - 1);
  };
  std::vector<const Gradient*> in_order;
  for (const Gradient& g : schedule.gradients) in_order.push_back(&g);
  std::sort(in_order.begin(), in_order.end(),
            [](const Gradient* a, const Gradient* b) { return a->weight.index < b->weight.index; });
  for (const Gradient* g : in_order) {
    worker.variables.push_back({g->bytes, segment_at(g->first_use), segment_at(g->ready_after)});
  }
  return worker;
}

std::vector<std::uint32_t> place_variables(std::span<const ServedVariable> variables,
                                           std::uint32_t servers, VariablePlacement placement) {
  TRACECAST_CHECK(servers > 0, "a server holds the variables");
  std::vector<std::uint32_t> server_of;
  std::vector<Bytes> held(servers);
  for (std::uint32_t v = 0; v < variables.size(); ++v) {
    const auto least = std::min_element(held.begin(), held.end());
    const auto chosen = placement == VariablePlacement::RoundRobin
                            ? v % servers
                            : static_cast<std::uint32_t>(least - held.begin());
    held[chosen] += variables[v].bytes;
    server_of.push_back(chosen);
  }
  return server_of;
}

PowerRange worker_power(const PowerRange& alone, Seconds step_alone,
                        const ParameterServerStep& step) {
  const Joules active = step.account.work.active;
  PowerRange power = power_in_job(alone, step_alone, active, {}, step.step_time);
  const bool is_seen = step.step_time > kPowerWindow;
  power.min = is_seen && step.account.servers > kPowerWindow ? power.active_idle : power.avg;
  power.max = is_seen ? max(alone.max, power.avg) : power.avg;
  return power;
}

ParameterServerStep simulate_parameter_server(const ParameterServerRequest& request) {
  const int steps = request.asynchronous ? kAsynchronousSteps : 1;
  const ServerRun run = build_server_run(request, steps);
  const Schedule schedule = MultiRankRun(run.program).take_schedule();

  const std::vector<ServedVariable>& variables = request.kinds.front().variables;
  ParameterServerStep step{.workers = static_cast<std::uint32_t>(request.kind_of.size()),
                           .variables = static_cast<std::uint32_t>(variables.size())};
  for (const ServedVariable& v : variables) step.pulled += v.bytes;
  for (const ServerWorker& kind : request.kinds) {
    step.compute =
        max(step.compute, std::accumulate(kind.segments.begin(), kind.segments.end(), Seconds()));
  }
  add_loads(request, run, schedule, step);
  if (request.asynchronous) {
    const std::vector<double> rates = steady_rates(run, schedule);
    step.steps_per_s = std::accumulate(rates.begin(), rates.end(), 0.0);
    step.step_time = Seconds(step.workers / step.steps_per_s);
    step.staleness = mean_staleness(run, schedule);
    add_account(request, rates, step);
    return step;
  }
  // Every worker is reported that all is updated, and says that it goes on.
  const Seconds barrier = 2.0 * point_to_point_latency(request.channel, {});
  step.step_time = schedule.makespan.in_seconds() + barrier;
  step.steps_per_s = step.workers / step.step_time.in_s();
  step.critical = critical_parts(run, schedule);
  // Latencies lie between the tasks of the path.
  Seconds reported{};
  for (const Seconds part : step.critical) reported += part;
  step.critical[static_cast<std::size_t>(ServerPart::Wire)] += step.step_time - reported;
  add_account(request, std::vector<double>(step.workers, 1.0), step);
  return step;
}

}  // namespace tracecast
