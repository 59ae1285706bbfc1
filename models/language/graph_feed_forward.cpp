#include <algorithm>
#include <string>
#include <utility>

#include "models/language/graph_parts.hpp"
#include "models/zoo/parts/attention.hpp"

namespace tracecast::language {
namespace {

TensorId shared_experts(const GraphParts& parts, const std::string& name, TensorId x,
                        const ExpertFeedForward& e) {
  GraphBuilder& b = parts.b;
  TensorId y = feed_forward(parts, name + ".shared", x,
                            DenseFeedForward{.width = e.shared_width, .gated = e.gated});
  if (!e.shared_gate) return y;
  const TensorId gate = b.linear_layer(name + ".shared_gate", x, 1, false);
  return b.mul(name + ".shared.gated", y,
               b.activation(name + ".shared_gate.sigmoid", gate, "sigmoid"));
}

/// GEMMs of the experts that have tokens, a batch of one matrix each; their weights are all there.
struct GroupedExperts {
  GraphBuilder& b;
  const ExpertFeedForward& experts;
  std::int64_t met;   ///< experts that get tokens
  std::int64_t each;  ///< tokens of one of them

  TensorId gemm(const std::string& name, TensorId x, std::int64_t out) const {
    const std::int64_t in = b.shape(x).back();
    const TensorId weight = b.weight(name + ".weight", {experts.experts, in, out});
    const MatMulAttributes attributes{.batch = met, .m = each, .n = out, .k = in};
    TensorId y = b.append(
        {.name = name, .kind = OpKind::MatMul, .attributes = attributes, .inputs = {x, weight}},
        {met, each, out});
    if (!experts.biases) return y;
    const TensorId bias = b.weight(name + ".bias", {experts.experts, 1, out});
    return b.append({.name = name + ".add_bias",
                     .kind = OpKind::Binary,
                     .attributes = ElementwiseAttributes{.name = "add"},
                     .inputs = {y, bias}},
                    {met, each, out});
  }
};

/// Tokens sorted by expert, a GEMM in and out of all experts at once, tokens sorted back and
/// weighted, as transformers 5 runs MoE networks (integrations/moe.py, grouped GEMMs). The
/// activation reads both halves of a gated GEMM in one kernel.
TensorId experts_at_once(const GraphParts& parts, const std::string& name, TensorId x,
                         const ExpertFeedForward& e) {
  GraphBuilder& b = parts.b;
  const Shape shape = b.shape(x);
  TensorId scores = b.linear_layer(name + ".router", x, e.experts, e.biases);
  if (e.correction_bias) {
    const TensorId correction = b.weight(name + ".router.correction", {e.experts});
    scores = b.add(name + ".router.correct", scores, correction);
  }
  scores = e.sigmoid_scores ? b.activation(name + ".router.sigmoid", scores, "sigmoid")
                            : b.softmax(name + ".router.softmax", scores);
  // Choice, its weights' sum and quotient; two sorts of expert numbers, tokens and weights in that
  // order, tokens per expert and their running sum. Counted from that source.
  constexpr std::int64_t kOpsOfChoice = 9;
  const TensorId read[] = {scores};
  b.routine(name + ".route", read, {.ops = kOpsOfChoice});
  const std::int64_t taken = shape[0] * shape[1] * e.per_token;
  const std::int64_t met = std::min(e.experts, taken);
  const GroupedExperts grouped{b, e, met, (taken + met - 1) / met};
  TensorId y = b.append({.name = name + ".permute",
                         .kind = OpKind::Gather,
                         .attributes = ElementwiseAttributes{.name = "expand"},
                         .inputs = {x}},
                        {met, grouped.each, shape[2]});
  y = grouped.gemm(name + ".experts.in", y, e.gated ? 2 * e.width : e.width);
  if (e.gated) {
    y = b.append({.name = name + ".experts.gate",
                  .kind = OpKind::Activation,
                  .attributes = ElementwiseAttributes{.name = "silu"},
                  .inputs = {y}},
                 {met, grouped.each, e.width});
  } else {
    y = activate(parts, name + ".experts", y);
  }
  y = grouped.gemm(name + ".experts.out", y, shape[2]);
  return b.append({.name = name + ".unpermute",
                   .kind = OpKind::Binary,
                   .attributes = ElementwiseAttributes{.name = "combine"},
                   .inputs = {y, scores}},
                  shape);
}

}  // namespace

TensorId feed_forward(const GraphParts& parts, const std::string& name, TensorId x,
                      const DenseFeedForward& dense) {
  GraphBuilder& b = parts.b;
  const std::int64_t width = b.shape(x).back();
  if (!dense.gated) {
    TensorId y = b.linear_layer(name + ".up_proj", x, dense.width, dense.biases);
    y = activate(parts, name, y);
    return b.linear_layer(name + ".down_proj", y, width, dense.biases);
  }
  TensorId gate = b.linear_layer(name + ".gate_proj", x, dense.width, dense.biases);
  gate = activate(parts, name, gate);
  const TensorId up = b.linear_layer(name + ".up_proj", x, dense.width, dense.biases);
  return b.linear_layer(name + ".down_proj", b.mul(name + ".mul", gate, up), width, dense.biases);
}

TensorId feed_forward(const GraphParts& parts, const std::string& name, TensorId x,
                      const ExpertFeedForward& e) {
  GraphBuilder& b = parts.b;
  TensorId y = x;
  if (e.loops) {
    // Nothing is dropped: an expert's capacity is a whole sequence.
    y = zoo_builders::mixture_of_experts(
        b, name, x, {.experts = e.experts, .per_token = e.per_token, .capacity = b.shape(x)[1]},
        [&](const std::string& expert, TensorId tokens) {
          return feed_forward(parts, expert, tokens,
                              DenseFeedForward{.width = e.width, .gated = e.gated});
        });
  } else {
    y = experts_at_once(parts, name, x, e);
  }
  if (e.shared_width == 0) return y;
  return b.add(name + ".add_shared", y, shared_experts(parts, name, x, e));
}

}  // namespace tracecast::language
