#include "models/recompute.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/ops.hpp"
#include "models/training.hpp"

namespace tracecast {
namespace {

/// x -> linear -> tanh, `count` times; tanh's gradient reads its result.
NetworkGraph chain(int count) {
  GraphBuilder b("chain", 2);
  TensorId t = b.input("x", {2, 10});
  for (int i = 1; i <= count; ++i) {
    t = b.linear_layer("fc" + std::to_string(i), t, 10, false);
    t = b.activation("tanh" + std::to_string(i), t, "tanh", false);
  }
  b.graph().outputs = {t};
  return std::move(b).take();
}

/// Names of the ops that run again, in order.
std::vector<std::string> again(const NetworkGraph& step) {
  std::vector<std::string> names;
  for (const Op& op : step.ops()) {
    if (op.pass == Pass::Forward && op.forward) names.push_back(op.name);
  }
  return names;
}

/// Results of the forward pass that a backward op reads as they were made.
int count_kept(const NetworkGraph& step) {
  std::vector<bool> kept(step.tensors().size(), false);
  for (const Op& op : step.ops()) {
    if (op.pass == Pass::Forward && !op.forward) continue;
    for (const TensorId input : op.inputs) {
      const auto producer = step.producer(input);
      if (producer && step.op(*producer).pass == Pass::Forward && !step.op(*producer).forward) {
        kept[input.index] = true;
      }
    }
  }
  return static_cast<int>(std::count(kept.begin(), kept.end(), true));
}

TEST_SUITE_BEGIN("models/recompute");

TEST_CASE("nothing changes without recomputation or without a backward pass") {
  const NetworkGraph step = make_training_graph(chain(3), {});
  CHECK(recompute_activations(step, Recompute::None).ops().size() == step.ops().size());
  CHECK(recompute_activations(chain(3), Recompute::Full).ops().size() == 6);
}

TEST_CASE("selective recomputation of a chain runs every activation again, and nothing else") {
  // Backward wants tanh3 (its own gradient), then tanh2 (weights of fc3, gradient of tanh2), then
  // tanh1. Each comes from the GEMM before it, which is kept.
  const NetworkGraph step =
      recompute_activations(make_training_graph(chain(3), {}), Recompute::Selective);
  CHECK(again(step) == std::vector<std::string>{"tanh3 again", "tanh2 again", "tanh1 again"});
}

TEST_CASE("a result made again stands before its first reader, and later readers read the same") {
  const NetworkGraph step =
      recompute_activations(make_training_graph(chain(2), {}), Recompute::Selective);
  int readers = 0;
  for (const Op& op : step.ops()) {
    for (const TensorId input : op.inputs) {
      if (step.tensor(input).name != "tanh1 again") continue;
      ++readers;
      CHECK(op.pass != Pass::Forward);
    }
  }
  CHECK(readers == 2);  // the gradients of fc2's weights and of tanh1
}

TEST_CASE("what takes many cheap ops to get back is kept on the way") {
  // One GEMM, then 20 activations: at most 8 ops lead from one kept result to the next.
  GraphBuilder b("cheap", 1);
  TensorId t = b.linear_layer("fc", b.input("x", {1, 4}), 4, false);
  for (int i = 0; i < 20; ++i) t = b.activation("tanh" + std::to_string(i), t, "tanh", false);
  b.graph().outputs = {t};
  const NetworkGraph step =
      recompute_activations(make_training_graph(std::move(b).take(), {}), Recompute::Selective);
  // tanh8 (the 9th) and tanh17 are kept: 18 of 20 run again. Kept with them: fc's result and the
  // loss's.
  CHECK(again(step).size() == 18);
  CHECK(count_kept(step) == 4);
}

TEST_CASE("full recomputation keeps about the square root of a chain") {
  // 64 layers, 64 saved results. With k segments: k - 1 kept and 64 / k in the last one: least near
  // k = 8.
  const NetworkGraph plain = make_training_graph(chain(64), {});
  const NetworkGraph step = recompute_activations(plain, Recompute::Full);
  const int kept = count_kept(step);
  CHECK(kept >= 12);
  CHECK(kept <= 20);
  CHECK(count_kept(plain) == 65);  // and the loss's log-probabilities
  // Every op of the first segments runs again but those at a boundary, and at most once.
  std::vector<std::string> names = again(step);
  CHECK(names.size() >= 96);
  CHECK(names.size() <= 128);
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

TEST_CASE("what is done in place on a kept result is not done again") {
  GraphBuilder b("in_place", 1);
  TensorId t = b.linear_layer("fc1", b.input("x", {1, 4}), 4, false);
  t = b.activation("relu", t, "relu", true);
  t = b.linear_layer("fc2", t, 4, false);
  b.graph().outputs = {t};
  const NetworkGraph step =
      recompute_activations(make_training_graph(std::move(b).take(), {}), Recompute::Selective);
  CHECK(again(step).empty());
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
