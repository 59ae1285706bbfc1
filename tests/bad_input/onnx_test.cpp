#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "sim/base/file.hpp"
#include "tests/bad_input/program.hpp"
#include "tests/support/onnx_bytes.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::test {
namespace {

using namespace onnx;

constexpr std::int64_t kHuge = std::int64_t{1} << 40;
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

/// The small network with one thing changed.
std::string with(const std::function<void(Model&)>& change) {
  Model model = small_network();
  change(model);
  return model.bytes();
}

/// A network of one op from `image` to `logits`.
std::string single(const Dims& image, const Message& op, const std::vector<Message>& weights = {}) {
  Model model;
  model.inputs = {value_info("image", image)};
  model.outputs = {value_info("logits", {1})};
  model.weights = weights;
  model.nodes = {op};
  return model.bytes();
}

/// Graphs in attributes of nodes of graphs, `depth` deep. Each level is written in front of what it
/// holds, as a message in front of which its length stands wants it.
std::string nested(int depth) {
  std::string backwards = small_network().graph().bytes();
  std::reverse(backwards.begin(), backwards.end());
  const auto put_before = [&](const std::string& bytes) {
    backwards.append(bytes.rbegin(), bytes.rend());
  };
  const auto hold = [&](int field) {  // what is there so far becomes a message in that field
    const auto size = static_cast<std::int64_t>(backwards.size());
    put_before(Message().number(field, size).bytes());
    backwards.back() = static_cast<char>(field << 3 | 2);
  };
  const std::string attribute = Message().text(1, "then_branch").number(20, 5).bytes();
  const std::string head = Message().text(1, "image").text(2, "logits").text(4, "If").bytes();
  for (int i = 0; i < depth; ++i) {
    hold(6);  // AttributeProto.g
    put_before(attribute);
    hold(5);  // NodeProto.attribute
    put_before(head);
    hold(1);  // GraphProto.node
  }
  hold(7);  // ModelProto.graph
  std::reverse(backwards.begin(), backwards.end());
  return Message().number(1, 7).bytes() + backwards +
         Message().message(8, Message().number(2, 13)).bytes();
}

/// Functions that each call the next one twice: 2^depth nodes when expanded.
std::string doubling_functions(int depth) {
  return with([depth](Model& model) {
    model.nodes[1] = node("f0", {"conv"}, {"relu"}, {}, "local");
    for (int i = 0; i < depth; ++i) {
      const std::string next = "f" + std::to_string(i + 1);
      model.functions.push_back(
          function("f" + std::to_string(i), {"x"}, {"y"},
                   {node(next, {"x"}, {"t"}, {}, "local"), node(next, {"t"}, {"y"}, {}, "local")}));
    }
    model.functions.push_back(
        function("f" + std::to_string(depth), {"x"}, {"y"}, {node("Relu", {"x"}, {"y"})}));
  });
}

struct Row {
  const char* what;
  std::string bytes;
};

void check_all_refused(const std::vector<Row>& rows) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "network.onnx";
  for (const Row& row : rows) {
    CAPTURE(row.what);
    write_file(path, row.bytes);
    check_refuses({"predict", path, "--gpu", "v100_sxm2_16gb", "--batch", "2"});
  }
}

TEST_SUITE_BEGIN("bad_input/onnx");

TEST_CASE("the network that the broken ones start from is fine") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "network.onnx";
  write_file(path, small_network().bytes());
  check_reports({"predict", path, "--gpu", "v100_sxm2_16gb", "--batch", "2"});
}

