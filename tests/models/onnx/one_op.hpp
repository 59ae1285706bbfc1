#pragma once
#include <string>
#include <vector>

#include "models/onnx/import.hpp"
#include "tests/support/onnx_bytes.hpp"

namespace tracecast::test::onnx {

/// A model and the batch it was written at.
struct OneOp : Model {
  std::int64_t batch = 1;
};

/// A model of one node, `op`, from inputs "x", "y" ... of these shapes to "z".
inline OneOp one_op(const std::vector<Dims>& inputs, const Message& op,
                    const std::vector<Message>& weights = {}, std::int64_t opset = 13) {
  OneOp model;
  model.opset = opset;
  const char* const names[] = {"x", "y", "v", "w"};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    model.inputs.push_back(value_info(names[i], inputs[i]));
  }
  if (!inputs.empty()) model.batch = inputs[0].at(0);
  model.outputs = {value_info("z", {})};
  model.weights = weights;
  model.nodes = {op};
  return model;
}

inline OnnxNetwork import_model(const Model& model, const OnnxOptions& options = {}) {
  return import_onnx(model.bytes(), "tests/network.onnx", options);
}

/// At its own batch.
inline OnnxNetwork import_model(const OneOp& model) {
  return import_onnx(model.bytes(), "tests/network.onnx", {.batch = model.batch});
}

/// The shape of the network's first output.
inline std::string output_shape(const NetworkGraph& graph) {
  return to_string(graph.tensor(graph.outputs.at(0)).shape);
}

/// The last op, which in a model of one node is the one under test.
inline const Op& last_op(const NetworkGraph& graph) { return graph.ops().back(); }

inline std::size_t count_ops(const NetworkGraph& graph, OpKind kind) {
  std::size_t count = 0;
  for (const Op& op : graph.ops()) count += op.kind == kind;
  return count;
}

}  // namespace tracecast::test::onnx
