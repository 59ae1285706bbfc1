#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "models/ops.hpp"
#include "models/training.hpp"
#include "models/unroll.hpp"
#include "sim/base/error.hpp"

using namespace tracecast;

namespace {

using Layers = GraphBuilder::RecurrentLayers;

/// Layers on an input of `steps` x `batch` x `input`; their last state is the result.
NetworkGraph layers_alone(const Layers& layers, std::int64_t steps, std::int64_t batch,
                          std::int64_t input, bool last_state = false) {
  GraphBuilder b("layers", batch);
  const TensorId x = b.input("x", {steps, batch, input});
  const auto result = b.recurrent_layer("rnn", x, layers);
  b.graph().outputs = {last_state ? result.last_h : result.y};
  return std::move(b).take();
}

const Op& find_op(const NetworkGraph& graph, std::string_view name) {
  const auto found = std::find_if(graph.ops().begin(), graph.ops().end(),
                                  [&](const Op& op) { return op.name == name; });
  REQUIRE(found != graph.ops().end());
  return *found;
}

}  // namespace

TEST_SUITE("models/recurrent") {
  TEST_CASE("parameters are those of PyTorch and Keras") {
    struct Row {
      const char* what;
      Layers layers;
      std::int64_t input, parameters;
    };
    const Row rows[] = {
        // torch.nn.LSTM(10, 20, 2): 4*20*(10 + 20 + 2) + 4*20*(20 + 20 + 2)
        {"LSTM, two layers, two biases", {.hidden = 20, .layers = 2}, 10, 2560 + 3360},
        // keras.layers.LSTM(20): 4*20*(10 + 20 + 1)
        {"LSTM, one bias", {.hidden = 20, .biases = 1}, 10, 2480},
        // keras.layers.GRU(20), reset_after: 3*20*(10 + 20 + 2)
        {"GRU", {.cell = CellKind::Gru, .hidden = 20}, 10, 1920},
        {"plain, no bias", {.cell = CellKind::RnnTanh, .hidden = 20, .biases = 0}, 10, 600},
        // torch.nn.LSTM(10, 20, 2, bidirectional=True): the second layer reads 40
        {"both directions",
         {.hidden = 20, .layers = 2, .bidirectional = true},
         10,
         2 * 2560 + 2 * 80 * (40 + 20 + 2)},
        // torch.nn.LSTM(10, 20, proj_size=5): 80*(10 + 5 + 2) + 5*20
        {"projected", {.hidden = 20, .projection = 5}, 10, 1360 + 100},
        // CUDNN_SKIP_INPUT: 80*(20 + 2)
        {"input without weights", {.hidden = 20, .skip_input = true}, 20, 1760},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      CHECK(layers_alone(row.layers, 7, 3, row.input).parameter_count() == row.parameters);
    }
  }

  TEST_CASE("multiply-adds of a two-layer LSTM are those of its GEMMs, counted by hand") {
    // 5 steps of 3 sequences; layer 1: 80 x (10 + 20), layer 2: 80 x (20 + 20)
    const double by_hand = 5.0 * 3 * (80 * 30 + 80 * 40);
    const NetworkGraph graph = layers_alone({.hidden = 20, .layers = 2}, 5, 3, 10);
    CHECK(graph.forward_macs() == by_hand);
    // One bias or two, the GEMMs are the same, and so they are step by step.
    CHECK(unroll_recurrent(graph).forward_macs() == by_hand);
    // h goes through 20 x 5 more, and layers read 5.
    CHECK(layers_alone({.hidden = 20, .projection = 5}, 5, 3, 10).forward_macs() ==
          5.0 * 3 * (80 * 15 + 100));
  }

  TEST_CASE("results have the shapes of PyTorch's") {
    GraphBuilder b("shapes", 3);
    const TensorId x = b.input("x", {7, 3, 10});
    const auto lstm =
        b.recurrent_layer("lstm", x, {.hidden = 20, .layers = 2, .bidirectional = true});
    CHECK(to_string(b.shape(lstm.y)) == "7x3x40");
    CHECK(to_string(b.shape(lstm.last_h)) == "4x3x20");
    REQUIRE(lstm.last_c.has_value());
    CHECK(to_string(b.shape(*lstm.last_c)) == "4x3x20");
    const auto gru = b.recurrent_layer("gru", x, {.cell = CellKind::Gru, .hidden = 20});
    CHECK(!gru.last_c.has_value());
  }

  TEST_CASE("what backward needs is four gates and a cell state, and h between layers") {
    const NetworkGraph graph = layers_alone({.hidden = 20, .layers = 2}, 7, 3, 10);
    const Op& op = find_op(graph, "rnn");
    // 2 layers x 5 x 20, and the first layer's 20
    CHECK(to_string(graph.tensor(op.outputs[1]).shape) == "7x3x220");
  }

  TEST_CASE("backward runs through time once and ends in all weight gradients") {
    GraphBuilder b("net", 3);
    const TensorId x = b.linear_layer("in", b.input("x", {7, 3, 10}), 12, false);
    b.graph().outputs = {b.recurrent_layer("rnn", x, {.hidden = 20, .layers = 2}).y};
    const NetworkGraph step = make_training_graph(
        std::move(b).take(), {.optimizer = OptimizerKind::Sgd, .with_loss = false});
    const Op& data = find_op(step, "rnn dgrad");
    REQUIRE(data.outputs.size() == 2);
    CHECK(step.tensor(data.outputs[1]).name == "d in");
    CHECK(shares_memory_with_input(data));
    CHECK(step.tensor(data.inputs[0]).name == "rnn.reserve");
    const Op& weights = find_op(step, "rnn wgrad");
    CHECK(weights.outputs.size() == 8);  // two matrices and two biases per layer
    CHECK(macs(weights) == macs(find_op(step, "rnn")));
    const auto updates = std::count_if(step.ops().begin(), step.ops().end(),
                                       [](const Op& op) { return op.kind == OpKind::Optimizer; });
    CHECK(updates == 9);
  }

  TEST_CASE("the gradient of the last state alone trains the layers too") {
    const NetworkGraph step =
        make_training_graph(layers_alone({.hidden = 20}, 7, 3, 10, true),
                            {.optimizer = OptimizerKind::Sgd, .with_loss = false});
    CHECK(find_op(step, "rnn wgrad").outputs.size() == 4);
    CHECK(find_op(step, "rnn dgrad").outputs.size() == 1);  // nobody wants that of x
  }

  TEST_CASE("an unrolled cell is one GEMM and its elementwise ops") {
    const NetworkGraph graph = unroll_recurrent(layers_alone({.hidden = 20}, 7, 3, 10));
    const auto count = [&](OpKind kind) {
      return std::count_if(graph.ops().begin(), graph.ops().end(),
                           [&](const Op& op) { return op.kind == kind; });
    };
    CHECK(count(OpKind::Recurrent) == 0);
    CHECK(count(OpKind::Linear) == 7);
    CHECK(count(OpKind::Activation) == 7 * 5);  // three sigmoids, two tanh
    CHECK(count(OpKind::Binary) == 7 * 4);      // three GEMMs, one sum
    CHECK(count(OpKind::Concat) == 7 + 1);      // x with h; the results
    // One matrix and one bias, as BasicLSTMCell has them: 80*(10 + 20) + 80.
    CHECK(graph.parameter_count() == 2480);
    CHECK(to_string(graph.tensor(graph.outputs[0]).shape) == "7x3x20");
  }

  TEST_CASE("every kind of layer unrolls, trains and keeps its shapes") {
    for (const CellKind cell :
         {CellKind::RnnTanh, CellKind::RnnRelu, CellKind::Gru, CellKind::Lstm}) {
      for (const bool both : {false, true}) {
        CAPTURE(to_string(cell));
        const NetworkGraph fused =
            layers_alone({.cell = cell, .hidden = 6, .layers = 2, .bidirectional = both}, 4, 3, 5);
        const NetworkGraph graph = unroll_recurrent(fused);
        CHECK(graph.forward_macs() == fused.forward_macs());
        CHECK(graph.tensor(graph.outputs[0]).shape == fused.tensor(fused.outputs[0]).shape);
        const NetworkGraph step = make_training_graph(graph, {.with_loss = false});
        for (const Tensor& tensor : graph.tensors()) {
          if (tensor.role != TensorRole::Weight) continue;
          CAPTURE(tensor.name);
          CHECK(find_op(step, "update " + tensor.name).kind == OpKind::Optimizer);
        }
      }
    }
  }

  TEST_CASE("impossible layers are refused by name") {
    GraphBuilder b("bad", 3);
    const TensorId x = b.input("x", {7, 3, 10});
    CHECK_THROWS_AS((void)b.recurrent_layer("rnn", b.input("flat", {7, 10}), {.hidden = 4}),
                    InputError);
    CHECK_THROWS_AS((void)b.recurrent_layer("rnn", x, {.hidden = 0}), InputError);
    CHECK_THROWS_AS((void)b.recurrent_layer("rnn", x, {.hidden = 4, .layers = 0}), InputError);
    CHECK_THROWS_AS((void)b.recurrent_layer("rnn", x, {.hidden = 4, .projection = 4}), InputError);
    CHECK_THROWS_AS((void)b.recurrent_layer("rnn", x, {.hidden = 4, .skip_input = true}),
                    InputError);
    CHECK_THROWS_AS((void)unroll_recurrent(layers_alone({.hidden = 1}, 100'000, 1, 1)), InputError);
  }
}
