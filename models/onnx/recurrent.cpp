// LSTM, GRU and RNN.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "models/onnx/call.hpp"
#include "sim/base/error.hpp"

namespace tracecast::onnx {
namespace {

/// Sizes of a call. The file's x is steps, N, features, with `layout` 1 N, steps, features.
struct Layer {
  std::int64_t directions = 1, hidden = 1;
  bool is_batch_first = false;
};

/// W: directions, gates * hidden, features; R: directions, gates * hidden, hidden.
Layer read_layer(const Call& call, std::int64_t gates) {
  const Shape x = call.shape(0), w = call.shape(1), r = call.shape(2);
  const std::string_view direction = call.node.text("direction", "forward");
  Layer layer;
  layer.directions = direction == "bidirectional" ? 2 : 1;
  layer.hidden = r.size() == 3 ? r[2] : 0;
  layer.is_batch_first = call.node.integer("layout", 0) != 0;
  if (x.size() != 3) throw InputError("input", to_string(x), "steps, samples, features");
  const Shape input_weights = {layer.directions, gates * layer.hidden, x[2]};
  const Shape state_weights = {layer.directions, gates * layer.hidden, layer.hidden};
  if (w != input_weights || r != state_weights || layer.hidden < 1) {
    throw InputError("weights", to_string(w) + " and " + to_string(r),
                     "directions x gates * hidden x features and x hidden, for " + to_string(x));
  }
  return layer;
}

CellKind plain_cell(const Call& call) {
  const NodeProto& proto = *call.node.proto;
  for (const AttributeProto& attribute : proto.attribute()) {
    if (attribute.name() == "activations" && attribute.strings_size() > 0 &&
        attribute.strings(0) == "Relu") {
      return CellKind::RnnRelu;
    }
  }
  return CellKind::RnnTanh;
}

TensorId time_first(const Call& call, const Layer& layer) {
  const TensorId x = call.tensor(0);
  if (!layer.is_batch_first) return x;
  const std::int64_t order[] = {1, 0, 2};
  return call.build().transpose(call.name() + ".time_first", x, order);
}

/// All states: steps, directions, N, hidden, or with batch first N, steps, directions, hidden.
TensorId all_states(const Call& call, const Layer& layer, TensorId y) {
  GraphBuilder& b = call.build();
  const Shape shape = b.shape(y);  // steps, N, directions * hidden
  if (!layer.is_batch_first && layer.directions == 1) {
    return b.reshape(call.name() + ".states", y, {shape[0], 1, shape[1], layer.hidden});
  }
  y = b.reshape(call.name() + ".directions", y,
                {shape[0], shape[1], layer.directions, layer.hidden});
  const std::int64_t directions_second[] = {0, 2, 1, 3}, batch_first[] = {1, 0, 2, 3};
  return b.transpose(call.name() + ".states", y,
                     layer.is_batch_first ? batch_first : directions_second);
}

TensorId last_state(const Call& call, const Layer& layer, TensorId state, const char* what) {
  if (!layer.is_batch_first) return state;
  const std::int64_t batch_first[] = {1, 0, 2};
  return call.build().transpose(call.name() + what, state, batch_first);
}

/// Initial states count where they are computed; constants, nearly always zeros, do not.
std::vector<TensorId> initial_states(const Call& call, bool has_cell) {
  std::vector<TensorId> states;
  for (const std::size_t i : {std::size_t{5}, std::size_t{6}}) {
    if (i == 6 && !has_cell) break;
    if (!call.has_input(i) || call.input(i).is_constant()) return {};
    states.push_back(call.tensor(i));
  }
  return states;
}

/// Weights that are computed or fed: no library takes them, a bound stands in.
void set_bounded(const Call& call, const Layer& layer) {
  const Shape& x = call.shape(0);
  const std::int64_t steps = x[layer.is_batch_first ? 1 : 0], n = x[layer.is_batch_first ? 0 : 1];
  const Shape all = layer.is_batch_first ? Shape{n, steps, layer.directions, layer.hidden}
                                         : Shape{steps, layer.directions, n, layer.hidden};
  const Shape last = layer.is_batch_first ? Shape{n, layer.directions, layer.hidden}
                                          : Shape{layer.directions, n, layer.hidden};
  const Shape shapes[] = {all, last, last};
  call.set_bounded(std::string(call.node.op_type()) + " whose weights are inputs",
                   std::span(shapes).first(std::min<std::size_t>(call.node.outputs.size(), 3)));
}

bool recurrent(const Call& call, CellKind cell) {
  const bool is_lstm = cell == CellKind::Lstm;
  const Layer layer = read_layer(call, RecurrentAttributes{.cell = cell}.gates());
  if (!call.input(1).is_constant() || !call.input(2).is_constant()) {
    set_bounded(call, layer);
    return true;
  }
  if (is_lstm && call.has_input(7)) call.assume("peepholes of LSTM layers are left out");
  std::vector<TensorId> weights = {call.parameter(1), call.parameter(2)};
  if (call.has_input(3)) weights.push_back(call.parameter(3));
  const GraphBuilder::RecurrentLayers form = {.cell = cell,
                                              .hidden = layer.hidden,
                                              .bidirectional = layer.directions == 2,
                                              .biases = call.has_input(3) ? 2 : 0};
  const auto result = call.build().recurrent(call.name(), time_first(call, layer), form, weights,
                                             initial_states(call, is_lstm));
  if (call.wants_output(0)) call.set(0, all_states(call, layer, result.y));
  if (call.wants_output(1)) call.set(1, last_state(call, layer, result.last_h, ".last_h_first"));
  if (call.wants_output(2) && result.last_c) {
    call.set(2, last_state(call, layer, *result.last_c, ".last_c_first"));
  }
  return true;
}

bool lstm(const Call& call) { return recurrent(call, CellKind::Lstm); }
bool gru(const Call& call) { return recurrent(call, CellKind::Gru); }
bool rnn(const Call& call) { return recurrent(call, plain_cell(call)); }

constexpr NamedHandler kRecurrentHandlers[] = {
    {"LSTM", lstm, true}, {"GRU", gru, true}, {"RNN", rnn, true}};

}  // namespace

std::span<const NamedHandler> recurrent_handlers() { return kRecurrentHandlers; }

}  // namespace tracecast::onnx
