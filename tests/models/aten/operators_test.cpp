#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/aten/import.hpp"
#include "models/training.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

AtenNetwork read(const std::string& lines, const AtenOptions& options = {}) {
  return import_aten("tracecast graph 1\nnetwork n\nmode train\n" + lines, "mine.graph", options);
}

std::string kinds(const NetworkGraph& graph) {
  std::string text;
  for (const Op& op : graph.ops())
    text += (text.empty() ? "" : " ") + std::string(to_string(op.kind));
  return text;
}

std::string output_shape(const NetworkGraph& graph) {
  return to_string(graph.tensor(graph.outputs.at(0)).shape);
}

const std::string kImage = "input %x f32[2,6,8,8]\n";
const std::string kTokens = "input %x f32[2,5,12]\n";
const std::string kHeads =
    "input %q f32[2,4,10,16]\ninput %k f32[2,4,10,16]\ninput %v f32[2,4,10,16]\n";

TEST_SUITE_BEGIN("models/aten/operators");

TEST_CASE("ATen ops become the ops of the network graph") {
  struct Row {
    const char* what;
    std::string lines, kinds;
    double macs;
  };
  const std::vector<Row> rows = {
      {"convolution",
       kImage + "parameter %w f32[12,3,3,3]\nparameter %b f32[12]\n"
                "%y f32[2,12,4,4] = aten.convolution.default(input=%x, weight=%w, bias=%b, "
                "stride=[2, 2], padding=[1, 1], dilation=[1, 1], transposed=false, "
                "output_padding=[0, 0], groups=2)\noutput %y\n",
       "Conv", 2 * 12 * 16 * 3 * 9},
      {"one number for both dimensions, the padding a word",
       kImage + "parameter %w f32[4,6,3,3]\n%y f32[2,4,8,8] = aten.conv2d.padding(input=%x, "
                "weight=%w, padding=\"same\")\noutput %y\n",
       "Conv", 2 * 4 * 64 * 6 * 9},
      {"transposed",
       kImage + "parameter %w f32[6,4,2,2]\n%y f32[2,4,16,16] = aten.convolution.default(input=%x, "
                "weight=%w, stride=[2, 2], padding=[0, 0], dilation=[1, 1], transposed=true, "
                "output_padding=[0, 0], groups=1)\noutput %y\n",
       "ConvTranspose", 2 * 6 * 64 * 4 * 4},
      {"batch norm, activation in place, pool, view, addmm by a turned weight",
       kImage + "parameter %g f32[6]\nparameter %h f32[6]\nbuffer %m f32[6]\nbuffer %s f32[6]\n"
                "buffer %n i64[]\nparameter %w f32[10,96]\nparameter %b f32[10]\n"
                "%0 i64[] = aten.add_.Tensor(self=%n, other=1)\n"
                "%1 f32[2,6,8,8], %2 f32[6], %3 f32[6] = aten.native_batch_norm.default(input=%x, "
                "weight=%g, bias=%h, running_mean=%m, running_var=%s, training=true)\n"
                "%4 f32[2,6,8,8] = aten.relu_.default(self=%1)\n"
                "%5 f32[2,6,4,4], %6 i64[2,6,4,4] = aten.max_pool2d_with_indices.default(self=%4, "
                "kernel_size=[2, 2], stride=[2, 2])\n"
                "%7 f32[2,96] = aten.view.default(self=%5, size=[2, 96])\n"
                "%8 f32[96,10]{1,96} = aten.t.default(self=%w)\n"
                "%9 f32[2,10] = aten.addmm.default(self=%b, mat1=%7, mat2=%8)\noutput %9\n",
       "BatchNorm Activation MaxPool Reshape Linear", 2 * 960},
      {"rows that do not follow each other are copied before a GEMM, whose bias is then a sum",
       kTokens + "parameter %w f32[7,12]\nparameter %b f32[7]\n"
                 "%1 f32[5,2,12]{12,60,1} = aten.transpose.int(self=%x, dim0=0, dim1=1)\n"
                 "%2 f32[5,2,7] = aten.linear.default(input=%1, weight=%w, bias=%b)\noutput %2\n",
       "Reshape Slice Linear Binary", 10 * 84},
      {"and before a layer norm",
       kTokens + "parameter %w f32[12]\nparameter %b f32[12]\n"
                 "%1 f32[5,2,12]{12,60,1} = aten.transpose.int(self=%x, dim0=0, dim1=1)\n"
                 "%2 f32[5,2,12], %3 f32[5,2,1], %4 f32[5,2,1] = aten.native_layer_norm.default("
                 "input=%1, normalized_shape=[12], weight=%w, bias=%b)\noutput %2\n",
       "Reshape Slice LayerNorm", 0},
      {"windows of an image as columns",
       kImage + "%1 f32[2,54,64] = aten.im2col.default(self=%x, kernel_size=[3, 3], "
                "dilation=[1, 1], padding=[1, 1], stride=[1, 1])\noutput %1\n",
       "Gather", 0},
      {"attention in one kernel",
       kHeads + "%y f32[2,4,10,16] = aten.scaled_dot_product_attention.default(query=%q, key=%k, "
                "value=%v)\noutput %y\n",
       "Attention Reshape", 2 * 4 * 100 * 32},
      {"attention written out: the turned keys are an operand that is read turned",
       kHeads + "%1 f32[2,4,16,10]{640,160,1,16} = aten.transpose.int(self=%k, dim0=-2, dim1=-1)\n"
                "%2 f32[2,4,10,10] = aten.matmul.default(self=%q, other=%1)\n"
                "%3 f32[2,4,10,10] = aten.mul.Tensor(self=%2, other=0.25)\n"
                "%4 f32[2,4,10,10] = aten._softmax.default(self=%3, dim=-1)\n"
                "%5 f32[2,4,10,16] = aten.matmul.default(self=%4, other=%v)\noutput %5\n",
       "MatMul Binary Softmax MatMul", 2 * 4 * 100 * 32},
      {"a class token is expanded where it is joined, a mask not where it is added",
       kTokens + "parameter %t f32[1,1,12]\nbuffer %m f32[1,1,12]\n"
                 "%1 f32[2,1,12]{0,12,1} = aten.expand.default(self=%t, size=[2, -1, -1])\n"
                 "%2 f32[2,6,12] = aten.cat.default(tensors=[%1, %x], dim=1)\n"
                 "%3 f32[2,6,12]{0,0,1} = aten.expand.default(self=%m, size=[2, 6, 12])\n"
                 "%4 f32[2,6,12] = aten.add.Tensor(self=%2, other=%3)\noutput %4\n",
       "Gather Concat Binary", 0},
      {"parts are views",
       kTokens + "%1 f32[2,5,4]{60,12,1}, %2 f32[2,5,8]{60,12,1} = aten.split_with_sizes.default("
                 "self=%x, split_sizes=[4, 8], dim=-1)\n"
                 "%3 f32[2,4]{60,12} = aten.select.int(self=%1, dim=1, index=0)\noutput %3\n",
       "Split Slice", 0},
      {"embedding, positions made anew, reductions",
       "input %x i64[2,5]\nparameter %w f32[100,12]\nparameter %p f32[8,12]\n"
       "%1 f32[2,5,12] = aten.embedding.default(weight=%w, indices=%x)\n"
       "%2 i64[5] = aten.arange.default(end=5)\n"
       "%3 f32[5,12] = aten.embedding.default(weight=%p, indices=%2)\n"
       "%4 f32[2,5,12] = aten.add.Tensor(self=%1, other=%3)\n"
       "%5 f32[2,12] = aten.mean.dim(self=%4, dim=[1])\noutput %5\n",
       "Embedding Activation Embedding Binary Reduce", 0},
      {"an LSTM of two layers",
       "input %x f32[5,2,8]\nparameter %a f32[64,8]\nparameter %b f32[64,16]\nparameter %c "
       "f32[64]\n"
       "parameter %d f32[64,16]\nconstant %h f32[2,2,16]\n"
       "%y f32[5,2,16], %hn f32[2,2,16], %cn f32[2,2,16] = aten.lstm.default(input=%x, hx=[%h, "
       "%h], "
       "params=[%a, %b, %c, %c, %d, %b, %c, %c], has_biases=true, num_layers=2, dropout=0.0, "
       "train=true, bidirectional=false, batch_first=false)\noutput %y\n",
       "Recurrent", 5 * 2 * 64 * (8 + 16 + 16 + 16)},
      {"resize, pad, stack, gather by indices",
       kImage + "constant %i i64[3]\n"
                "%1 f32[2,6,16,16] = aten.upsample_nearest2d.vec(input=%x, output_size=none, "
                "scale_factors=[2.0, 2.0])\n"
                "%2 f32[2,6,16,18] = aten.constant_pad_nd.default(self=%1, pad=[1, 1])\n"
                "%3 f32[3,6,16,18] = aten.index.Tensor(self=%2, indices=[%i])\n"
                "%4 f32[2,3,6,16,18] = aten.stack.default(tensors=[%3, %3])\noutput %4\n",
       "Resize Pad Gather Reshape Reshape Concat", 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const AtenNetwork network = read(row.lines);
    CHECK(kinds(network.graph) == row.kinds);
    CHECK(network.graph.forward_macs() == row.macs);
    CHECK(network.warnings.empty());
  }
}

TEST_CASE("an operand whose heads lie among its tokens is copied once for each GEMM") {
  const AtenNetwork network = read(
      "input %x f32[2,10,64]\n"
      "%1 f32[2,10,4,16] = aten.view.default(self=%x, size=[2, 10, 4, 16])\n"
      "%2 f32[2,4,10,16]{640,16,64,1} = aten.transpose.int(self=%1, dim0=1, dim1=2)\n"
      "%3 f32[2,4,16,10]{640,16,1,64} = aten.transpose.int(self=%2, dim0=2, dim1=3)\n"
      "%4 f32[2,4,10,10] = aten.matmul.default(self=%2, other=%3)\noutput %4\n");
  CHECK(kinds(network.graph) == "Reshape Reshape Slice Reshape Slice MatMul");
}

TEST_CASE("dropout works in training alone, attention in steps where there is no kernel") {
  const std::string lines = kTokens +
                            "%1 f32[2,5,12] = aten.dropout.default(input=%x, p=0.1, train=true)\n"
                            "%2 f32[2,5,12] = aten.gelu.default(self=%1)\noutput %2\n";
  CHECK(kinds(read(lines).graph) == "Activation");
  CHECK(kinds(read(lines, {.training = true}).graph) == "Dropout Activation");
  const std::string attention =
      kHeads +
      "%y f32[2,4,10,16] = aten.scaled_dot_product_attention.default(query=%q, key=%k, "
      "value=%v, is_causal=true)\noutput %y\n";
  CHECK(kinds(read(attention, {.attention = AttentionKernels::Steps}).graph) ==
        "MatMul Binary Binary Softmax MatMul");
}

TEST_CASE("sizes that views were written with follow the inputs") {
  const std::string lines =
      "input %x i64[2,5]\nparameter %w f32[100,64]\n"
      "%1 f32[2,5,64] = aten.embedding.default(weight=%w, indices=%x)\n"
      "%2 f32[2,5,4,16] = aten.view.default(self=%1, size=[2, 5, 4, 16])\n"
      "%3 f32[2,4,5,16]{320,16,64,1} = aten.transpose.int(self=%2, dim0=1, dim1=2)\n"
      "%4 f32[2,4,5,16] = aten.clone.default(self=%3, memory_format=contiguous_format)\n"
      "%5 f32[8,5,16] = aten.view.default(self=%4, size=[8, 5, 16])\n"
      "%6 f32[8,16,5]{80,1,16} = aten.transpose.int(self=%5, dim0=1, dim1=2)\n"
      "%7 f32[8,5,5] = aten.bmm.default(self=%5, mat2=%6)\noutput %7\n";
  CHECK(output_shape(read(lines).graph) == "8x5x5");
  CHECK(output_shape(read(lines, {.batch = 6}).graph) == "24x5x5");
  CHECK(output_shape(read(lines, {.batch = 6, .seq_len = 7}).graph) == "24x7x7");
  CHECK(read(lines, {.batch = 6}).graph.forward_macs() == 24 * 25 * 16);
}

TEST_CASE("an operator that nobody knows is bounded and named") {
  const AtenNetwork network = read(kTokens +
                                   "%1 f32[2,5,12] = mine.magic.default(self=%x)\n"
                                   "%2 f32[2,5,12] = mine.magic.default(self=%1)\noutput %2\n");
  CHECK(kinds(network.graph) == "Unknown Unknown");
  REQUIRE(network.warnings.size() == 1);
  CHECK(network.warnings[0] ==
        "operator mine.magic (2x) has no cost model: bounded by the bytes it moves");
}

TEST_CASE("a loss that the pass computes is the training step's, on its logits") {
  const AtenNetwork network = read(
      "input %x f32[4,8]\ninput %t i64[4]\nparameter %w f32[10,8]\n"
      "%1 f32[4,10] = aten.linear.default(input=%x, weight=%w)\n"
      "%2 f32[] = aten.cross_entropy_loss.default(self=%1, target=%t)\noutput %2\n",
      {.training = true});
  CHECK(kinds(network.graph) == "Linear");
  CHECK(output_shape(network.graph) == "4x10");
  // Where more is made of it, it is computed.
  const AtenNetwork scaled = read(
      "input %x f32[4,8]\ninput %t i64[4]\nparameter %w f32[10,8]\n"
      "%1 f32[4,10] = aten.linear.default(input=%x, weight=%w)\n"
      "%2 f32[] = aten.cross_entropy_loss.default(self=%1, target=%t)\n"
      "%3 f32[] = aten.mul.Tensor(self=%2, other=0.5)\noutput %3\n",
      {.training = true});
  CHECK(kinds(scaled.graph) == "Linear Softmax Reduce Binary");
  CHECK(make_training_graph(scaled.graph, {}).ops().size() > scaled.graph.ops().size());
}

TEST_CASE("casts to 32 bits stay in a network of 16, and leave nothing in one of 32") {
  const auto lines = [](const char* type) {
    const std::string t = type;
    return "input %x " + t + "[4,8]\nparameter %w " + t + "[8,8]\n%1 " + t +
           "[4,8] = aten.linear.default(input=%x, weight=%w)\n"
           "%2 f64[4,8] = aten._to_copy.default(self=%1, dtype=f64)\n%3 " +
           t + "[4,8] = aten._to_copy.default(self=%2, dtype=" + t + ")\noutput %3\n";
  };
  CHECK(kinds(read(lines("f32")).graph) == "Linear");
  CHECK(kinds(read(lines("bf16")).graph) == "Linear Cast Cast");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
