#include "models/adapters.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/zoo/parts/adapter.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

bool is_trained_gemm(const NetworkGraph& graph, const Op& op) {
  return op.kind == OpKind::Linear && op.inputs.size() > 1 &&
         graph.tensor(op.inputs[1]).role == TensorRole::Weight;
}

bool is_gemm_of_activations(const NetworkGraph& graph, const Op& op) {
  if (op.kind == OpKind::Attention) return true;
  if (op.kind != OpKind::MatMul) return false;
  return std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
    return graph.tensor(input).role == TensorRole::Activation;
  });
}

/// Ops between the GEMMs of a layer and its attention: they rearrange, turn or scale what they
/// read.
bool leads_on(const Op& op) {
  switch (op.kind) {
    case OpKind::Reshape:
    case OpKind::Transpose:
    case OpKind::Split:
    case OpKind::Slice:
    case OpKind::Concat:
    case OpKind::Cast:
    case OpKind::Activation:
    case OpKind::Gather:
    case OpKind::LayerNorm:  // of queries and keys
    case OpKind::Softmax:
    case OpKind::Dropout:
      return true;
    case OpKind::Binary:  // a GEMM with tables of angles, a sum with a mask
      return true;
    default:
      return false;
  }
}

/// Which ops are GEMMs of attention.
class AttentionGemms {
 public:
  explicit AttentionGemms(const NetworkGraph& graph)
      : graph_(graph),
        readers_(graph.tensors().size()),
        seen_before_(graph.ops().size(), 0),
        seen_behind_(graph.ops().size(), 0),
        found_(graph.ops().size(), 0) {
    for (std::uint32_t i = 0; i < graph.ops().size(); ++i) {
      for (const TensorId input : graph.op(OpId{i}).inputs) readers_[input.index].push_back(i);
    }
    // Every path ends at a GEMM with weights: residual sums stand behind these, and before them.
    for (std::uint32_t i = 0; i < graph.ops().size(); ++i) {
      if (!is_gemm_of_activations(graph, graph.op(OpId{i}))) continue;
      for (const TensorId input : graph.op(OpId{i}).inputs) mark_before(input);
      for (const TensorId output : graph.op(OpId{i}).outputs) mark_behind(output);
    }
  }
  [[nodiscard]] bool contains(std::uint32_t op) const { return found_[op] != 0; }

 private:
  void mark_before(TensorId from) {
    std::vector<TensorId> open{from};
    while (!open.empty()) {
      const std::optional<OpId> producer = graph_.producer(open.back());
      open.pop_back();
      if (!producer || std::exchange(seen_before_[producer->index], 1) != 0) continue;
      const Op& op = graph_.op(*producer);
      if (is_trained_gemm(graph_, op)) {
        found_[producer->index] = 1;
      } else if (leads_on(op)) {
        open.insert(open.end(), op.inputs.begin(), op.inputs.end());
      }
    }
  }

  void mark_behind(TensorId from) {
    std::vector<TensorId> open{from};
    while (!open.empty()) {
      const TensorId tensor = open.back();
      open.pop_back();
      for (const std::uint32_t reader : readers_[tensor.index]) {
        if (std::exchange(seen_behind_[reader], 1) != 0) continue;
        const Op& op = graph_.op(OpId{reader});
        if (is_trained_gemm(graph_, op)) {
          found_[reader] = 1;
        } else if (leads_on(op)) {
          open.insert(open.end(), op.outputs.begin(), op.outputs.end());
        }
      }
    }
  }

  const NetworkGraph& graph_;
  std::vector<std::vector<std::uint32_t>> readers_;
  std::vector<char> seen_before_, seen_behind_, found_;
};

