#include "tools/plan/gpu_numbers.hpp"

#include "sim/base/error.hpp"

namespace tracecast {

using plan::Residence;
using plan::Time;

GpuNumbers::GpuNumbers(const plan::Fleet& fleet) : fleet_(fleet), first_(fleet.machines.size()) {
  std::vector<std::uint32_t> next(fleet.types.size());
  for (std::size_t m = 0; m < fleet.machines.size(); ++m) {
    const plan::FleetMachine& machine = fleet.machines[m];
    first_[m] = next[machine.type.index];
    next[machine.type.index] += static_cast<std::uint32_t>(machine.gpus);
  }
  for (const std::uint32_t count : next) free_at_.emplace_back(count);
}

std::vector<std::uint32_t> GpuNumbers::take(const Residence& residence, int gpus) {
  std::vector<std::uint32_t> taken;
  if (residence.held.empty()) {
    take_within(residence, 0, static_cast<std::uint32_t>(free_at_[residence.type.index].size()),
                gpus, taken);
  }
  for (const plan::HeldGpus& part : residence.held) {
    const auto size = static_cast<std::uint32_t>(fleet_.machines[part.machine].gpus);
    take_within(residence, first_[part.machine], first_[part.machine] + size, part.gpus, taken);
  }
  return taken;
}

void GpuNumbers::take_within(const Residence& residence, std::uint32_t from, std::uint32_t to,
                             int gpus, std::vector<std::uint32_t>& taken) {
  std::vector<Time>& free_at = free_at_[residence.type.index];
  for (std::uint32_t gpu = from; gpu < to && gpus > 0; ++gpu) {
    if (free_at[gpu] > residence.begin) continue;
    free_at[gpu] = residence.end;
    taken.push_back(gpu);
    --gpus;
  }
  TRACECAST_CHECK(gpus == 0, "no GPU runs two gangs");
}

}  // namespace tracecast
