#include "hwspecs/default_machine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/default_machine.pb.h"
#include "hwspecs/slots.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

std::size_t slots_of(const MachineSpec& machine) { return machine.nodes_of(NodeKind::Gpu).size(); }

}  // namespace

DefaultMachine parse_default_machine(std::string_view text, std::string_view where,
                                     const GpuSpec& gpu, int gpus, const MachineCatalog& machines) {
  proto::DefaultMachines message;
  parse_textproto(text, where, message);
  const MachineSpec* fitting = nullptr;
  for (const std::string& id : message.usual()) {
    const MachineSpec& machine = machines.find(id);
    if (!comes_with(machine, gpu)) continue;
    if (slots_of(machine) >= static_cast<std::size_t>(std::max(gpus, 0))) {
      return {machine.id, fmt::format("{} comes with it", machine.name)};
    }
    if (fitting == nullptr) fitting = &machine;
  }
  if (fitting != nullptr) return {fitting->id, fmt::format("{} comes with it", fitting->name)};
  if (message.card_host_size() == 0 || message.card_host(0).from_year() != 0) {
    throw InputError(where, "no card_host from year 0", "one for every GPU");
  }
  const auto has_room = [&](const DefaultMachine& host) {
    return slots_of(machines.find(host.machine)) >= static_cast<std::size_t>(std::max(gpus, 0));
  };
  DefaultMachine found;
  int before = -1;
  for (const auto& host : message.card_host()) {
    if (host.from_year() < before) {
      throw InputError(where, fmt::format("from_year {} after {}", host.from_year(), before),
                       "ascending years");
    }
    const bool is_newer = host.from_year() > before;
    before = host.from_year();
    if (host.from_year() > gpu.release_year) continue;
    DefaultMachine next{machines.find(host.machine()).id, host.reason()};
    // Of one year's hosts the first with room; without any, the first.
    if (is_newer || (!has_room(found) && has_room(next))) found = std::move(next);
  }
  return found;
}

}  // namespace tracecast
