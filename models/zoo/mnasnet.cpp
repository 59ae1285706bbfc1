#include <algorithm>
#include <string>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Width in hundredths of MNASNet-B1's.
struct MnasNetLayout {
  int width;
};

/// `channels` times the width, to the nearest multiple of 8 that is not a tenth smaller.
std::int64_t wider(std::int64_t channels, int width) {
  const double wanted = static_cast<double>(channels) * width / 100;
  const auto nearest = std::max<std::int64_t>(8, static_cast<std::int64_t>(wanted + 4) / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * wanted ? nearest + 8 : nearest;
}

// torchvision/models/mnasnet.py (0.4 and later), after Tan et al., arXiv 1807.11626, figure 7 (B1).
NetworkGraph mnasnet(const BuildOptions& options, const MnasNetLayout& layout) {
  struct Row {
    int kernel, stride, expansion, channels, repeats;
  };
  constexpr Row kRows[] = {{3, 2, 3, 24, 3}, {5, 2, 3, 40, 3},  {5, 2, 6, 80, 3},
                           {3, 1, 6, 96, 2}, {5, 2, 6, 192, 4}, {3, 1, 6, 320, 1}};
  GraphBuilder b("mnasnet", options.batch);
  b.graph().reserve(480, 170);
  const auto linear_conv = [&](const std::string& name, TensorId x, std::int64_t channels) {
    x = b.conv_layer(name + ".conv", x, channels, Window::square(1), false);
    return b.batch_norm_layer(name + ".bn", x);
  };
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  const std::int64_t stem = wider(32, layout.width);
  x = conv_bn_relu(b, "stem", x, stem, Window::square(3, 2, 1));
  x = conv_bn_relu(b, "stem.depthwise", x, stem, Window::square(3, 1, 1), stem);
  x = linear_conv("stem.project", x, wider(16, layout.width));
  int stage = 0;
  for (const Row& row : kRows) {
    for (int i = 0; i < row.repeats; ++i) {
      const std::string name = "stack" + std::to_string(stage) + "." + std::to_string(i);
      const std::int64_t in = b.shape(x)[1], wide = in * row.expansion;
      const std::int64_t channels = wider(row.channels, layout.width);
      const Window window = Window::square(row.kernel, i == 0 ? row.stride : 1, row.kernel / 2);
      TensorId y = conv_bn_relu(b, name + ".expand", x, wide, Window::square(1));
      y = conv_bn_relu(b, name + ".depthwise", y, wide, window, wide);
      y = linear_conv(name + ".project", y, channels);
      x = in == channels && window.stride_h == 1 ? b.add(name + ".add", y, x) : y;
    }
    ++stage;
  }
  x = conv_bn_relu(b, "last", x, 1280, Window::square(1));
  x = b.flatten("flatten", b.global_avg_pool("avgpool", x));
  if (options.training) x = b.dropout("classifier.0", x, true);
  b.graph().outputs = {b.linear_layer("classifier.1", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> mnasnet_networks() {
  return {
      {.name = "mnasnet0_5",
       .title = "MNASNet-B1, width 0.5",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(2'218'512),
       .macs = torchvision_gmacs(0.10),
       .image_size = 224,
       .build = build<mnasnet, MnasNetLayout{50}>},
      {.name = "mnasnet0_75",
       .title = "MNASNet-B1, width 0.75",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(3'170'208),
       .macs = torchvision_gmacs(0.21),
       .image_size = 224,
       .build = build<mnasnet, MnasNetLayout{75}>},
      {.name = "mnasnet1_0",
       .title = "MNASNet-B1",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(4'383'312),
       .macs = torchvision_gmacs(0.31),
       .image_size = 224,
       .build = build<mnasnet, MnasNetLayout{100}>},
      {.name = "mnasnet1_3",
       .title = "MNASNet-B1, width 1.3",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(6'282'256),
       .macs = torchvision_gmacs(0.53),
       .image_size = 224,
       .build = build<mnasnet, MnasNetLayout{130}>},
  };
}

}  // namespace tracecast::zoo_builders
