#include "tools/plan/gpu_numbers.hpp"

#include "sim/base/error.hpp"

namespace tracecast {

using plan::Stay;
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

std::vector<std::uint32_t> GpuNumbers::take(const Stay& stay, int gpus) {
  std::vector<std::uint32_t> taken;
  if (stay.held.empty()) {
    take_within(stay, 0, static_cast<std::uint32_t>(free_at_[stay.type.index].size()), gpus, taken);
  }
  for (const plan::HeldGpus& part : stay.held) {
    const auto size = static_cast<std::uint32_t>(fleet_.machines[part.machine].gpus);
    take_within(stay, first_[part.machine], first_[part.machine] + size, part.gpus, taken);
  }
  return taken;
}

void GpuNumbers::take_within(const Stay& stay, std::uint32_t from, std::uint32_t to, int gpus,
                             std::vector<std::uint32_t>& taken) {
  std::vector<Time>& free_at = free_at_[stay.type.index];
  for (std::uint32_t gpu = from; gpu < to && gpus > 0; ++gpu) {
    if (free_at[gpu] > stay.begin) continue;
    free_at[gpu] = stay.end;
    taken.push_back(gpu);
    --gpus;
  }
  TRACECAST_CHECK(gpus == 0, "no GPU runs two gangs");
}

}  // namespace tracecast
