#include "sim/plan/free_gpus.hpp"

#include <algorithm>
#include <optional>

#include "sim/base/error.hpp"

namespace tracecast::plan {

FreeGpus::FreeGpus(const Fleet& fleet, Placement placement)
    : fleet_(fleet),
      placement_(placement),
      free_of_type_(fleet.types.size()),
      free_of_machine_(fleet.machines.size()),
      largest_(fleet.types.size()),
      machines_of_type_(fleet.types.size()) {
  for (std::uint32_t m = 0; m < fleet.machines.size(); ++m) {
    const FleetMachine& machine = fleet.machines[m];
    machines_of_type_[machine.type.index].push_back(m);
    largest_[machine.type.index] = std::max(largest_[machine.type.index], machine.gpus);
  }
  free_all();
}

void FreeGpus::free_all() {
  free_ = 0;
  for (std::size_t t = 0; t < fleet_.types.size(); ++t) {
    free_of_type_[t] = fleet_.types[t].gpus;
    free_ += fleet_.types[t].gpus;
  }
  for (std::size_t m = 0; m < fleet_.machines.size(); ++m)
    free_of_machine_[m] = fleet_.machines[m].gpus;
}

bool FreeGpus::could_fit(int gpus, TypeId type) const {
  if (gpus > fleet_.types[type.index].gpus) return false;
  return placement_ != Placement::Machines || FreeGpus(fleet_, placement_).fits(gpus, type);
}

bool FreeGpus::fits(int gpus, TypeId type) const {
  if (gpus > free_of(type)) return false;
  if (placement_ != Placement::Machines) return true;
  int whole = 0, most_left = 0;
  const int size = largest_machine(type);
  for (const std::uint32_t m : machines_of_type_[type.index]) {
    if (gpus <= size && free_of_machine_[m] >= gpus) return true;
    if (free_of_machine_[m] == fleet_.machines[m].gpus && free_of_machine_[m] == size)
      ++whole;
    else
      most_left = std::max(most_left, free_of_machine_[m]);
  }
  if (gpus <= size) return false;
  const int needed = gpus / size, rest = gpus % size;
  return whole > needed || (whole == needed && rest <= most_left);
}

void FreeGpus::hold(std::uint32_t machine, int gpus, std::vector<HeldGpus>& held) {
  free_of_machine_[machine] -= gpus;
  free_of_type_[fleet_.machines[machine].type.index] -= gpus;
  free_ -= gpus;
  held.push_back({machine, gpus});
}

bool FreeGpus::take_machines(int gpus, TypeId type, std::vector<HeldGpus>& held) {
  const std::vector<std::uint32_t>& machines = machines_of_type_[type.index];
  const int size = largest_machine(type);
  if (gpus <= size) {
    const auto first = std::find_if(machines.begin(), machines.end(),
                                    [&](std::uint32_t m) { return free_of_machine_[m] >= gpus; });
    if (first == machines.end()) return false;
    hold(*first, gpus, held);
    return true;
  }
  if (!fits(gpus, type)) return false;
  int left = gpus;
  for (const std::uint32_t m : machines) {
    if (left < size) break;
    if (free_of_machine_[m] != size) continue;
    hold(m, size, held);
    left -= size;
  }
  return left == 0 || take_machines(left, type, held);
}

void FreeGpus::take_nearest(int gpus, TypeId type, std::vector<HeldGpus>& held) {
  const std::vector<std::uint32_t>& machines = machines_of_type_[type.index];
  std::optional<std::uint32_t> fits, fullest;
  for (const std::uint32_t m : machines) {
    const int free = free_of_machine_[m];
    if (free >= gpus && (!fits || free < free_of_machine_[*fits])) fits = m;
    if (free > 0 && (!fullest || free > free_of_machine_[*fullest])) fullest = m;
  }
  if (fits) {
    hold(*fits, gpus, held);
    return;
  }
  TRACECAST_CHECK(fullest.has_value(), "as many GPUs are free");
  const int taken = free_of_machine_[*fullest];
  hold(*fullest, taken, held);
  take_nearest(gpus - taken, type, held);
}

bool FreeGpus::take(int gpus, TypeId type, std::vector<HeldGpus>& held) {
  if (gpus > free_of(type)) return false;
  if (placement_ == Placement::Machines) return take_machines(gpus, type, held);
  if (placement_ == Placement::Nearest) {
    take_nearest(gpus, type, held);
    return true;
  }
  free_of_type_[type.index] -= gpus;
  free_ -= gpus;
  return true;
}

bool FreeGpus::take_again(int gpus, TypeId type, const std::vector<HeldGpus>& held) {
  if (gpus > free_of(type)) return false;
  for (const HeldGpus& part : held) {
    if (free_of_machine_[part.machine] < part.gpus) return false;
  }
  for (const HeldGpus& part : held) free_of_machine_[part.machine] -= part.gpus;
  free_of_type_[type.index] -= gpus;
  free_ -= gpus;
  return true;
}

void FreeGpus::give_back(int gpus, TypeId type, const std::vector<HeldGpus>& held) {
  free_of_type_[type.index] += gpus;
  free_ += gpus;
  for (const HeldGpus& part : held) free_of_machine_[part.machine] += part.gpus;
  TRACECAST_CHECK(free_of_type_[type.index] <= fleet_.types[type.index].gpus,
                  "no more GPUs come back than there are");
}

}  // namespace tracecast::plan
