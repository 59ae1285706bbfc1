#pragma once
#include <vector>

#include "models/canonical/canonical.hpp"
#include "models/onnx/program.hpp"

namespace tracecast::onnx {

/// Puts one node in place of several where an exporter wrote one op of a framework as several
/// operators: SiLU, hard swish, hard sigmoid, Mish, GELU. The rules are a table of formulas
/// (framework_ops.cpp). The node keeps the name and the result of the last of those that it
/// replaces; these others are marked `is_replaced` and never run. Left alone: what somebody else
/// reads in between, what is an output, nodes inside of other nodes' bodies.
/// Each adds a line to `rewrites`.
void restore_framework_ops(Program& program, std::vector<Rewrite>& rewrites);

}  // namespace tracecast::onnx
