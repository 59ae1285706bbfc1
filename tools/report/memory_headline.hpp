#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/base/units.hpp"
#include "sim/job/largest_batch.hpp"
#include "sim/step/memory/memory.hpp"

namespace tracecast {

/// Largest batches that fit with 50 % and with 95 %; nothing: nobody asked.
struct LargestBatches {
  std::optional<std::int64_t> likely, sure;
};

/// What stands first on a page: whether the job fits, with which probability, and the largest
/// batches that do, where they are known.
[[nodiscard]] std::string memory_headline(const MemoryPlan& memory, const MemoryAdvice& advice);
/// The same of any job; `what` is fitted ("micro-batch").
[[nodiscard]] std::string memory_headline(const MemoryFit& fit, Bytes capacity,
                                          std::string_view what, const LargestBatches& largest);

}  // namespace tracecast
