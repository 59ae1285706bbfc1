#include "sim/job/placement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "hwspecs/default_host.hpp"
#include "hwspecs/slots.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/step/cpu_run.hpp"

namespace tracecast {
namespace {

constexpr std::string_view kCpuPrefix = "cpu:";
constexpr long long kMostSockets = 64;

/// "2xe5_2667" or "e5_2667"; in "3970x" the x belongs to the name.
CpuNode parse_cpu_node(std::string_view text, const CpuCatalog& cpus) {
  CpuNode node;
  const std::size_t x = text.find('x');
  const bool may_count = x != text.npos && x + 1 < text.size();
  const auto count = may_count ? parse_integer(text.substr(0, x)) : std::nullopt;
  if (count) {
    if (*count < 1 || *count > kMostSockets) {
      throw InputError("--gpu", fmt::format("{} sockets", *count),
                       fmt::format("cpu:Nx with N from 1 to {}", kMostSockets));
    }
    node.sockets = static_cast<int>(*count);
    text.remove_prefix(x + 1);
  }
  node.cpu = cpus.find(text);
  node.memory = node.cpu.max_memory * node.sockets;
  return node;
}

/// What only a board has is refused, not ignored.
void refuse_board_flags(const PlacedJob& o) {
  const auto refuse = [&](const char* flag) {
    throw InputError(flag, "--gpu " + o.gpu, "a GPU: CPU power and clocks are not predicted");
  };
  if (o.board.power_limit_w) refuse("--power-limit");
  if (o.board.clock_mhz) refuse("--clock");
  if (o.board.memory_clock_mhz) refuse("--memory-clock");
}

void run_on_cpu(ResolvedJob& job, const Hardware& hardware) {
  refuse_board_flags(job.options);
  if (!job.options.host_cpu.empty()) {
    throw InputError("--host-cpu", job.options.host_cpu + " with --gpu " + job.options.gpu,
                     "a GPU: the job runs on its host");
  }
  if (job.options.data != "synthetic" && job.options.data != "memory") {
    throw InputError("--data", job.options.data + " with --gpu " + job.options.gpu,
                     "synthetic: loading is predicted beside a GPU only");
  }
  if (job.framework.compiler) {
    throw InputError("--gpu", job.options.gpu + " with a graph compiler",
                     "a GPU: compiled graphs are not predicted on CPUs");
  }
  job.cpu =
      parse_cpu_node(std::string_view(job.options.gpu).substr(kCpuPrefix.size()), hardware.cpus());
  if (job.machine) {
    job.cpu->memory = job.machine->memory_of_host();
  } else {
    job.assumptions.push_back(
        "host memory: all that the sockets can address; --machine knows better");
  }
  job.gpu = device_of(*job.cpu);
  job.host = job.cpu->cpu;
  job.framework = on_cpu(std::move(job.framework));
}

void take_gpu(ResolvedJob& job, const Hardware& hardware) {
  if (!job.machine) {
    job.gpu = hardware.gpus().find(job.options.gpu);
    return;
  }
  const TakenBoard taken = take_board(job.options.gpu, *job.machine, hardware.gpus(), "--gpu");
  job.gpu = *taken.gpu;
  if (!taken.note.empty()) job.assumptions.push_back(taken.note);
}

/// The slowest link between the machine's first GPU slot and its socket, as the bound of copies
/// from the host.
void plug_gpu(ResolvedJob& job, const Hardware& hardware) {
  const MachineSpec& machine = *job.machine;
  if (!machine.gpus.empty() && !comes_with(machine, job.gpu)) {
    job.assumptions.push_back(fmt::format("{} comes with {}; {} in its slot instead", machine.id,
                                          fmt::join(machine.gpus, ", "), job.gpu.id));
  }
  const auto slots = machine.nodes_of(NodeKind::Gpu);
  if (slots.empty()) return;
  std::optional<BytesPerSecond> slowest;
  bool is_pcie = false;
  for (const MachineLink* hop : machine.path_to_socket(slots.front())) {
    const LinkSpec& link = hardware.links().find(hop->link);
    is_pcie |= link.kind == LinkKind::Pcie;
    const BytesPerSecond rate = link.bandwidth * hop->count;
    slowest = slowest ? min(*slowest, rate) : rate;
  }
  // The card's own PCIe may be older than the slot's.
  job.gpu.pcie_bandwidth = is_pcie ? min(job.gpu.pcie_bandwidth, *slowest) : *slowest;
}

/// Host costs as on one thread of the job's host, which is assumed where nobody named it.
void scale_host_costs(ResolvedJob& job, const Hardware& hardware) {
  std::string assumed;
  if (!job.host) {
    const HostCpu host = find_host_cpu(job.options, hardware, job.gpu);
    job.host = *host.spec;
    assumed = host.assumed;
  }
  const CpuSpec& reference = hardware.cpus().find(job.framework.host.reference_cpu);
  if (job.host->id == reference.id) return;
  // Costs that the user set are those of the user's host.
  job.framework = hardware.with_settings(on_host(std::move(job.framework), reference, *job.host));
  std::string note =
      fmt::format("host costs as on one thread of {}: {} times those of {}", job.host->name,
                  three_digits(reference.single_thread_speed() / job.host->single_thread_speed()),
                  reference.name);
  if (!assumed.empty()) note += fmt::format("; assumed, {}; --host-cpu names yours", assumed);
  job.assumptions.push_back(std::move(note));
}

}  // namespace

HostCpu find_host_cpu(const PlacedJob& options, const Hardware& hardware, const GpuSpec& gpu) {
  const std::string& text = options.host_cpu;
  if (text.empty() && gpu.form_factor == FormFactor::Superchip) {
    const auto gpus = static_cast<int>(std::min<std::int64_t>(options.gpus.value_or(1), 1 << 20));
    const MachineSpec& machine =
        hardware.machines().find(hardware.specs().default_machine(gpu, gpus).machine);
    return {&hardware.cpus().find(machine.cpu), machine.sockets_of_host(), "that of " + machine.id};
  }
  if (text.empty()) {
    const DefaultHost usual = hardware.specs().default_host(gpu.release_year);
    return {&hardware.cpus().find(usual.cpu), usual.sockets, usual.reason};
  }
  const std::size_t x = text.find('x');
  const auto sockets = parse_integer(std::string_view(text).substr(0, x));
  if (x == std::string::npos || !sockets) return {&hardware.cpus().find(text)};
  if (*sockets < 1 || *sockets > 8) throw InputError("--host-cpu", text, "1 to 8 sockets");
  return {&hardware.cpus().find(text.substr(x + 1)), static_cast<int>(*sockets)};
}

void place_job(ResolvedJob& job, const Hardware& hardware) {
  const PlacedJob& o = job.options;
  if (!o.machine.empty() && !o.host_cpu.empty()) {
    throw InputError("--host-cpu", "--machine " + o.machine + " beside it", "one of the two");
  }
  if (!o.machine.empty()) {
    job.machine = hardware.machines().find(o.machine);
    job.host = hardware.cpus().find(job.machine->cpu);
  }
  if (to_lower(o.gpu).starts_with(kCpuPrefix)) {
    run_on_cpu(job, hardware);
  } else {
    take_gpu(job, hardware);
    if (job.machine) plug_gpu(job, hardware);
  }
  scale_host_costs(job, hardware);
}

}  // namespace tracecast
