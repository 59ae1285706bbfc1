#pragma once
#include <cstdint>
#include <optional>

#include "traces/trace.hpp"

namespace tracecast::traces {

/// Keeps those records of a trace that lie within `range` in part or whole; records without times
/// stay, collectives whose kernel went go with it. Times are since Trace::epoch_ns and stay what
/// they are.
void cut(Trace& trace, const Span& range);

/// From the earliest begin to the latest end of all records that have times; nothing when none has.
[[nodiscard]] std::optional<Span> extent(const Trace& trace);

/// A part of a recording, counted from its earliest begin on.
struct Window {
  std::optional<std::int64_t> from_ns, to_ns;  ///< nothing = its begin, its end
  [[nodiscard]] bool is_everything() const { return !from_ns && !to_ns; }
  /// The same in the times of a recording that begins at `begin_ns`.
  [[nodiscard]] Span range(std::int64_t begin_ns) const;
};

}  // namespace tracecast::traces
