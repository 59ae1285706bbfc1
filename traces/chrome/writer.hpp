#pragma once
#include <filesystem>

#include "models/timeline.hpp"
#include "traces/bytes/output_file.hpp"

namespace tracecast::traces {

/// Writes a timeline as Chrome trace-event JSON with the categories and arguments of PyTorch's
/// profiler: ui.perfetto.dev, chrome://tracing, speedscope and our own reader of Kineto traces open
/// it. One process per GPU with a track per stream, one for the host with a track per thread, one
/// for links; an arrow from every launch to its kernel. Times are microseconds with three decimals:
/// begins and ends are rounded down to whole nanoseconds, so that neighbours stay neighbours.
/// `sink` takes the text in pieces of about a megabyte.
void write_chrome_trace(const Timeline& timeline, const ByteSink& sink);

/// The same into a file: beside `path`, then renamed over it; what is no regular file is written to
/// as it stands. Throws InputError when it cannot be written.
void write_chrome_trace(const Timeline& timeline, const std::filesystem::path& path);

}  // namespace tracecast::traces
