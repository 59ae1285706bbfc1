#pragma once
#include "models/graph.hpp"

namespace tracecast {

/// The same network with every Recurrent op replaced by ordinary ops, step by step, as frameworks
/// do that have no fused layers. The input is split into steps; a cell joins its input and its last
/// state, multiplies once by one matrix (GRU: twice, since the candidate reads the gated state),
/// adds one bias, and works element by element: an LSTM cell is concat, GEMM, split, three
/// sigmoids, two tanh, three multiplications and one addition. The outputs of the last layer are
/// joined again; the other direction runs through the steps backwards. Weights read by nothing else
/// are merged into that matrix and bias, so their count may differ by a bias. Source:
/// tensorflow 1.15, python/ops/rnn_cell_impl.py (BasicRNNCell, BasicLSTMCell, GRUCell). Throws
/// InputError when more than a million ops would arise.
[[nodiscard]] NetworkGraph unroll_recurrent(const NetworkGraph& graph);

}  // namespace tracecast
