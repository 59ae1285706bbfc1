#include "models/lowering/gradient_fusion.hpp"

#include <cstdint>

namespace tracecast::lowering {
namespace {

bool is_gradient_sum(const Op& op) {
  const auto* a = std::get_if<ElementwiseAttributes>(&op.attributes);
  return op.kind == OpKind::Binary && op.pass == Pass::Backward && a != nullptr &&
         a->name == "add" && op.inputs.size() == 2;
}

}  // namespace

GradientFusion fuse_gradient_sums(const NetworkGraph& graph) {
  const auto ops = graph.ops();
  GradientFusion result{std::vector<bool>(ops.size(), false), std::vector<bool>(ops.size(), false)};
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    if (!is_gradient_sum(ops[i])) continue;
    const auto first = graph.producer(ops[i].inputs[0]), second = graph.producer(ops[i].inputs[1]);
    if (!first || !second || second->index < first->index) continue;
    const Op& producer = graph.op(*second);
    if (producer.kind != OpKind::Conv || producer.pass != Pass::BackwardData) continue;
    result.is_fused_sum[i] = true;
    result.adds_gradient[second->index] = true;
  }
  return result;
}

}  // namespace tracecast::lowering
