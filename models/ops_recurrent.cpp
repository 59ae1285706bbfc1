#include <utility>
#include <vector>

#include "models/ops.hpp"
#include "models/shape_checks.hpp"

namespace tracecast {

using namespace shape_checks;

namespace {

/// Steps, stacks and widths beyond these are refused: counts then stay far below 2^62.
constexpr std::int64_t kMostSteps = 1'000'000, kMostWidth = 1'000'000, kMostLayers = 1000;

RecurrentAttributes attributes_of(const std::string& name, const Shape& x,
                                  const GraphBuilder::RecurrentLayers& l) {
  if (x.size() != 3) {
    throw InputError(name, "an input of shape " + to_string(x), "steps, batch, features");
  }
  require_range(name, "steps", x[0], 1, kMostSteps);
  require_range(name, "batch", x[1], 1, kMostExtent);
  require_range(name, "features", x[2], 1, kMostWidth);
  require_range(name, "hidden width", l.hidden, 1, kMostWidth);
  require_range(name, "layers", l.layers, 1, kMostLayers);
  require_range(name, "biases per gate", l.biases, 0, 2);
  require_range(name, "projection", l.projection, 0, l.cell == CellKind::Lstm ? l.hidden - 1 : 0);
  if (l.skip_input && x[2] != l.hidden) {
    throw InputError(name, number(x[2]) + " features",
                     number(l.hidden) + ", the hidden width, where the input has no weights");
  }
  return {.cell = l.cell,
          .steps = x[0],
          .batch = x[1],
          .input = x[2],
          .hidden = l.hidden,
          .projection = l.projection,
          .layers = l.layers,
          .bidirectional = l.bidirectional,
          .biases = l.biases,
          .dropout = l.dropout,
          .skip_input = l.skip_input};
}

}  // namespace

GraphBuilder::RecurrentResult GraphBuilder::recurrent(std::string name, TensorId x,
                                                      const RecurrentLayers& layers,
                                                      std::span<const TensorId> weights,
                                                      std::span<const TensorId> initial_states) {
  const RecurrentAttributes a = attributes_of(name, shape(x), layers);
  Op op{.name = std::move(name), .kind = OpKind::Recurrent, .attributes = a, .inputs = {x}};
  op.inputs.insert(op.inputs.end(), weights.begin(), weights.end());
  op.inputs.insert(op.inputs.end(), initial_states.begin(), initial_states.end());
  const std::int64_t stack = a.layers * a.directions();
  op.outputs = {
      tensor({.name = op.name + ".reserve", .shape = {a.steps, a.batch, a.reserved_per_step()}}),
      tensor({.name = op.name + ".last_h", .shape = {stack, a.batch, a.output()}})};
  if (a.cell == CellKind::Lstm) {
    op.outputs.push_back(
        tensor({.name = op.name + ".last_c", .shape = {stack, a.batch, a.hidden}}));
  }
  RecurrentResult result{.y = {}, .last_h = op.outputs[1], .last_c = {}};
  if (op.outputs.size() > 2) result.last_c = op.outputs[2];
  result.y = append(std::move(op), {a.steps, a.batch, a.directions() * a.output()});
  return result;
}

GraphBuilder::RecurrentResult GraphBuilder::recurrent_layer(
    std::string name, TensorId x, const RecurrentLayers& layers,
    std::span<const TensorId> initial_states) {
  const RecurrentAttributes a = attributes_of(name, shape(x), layers);
  const std::int64_t rows = a.gates() * a.hidden;
  std::vector<TensorId> weights;
  for (int layer = 0; layer < a.layers; ++layer) {
    for (std::int64_t direction = 0; direction < a.directions(); ++direction) {
      const std::string tail = "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
      const auto add = [&](const char* what, Shape dimensions) {
        weights.push_back(weight(name + '.' + what + tail, std::move(dimensions)));
      };
      if (layer > 0 || !a.skip_input) add("weight_ih", {rows, a.input_of(layer)});
      add("weight_hh", {rows, a.output()});
      if (a.biases == 1) add("bias", {rows});
      if (a.biases == 2) add("bias_ih", {rows});
      if (a.biases == 2) add("bias_hh", {rows});
      if (a.projection > 0) add("weight_hr", {a.projection, a.hidden});
    }
  }
  return recurrent(std::move(name), x, layers, weights, initial_states);
}

}  // namespace tracecast
