#pragma once
#include <cstddef>
#include <vector>

namespace tracecast::plan {

/// One column for every row, all different, so that the sum of costs is least: shortest augmenting
/// paths (Crouse, "On implementing 2D rectangular assignment algorithms", IEEE Trans. Aerospace and
/// Electronic Systems 52(4), 2016), rows^2 x columns steps. Of equally good columns a free one is
/// taken, and of those the last of the list: what SciPy 1.4's linear_sum_assignment did, so that
/// published schedules which hang on ties come out alike. `cost`: rows x columns, row by row; needs
/// columns >= rows.
[[nodiscard]] std::vector<std::size_t> assign(const std::vector<double>& cost, std::size_t rows,
                                              std::size_t columns);

}  // namespace tracecast::plan
