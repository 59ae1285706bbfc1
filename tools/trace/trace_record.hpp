#pragma once
#include <CLI/CLI.hpp>

namespace tracecast {

/// Adds `trace record` to `trace`.
void add_trace_record(CLI::App& trace, int& exit_code);

}  // namespace tracecast
