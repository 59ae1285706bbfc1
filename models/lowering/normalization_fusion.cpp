#include "models/lowering/normalization_fusion.hpp"

#include <cstdint>
#include <optional>

namespace tracecast::lowering {
namespace {

/// Per tensor: its reader in the forward pass, when there is exactly one.
std::vector<std::optional<OpId>> only_readers(const NetworkGraph& graph) {
  std::vector<std::optional<OpId>> reader(graph.tensors().size());
  std::vector<int> count(graph.tensors().size(), 0);
  for (std::uint32_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (op.pass != Pass::Forward) continue;
    for (const TensorId input : op.inputs) {
      reader[input.index] = ++count[input.index] == 1 ? std::optional(OpId{i}) : std::nullopt;
    }
  }
  return reader;
}

bool is_sum(const Op& op) {
  const auto* a = std::get_if<ElementwiseAttributes>(&op.attributes);
  return op.kind == OpKind::Binary && a != nullptr && a->name == "add" && op.inputs.size() == 2;
}

/// Gives each sum that one activation reads to the latest of the ops that `taker` finds behind its
/// inputs.
template <class Taker>
NormalizationFusion fuse_sums(const NetworkGraph& graph, Taker taker) {
  NormalizationFusion result{std::vector<bool>(graph.ops().size(), false),
                             std::vector<bool>(graph.ops().size(), false)};
  const auto readers = only_readers(graph);
  for (std::uint32_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (op.pass != Pass::Forward || !is_sum(op)) continue;
    const auto reader = readers[op.outputs.front().index];
    if (!reader || graph.op(*reader).kind != OpKind::Activation) continue;
    std::optional<OpId> latest;
    for (const TensorId input : op.inputs) {
      const auto producer = graph.producer(input);
      if (!producer || !readers[input.index]) continue;
      const std::optional<OpId> takes = taker(*producer, readers);
      if (takes && (!latest || latest->index < takes->index)) latest = takes;
    }
    if (!latest) continue;
    result.is_fused_sum[i] = true;
    result.adds_residual[latest->index] = true;
  }
  return result;
}

}  // namespace

NormalizationFusion fuse_residual_sums(const NetworkGraph& graph) {
  return fuse_sums(graph, [&](OpId producer, const auto&) {
    return graph.op(producer).kind == OpKind::BatchNorm ? std::optional(producer) : std::nullopt;
  });
}

NormalizationFusion fuse_sums_into_convolutions(const NetworkGraph& graph) {
  return fuse_sums(graph, [&](OpId producer, const auto& readers) -> std::optional<OpId> {
    const Op& op = graph.op(producer);
    if (op.kind == OpKind::Conv) return producer;
    if (op.kind != OpKind::BatchNorm || !readers[op.inputs.front().index]) return std::nullopt;
    const auto behind = graph.producer(op.inputs.front());
    return behind && graph.op(*behind).kind == OpKind::Conv ? behind : std::nullopt;
  });
}

}  // namespace tracecast::lowering