std::vector<char> targets_of(const NetworkGraph& graph, AdapterTargets targets) {
  std::vector<char> is_target(graph.ops().size(), 0);
  if (targets == AdapterTargets::Attention) {
    const AttentionGemms attention(graph);
    for (std::uint32_t i = 0; i < is_target.size(); ++i) {
      is_target[i] = attention.contains(i) ? 1 : 0;
    }
    return is_target;
  }
  std::optional<std::uint32_t> last;
  for (std::uint32_t i = 0; i < is_target.size(); ++i) {
    if (!is_trained_gemm(graph, graph.op(OpId{i}))) continue;
    is_target[i] = 1;
    last = i;
  }
  if (last) is_target[*last] = 0;
  return is_target;
}

/// Weights that are packed: those that nothing but GEMMs of layers reads.
std::vector<char> packed_weights(const NetworkGraph& graph, BaseFormat base) {
  std::vector<char> is_packed_weight(graph.tensors().size(), 0);
  if (!is_packed(base)) return is_packed_weight;
  const std::vector<char> in_layers = targets_of(graph, AdapterTargets::Linear);
  for (std::uint32_t i = 0; i < in_layers.size(); ++i) {
    if (in_layers[i] != 0) is_packed_weight[graph.op(OpId{i}).inputs[1].index] = 1;
  }
  for (std::uint32_t i = 0; i < in_layers.size(); ++i) {
    if (in_layers[i] != 0) continue;
    for (const TensorId input : graph.op(OpId{i}).inputs) is_packed_weight[input.index] = 0;
  }
  return is_packed_weight;
}

/// Copies a graph op by op and puts adapters beside its targets.
class Adapting {
 public:
  Adapting(const NetworkGraph& from, const LowRankAdapters& adapters)
      : from_(from),
        rank_(adapters.rank),
        packed_(packed_weights(from, adapters.base)),
        b_(from.name, from.batch) {
    b_.graph().training_mode = from.training_mode;
    b_.graph().frozen_parameters = from.frozen_parameters;
    b_.graph().outputs = from.outputs;
    for (std::uint32_t t = 0; t < from.tensors().size(); ++t) {
      Tensor tensor = from.tensors()[t];
      if (packed_[t] != 0) {
        const std::int64_t count = element_count(tensor.shape);
        b_.graph().frozen_parameters += count;
        tensor.shape = {static_cast<std::int64_t>(
            std::ceil(static_cast<double>(count) * bytes_per_weight(adapters.base)))};
        tensor.role = TensorRole::Buffer;
        tensor.is_integer = true;
        tensor.integer_bytes = 1;
      }
      b_.graph().add_tensor(std::move(tensor));
    }
  }

  NetworkGraph build(const std::vector<char>& is_target) {
    for (std::uint32_t i = 0; i < from_.ops().size(); ++i) {
      Op op = from_.op(OpId{i});
      if (op.kind == OpKind::Linear && packed_[op.inputs[1].index] != 0) {
        op.inputs[1] = unpacked(op.inputs[1]);
      }
      if (is_target[i] != 0) {
        adapt(op);
      } else {
        b_.graph().add_op(std::move(op));
      }
    }
    return std::move(b_).take();
  }

 private:
  /// The weight as GEMMs read it.
  TensorId unpacked(TensorId weight) {
    const Tensor& whole = from_.tensor(weight);
    const TensorId wide = b_.tensor({.name = whole.name + ".unpacked", .shape = whole.shape});
    b_.graph().add_op({.name = whole.name + ".unpack",
                       .kind = OpKind::Cast,
                       .inputs = {weight},
                       .outputs = {wide}});
    return wide;
  }

  void adapt(const Op& op) {
    const TensorId x = op.inputs.front(), y = op.outputs.front();
    const Shape shape = from_.tensor(y).shape;
    Op frozen = op;
    frozen.outputs.front() = b_.tensor({.name = op.name + ".frozen", .shape = shape});
    const TensorId result = frozen.outputs.front();
    b_.graph().add_op(std::move(frozen));
    const TensorId low_precision = adapter_downcast(b_, op.name, x, rank_);
    const TensorId wide = adapter_upcast(b_, op.name, low_precision, shape.back());
    b_.graph().add_op({.name = op.name + std::string(kAdapterMark) + "add",
                       .kind = OpKind::Binary,
                       .attributes = ElementwiseAttributes{.name = "add"},
                       .inputs = {result, wide},
                       .outputs = {y}});
  }

