#pragma once
#include <cstdint>
#include <vector>

#include "sim/plan/schedule.hpp"

namespace tracecast {

/// GPUs by number: those of a type in the order of its machines. Gives every stay GPUs that nobody
/// else has meanwhile.
class GpuNumbers {
 public:
  explicit GpuNumbers(const plan::Fleet& fleet);
  /// Of a stay that does not begin before the one asked for before.
  [[nodiscard]] std::vector<std::uint32_t> take(const plan::Residence& residence, int gpus);

 private:
  void take_within(const plan::Residence& residence, std::uint32_t from, std::uint32_t to, int gpus,
                   std::vector<std::uint32_t>& taken);

  const plan::Fleet& fleet_;
  std::vector<std::uint32_t> first_;
  std::vector<std::vector<plan::Time>> free_at_;
};

}  // namespace tracecast
