#include <string>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::int64_t kGroups = 4;

/// Grouped 1x1, channel shuffle, depthwise 3x3, grouped 1x1. With a stride of 2 the pooled input is
/// concatenated, else the input is added. The paper does not group the network's first 1x1
/// (section 3.2); the exported file does.
TensorId unit(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t channels,
              bool halves) {
  const Shape in = b.shape(x);
  const std::int64_t width = halves ? channels - in[1] : channels;
  TensorId y = conv_bn_relu(b, name + ".1", x, width, Window::square(1), kGroups);
  const std::int64_t swap_groups[] = {0, 2, 1, 3, 4};
  y = b.reshape(name + ".groups", y, {in[0], kGroups, width / kGroups, in[2], in[3]});
  y = b.transpose(name + ".shuffle", y, swap_groups);
  y = b.reshape(name + ".channels", y, {in[0], width, in[2], in[3]});
  y = b.conv_layer(name + ".2.conv", y, width, Window::square(3, halves ? 2 : 1, 1), false, width);
  y = b.batch_norm_layer(name + ".2.bn", y);
  y = b.conv_layer(name + ".3.conv", y, width, Window::square(1), false, kGroups);
  y = b.batch_norm_layer(name + ".3.bn", y);
  if (halves) {
    const TensorId parts[] = {y, b.avg_pool(name + ".pool", x, Window::square(3, 2, 1))};
    y = b.concat(name + ".cat", parts, 1);
  } else {
    y = b.add(name + ".add", y, x);
  }
  return b.activation(name + ".relu", y, "relu");
}

// Zhang et al., arXiv 1707.01083, table 1 with four groups, as exported to the ONNX model zoo.
NetworkGraph shufflenet(const BuildOptions& options) {
  constexpr int kUnits[] = {4, 8, 4};
  GraphBuilder b("shufflenet", options.batch);
  b.graph().reserve(520, 240);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = conv_bn_relu(b, "stem", x, 24, Window::square(3, 2, 1), 1, true);
  x = b.max_pool("stem.pool", x, Window::square(3, 2, 1));
  for (int stage = 0; stage < 3; ++stage) {
    const std::int64_t channels = std::int64_t{136} << stage;
    for (int i = 0; i < kUnits[stage]; ++i) {
      const std::string name = "stage" + std::to_string(stage + 2) + "." + std::to_string(i);
      x = unit(b, name, x, channels, i == 0);
    }
  }
  x = b.global_avg_pool("avgpool", x);
  x = b.flatten("flatten", x);
  b.graph().outputs = {b.linear_layer("fc", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> shufflenet_networks() {
  return {
      {.name = "shufflenet",
       .title = "ShuffleNet, 4 groups",
       .source = "Zhang et al., arXiv 1707.01083, table 1, as exported to the ONNX model zoo",
       .image_size = 224,
       .build = shufflenet},
  };
}

}  // namespace tracecast::zoo_builders
