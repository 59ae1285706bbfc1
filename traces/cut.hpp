#pragma once
#include "traces/trace.hpp"

namespace tracecast::traces {

/// Keeps those records of a trace that lie within `range` in part or whole; records without times stay, collectives whose
/// kernel went go with it. Times are since Trace::epoch_ns and stay what they are.
void cut(Trace& trace, const Span& range);

}  // namespace tracecast::traces
