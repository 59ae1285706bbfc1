#include "models/onnx/scale_layers.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tracecast::onnx {
namespace {

/// The op that reads each tensor, where there is exactly one.
std::vector<std::optional<OpId>> only_readers(const NetworkGraph& graph) {
  std::vector<std::optional<OpId>> reader(graph.tensors().size());
  std::vector<int> count(graph.tensors().size());
  for (std::uint32_t i = 0; i < graph.ops().size(); ++i) {
    for (const TensorId input : graph.op(OpId{i}).inputs) {
      reader[input.index] = OpId{i};
      ++count[input.index];
    }
  }
  for (std::size_t i = 0; i < reader.size(); ++i) {
    if (count[i] != 1) reader[i].reset();
  }
  return reader;
}

/// True when `op` is `function` of an image tensor and a weight per channel (C x 1 x 1).
bool is_per_channel(const NetworkGraph& graph, const Op& op, std::string_view function,
                    std::int64_t channels) {
  const auto* attributes = std::get_if<ElementwiseAttributes>(&op.attributes);
  if (op.kind != OpKind::Binary || attributes == nullptr || attributes->name != function ||
      op.inputs.size() != 2) {
    return false;
  }
  const Tensor& second = graph.tensor(op.inputs[1]);
  return second.role == TensorRole::Weight && second.shape.size() >= 3 &&
         second.shape[second.shape.size() - 3] == channels &&
         element_count(second.shape) == channels;
}

}  // namespace

void find_scale_layers(NetworkGraph& graph) {
  const std::vector<std::optional<OpId>> reader = only_readers(graph);
  const auto sole_reader = [&](const Op& op) -> const Op* {
    const std::optional<OpId> id = reader[op.outputs.front().index];
    return id ? &graph.op(*id) : nullptr;
  };
  std::vector<TensorId> constants;
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::BatchNorm || op.inputs.size() < 3) continue;
    const std::int64_t channels = element_count(graph.tensor(op.inputs[1]).shape);
    const Op* gemm = sole_reader(op);
    if (gemm == nullptr || !is_per_channel(graph, *gemm, "mul", channels)) continue;
    const Op* sum = sole_reader(*gemm);
    if (sum == nullptr || !is_per_channel(graph, *sum, "add", channels)) continue;
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
      const TensorId id = op.inputs[i];
      if (graph.tensor(id).role == TensorRole::Weight && reader[id.index]) constants.push_back(id);
    }
  }
  for (const TensorId id : constants) graph.set_untrained(id);
}

}  // namespace tracecast::onnx
