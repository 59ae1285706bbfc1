#include <string>

#include "models/ops.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

TensorId conv_bn_relu6(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t channels,
                       const Window& window, std::int64_t groups = 1) {
  x = b.conv_layer(name + ".0", x, channels, window, false, groups);
  x = b.batch_norm_layer(name + ".1", x);
  return b.activation(name + ".2", x, "relu6", true);
}

// torchvision/models/mobilenetv2.py, after Sandler et al., arXiv 1801.04381, table 2.
NetworkGraph mobilenet_v2(const BuildOptions& options) {
  struct Row {
    int expansion, channels, repeats, stride;
  };
  constexpr Row kRows[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                           {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  GraphBuilder b("mobilenet_v2", options.batch);
  b.graph().reserve(480, 170);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = conv_bn_relu6(b, "features.0", x, 32, Window::square(3, 2, 1));
  int index = 1;
  for (const Row& row : kRows) {
    for (int i = 0; i < row.repeats; ++i, ++index) {
      const std::string name = "features." + std::to_string(index);
      const std::int64_t in = b.shape(x)[1], wide = in * row.expansion;
      const int stride = i == 0 ? row.stride : 1;
      TensorId y = x;
      if (row.expansion != 1) y = conv_bn_relu6(b, name + ".expand", y, wide, Window::square(1));
      y = conv_bn_relu6(b, name + ".depthwise", y, wide, Window::square(3, stride, 1), wide);
      y = b.conv_layer(name + ".project", y, row.channels, Window::square(1), false);
      y = b.batch_norm_layer(name + ".project_bn", y);
      x = stride == 1 && in == row.channels ? b.add(name + ".add", x, y) : y;
    }
  }
  x = conv_bn_relu6(b, "features.18", x, 1280, Window::square(1));
  x = b.global_avg_pool("avgpool", x);
  x = b.flatten("flatten", x);
  if (options.training) x = b.dropout("classifier.0", x);
  x = b.linear_layer("classifier.1", x, *options.classes, true);
  b.graph().outputs = {x};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> mobilenet_v2_networks() {
  return {
      {.name = "mobilenet_v2",
       .title = "MobileNet-v2",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(3'504'872),
       .macs = torchvision_gmacs(0.30),
       .image_size = 224,
       .build = mobilenet_v2},
  };
}

}  // namespace tracecast::zoo_builders
