#pragma once
#include <cstdint>
#include <vector>

#include "sim/plan/fleet.hpp"
#include "sim/plan/rules.hpp"

namespace tracecast::plan {

/// GPUs of a machine that a gang holds.
struct HeldGpus {
  std::uint32_t machine = 0;  ///< index into Fleet::machines
  int gpus = 0;
  friend bool operator==(const HeldGpus&, const HeldGpus&) = default;
};

/// Which GPUs of a fleet are free, and where a gang fits. All GPUs of a gang are of one type.
/// Pool: any free GPUs. Machines: a gang that fits a machine needs one with as many free, the first
/// in the fleet's order; a larger one needs whole idle machines, and one more with the rest free.
/// Nearest: any free GPUs; the machine with the least that suffice, else those with the most free
/// first, each in the fleet's order among equals.
class FreeGpus {
 public:
  FreeGpus(const Fleet& fleet, Placement placement);

  void free_all();
  [[nodiscard]] int free_of(TypeId type) const { return free_of_type_[type.index]; }
  [[nodiscard]] int free() const { return free_; }
  [[nodiscard]] bool fits(int gpus, TypeId type) const;
  /// Takes GPUs for a gang, or tells that it does not fit and takes none. What is held is appended
  /// to `held`; with Pool, where machines do not count, it stays empty.
  [[nodiscard]] bool take(int gpus, TypeId type, std::vector<HeldGpus>& held);
  /// Takes those very GPUs when all are free.
  [[nodiscard]] bool take_again(int gpus, TypeId type, const std::vector<HeldGpus>& held);
  void give_back(int gpus, TypeId type, const std::vector<HeldGpus>& held);
  /// Whether a gang fits an idle fleet at all.
  [[nodiscard]] bool could_fit(int gpus, TypeId type) const;

 private:
  void hold(std::uint32_t machine, int gpus, std::vector<HeldGpus>& held);
  [[nodiscard]] bool take_machines(int gpus, TypeId type, std::vector<HeldGpus>& held);
  void take_nearest(int gpus, TypeId type, std::vector<HeldGpus>& held);
  [[nodiscard]] int largest_machine(TypeId type) const { return largest_[type.index]; }

  const Fleet& fleet_;
  Placement placement_;
  int free_ = 0;
  std::vector<int> free_of_type_, free_of_machine_, largest_;
  std::vector<std::vector<std::uint32_t>> machines_of_type_;
};

}  // namespace tracecast::plan
