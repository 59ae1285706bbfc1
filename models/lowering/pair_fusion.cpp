#include "models/lowering/pair_fusion.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "models/lowering/kernels.hpp"

namespace tracecast::lowering {
namespace {

bool has(const std::vector<TensorId>& tensors, TensorId tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}
void add_once(std::vector<TensorId>& tensors, TensorId tensor) {
  if (!has(tensors, tensor)) tensors.push_back(tensor);
}

class PairFinder {
 public:
  explicit PairFinder(const NetworkGraph& graph)
      : graph_(graph),
        found_{std::vector<bool>(graph.ops().size(), false),
               std::vector<std::optional<PairKernel>>(graph.ops().size())} {
    readers_.resize(graph.tensors().size());
    for (std::uint32_t i = 0; i < graph.ops().size(); ++i) {
      for (const TensorId input : graph.op(OpId{i}).inputs)
        readers_[input.index].push_back(OpId{i});
    }
  }

  PairFusion find() {
    for (std::uint32_t i = 0; i < graph_.ops().size(); ++i) {
      const Op& op = graph_.op(OpId{i});
      if (op.kind == OpKind::MatMul && op.pass == Pass::Forward) look_at(OpId{i}, op);
    }
    return std::move(found_);
  }

 private:
  /// The reader of a tensor in the forward pass, where there is one.
  [[nodiscard]] std::optional<OpId> forward_reader(TensorId tensor) const {
    std::optional<OpId> only;
    for (const OpId reader : readers_[tensor.index]) {
      if (graph_.op(reader).pass != Pass::Forward || reader == only) continue;
      if (only) return std::nullopt;
      only = reader;
    }
    return only;
  }
  /// The same behind views, which join `parts`.
  [[nodiscard]] std::optional<OpId> reader_behind_views(TensorId tensor,
                                                        std::vector<OpId>& parts) const {
    for (;;) {
      const auto reader = forward_reader(tensor);
      if (!reader || graph_.op(*reader).kind != OpKind::Reshape) return reader;
      parts.push_back(*reader);
      tensor = graph_.op(*reader).outputs.front();
    }
  }

  void look_at(OpId id, const Op& gemm) {
    const auto& a = std::get<MatMulAttributes>(gemm.attributes);
    if (gemm.inputs.size() != 2 || gemm.inputs[0] != gemm.inputs[1] || a.m != a.n) return;
    std::vector<OpId> parts = {id};
    const auto gather = reader_behind_views(gemm.outputs.front(), parts);
    if (!gather || graph_.op(*gather).kind != OpKind::Gather) return;
    parts.push_back(*gather);
    const auto join = reader_behind_views(graph_.op(*gather).outputs.front(), parts);
    if (!join || graph_.op(*join).kind != OpKind::Concat) return;
    parts.push_back(*join);
    PairKernel forward{.at = *join,
                       .pass = Pass::Forward,
                       .reads = vectors_of(gemm.inputs.front(), parts),
                       .writes = graph_.op(*join).outputs,
                       .vectors = static_cast<double>(a.m),
                       .width = static_cast<double>(a.k),
                       .samples = static_cast<double>(a.batch)};
    for (const OpId part : parts) found_.is_part[part.index] = true;
    PairKernel backward = forward;
    for (const TensorId input : graph_.op(*join).inputs) {
      const auto producer = graph_.producer(input);
      if (!producer || !found_.is_part[producer->index]) add_once(forward.reads, input);
    }
    add_backward(parts, std::move(backward));
    found_.kernels[join->index] = std::move(forward);
  }

  /// What the tensor of vectors is made of; the Concat and views that make it join `parts`.
  [[nodiscard]] std::vector<TensorId> vectors_of(TensorId x, std::vector<OpId>& parts) const {
    std::vector<OpId> before;
    TensorId tensor = x;
    for (;;) {
      const auto producer = graph_.producer(tensor);
      if (!producer || !forward_reader(tensor)) return {x};
      before.push_back(*producer);
      const Op& op = graph_.op(*producer);
      if (op.kind == OpKind::Concat) {
        parts.insert(parts.end(), before.begin(), before.end());
        return op.inputs;
      }
      if (op.kind != OpKind::Reshape) return {x};
      tensor = op.inputs.front();
    }
  }

