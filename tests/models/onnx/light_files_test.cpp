#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "models/onnx/import.hpp"
#include "models/training.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/support/data.hpp"

namespace tracecast {
namespace {

/// Elements of the weights of convolutions and linear layers.
double layer_weights(const NetworkGraph& graph) {
  double count = 0;
  for (const Op& op : graph.ops()) {
    if (op.kind == OpKind::Conv || op.kind == OpKind::Linear) {
      count += static_cast<double>(element_count(graph.tensor(op.inputs[1]).shape));
    }
  }
  return count;
}

std::size_t count_kind(const NetworkGraph& graph, OpKind kind) {
  std::size_t count = 0;
  for (const Op& op : graph.ops()) count += op.kind == kind;
  return count;
}

struct Row {
  std::string name;
  std::size_t convolutions, gemms;
  double gmac;     ///< Conv and Gemm, batch 1
  double weights;  ///< of Conv and Gemm, millions
};

// From the README beside the files, counted there with libonnx 1.12.
const Row kRows[] = {
    {"bvlc_alexnet", 5, 3, 0.655, 60.95}, {"densenet121", 121, 0, 2.834, 7.89},
    {"inception_v1", 57, 1, 1.432, 6.99}, {"inception_v2", 69, 1, 2.019, 11.17},
    {"resnet50", 53, 1, 4.089, 25.50},    {"shufflenet", 49, 1, 0.125, 1.37},
    {"squeezenet", 26, 0, 0.349, 1.23},   {"vgg19", 16, 3, 19.632, 143.65},
    {"zfnet512", 5, 3, 1.482, 87.24},
};

TEST_SUITE_BEGIN("models/onnx/light_files");

TEST_CASE("the nine light files have the published layers, multiply-adds and weights") {
  const auto folder = test::find_data("onnx");
  if (!folder) return;
  for (const Row& row : kRows) {
    CAPTURE(row.name);
    const std::filesystem::path path = *folder / ("light_" + std::string(row.name) + ".onnx");
    const std::string bytes = read_file(path, 1 << 24);
    const OnnxNetwork one = import_onnx(bytes, path.string(), {});
    CHECK(one.warnings.empty());
    CHECK(one.graph.name == "light_" + std::string(row.name));
    CHECK(one.graph.outputs.size() == 1);
    CHECK(count_kind(one.graph, OpKind::Conv) == row.convolutions);
    CHECK(count_kind(one.graph, OpKind::Linear) == row.gemms);
    CHECK(count_kind(one.graph, OpKind::Unknown) == 0);
    CHECK(one.graph.forward_macs() / 1e9 == doctest::Approx(row.gmac).epsilon(0.005));
    CHECK(layer_weights(one.graph) / 1e6 == doctest::Approx(row.weights).epsilon(0.005));

    const OnnxNetwork many = import_onnx(bytes, path.string(), {.batch = 32});
    CHECK(many.warnings.empty());
    CHECK(many.graph.batch == 32);
    CHECK(many.graph.forward_macs() == 32 * one.graph.forward_macs());
    CHECK(many.graph.parameter_count() == one.graph.parameter_count());
    CHECK(many.graph.ops().size() == one.graph.ops().size());
    CHECK(many.graph.tensor(many.graph.outputs[0]).shape[0] == 32);
  }
}

TEST_CASE("a light file has the parameters of the network in the zoo's papers") {
  const auto folder = test::find_data("onnx");
  if (!folder) return;
  // He et al. 2016 in torchvision's count: 25,557,032 with batch norm and biases.
  const std::string bytes = read_file(*folder / "light_resnet50.onnx", 1 << 24);
  CHECK(import_onnx(bytes, "resnet50.onnx", {}).graph.parameter_count() == 25'557'032);
}

TEST_CASE("every light file trains: dropout works and the last softmax belongs to the loss") {
  const auto folder = test::find_data("onnx");
  if (!folder) return;
  for (const Row& row : kRows) {
    CAPTURE(row.name);
    const std::filesystem::path path = *folder / ("light_" + std::string(row.name) + ".onnx");
    const std::string bytes = read_file(path, 1 << 24);
    const OnnxNetwork inference = import_onnx(bytes, path.string(), {.batch = 4});
    const OnnxNetwork training = import_onnx(bytes, path.string(), {.batch = 4, .training = true});
    CHECK(training.graph.forward_macs() == inference.graph.forward_macs());
    CHECK(count_kind(inference.graph, OpKind::Dropout) == 0);
    CHECK(count_kind(training.graph, OpKind::Softmax) == 0);
  }
}

TEST_CASE("an image size that the classifier cannot take is refused with the sizes that fit") {
  const auto folder = test::find_data("onnx");
  if (!folder) return;
  // VGG's last feature map is 512 x 7 x 7 at 224 and 512 x 14 x 14 at 448.
  const std::string bytes = read_file(*folder / "light_vgg19.onnx", 1 << 24);
  try {
    (void)import_onnx(bytes, "vgg19.onnx", {.batch = 2, .image_size = 448});
    FAIL("448 x 448 does not fit VGG-19's classifier");
  } catch (const InputError& error) {
    const std::string line = error.what();
    CAPTURE(line);
    CHECK(line.find("vgg19.onnx, Gemm node") != std::string::npos);
    CHECK(line.find("100352 features") != std::string::npos);
    CHECK(line.find("25088 features") != std::string::npos);
    CHECK(line.find("1x25088") != std::string::npos);
  }
}

TEST_CASE("a network that ends in global pooling takes any image size") {
  const auto folder = test::find_data("onnx");
  if (!folder) return;
  // SqueezeNet is convolutions throughout: at twice the sides about four times the multiply-adds
  // (windows without pads lose a little at the rim).
  const std::string bytes = read_file(*folder / "light_squeezenet.onnx", 1 << 24);
  const double small = import_onnx(bytes, "squeezenet.onnx", {}).graph.forward_macs();
  const double large =
      import_onnx(bytes, "squeezenet.onnx", {.image_size = 448}).graph.forward_macs();
  CHECK(large / small > 4.0);
  CHECK(large / small < 4.4);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
