#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/onnx_bytes.hpp"

namespace tracecast::test::onnx {
namespace {

/// One op from `image` (2x4x8x8) to `out`.
std::string single(const Message& op, const std::vector<Message>& weights = {}) {
  Model model;
  model.inputs = {value_info("image", {2, 4, 8, 8})};
  model.outputs = {value_info("out", {1})};
  model.weights = weights;
  model.nodes = {op};
  return model.bytes();
}

std::string with_function() {
  Model model = small_network();
  model.nodes[1] = node("f", {"conv"}, {"relu"}, {}, "local");
  model.functions = {function("f", {"x"}, {"y"}, {node("Relu", {"x"}, {"y"})})};
  return model.bytes();
}

/// Small networks, so that a fuzzer tries thousands a second where real ones allow a hundred.
std::vector<std::string> seeds() {
  const Dims two = {2, 2};
  return {
      small_network().bytes(),
      with_function(),
      single(node("ConvTranspose", {"image", "filter"}, {"out"}, {attribute("strides", two)}),
             {weight("filter", {4, 2, 3, 3})}),
      single(node("MaxPool", {"image"}, {"out"},
                  {attribute("kernel_shape", two), attribute("ceil_mode", 1)})),
      single(node("AveragePool", {"image"}, {"out"},
                  {attribute("kernel_shape", two), attribute_text("auto_pad", "SAME_UPPER")})),
      single(node("BatchNormalization", {"image", "s", "b", "m", "v"}, {"out"}),
             {weight("s", {4}), weight("b", {4}), weight("m", {4}), weight("v", {4})}),
      single(node("Transpose", {"image"}, {"out"}, {attribute("perm", Dims{0, 2, 3, 1})})),
      single(node("Concat", {"image", "image"}, {"out"}, {attribute("axis", 1)})),
      single(node("Reshape", {"image", "shape"}, {"out"}), {constant("shape", {0, -1})}),
      single(node("Split", {"image", "parts"}, {"out", "rest"}, {attribute("axis", 1)}),
             {constant("parts", {1, 3})}),
      single(node("Slice", {"image", "from", "to", "axes"}, {"out"}),
             {constant("from", {1}), constant("to", {3}), constant("axes", {2})}),
      single(node("Pad", {"image", "pads"}, {"out"}), {constant("pads", {0, 0, 1, 1, 0, 0, 1, 1})}),
      single(node("Gather", {"image", "which"}, {"out"}, {attribute("axis", 1)}),
             {constant("which", {0, 2})}),
      single(node("Expand", {"image", "shape"}, {"out"}), {constant("shape", {3, 2, 4, 8, 8})}),
      single(node("Tile", {"image", "times"}, {"out"}), {constant("times", {1, 1, 2, 2})}),
      single(node("ReduceMean", {"image"}, {"out"},
                  {attribute("axes", Dims{2, 3}), attribute("keepdims", 0)})),
      single(node("Resize", {"image", "", "", "sizes"}, {"out"}),
             {constant("sizes", {2, 4, 16, 16})}),
      single(node("Unsqueeze", {"image", "axes"}, {"out"}), {constant("axes", {0, 3})}),
      single(node("MatMul", {"image", "image"}, {"out"})),
      single(node("Einsum", {"image", "image"}, {"out"},
                  {attribute_text("equation", "bchw,bdhw->bcd")})),
      single(node("Softmax", {"image"}, {"out"}, {attribute("axis", -1)})),
      single(node("LayerNormalization", {"image", "s"}, {"out"}), {weight("s", {8})}),
      single(node("LRN", {"image"}, {"out"}, {attribute("size", 5)})),
      single(node("Shape", {"image"}, {"out"})),
      single(node("OneHotter", {"image"}, {"out"}, {}, "elsewhere")),
      single(node("If", {"image"}, {"out"},
                  {attribute_graph("then_branch", small_network().graph())})),
  };
}

}  // namespace
}  // namespace tracecast::test::onnx

/// onnx_seeds FOLDER: writes the seeds of onnx_fuzzer there.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: onnx_seeds FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  int index = 0;
  for (const std::string& seed : tracecast::test::onnx::seeds()) {
    tracecast::write_file(folder / ("seed_" + std::to_string(index++)), seed);
  }
  return 0;
}