  void add_backward(const std::vector<OpId>& parts, PairKernel kernel) {
    std::vector<OpId> gradients;
    for (std::uint32_t i = 0; i < graph_.ops().size(); ++i) {
      const Op& op = graph_.op(OpId{i});
      if (op.pass == Pass::Forward || !op.forward) continue;
      if (std::find(parts.begin(), parts.end(), *op.forward) == parts.end()) continue;
      gradients.push_back(OpId{i});
      found_.is_part[i] = true;
    }
    if (gradients.empty()) return;
    kernel.at = gradients.back();
    kernel.pass = Pass::Backward;
    kernel.writes.clear();
    for (const OpId id : gradients) {
      for (const TensorId input : graph_.op(id).inputs) {
        const auto producer = graph_.producer(input);
        const bool is_given = !producer || !found_.is_part[producer->index];
        if (is_given && graph_.tensor(input).role == TensorRole::Gradient) {
          add_once(kernel.reads, input);
        }
      }
      for (const TensorId output : graph_.op(id).outputs) {
        const auto& readers = readers_[output.index];
        const bool is_read = std::any_of(readers.begin(), readers.end(), [&](OpId reader) {
          return !found_.is_part[reader.index];
        });
        if (is_read || readers.empty()) add_once(kernel.writes, output);
      }
    }
    found_.kernels[kernel.at.index] = std::move(kernel);
  }

  const NetworkGraph& graph_;
  PairFusion found_;
  std::vector<std::vector<OpId>> readers_;
};

/// Instructions of the warp that has a sample, counted in the sources of pair_fusion.hpp. Tiles of
/// 16 by 16:
///   forward   per vector and 128 values a load, a store and two addresses; per 16 values of width
///   and tile row two fragments
///             of 4 loads, per tile two GEMMs; per tile 8 stores; per vector a row of GEMMs: load,
///             conversion, store, 6 for places
///   backward  per vector the same loads, a row of the gradient's matrix, 15 for each of its places
///   at most; per 16 values of width
///             and tile row a fragment of 4 loads, per tile two GEMMs, per tile row 8 stores and 16
///             rows of load, conversion and store, two at a time
double warp_instructions(const PairKernel& pairs) {
  const double rows = pairs.vectors, tiles = std::ceil(rows / 16),
               steps = std::ceil(pairs.width / 16);
  const double loads = rows * std::ceil(pairs.width / 128) * 4;
  if (pairs.pass == Pass::Forward) {
    return loads + steps * (tiles * 2 * 4 + tiles * tiles * 2) + tiles * tiles * 8 + rows * 9;
  }
  return loads + rows * 15 + steps * (tiles * 4 + tiles * tiles * 2 + tiles * (8 + 8 * 3));
}

}  // namespace

PairFusion fuse_pair_gemms(const NetworkGraph& graph) { return PairFinder(graph).find(); }

Kernel lower_pair_gemms(const Context& context, const PairKernel& pairs) {
  constexpr double kWarp = 32;
  Bytes read{}, written{};
  double elements = 0;
  for (const TensorId tensor : pairs.reads) read += context.bytes(tensor);
  for (const TensorId tensor : pairs.writes) {
    written += context.bytes(tensor);
    elements += context.elements(tensor);
  }
  Kernel kernel = stream_kernel("pair_gemms", KernelClass::BatchedGemm, pairs.pass,
                                context.formats.storage, read, written, elements);
  kernel.math = context.formats.math;
  kernel.unit = context.formats.unit;
  kernel.flops = Flops(2 * pairs.samples * pairs.vectors * pairs.vectors * pairs.width);
  auto& work = std::get<StreamWork>(kernel.work);
  work.operations_per_element = 0;  // the GEMMs are the tensor cores', their issue is counted here
  if (elements > 0) {
    work.instructions_per_element = warp_instructions(pairs) * kWarp * pairs.samples / elements;
  }
  return kernel;
}

}  // namespace tracecast::lowering
