#pragma once
#include "traces/bytes/output_file.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// Writes a recording as the JSON of PyTorch's profiler, schema 1, whatever format it was read
/// from: viewers of Chrome traces open it, and our own reader gives the same records back. Times in
/// microseconds with three decimals, an arrow from every call to the GPU work with its correlation.
/// Not held by that form, so not written: sums, metrics and graph nodes (they have no begin), and
/// what reading had left out.
void write_chrome_recording(const Trace& trace, const ByteSink& sink);

}  // namespace tracecast::traces
