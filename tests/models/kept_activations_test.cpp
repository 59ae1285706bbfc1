#include "models/kept_activations.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "models/ops.hpp"
#include "models/training.hpp"

using namespace tracecast;

namespace {

std::set<std::string> kept_names(NetworkGraph forward) {
  const NetworkGraph step = make_training_graph(std::move(forward), {});
  std::set<std::string> names;
  for (const TensorId id : kept_activations(step)) names.insert(step.tensor(id).name);
  return names;
}

}  // namespace

TEST_SUITE_BEGIN("models/kept_activations");

TEST_CASE("what the backward pass reads is kept, once for all that share its memory") {
  GraphBuilder b("net", 2);
  TensorId x = b.input("images", {2, 3, 8, 8});
  x = b.conv_layer("conv1", x, 4, Window::square(3, 1, 1), true);
  x = b.activation("relu1", x, "relu", true);  // over conv1: its result is in conv1's memory
  x = b.avg_pool("pool", x, Window::square(2, 2));
  x = b.flatten("view", x);  // the pooled numbers, which the GEMM's weight gradient reads
  b.graph().outputs = {b.linear_layer("fc", x, 10, true)};
  // Neither the images nor the logits: softmax's gradient needs the probabilities alone.
  CHECK(kept_names(std::move(b).take()) ==
        std::set<std::string>{"conv1", "pool", "loss.log_probabilities"});
}

TEST_CASE("a dropout keeps its mask, a GEMM both operands") {
  GraphBuilder b("net", 1);
  const TensorId x = b.input("x", {1, 16});
  const TensorId left = b.linear_layer("left", x, 8, false);
  const TensorId right = b.linear_layer("right", x, 8, false);
  b.graph().outputs = {b.dropout("drop", b.mul("gate", left, right))};
  CHECK(kept_names(std::move(b).take()) ==
        std::set<std::string>{"left", "right", "drop.mask", "loss.log_probabilities"});
}

TEST_CASE("integers keep their own size") {
  CHECK(tensor_bytes({.name = "x", .shape = {2, 3}}, 4) == 24);
  CHECK(tensor_bytes({.name = "mask", .shape = {2, 3}, .is_integer = true, .integer_bytes = 1},
                     4) == 6);
}

TEST_SUITE_END();
