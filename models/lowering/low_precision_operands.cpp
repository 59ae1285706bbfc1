#include "models/lowering/low_precision_operands.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "models/lowering/kernels.hpp"

namespace tracecast::lowering {
namespace {

constexpr std::string_view kCast = "operand_cast";

class CastJoiner {
 public:
  CastJoiner(const Context& context, LoweredStep& step)
      : context_(context),
        step_(step),
        at_(context.graph.ops().size()),
        readers_(context.graph.tensors().size()) {
    for (std::uint32_t i = 0; i < step.ops.size(); ++i) at_[step.ops[i].op.index] = i;
    for (std::uint32_t i = 0; i < context.graph.ops().size(); ++i) {
      const Op& op = context.graph.op(OpId{i});
      if (op.kind == OpKind::Linear && op.pass == Pass::BackwardWeights && op.forward)
        weight_gradients_.emplace_back(*op.forward, OpId{i});
      if (op.pass != Pass::Forward) continue;
      for (const TensorId input : op.inputs) ++readers_[input.index];
    }
  }

  void join() {
    for (std::uint32_t i = 0; i < context_.graph.ops().size(); ++i) {
      const Op& op = context_.graph.op(OpId{i});
      if (op.kind != OpKind::Linear) continue;
      if (op.pass == Pass::Forward) join_input(OpId{i}, op);
      if (op.pass == Pass::BackwardData) join_gradient(OpId{i}, op);
    }
  }

 private:
  using Kernels = std::vector<Kernel>;

  /// Kernels of an op of one candidate; null of others.
  [[nodiscard]] Kernels* kernels_of(OpId id) {
    const auto position = at_[id.index];
    if (!position || step_.ops[*position].candidates.size() != 1) return nullptr;
    return &step_.ops[*position].candidates.front().kernels;
  }
  [[nodiscard]] static Kernels::iterator last_cast(Kernels& kernels) {
    const auto found = std::find_if(kernels.rbegin(), kernels.rend(),
                                    [](const Kernel& k) { return k.name == kCast; });
    return found == kernels.rend() ? kernels.end() : std::prev(found.base());
  }
  [[nodiscard]] std::optional<OpId> weight_gradient(OpId forward) const {
    for (const auto& [of, id] : weight_gradients_) {
      if (of == forward) return id;
    }
    return std::nullopt;
  }
  [[nodiscard]] Kernel turned(Pass pass, double elements) const {
    const Bytes low_precision = element_size(context_.formats.operands) * elements;
    return stream_kernel("operand_turn", KernelClass::Elementwise, pass, context_.formats.operands,
                         low_precision, low_precision, elements);
  }
  [[nodiscard]] bool is_gemm(TensorId tensor) const {
    const auto producer = context_.graph.producer(tensor);
    return producer && context_.graph.op(*producer).kind == OpKind::Linear;
  }

  /// Attention of 8-bit queries, keys and values, or their gradients.
  void low_precision_attention(OpId id) {
    Kernels* kernels = kernels_of(id);
    if (kernels == nullptr) return;
    for (Kernel& kernel : *kernels) {
      if (!std::holds_alternative<AttentionWork>(kernel.work)) continue;
      const double share =
          element_size(context_.formats.operands) / element_size(context_.formats.storage);
      kernel.math = kernel.data = context_.formats.operands;
      kernel.read = kernel.read * share;
      kernel.written = kernel.written * share;
    }
  }

  void join_input(OpId id, const Op& op) {
    Kernels* kernels = kernels_of(id);
    const TensorId x = op.inputs.front();
    const auto producer = context_.graph.producer(x);
    if (kernels == nullptr || !producer || readers_[x.index] != 1) return;
    const auto cast = last_cast(*kernels);
    if (cast == kernels->end()) return;
    const Op& before = context_.graph.op(*producer);
    const double elements = context_.elements(x);
    if (before.kind == OpKind::Attention) {
      low_precision_attention(*producer);
      *cast = turned(op.pass, elements);
    } else if (before.kind == OpKind::Activation && is_gemm(before.inputs.front())) {
      Kernels* activation = kernels_of(*producer);
      Kernels* gemm = kernels_of(*context_.graph.producer(before.inputs.front()));
      if (activation == nullptr || gemm == nullptr || gemm->empty()) return;
      activation->clear();
      gemm->back().written += element_size(context_.formats.operands) * elements;
      kernels->erase(cast);
      const auto gradient = weight_gradient(id);
      if (Kernels* later = gradient ? kernels_of(*gradient) : nullptr)
        later->insert(later->begin(), turned(Pass::BackwardWeights, elements));
    }
  }

  void join_gradient(OpId id, const Op& op) {
    Kernels* kernels = kernels_of(id);
    const TensorId dy = context_.incoming_gradient(op);
    const auto producer = context_.graph.producer(dy);
    if (kernels == nullptr || !producer) return;
    const auto cast = last_cast(*kernels);
    if (cast == kernels->end()) return;
    const OpKind before = context_.graph.op(*producer).kind;
    if (before == OpKind::Activation) {
      kernels->erase(cast);
    } else if (before == OpKind::Attention) {
      low_precision_attention(*producer);
      *cast = turned(op.pass, context_.elements(dy));
      const auto gradient = op.forward ? weight_gradient(*op.forward) : std::nullopt;
      if (Kernels* later = gradient ? kernels_of(*gradient) : nullptr)
        std::erase_if(*later, [](const Kernel& k) { return k.name == "bias_gradient"; });
    }
  }

  const Context& context_;
  LoweredStep& step_;
  std::vector<std::optional<std::uint32_t>> at_;         ///< by op: its place in the step
  std::vector<int> readers_;                             ///< by tensor, in the forward pass
  std::vector<std::pair<OpId, OpId>> weight_gradients_;  ///< of GEMMs, by their forward op
};

}  // namespace

void join_operand_casts(const Context& context, LoweredStep& step) {
  CastJoiner(context, step).join();
}

}  // namespace tracecast::lowering
