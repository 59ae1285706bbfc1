#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/onnx/import.hpp"
#include "tests/models/onnx/one_op.hpp"

namespace tracecast {
namespace {

using namespace test::onnx;

constexpr std::int64_t kInt8 = 3, kInt32 = 6;

Message runtime_node(const char* op, const Names& inputs, const Names& outputs,
                     const std::vector<Message>& attributes = {}) {
  return node(op, inputs, outputs, attributes, "com.microsoft");
}

struct Row {
  std::string what;
  OneOp model;
  std::string shape;
  double macs;
  std::int64_t parameters;
};

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const OnnxNetwork network =
        import_model(row.model, {.batch = row.model.batch, .as_written = true});
    CHECK(output_shape(network.graph) == row.shape);
    CHECK(network.graph.forward_macs() == row.macs);
    CHECK(network.graph.parameter_count() == row.parameters);
    CHECK(network.warnings.empty());
  }
}

TEST_SUITE_BEGIN("models/onnx/runtime");

TEST_CASE("quantised layers are the layers they stand for, their integers weights") {
  const std::vector<Message> filter = {weight("f", {8, 4, 3, 3}, kInt8), weight("b", {8}, kInt32),
                                       weight("s", {}), weight("p", {}, kInt8)};
  const std::vector<Message> matrix = {weight("m", {16, 32}, kInt8), weight("s", {}),
                                       weight("p", {}, kInt8), weight("b", {32})};
  check({
      // 2 * 8 * 7 * 7 results of 4 * 9 GEMMs each
      {"QLinearConv",
       one_op({{2, 4, 9, 9}},
              node("QLinearConv", {"x", "s", "p", "f", "s", "p", "s", "p", "b"}, {"z"}), filter),
       "2x8x7x7", 2 * 8 * 49 * 36, 288 + 8},
      {"ConvInteger", one_op({{2, 4, 9, 9}}, node("ConvInteger", {"x", "f"}, {"z"}), filter),
       "2x8x7x7", 2 * 8 * 49 * 36, 288},
      {"QLinearMatMul",
       one_op({{5, 16}}, node("QLinearMatMul", {"x", "s", "p", "m", "s", "p", "s", "p"}, {"z"}),
              matrix),
       "5x32", 5 * 16 * 32, 512},
      {"MatMulInteger", one_op({{5, 16}}, node("MatMulInteger", {"x", "m"}, {"z"}), matrix), "5x32",
       5 * 16 * 32, 512},
      {"DynamicQuantizeMatMul",
       one_op({{5, 16}}, runtime_node("DynamicQuantizeMatMul", {"x", "m", "s", "p", "b"}, {"z"}),
              matrix),
       "5x32", 5 * 16 * 32, 512 + 32},
  });
}

TEST_CASE("steps between the formats are part of their neighbours") {
  OneOp model = one_op({{2, 4, 9, 9}}, node("Relu", {"x"}, {"y"}));
  model.weights = {weight("f", {8, 4, 3, 3}, kInt8), weight("s", {}), weight("p", {}, kInt8)};
  model.nodes = {node("QuantizeLinear", {"x", "s", "p"}, {"q"}),
                 node("DequantizeLinear", {"q", "s", "p"}, {"x2"}),
                 node("DequantizeLinear", {"f", "s", "p"}, {"f2"}),
                 node("Conv", {"x2", "f2"}, {"z"})};
  const OnnxNetwork network = import_model(model);
  CHECK(network.graph.ops().size() == 1);
  CHECK(network.graph.parameter_count() == 288);
}

TEST_CASE("fused operators of ONNX Runtime are the ops they replace") {
  const std::vector<Message> norm = {weight("g", {16}), weight("c", {16})};
  check({
      {"FusedMatMul",
       one_op({{5, 16}}, runtime_node("FusedMatMul", {"x", "m"}, {"z"}, {attribute("transB", 1)}),
              {weight("m", {32, 16})}),
       "5x32", 5 * 16 * 32, 512},
      {"BiasGelu", one_op({{5, 16}}, runtime_node("BiasGelu", {"x", "g"}, {"z"}), norm), "5x16", 0,
       16},
      {"SkipLayerNormalization",
       one_op({{2, 5, 16}, {2, 5, 16}},
              runtime_node("SkipLayerNormalization", {"x", "y", "g", "c"}, {"z"}), norm),
       "2x5x16", 0, 32},
      {"EmbedLayerNormalization",
       one_op({{2, 5}},
              runtime_node("EmbedLayerNormalization", {"x", "", "words", "places", "", "g", "c"},
                           {"z"}),
              {weight("words", {100, 16}), weight("places", {8, 16}), norm[0], norm[1]}),
       "2x5x16", 0, 1600 + 128 + 32},
      // 4-bit blocks: 16 x 32 weights whatever their packing
      {"MatMulNBits",
       one_op({{5, 16}},
              runtime_node("MatMulNBits", {"x", "packed", "s"}, {"z"},
                           {attribute("K", 16), attribute("N", 32), attribute("bits", 4)}),
              {weight("packed", {32, 1, 8}, 2), weight("s", {32})}),
       "5x32", 5 * 16 * 32, 512},
  });
}

TEST_CASE("attention operators have the GEMMs of attention") {
  // 2 samples, 5 tokens, width 16: queries, keys and values 16 x 48, then scores and context 5 x 5
  // x 16 each
  const double projections = 2 * 5 * 16 * 48, gemms = 2.0 * 2 * 5 * 5 * 16;
  const Message heads = attribute("num_heads", 4);
  check({
      {"Attention",
       one_op({{2, 5, 16}}, runtime_node("Attention", {"x", "m", "b"}, {"z"}, {heads}),
              {weight("m", {16, 48}), weight("b", {48})}),
       "2x5x16", projections + gemms, 16 * 48 + 48},
      {"MultiHeadAttention",
       one_op({{2, 5, 16}}, runtime_node("MultiHeadAttention", {"x", "x", "x"}, {"z"}, {heads})),
       "2x5x16", gemms, 0},
      // one new token, 7 kept: 8 keys
      {"MultiHeadAttention with a past",
       one_op({{2, 1, 16}, {2, 4, 7, 4}},
              runtime_node("MultiHeadAttention", {"x", "x", "x", "", "", "", "y", "y"}, {"z"},
                           {heads})),
       "2x1x16", 2.0 * 2 * 8 * 16, 0},
      // 4 query heads of width 4, 2 of keys and values, packed: 16 + 8 + 8; causal: half the scores
      {"GroupQueryAttention",
       one_op({{2, 5, 32}}, runtime_node("GroupQueryAttention", {"x"}, {"z"},
                                         {heads, attribute("kv_num_heads", 2)})),
       "2x5x16", gemms / 2, 0},
  });
}

}  // namespace
}  // namespace tracecast
