#pragma once
#include <string>

#include "models/graph.hpp"
#include "models/kernel.hpp"

namespace tracecast {

/// The lowered step as text for `--dump kernels`: a line per op, under it a line per candidate,
/// under that a line per kernel: name, class, unit and arithmetic, Gflop, MB read and written,
/// geometry. Same step, same bytes.
[[nodiscard]] std::string dump(const LoweredStep& step, const NetworkGraph& graph);

}  // namespace tracecast
