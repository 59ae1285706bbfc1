#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/base/units.hpp"
#include "sim/job/largest_batch.hpp"
#include "sim/step/memory/memory.hpp"

namespace tracecast {

/// What stands first on a page where memory decides: that the job does not fit, and the largest
/// batch that does, where it is known. Empty: it fits and nobody asked.
[[nodiscard]] std::string memory_headline(const MemoryPlan& memory, const MemoryAdvice& advice);
/// The same of `needed` bytes of `capacity`; `what` is fitted ("micro-batch").
[[nodiscard]] std::string memory_headline(Bytes needed, Bytes capacity, bool fits,
                                          std::string_view what,
                                          const std::optional<std::int64_t>& largest);

}  // namespace tracecast
