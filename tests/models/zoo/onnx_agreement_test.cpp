#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "models/onnx/import.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/file.hpp"
#include "tests/support/data.hpp"

using namespace tracecast;

TEST_SUITE_BEGIN("models/zoo/onnx_agreement");

TEST_CASE("a network of the zoo and its ONNX file agree in multiply-adds and parameters") {
  const auto folder = test::find_data("onnx");
  if (!folder) return;
  struct Row {
    const char* file;
    const char* network;
    std::optional<std::int64_t> image_size;  ///< where the network's usual one is not the file's
  };
  const Row rows[] = {{"bvlc_alexnet", "bvlc_alexnet", 224}, {"densenet121", "densenet121", {}},
                      {"inception_v1", "inception_v1", {}},  {"inception_v2", "inception_v2", {}},
                      {"resnet50", "resnet50", {}},          {"shufflenet", "shufflenet", {}},
                      {"squeezenet", "squeezenet1_1", {}},   {"vgg19", "vgg19", {}},
                      {"zfnet512", "zfnet512", {}}};
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const auto path = *folder / ("light_" + std::string(row.file) + ".onnx");
    const NetworkGraph file =
        import_onnx(read_file(path, 1 << 24), path.string(), {.image_size = row.image_size}).graph;
    const NetworkGraph built = build_network(row.network, {.image_size = row.image_size});
    CHECK(built.forward_macs() == doctest::Approx(file.forward_macs()).epsilon(0.005));
    CHECK(static_cast<double>(built.parameter_count()) ==
          doctest::Approx(static_cast<double>(file.parameter_count())).epsilon(0.005));
  }
}

TEST_SUITE_END();
