#pragma once
#include <CLI/CLI.hpp>

namespace tracecast {

/// Adds `trace replay` to `trace`.
void add_trace_replay(CLI::App& trace, int& exit_code);

}  // namespace tracecast
