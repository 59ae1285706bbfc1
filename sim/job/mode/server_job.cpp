#include "sim/job/mode/server_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/lowering/lower.hpp"
#include "models/training.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

/// Standard deviation of ln(measured / predicted) of what the channel takes. Guess: channels are
/// fitted to ratios of a single study.
constexpr double kChannelLogSd = 0.35;

/// Share of a GPU's memory bandwidth that updates reach. Guess: what elementwise kernels do.
constexpr double kDeviceStreaming = 0.75;

VariablePlacement placement_of(const std::string& word) {
  if (word == "bytes") return VariablePlacement::ByBytes;
  if (word == "round_robin") return VariablePlacement::RoundRobin;
  const std::vector<std::string> words{"bytes", "round_robin"};
  throw InputError("--placement", '"' + word + '"', describe_choices(word, words));
}

bool on_gpu(const std::string& word) {
  if (word == "cpu" || word == "gpu") return word == "gpu";
  const std::vector<std::string> words{"cpu", "gpu"};
  throw InputError("--server-device", '"' + word + '"', describe_choices(word, words));
}

/// What is usual in place of what was left out.
ParameterServers complete(ParameterServers options) {
  if (!options.servers) options.servers = 1;
  if (options.channel.empty()) options.channel = "grpc";
  if (options.placement.empty()) options.placement = "bytes";
  if (options.device.empty()) options.device = "cpu";
  return options;
}

void check(const ResolvedJob& job, const Fabric& fabric, const ParameterServers& options) {
  const auto nodes = static_cast<std::int64_t>(fabric.num_nodes());
  if (*options.servers < 1 || *options.servers >= nodes) {
    throw InputError("--servers", std::to_string(*options.servers),
                     fmt::format("1 to {}: of {} nodes one at least is a worker",
                                 std::max<std::int64_t>(nodes - 1, 1), nodes));
  }
  if (job.phase != Phase::Train) {
    throw InputError("--servers", "--phase " + job.options.phase,
                     "train: servers hold what is trained");
  }
  if (job.cpu) throw InputError("--servers", "--gpu " + job.options.gpu, "a GPU");
  if (job.micro_batch) {
    throw InputError("--servers", fmt::format("--accumulate {}", job.options.accumulate), "1");
  }
}

/// Of the slowest link between GPU and host memory.
BytesPerSecond device_copy_rate(const Fabric& fabric, Rank rank) {
  BytesPerSecond least{};
  for (const FabricLinkId id : fabric.route_to_host(rank).links) {
    const BytesPerSecond rate = fabric.link(id).bandwidth;
    least = least == BytesPerSecond() ? rate : min(least, rate);
  }
  return least;
}

/// Bytes touched per byte of a gradient.
double accesses_per_gradient(const NetworkGraph& step) {
  for (const Op& op : step.ops()) {
    if (const auto* update = std::get_if<OptimizerAttributes>(&op.attributes)) {
      return update_accesses(find_optimizer(update->name).value_or(OptimizerKind::Sgd));
    }
  }
  return update_accesses(OptimizerKind::Sgd);
}

}  // namespace

ServerPrediction predict_with_servers(const ResolvedJob& job, const Hardware& hardware,
                                      Fabric fabric, const ParameterServers& asked) {
  const ParameterServers options = complete(asked);
  check(job, fabric, options);
  const auto servers = static_cast<std::uint32_t>(*options.servers);
  const Rank first_worker = fabric.first_rank(FabricNodeId{servers});
  const MachineSpec& machine = fabric.machine_of(FabricNodeId{0});
  const CpuSpec& cpu = hardware.cpus().find(machine.cpu);
  const std::string link = options.link.empty() ? fabric.spec().network.link : options.link;
  ServerPrediction result{.fabric = fabric,
                          .options = options,
                          .channel = take_channel(options.channel, machine, link, hardware),
                          .one_gpu = predict(job, hardware),
                          .step = {},
                          .power = {},
                          .step_time_s = {},
                          .throughput_samples_per_s = {}};
  const std::vector<Bytes> sizes = element_sizes(*job.step, job.framework, job.gpu, job.precision);
  ParameterServerRequest request{
      .fabric = fabric,
      .servers = servers,
      .channel = result.channel,
      .kinds = {},
      .kind_of = {},
      .placement = placement_of(options.placement),
      .asynchronous = options.asynchronous,
      .update_accesses = accesses_per_gradient(*job.step),
      .update_rate = cpu.memory_bandwidth * hardware.cost().cpu.memory_efficiency,
      .device_copy = device_copy_rate(fabric, first_worker)};
  if (on_gpu(options.device)) {
    if (fabric.ranks_of(FabricNodeId{0}) == 0) {
      throw InputError("--server-device", "gpu on a server without one", "cpu");
    }
    request.server_copy = device_copy_rate(fabric, fabric.first_rank(FabricNodeId{0}));
    request.update_rate = job.gpu.dram_bandwidth * kDeviceStreaming;
  }
  std::vector<double> factors;
  double alone_per_s = 0;
  for (std::uint32_t r = first_worker.index; r < fabric.num_ranks(); ++r) {
    if (fabric.gpu_of(Rank{r}).id != job.gpu.id) {
      throw InputError("--servers", fabric.gpu_of(Rank{r}).id + " beside " + job.gpu.id,
                       "workers with GPUs of one kind");
    }
    const double factor = fabric.group_of(fabric.node_of(Rank{r})).compute_time_factor;
    auto kind = std::find(factors.begin(), factors.end(), factor);
    if (kind == factors.end()) {
      request.kinds.push_back(cut_for_servers(*job.step, result.one_gpu, sizes, factor));
      request.kinds.back().feeding = options.feeding;
      kind = factors.insert(factors.end(), factor);
    }
    request.kind_of.push_back(static_cast<std::uint32_t>(kind - factors.begin()));
    alone_per_s += 1 / (result.one_gpu.timeline.step_time.in_s() * factor);
  }
  result.step = simulate_parameter_server(request);
  result.power = worker_power(result.one_gpu.power, result.one_gpu.timeline.step_time, result.step);
  const double whole = result.step.step_time.in_s();
  const double computing = std::min(result.step.compute.in_s() / whole, 1.0);
  result.step_time_s = interval90(
      whole, std::hypot(result.one_gpu.log_sd * computing, kChannelLogSd * (1 - computing)));
  const double samples = static_cast<double>(job.step->batch) * result.step.workers;
  result.throughput_samples_per_s = {.value = samples / result.step_time_s.value,
                                     .low = samples / result.step_time_s.high,
                                     .high = samples / result.step_time_s.low};
  result.efficiency = result.step.steps_per_s / alone_per_s;
  return result;
}

double computing_share(const ServerPrediction& prediction) {
  return std::min(1.0, prediction.step.account.work.kernels() / prediction.step.step_time);
}

std::vector<std::string> usual_of(const ParameterServers& options, const ResolvedJob& job) {
  std::vector<std::string> lines;
  if (!options.servers) lines.emplace_back("1 of the nodes is the server");
  if (options.channel.empty()) lines.emplace_back("channel grpc, TensorFlow's default");
  if (job.framework.id != "tensorflow") {
    lines.emplace_back("servers and channel as TensorFlow 1.4 has them");
  }
  return lines;
}

}  // namespace tracecast
