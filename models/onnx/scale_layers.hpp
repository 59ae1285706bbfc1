#pragma once
#include "models/graph.hpp"

namespace tracecast::onnx {

/// Caffe's batch norm has neither scale nor shift: a layer of its own follows for them. Its
/// exporter writes the two as a BatchNormalization with ones and zeros and a Mul and an Add with
/// the learned values. Where a batch norm's only reader multiplies by a weight per channel, and the
/// only reader of that adds one, its own scale and shift are such constants and no weights.
void find_scale_layers(NetworkGraph& graph);

}  // namespace tracecast::onnx
