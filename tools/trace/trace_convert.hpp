#pragma once
#include <CLI/CLI.hpp>

namespace tracecast {

/// Adds `trace convert` to `trace`.
void add_trace_convert(CLI::App& trace, int& exit_code);

}  // namespace tracecast