TEST_CASE("files that are no ONNX file are refused") {
  const std::string good = small_network().bytes();
  check_all_refused({
      {"no bytes", ""},
      {"text", "Dear Sir or Madam,\nplease find the network attached.\n"},
      {"a gzip header", "\x1f\x8b\x08"},
      {"zeros", std::string(4096, '\0')},
      {"truncated inside the graph", good.substr(0, good.size() / 2)},
      {"truncated inside the last field", good.substr(0, good.size() - 1)},
      {"a string longer than any file",
       Message().number(1, 7).raw("\x12\xff\xff\xff\xff\xff\xff\xff\x7f").bytes()},
      {"a number of eleven bytes", Message().raw("\x08").raw(std::string(11, '\xff')).bytes()},
      {"field number 0", Message().number(1, 7).raw(std::string("\x00\x01", 2)).bytes()},
      {"a group that never ends", Message().number(1, 7).raw("\x0b").bytes()},
      {"a graph that is a number",
       Message().number(1, 7).number(7, 5).message(8, Message().number(2, 13)).bytes()},
      {"no graph", Message().number(1, 7).message(8, Message().number(2, 13)).bytes()},
      {"no operator set", Message().number(1, 7).message(7, small_network().graph()).bytes()},
      {"graphs in graphs, 10,000 deep", nested(10'000)},
  });
}

TEST_CASE("versions from before or after our time are refused") {
  check_all_refused({
      {"IR version 2", with([](Model& model) { model.ir_version = 2; })},
      {"IR version -1", with([](Model& model) { model.ir_version = -1; })},
      {"operator set 6", with([](Model& model) { model.opset = 6; })},
      {"operator set -1", with([](Model& model) { model.opset = -1; })},
  });
}

TEST_CASE("graphs that are no networks are refused") {
  check_all_refused({
      {"no nodes", with([](Model& model) { model.nodes.clear(); })},
      {"a node that needs itself", with([](Model& model) {
         model.nodes[1] = node("Add", {"conv", "relu"}, {"relu"});
       })},
      {"two nodes that need each other", with([](Model& model) {
         model.nodes[1] = node("Add", {"conv", "later"}, {"relu"});
         model.nodes.push_back(node("Relu", {"relu"}, {"later"}));
       })},
      {"a tensor from nowhere",
       with([](Model& model) { model.nodes[1] = node("Relu", {"nowhere"}, {"relu"}); })},
      {"two nodes make one tensor",
       with([](Model& model) { model.nodes.push_back(node("Relu", {"conv"}, {"relu"})); })},
      {"two weights of one name", with([](Model& model) {
         model.weights.push_back(weight("filter", {8, 3, 3, 3}));
       })},
      {"a node that makes a weight",
       with([](Model& model) { model.nodes.push_back(node("Relu", {"conv"}, {"filter"})); })},
      {"two inputs of one name", with([](Model& model) {
         model.inputs.push_back(value_info("image", {1, 3, 32, 32}));
       })},
      {"an output that nothing makes", with([](Model& model) {
         model.outputs = {value_info("absent", {1, 10})};
       })},
      {"a function that calls itself", with([](Model& model) {
         model.nodes[1] = node("f", {"conv"}, {"relu"}, {}, "local");
         model.functions = {function("f", {"x"}, {"y"}, {node("f", {"x"}, {"y"}, {}, "local")})};
       })},
      {"functions that call each other", with([](Model& model) {
         model.nodes[1] = node("f", {"conv"}, {"relu"}, {}, "local");
         model.functions = {function("f", {"x"}, {"y"}, {node("g", {"x"}, {"y"}, {}, "local")}),
                            function("g", {"x"}, {"y"}, {node("f", {"x"}, {"y"}, {}, "local")})};
       })},
      {"functions that double 40 times", doubling_functions(40)},
      {"two functions of one name", with([](Model& model) {
         model.nodes[1] = node("f", {"conv"}, {"relu"}, {}, "local");
         const Message f = function("f", {"x"}, {"y"}, {node("Relu", {"x"}, {"y"})});
         model.functions = {f, f};
       })},
  });
}

TEST_CASE("shapes that cannot be are refused") {
  const auto image = [](const Dims& dims) {
    return with([&](Model& model) { model.inputs = {value_info("image", dims)}; });
  };
  const auto filter = [](const Dims& dims) {
    return with([&](Model& model) { model.weights[0] = weight("filter", dims); });
  };
  check_all_refused({
      {"an image of rank 2", image({1, 3})},
      {"a negative height", image({1, 3, -32, 32})},
      {"no channels", image({1, 0, 32, 32})},
      {"no height", image({1, 3, 0, 32})},
      {"an image of 2^80 elements", image({1, 3, kHuge, kHuge})},
      {"an image as large as numbers go", image({1, 3, kLargest, kLargest})},
      {"an image of 2^62 rows", image({1, 3, std::int64_t{1} << 62, 32})},
      {"filters of 5 channels on an image of 3", filter({8, 5, 3, 3})},
      {"filters of rank 1", filter({8})},
      {"negative filters", filter({-8, 3, 3, 3})},
      {"2^80 filters", filter({kHuge, kHuge, 3, 3})},
      {"a filter larger than the padded image", filter({8, 3, 99, 99})},
      {"a matrix of other width than its input", with([](Model& model) {
         model.weights[1] = weight("matrix", {10, 9});
       })},
      {"a weight of an element type that does not exist", with([](Model& model) {
         model.weights[0] = weight("filter", {8, 3, 3, 3}, 9999);
       })},
      {"weights of 2^63 bytes", with([](Model& model) {
         model.weights[1] = weight("matrix", {std::int64_t{1} << 58, 8});
       })},
  });
}

TEST_CASE("attributes that cannot be are refused") {
  const auto conv = [](const std::vector<Message>& attributes) {
    return with([&](Model& model) {
      model.nodes[0] = node("Conv", {"image", "filter"}, {"conv"}, attributes);
    });
  };
  const Dims image = {1, 4, 8, 8};
  check_all_refused({
      {"stride 0", conv({attribute("strides", Dims{0, 1})})},
      {"negative stride", conv({attribute("strides", Dims{-1, -1})})},
      {"a stride beyond 32 bits", conv({attribute("strides", Dims{kHuge, kHuge})})},
      {"dilation 0", conv({attribute("dilations", Dims{0, 0})})},
      {"pads that eat the image", conv({attribute("pads", Dims{-20, -20, -20, -20})})},
      {"pads beyond 64 bits together", conv({attribute("pads", Dims{kLargest, 1, kLargest, 1})})},
      {"one pad of four", conv({attribute("pads", Dims{1})})},
      {"no groups", conv({attribute("group", 0)})},
      {"groups that do not divide the channels", conv({attribute("group", 2)})},
      {"strides that are text", conv({attribute_text("strides", "two")})},
      {"an unknown padding rule", conv({attribute_text("auto_pad", "SAME_SIDEWAYS")})},
      {"a kernel shape that contradicts the filter", conv({attribute("kernel_shape", Dims{5, 5})})},
      {"a convolution without a filter",
       with([](Model& model) { model.nodes[0] = node("Conv", {"image"}, {"conv"}); })},
      {"pooling without a kernel", single(image, node("MaxPool", {"image"}, {"logits"}))},
      {"a pooling kernel of 0", single(image, node("MaxPool", {"image"}, {"logits"},
                                                   {attribute("kernel_shape", Dims{0, 0})}))},
      {"a permutation that is none", single(image, node("Transpose", {"image"}, {"logits"},
                                                        {attribute("perm", Dims{0, 0, 1, 9})}))},
      {"an axis beyond the rank",
       single(image, node("Concat", {"image", "image"}, {"logits"}, {attribute("axis", 7)}))},
      {"a reshape to another number of elements",
       single(image, node("Reshape", {"image", "shape"}, {"logits"}), {constant("shape", {1, 7})})},
      {"a reshape with two unknowns", single(image, node("Reshape", {"image", "shape"}, {"logits"}),
                                             {constant("shape", {-1, -1})})},
      {"a reshape whose shape is huge and absent",
       single(image, node("Reshape", {"image", "shape"}, {"logits"}),
              {weight("shape", {kHuge}, kInt64)})},
      {"shapes that do not broadcast",
       single(image, node("Add", {"image", "bias"}, {"logits"}), {weight("bias", {5})})},
      {"parts that do not add up",
       single(image, node("Split", {"image", "parts"}, {"logits", "rest"}, {attribute("axis", 1)}),
              {constant("parts", {3, 3})})},
  });
}

TEST_CASE("a hostile name is quoted in one line") {
  check_all_refused({
      {"line breaks and escapes in a name", with([](Model& model) {
         model.nodes[1] = node("Relu", {"no\nwhere\x1b[2J\r\n"}, {"relu"});
       })},
      {"a name of a megabyte", with([](Model& model) {
         model.nodes[1] = node("Relu", {std::string(1 << 20, 'x')}, {"relu"});
       })},
  });
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
