#pragma once
#include <cstddef>
#include <vector>

namespace tracecast::plan {

/// One column for every row, all different, so that the sum of costs is least: the Hungarian method with shortest
/// augmenting paths (Jonker and Volgenant, Computing 38, 1987), rows^2 x columns steps.
/// `cost`: rows x columns, row by row; needs columns >= rows.
[[nodiscard]] std::vector<std::size_t> assign(const std::vector<double>& cost, std::size_t rows,
                                              std::size_t columns);

}  // namespace tracecast::plan
