#pragma once
#include "models/timeline.hpp"
#include "traces/bytes/output_file.hpp"

namespace tracecast::traces {

/// Writes a timeline in Perfetto's own form, which ui.perfetto.dev and trace_processor open: a
/// process for every GPU and for the host of every rank, a track for every stream and thread, texts
/// kept once, an arrow from every launch to its kernel, each slice with its correlation and bytes.
/// Slices that overlap without one lying within the other go to tracks of their own, named alike.
/// Times are whole nanoseconds, begins and ends rounded down.
void write_perfetto_trace(const Timeline& timeline, const ByteSink& sink);

}  // namespace tracecast::traces
