#include "sim/plan/fleet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hwspecs/loaders/textproto.hpp"
#include "sim/base/error.hpp"
#include "sim/plan/proto/fleet.pb.h"

namespace tracecast::plan {
namespace {

constexpr std::int64_t kMostMachines = 1'000'000, kMostPerMachine = 1024;
constexpr std::int64_t kMostGpus = 10'000'000;

std::string group_place(std::string_view where, int line) {
  return line > 0 ? fmt::format("{}:{}", where, line) : std::string(where);
}

std::int64_t count(bool given, std::int64_t value, std::int64_t most, const std::string& place,
                   std::string_view what) {
  if (!given) return 1;
  if (value < 1 || value > most) {
    throw InputError(place, fmt::format("{} {}", what, value), fmt::format("1 to {}", most));
  }
  return value;
}

double not_negative(double value, const std::string& place, std::string_view what) {
  if (!std::isfinite(value) || value < 0) {
    throw InputError(place, fmt::format("{} {}", what, value), "a number not below zero");
  }
  return value;
}

double above_zero(bool given, double value, const std::string& place, std::string_view what) {
  if (!given || !std::isfinite(value) || value <= 0) {
    throw InputError(place, given ? fmt::format("{} {}", what, value) : fmt::format("no {}", what),
                     "a number above zero");
  }
  return value;
}

GpuType& type_of(Fleet& fleet, const std::string& gpu, TypeId& id) {
  const auto known = std::find_if(fleet.types.begin(), fleet.types.end(),
                                  [&](const GpuType& type) { return type.id == gpu; });
  id = {static_cast<std::uint32_t>(known - fleet.types.begin())};
  if (known != fleet.types.end()) return *known;
  GpuType type;
  type.id = gpu;
  return fleet.types.emplace_back(std::move(type));
}

void add_group(Fleet& fleet, const proto::Fleet::Group& group, const std::string& place) {
  if (group.gpu().empty()) throw InputError(place, "a group without gpu", "gpu: \"v100\"");
  const std::int64_t machines =
      count(group.has_count(), group.count(), kMostMachines, place, "count");
  const std::int64_t gpus = count(group.has_gpus(), group.gpus(), kMostPerMachine, place, "gpus");
  if (fleet.total_gpus() + machines * gpus > kMostGpus) {
    throw InputError(place, "too many GPUs", fmt::format("at most {}", kMostGpus));
  }
  TypeId id;
  GpuType& type = type_of(fleet, group.gpu(), id);
  type.gpus += static_cast<int>(machines * gpus);
  if (group.has_usd_per_gpu_hour())
    type.usd_per_hour = not_negative(group.usd_per_gpu_hour(), place, "usd_per_gpu_hour");
  if (group.has_busy_w()) type.busy_power = Watts(not_negative(group.busy_w(), place, "busy_w"));
  if (group.has_idle_w()) type.idle_power = Watts(not_negative(group.idle_w(), place, "idle_w"));
  fleet.machines.insert(fleet.machines.end(), static_cast<std::size_t>(machines),
                        {id, static_cast<int>(gpus)});
}

}  // namespace

int Fleet::total_gpus() const {
  int total = 0;
  for (const GpuType& type : types) total += type.gpus;
  return total;
}

Fleet uniform_fleet(std::int64_t gpus, std::int64_t per_machine, std::string_view gpu) {
  if (gpus < 1 || gpus > kMostGpus) {
    throw InputError("--gpus", std::to_string(gpus), fmt::format("1 to {}", kMostGpus));
  }
  if (per_machine < 1 || per_machine > kMostPerMachine || gpus % per_machine != 0) {
    throw InputError("--gpus-per-node", std::to_string(per_machine),
                     fmt::format("a divisor of {} GPUs, at most {}", gpus, kMostPerMachine));
  }
  Fleet fleet;
  GpuType type;
  type.id = gpu.empty() ? "gpu" : std::string(gpu);
  type.gpus = static_cast<int>(gpus);
  fleet.types.push_back(std::move(type));
  fleet.machines.assign(static_cast<std::size_t>(gpus / per_machine),
                        {TypeId{0}, static_cast<int>(per_machine)});
  return fleet;
}

Fleet load_fleet(std::string_view text, std::string_view where) {
  proto::Fleet message;
  TextprotoLines lines;
  parse_textproto(text, where, message, &lines);
  Fleet fleet;
  fleet.id = message.id();
  const auto* groups = proto::Fleet::descriptor()->FindFieldByName("group");
  if (message.group_size() == 0) {
    throw InputError(where, "no group", "group { count: 8 gpus: 8 gpu: \"v100\" }");
  }
  for (int g = 0; g < message.group_size(); ++g) {
    add_group(fleet, message.group(g), group_place(where, lines.find(groups, g)));
  }
  if (message.has_failures()) {
    const auto& f = message.failures();
    const std::string place =
        group_place(where, lines.find(proto::Fleet::descriptor()->FindFieldByName("failures")));
    FleetFailures failures;
    if (f.has_node_mtbf_hours() || !f.has_gpu_mtbf_hours()) {
      failures.machine_mtbf =
          Seconds(3600 * above_zero(f.has_node_mtbf_hours(), f.node_mtbf_hours(), place,
                                    "node_mtbf_hours"));
    }
    if (f.has_gpu_mtbf_hours())
      failures.gpu_mtbf =
          Seconds(3600 * above_zero(true, f.gpu_mtbf_hours(), place, "gpu_mtbf_hours"));
    failures.checkpoint_interval = Seconds(above_zero(
        f.has_checkpoint_interval_s(), f.checkpoint_interval_s(), place, "checkpoint_interval_s"));
    failures.restart = Seconds(not_negative(f.restart_s(), place, "restart_s"));
    fleet.failures = failures;
  }
  return fleet;
}

}  // namespace tracecast::plan
