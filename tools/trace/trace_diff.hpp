#pragma once
#include <CLI/CLI.hpp>

namespace tracecast {

/// Adds `trace diff` to `trace`.
void add_trace_diff(CLI::App& trace, int& exit_code);

}  // namespace tracecast
