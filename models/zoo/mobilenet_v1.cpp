#include <string>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kHoward = "Howard et al., arXiv 1704.04861, table 1";

// A depthwise 3x3 and a 1x1 convolution in turn, batch norm and ReLU after each.
NetworkGraph mobilenet_v1(const BuildOptions& options) {
  struct Row {
    std::int64_t channels, stride;
  };
  constexpr Row kRows[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                           {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
  GraphBuilder b("mobilenet_v1", options.batch);
  b.graph().reserve(240, 100);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = conv_bn_relu(b, "conv1", x, 32, Window::square(3, 2, 1));
  int index = 1;
  for (const Row& row : kRows) {
    const std::string name = "block" + std::to_string(index++);
    const std::int64_t in = b.shape(x)[1];
    x = conv_bn_relu(b, name + ".depthwise", x, in, Window::square(3, row.stride, 1), in);
    x = conv_bn_relu(b, name + ".pointwise", x, row.channels, Window::square(1));
  }
  x = b.flatten("flatten", b.global_avg_pool("avgpool", x));
  b.graph().outputs = {b.linear_layer("fc", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> mobilenet_v1_networks() {
  return {{.name = "mobilenet_v1",
           .title = "MobileNet-v1, width 1.0",
           .source = kHoward,
           .parameters = rounded(4.2e6, 0.1e6, "Howard et al., arXiv 1704.04861, table 8"),
           .macs = rounded(569e6, 1e6, "Howard et al., arXiv 1704.04861, table 8"),
           .image_size = 224,
           .build = mobilenet_v1}};
}

}  // namespace tracecast::zoo_builders
