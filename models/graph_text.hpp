#pragma once
#include <string>

#include "models/graph.hpp"

namespace tracecast {

/// The graph for people, as `--dump graph` prints it: a heading with the totals, then one line per
/// op in execution order: name, kind, pass, multiply-adds, inputs -> outputs, each tensor with its
/// shape. A result that lives in its input's memory is marked "(in place)".
[[nodiscard]] std::string graph_text(const NetworkGraph& graph);

}  // namespace tracecast
