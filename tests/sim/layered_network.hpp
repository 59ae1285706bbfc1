#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/parallel/data_parallel.hpp"

namespace tracecast::test {

struct Layer {
  std::int64_t elements = 1;  ///< of its weight
  Seconds forward{}, backward{}, update{};
};

/// A training step of layers in a row, one kernel per layer and pass; the host is never waited for.
class LayeredNetwork {
 public:
  NetworkGraph graph;
  Prediction one;
  std::shared_ptr<LoweredStep> lowered = std::make_shared<LoweredStep>();
  std::vector<Bytes> element_bytes;

  explicit LayeredNetwork(const std::vector<Layer>& layers) {
    graph.batch = 16;
    std::vector<TensorId> weights, gradients;
    TensorId data = add_tensor("x", 16, TensorRole::Input);
    for (const Layer& layer : layers) {
      weights.push_back(add_tensor("w", layer.elements, TensorRole::Weight));
      const TensorId next = add_tensor("h", 16, TensorRole::Activation);
      add(OpKind::Linear, Pass::Forward, {data, weights.back()}, {next}, layer.forward);
      data = next;
    }
    gradients.resize(layers.size());
    for (std::size_t i = layers.size(); i-- > 0;) {
      gradients[i] = add_tensor("dw", layers[i].elements, TensorRole::WeightGradient);
      add(OpKind::Linear, Pass::BackwardWeights, {data}, {gradients[i]}, layers[i].backward);
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      add(OpKind::Optimizer, Pass::Update, {weights[i], gradients[i]}, {}, layers[i].update);
    }
    one.timeline.step_time = one.timeline.kernels.back().end;
    for (const LoweredOp& op : lowered->ops) {
      one.priced.choices.push_back(
          {.candidate = &op.candidates.front(), .estimates = {{}}, .duration = {}});
    }
    element_bytes.assign(graph.tensors().size(), Bytes(4));
  }

  /// Ranks of `gpu` that run it. The network must outlive what is returned.
  [[nodiscard]] RankKind kind(const GpuSpec& gpu, double factor = 1) const {
    return {.one_gpu = one,
            .graph = graph,
            .gpu = gpu,
            .element_bytes = element_bytes,
            .compute_time_factor = factor};
  }

 private:
  TensorId add_tensor(const char* name, std::int64_t elements, TensorRole role) {
    return graph.add_tensor(
        {.name = name + std::to_string(graph.tensors().size()), .shape = {elements}, .role = role});
  }

  void add(OpKind kind, Pass pass, std::vector<TensorId> inputs, std::vector<TensorId> outputs,
           Seconds duration) {
    const auto index = static_cast<std::uint32_t>(graph.ops().size());
    const OpId op = graph.add_op({.name = std::to_string(index),
                                  .kind = kind,
                                  .pass = pass,
                                  .inputs = std::move(inputs),
                                  .outputs = std::move(outputs)});
    lowered->ops.push_back({.op = op, .candidates = {{.kernels = {{}}}}});
    one.priced.lowered = lowered;
    one.program.ops.push_back({.first_kernel = index, .num_kernels = 1});
    one.program.kernels.push_back({.duration = duration, .op = index});
    const Seconds begin =
        one.timeline.kernels.empty() ? Seconds() : one.timeline.kernels.back().end;
    one.timeline.kernels.push_back({begin, begin + duration});
  }
};

}  // namespace tracecast::test
