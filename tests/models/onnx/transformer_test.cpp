#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/onnx/import.hpp"
#include "tests/models/onnx/one_op.hpp"

namespace tracecast {
namespace {

using namespace test::onnx;

constexpr std::int64_t kWidth = 32, kHeads = 4, kVocabulary = 100, kPositions = 64;

/// An input of integers with two named dimensions.
Message named_ids() {
  const Message shape =
      Message().message(1, Message().text(2, "batch")).message(1, Message().text(2, "sequence"));
  return Message().text(1, "ids").message(
      2, Message().message(1, Message().number(1, kInt64).message(2, shape)));
}

/// Embeddings and one attention block as PyTorch exports them: with named dimensions every target
/// is computed from shapes, else 1 sample of 8 tokens is written into the constants.
Model attention(bool is_dynamic) {
  Model model;
  model.inputs = {is_dynamic ? named_ids() : value_info("ids", {1, 8}, kInt64)};
  model.outputs = {value_info("y", {})};
  model.weights = {weight("words", {kVocabulary, kWidth}),
                   weight("places", {kPositions, kWidth}),
                   weight("place_ids", {1, kPositions}, kInt64),
                   constant("zero", {0}),
                   constant("one", {1}),
                   constant("heads", {kHeads}),
                   constant("width", {kWidth}),
                   constant("head_width", {kWidth / kHeads}),
                   constant("split_baked", {1, 8, kHeads, kWidth / kHeads}),
                   constant("joined_baked", {1, 8, kWidth}),
                   constant("eight", {8})};
  for (const char* name : {"q", "k", "v", "o"}) {
    model.weights.push_back(weight(std::string("w_") + name, {kWidth, kWidth}));
    model.weights.push_back(weight(std::string("b_") + name, {kWidth}));
  }
  const auto add = [&](const Message& one) { model.nodes.push_back(one); };
  add(node("Gather", {"words", "ids"}, {"word"}));
  if (is_dynamic) {
    add(node("Shape", {"ids"}, {"shape"}));
    add(node("Gather", {"shape", "zero"}, {"batch"}));
    add(node("Gather", {"shape", "one"}, {"tokens"}));
    add(node("Concat", {"batch", "tokens", "heads", "head_width"}, {"split"},
             {attribute("axis", 0)}));
    add(node("Concat", {"batch", "tokens", "width"}, {"joined"}, {attribute("axis", 0)}));
  } else {
    add(node("Identity", {"eight"}, {"tokens"}));
    add(node("Identity", {"split_baked"}, {"split"}));
    add(node("Identity", {"joined_baked"}, {"joined"}));
  }
  add(node("Slice", {"place_ids", "zero", "tokens", "one"}, {"place_range"}));
  add(node("Gather", {"places", "place_range"}, {"place"}));
  add(node("Add", {"word", "place"}, {"x"}));
  for (const std::string name : {"q", "k", "v"}) {
    add(node("MatMul", {"x", "w_" + name}, {name + "_gemm"}));
    add(node("Add", {"b_" + name, name + "_gemm"}, {name + "_flat"}));
    add(node("Reshape", {name + "_flat", "split"}, {name + "_split"}));
    const Dims order = name == "k" ? Dims{0, 2, 3, 1} : Dims{0, 2, 1, 3};
    add(node("Transpose", {name + "_split"}, {name}, {attribute("perm", order)}));
  }
  add(node("MatMul", {"q", "k"}, {"scores"}));
  add(node("Softmax", {"scores"}, {"shares"}, {attribute("axis", -1)}));
  add(node("MatMul", {"shares", "v"}, {"mixed"}));
  add(node("Transpose", {"mixed"}, {"mixed_split"}, {attribute("perm", Dims{0, 2, 1, 3})}));
  add(node("Reshape", {"mixed_split", "joined"}, {"mixed_flat"}));
  add(node("MatMul", {"mixed_flat", "w_o"}, {"o_gemm"}));
  add(node("Add", {"o_gemm", "b_o"}, {"o"}));
  add(node("Add", {"x", "o"}, {"y"}));
  return model;
}

/// Four GEMMs with weights, two of activations.
double attention_macs(double batch, double tokens) {
  return 4 * batch * tokens * kWidth * kWidth + 2 * batch * tokens * tokens * kWidth;
}

TEST_SUITE_BEGIN("models/onnx/transformer");

TEST_CASE("an attention block has its multiply-adds at any batch and length") {
  for (const bool is_dynamic : {true, false}) {
    CAPTURE(is_dynamic);
    for (const std::int64_t batch : {1, 3}) {
      for (const std::int64_t tokens : {8, 16}) {
        CAPTURE(batch);
        CAPTURE(tokens);
        const OnnxNetwork network =
            import_model(attention(is_dynamic),
                         {.batch = batch, .seq_len = tokens, .attention = AttentionKernels::Steps});
        const NetworkGraph& graph = network.graph;
        CHECK(to_string(graph.tensor(graph.outputs[0]).shape) ==
              to_string(Shape{batch, tokens, kWidth}));
        CHECK(graph.forward_macs() ==
              attention_macs(static_cast<double>(batch), static_cast<double>(tokens)));
        CHECK(graph.parameter_count() ==
              (kVocabulary + kPositions) * kWidth + 4 * (kWidth * kWidth + kWidth));
        CHECK(count_ops(graph, OpKind::Linear) == 4);
        CHECK(count_ops(graph, OpKind::MatMul) == 2);
        // The same work in one kernel, where the framework has one.
        const NetworkGraph fused =
            import_model(attention(is_dynamic), {.batch = batch, .seq_len = tokens}).graph;
        CHECK(count_ops(fused, OpKind::Attention) == 1);
        CHECK(fused.forward_macs() == graph.forward_macs());
        CHECK(count_ops(graph, OpKind::Embedding) == 2);
        CHECK(count_ops(graph, OpKind::Unknown) == 0);
        // Two additions are left: the others are biases.
        CHECK(count_ops(graph, OpKind::Binary) == 2);
      }
    }
  }
}

TEST_CASE("a length that was written into the positions is said to be taken as another") {
  const auto warnings = [](std::int64_t tokens) {
    return import_model(attention(false), {.batch = 3, .seq_len = tokens}).warnings;
  };
  CHECK(warnings(8).empty());
  REQUIRE(warnings(16).size() == 1);
  CHECK(warnings(16)[0].find("1x8x32 is taken as 1x16x32") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
