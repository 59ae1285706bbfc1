#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "models/onnx/import.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/file.hpp"
#include "tests/support/data.hpp"

using namespace tracecast;

namespace {

/// Weights and biases of convolutions and products. Batch norms are left out: Caffe's scale and shift once more in a
/// layer of its own, which is a detail of the export and not of the network.
double layer_parameters(const NetworkGraph& graph) {
  double count = 0;
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::Conv && op.kind != OpKind::Linear) continue;
    for (std::size_t i = 1; i < op.inputs.size(); ++i) {
      count += static_cast<double>(element_count(graph.tensor(op.inputs[i]).shape));
    }
  }
  return count;
}

}  // namespace

TEST_SUITE_BEGIN("models/zoo/onnx_agreement");

TEST_CASE("a network of the zoo and its ONNX file agree in multiply-adds and parameters") {
  const auto folder = test::find_data("onnx");
  if (!folder) return;
  struct Row {
    const char* file;
    const char* network;
    std::optional<std::int64_t> image_size;
  };
  const Row rows[] = {
      {"bvlc_alexnet", "caffenet", 224},
      {"densenet121", "densenet121", {}},
      // Caffe rounds poolings up, the exported file down. From 222 pixels there is nothing to round: 111, 55, 27 and
      // 13 are odd, which a 3x3 window with stride 2 needs.
      {"inception_v1", "googlenet", 222},
      {"inception_v2", "inception_v2", {}},
      {"resnet50", "resnet50", {}},
      {"shufflenet", "shufflenet", {}},
      {"squeezenet", "squeezenet1_1", {}},
      {"vgg19", "vgg19", {}},
      {"zfnet512", "zfnet512", {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const auto path = *folder / ("light_" + std::string(row.file) + ".onnx");
    const NetworkGraph file =
        import_onnx(read_file(path, 1 << 24), path.string(), {.image_size = row.image_size}).graph;
    const NetworkGraph built = build_network(row.network, {.image_size = row.image_size});
    CHECK(built.forward_macs() == doctest::Approx(file.forward_macs()).epsilon(0.005));
    CHECK(layer_parameters(built) == doctest::Approx(layer_parameters(file)).epsilon(0.005));
  }
}

TEST_SUITE_END();
