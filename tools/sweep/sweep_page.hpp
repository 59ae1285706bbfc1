#pragma once
#include <string>

#include "tools/sweep/grid.hpp"
#include "tools/sweep/run.hpp"

namespace tracecast {

/// Writes the page of a grid's answers as they stand in `results`: of each subcommand a chart over
/// the number that takes the most values, a map of the two words that take the most, and the first
/// 5,000 points one by one. Throws InputError: a file cannot be read or written.
void write_sweep_page(const SweepGrid& grid, const SweepSummary& summary,
                      const std::string& results, const std::string& file);

}  // namespace tracecast