  const NetworkGraph& from_;
  std::int64_t rank_;
  std::vector<char> packed_;  ///< by tensor
  GraphBuilder b_;
};

}  // namespace

TensorId adapter_downcast(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t rank) {
  const std::string adapter = name + std::string(kAdapterMark);
  return b.linear_layer(adapter + "A", b.dropout(adapter + "dropout", x), rank, false);
}

TensorId adapter_upcast(GraphBuilder& b, const std::string& name, TensorId low_precision,
                        std::int64_t columns) {
  const std::string adapter = name + std::string(kAdapterMark);
  const TensorId scale =
      b.tensor({.name = adapter + "s", .shape = {1}, .role = TensorRole::Buffer});
  return b.mul(adapter + "scaled", b.linear_layer(adapter + "B", low_precision, columns, false),
               scale);
}

std::string_view to_string(AdapterTargets targets) {
  return targets == AdapterTargets::Attention ? "attention" : "linear";
}

std::string_view to_string(BaseFormat format) {
  switch (format) {
    case BaseFormat::Same:
      return "same";
    case BaseFormat::Int8:
      return "int8";
    case BaseFormat::Nf4:
      return "nf4";
    case BaseFormat::Nf4Double:
      return "nf4_double";
  }
  return "?";
}

std::optional<BaseFormat> find_base_format(std::string_view name) {
  for (const BaseFormat format :
       {BaseFormat::Same, BaseFormat::Int8, BaseFormat::Nf4, BaseFormat::Nf4Double}) {
    if (name == to_string(format)) return format;
  }
  return std::nullopt;
}

double bytes_per_weight(BaseFormat format) {
  constexpr double kBlock = 64, kScalesOfScale = 256, kRow = 4096;
  switch (format) {
    case BaseFormat::Same:
      return 2;
    case BaseFormat::Int8:
      return 1 + 4 / kRow;
    case BaseFormat::Nf4:
      return 0.5 + 4 / kBlock;
    case BaseFormat::Nf4Double:
      return 0.5 + (1 + 4 / kScalesOfScale) / kBlock;
  }
  return 2;
}

std::optional<AdapterTargets> find_adapter_targets(std::string_view name) {
  for (const AdapterTargets targets : {AdapterTargets::Attention, AdapterTargets::Linear}) {
    if (name == to_string(targets)) return targets;
  }
  return std::nullopt;
}

NetworkGraph add_adapters(const NetworkGraph& forward, const LowRankAdapters& adapters) {
  if (adapters.rank < 1 || adapters.rank > 65536) {
    throw InputError("--lora", std::to_string(adapters.rank), "1 to 65536");
  }
  const std::vector<char> is_target = targets_of(forward, adapters.targets);
  if (std::find(is_target.begin(), is_target.end(), 1) == is_target.end()) {
    throw InputError("--lora",
                     forward.name + ", no GEMM of which is a target: " +
                         std::string(to_string(adapters.targets)),
                     adapters.targets == AdapterTargets::Attention
                         ? "a network with attention, or --lora-targets linear"
                         : "a network with GEMMs of weights in its layers");
  }
  NetworkGraph graph = Adapting(forward, adapters).build(is_target);
  freeze_all_but_adapters(graph, "");
  return graph;
}

void freeze_all_but_adapters(NetworkGraph& graph, std::string_view source) {
  for (std::uint32_t i = 0; i < graph.tensors().size(); ++i) {
    const Tensor& tensor = graph.tensors()[i];
    if (tensor.role != TensorRole::Weight || tensor.name == source) continue;
    if (tensor.name.find(kAdapterMark) != std::string::npos) continue;
    graph.frozen_parameters += element_count(tensor.shape);
    graph.set_untrained(TensorId{i});
  }
}

}  // namespace tracecast
