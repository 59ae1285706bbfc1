#include <algorithm>
#include <cmath>
#include <string>

#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Factors by which a network of the family is wider and deeper than B0, in hundredths.
struct EfficientNetLayout {
  int width = 100, depth = 100;
};

/// `channels` times the width, to a multiple of 8 that is not a tenth smaller (`_make_divisible`).
std::int64_t widened(std::int64_t channels, int width) {
  const double wanted = static_cast<double>(channels) * width / 100;
  const auto rounded = std::max<std::int64_t>(8, static_cast<std::int64_t>(wanted + 4) / 8 * 8);
  return static_cast<double>(rounded) < 0.9 * wanted ? rounded + 8 : rounded;
}

struct EfficientNet {
  GraphBuilder& b;
  bool training;

  TensorId conv_bn(const std::string& name, TensorId x, std::int64_t channels, const Window& window,
                   std::int64_t groups = 1) const {
    x = b.conv_layer(name + ".0", x, channels, window, false, groups);
    return b.batch_norm_layer(name + ".1", x);
  }
  /// Not in place: SiLU needs its input later, which PyTorch would copy first.
  TensorId conv_bn_silu(const std::string& name, TensorId x, std::int64_t channels,
                        const Window& window, std::int64_t groups = 1) const {
    return b.activation(name + ".2", conv_bn(name, x, channels, window, groups), "silu");
  }
  /// Channels weighted by a small network of their means.
  TensorId squeeze_excite(const std::string& name, TensorId x, std::int64_t squeezed) const {
    const Window one = Window::square(1);
    TensorId scale = b.global_avg_pool(name + ".avgpool", x);
    scale = b.conv_layer(name + ".fc1", scale, squeezed, one, true);
    scale = b.activation(name + ".silu", scale, "silu");
    scale = b.conv_layer(name + ".fc2", scale, b.shape(x)[1], one, true);
    return b.mul(name + ".scale", b.activation(name + ".sigmoid", scale, "sigmoid"), x);
  }
  /// Expand, depthwise, squeeze and excite, project; whole samples are dropped when training.
  TensorId block(const std::string& name, TensorId x, std::int64_t expansion, std::int64_t channels,
                 std::int64_t kernel, std::int64_t stride) const {
    const std::int64_t in = b.shape(x)[1], wide = widened(in * expansion, 100);
    TensorId y = x;
    if (wide != in) y = conv_bn_silu(name + ".expand", y, wide, Window::square(1));
    y = conv_bn_silu(name + ".depthwise", y, wide, Window::square(kernel, stride, kernel / 2),
                     wide);
    y = squeeze_excite(name + ".se", y, std::max<std::int64_t>(1, in / 4));
    y = conv_bn(name + ".project", y, channels, Window::square(1));
    if (stride != 1 || in != channels) return y;
    if (training) {
      const TensorId kept = b.buffer(name + ".kept", {b.shape(y)[0], 1, 1, 1});
      y = b.mul(name + ".stochastic_depth", y, kept);
    }
    return b.add(name + ".add", y, x, true);
  }
};

// torchvision/models/efficientnet.py, after Tan and Le, arXiv 1905.11946, table 1.
NetworkGraph efficientnet(const BuildOptions& options, const EfficientNetLayout& layout) {
  struct Row {
    int expansion, kernel, stride, channels, repeats;
  };
  constexpr Row kRows[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                           {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
  GraphBuilder b("efficientnet", options.batch);
  b.graph().reserve(2400, 1000);
  const EfficientNet net{b, options.training};
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = net.conv_bn_silu("features.0", x, widened(32, layout.width), Window::square(3, 2, 1));
  int stage = 1;
  for (const Row& row : kRows) {
    const int repeats = (row.repeats * layout.depth + 99) / 100;
    for (int i = 0; i < repeats; ++i) {
      const std::string name = "features." + std::to_string(stage) + "." + std::to_string(i);
      x = net.block(name, x, row.expansion, widened(row.channels, layout.width), row.kernel,
                    i == 0 ? row.stride : 1);
    }
    ++stage;
  }
  x = net.conv_bn_silu("features.8", x, 4 * b.shape(x)[1], Window::square(1));
  x = b.flatten("flatten", b.global_avg_pool("avgpool", x));
  if (options.training) x = b.dropout("classifier.0", x, true);
  b.graph().outputs = {b.linear_layer("classifier.1", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> efficientnet_networks() {
  return {
      {.name = "efficientnet_b0",
       .title = "EfficientNet-B0",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(5'288'548),
       .macs = torchvision_gmacs(0.39),
       .image_size = 224,
       .build = build<efficientnet, EfficientNetLayout{100, 100}>},
      {.name = "efficientnet_b1",
       .title = "EfficientNet-B1",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(7'794'184),
       .macs = torchvision_gmacs(0.69),
       .image_size = 240,
       .build = build<efficientnet, EfficientNetLayout{100, 110}>},
      {.name = "efficientnet_b2",
       .title = "EfficientNet-B2",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(9'109'994),
       .macs = torchvision_gmacs(1.09),
       .image_size = 288,
       .build = build<efficientnet, EfficientNetLayout{110, 120}>},
      {.name = "efficientnet_b3",
       .title = "EfficientNet-B3",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(12'233'232),
       .macs = torchvision_gmacs(1.83),
       .image_size = 300,
       .build = build<efficientnet, EfficientNetLayout{120, 140}>},
      {.name = "efficientnet_b4",
       .title = "EfficientNet-B4",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(19'341'616),
       .macs = torchvision_gmacs(4.39),
       .image_size = 380,
       .build = build<efficientnet, EfficientNetLayout{140, 180}>},
      {.name = "efficientnet_b5",
       .title = "EfficientNet-B5",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(30'389'784),
       .macs = torchvision_gmacs(10.27),
       .image_size = 456,
       .build = build<efficientnet, EfficientNetLayout{160, 220}>},
      {.name = "efficientnet_b6",
       .title = "EfficientNet-B6",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(43'040'704),
       .macs = torchvision_gmacs(19.07),
       .image_size = 528,
       .build = build<efficientnet, EfficientNetLayout{180, 260}>},
      {.name = "efficientnet_b7",
       .title = "EfficientNet-B7",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(66'347'960),
       .macs = torchvision_gmacs(37.75),
       .image_size = 600,
       .build = build<efficientnet, EfficientNetLayout{200, 310}>},
  };
}

}  // namespace tracecast::zoo_builders
