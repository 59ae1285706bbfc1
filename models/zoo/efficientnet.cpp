#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Factors by which a network of the first version is wider and deeper than B0, in hundredths.
struct EfficientNetLayout {
  int width = 100, depth = 100;
};

/// A stage: alike blocks, of which the first has the stride.
struct Row {
  std::int64_t expansion, kernel, stride, channels;
  int repeats;
  bool fused = false;
};

/// `channels` times the width, to a multiple of 8 that is not a tenth smaller (`_make_divisible`).
std::int64_t upcast(std::int64_t channels, int width) {
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
  /// Expand, depthwise, squeeze and excite, project.
  TensorId inverted(const std::string& name, TensorId x, const Row& row, std::int64_t wide,
                    const Window& window) const {
    const std::int64_t in = b.shape(x)[1];
    TensorId y = x;
    if (wide != in) y = conv_bn_silu(name + ".expand", y, wide, Window::square(1));
    y = conv_bn_silu(name + ".depthwise", y, wide, window, wide);
    y = squeeze_excite(name + ".se", y, std::max<std::int64_t>(1, in / 4));
    return conv_bn(name + ".project", y, row.channels, Window::square(1));
  }
  /// One convolution expands and looks around; project.
  TensorId fused(const std::string& name, TensorId x, const Row& row, std::int64_t wide,
                 const Window& window) const {
    if (wide == b.shape(x)[1]) return conv_bn_silu(name + ".fused", x, row.channels, window);
    x = conv_bn_silu(name + ".fused", x, wide, window);
    return conv_bn(name + ".project", x, row.channels, Window::square(1));
  }
  /// Round it the shortcut, where shapes agree; whole samples are dropped when training.
  TensorId block(const std::string& name, TensorId x, const Row& row, std::int64_t stride) const {
    const std::int64_t in = b.shape(x)[1], wide = upcast(in * row.expansion, 100);
    const Window window = Window::square(row.kernel, stride, row.kernel / 2);
    const TensorId y =
        row.fused ? fused(name, x, row, wide, window) : inverted(name, x, row, wide, window);
    if (stride != 1 || in != row.channels) return y;
    if (!training) return b.add(name + ".add", y, x, true);
    return b.add(name + ".add", stochastic_depth(b, name, y), x, true);
  }
};

// torchvision/models/efficientnet.py.
NetworkGraph efficientnet(const BuildOptions& options, std::span<const Row> rows, std::int64_t stem,
                          std::int64_t last) {
  GraphBuilder b("efficientnet", options.batch);
  b.graph().reserve(2400, 1000);
  const EfficientNet net{b, options.training};
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = net.conv_bn_silu("features.0", x, stem, Window::square(3, 2, 1));
  int stage = 1;
  for (const Row& row : rows) {
    const std::string name = "features." + std::to_string(stage++) + ".";
    for (int i = 0; i < row.repeats; ++i) {
      x = net.block(name + std::to_string(i), x, row, i == 0 ? row.stride : 1);
    }
  }
  x = net.conv_bn_silu("features." + std::to_string(stage), x, last, Window::square(1));
  x = b.flatten("flatten", b.global_avg_pool("avgpool", x));
  if (options.training) x = b.dropout("classifier.0", x, true);
  b.graph().outputs = {b.linear_layer("classifier.1", x, *options.classes, true)};
  return std::move(b).take();
}

// Tan and Le, arXiv 1905.11946, table 1, scaled.
NetworkGraph version_1(const BuildOptions& options, const EfficientNetLayout& layout) {
  std::array<Row, 7> rows{{{1, 3, 1, 16, 1},
                           {6, 3, 2, 24, 2},
                           {6, 5, 2, 40, 2},
                           {6, 3, 2, 80, 3},
                           {6, 5, 1, 112, 3},
                           {6, 5, 2, 192, 4},
                           {6, 3, 1, 320, 1}}};
  for (Row& row : rows) {
    row.channels = upcast(row.channels, layout.width);
    row.repeats = (row.repeats * layout.depth + 99) / 100;
  }
  return efficientnet(options, rows, upcast(32, layout.width), 4 * rows.back().channels);
}

// Tan and Le, arXiv 2104.00298, table 4 and its larger relatives.
constexpr std::array<Row, 6> kSmall{{{1, 3, 1, 24, 2, true},
                                     {4, 3, 2, 48, 4, true},
                                     {4, 3, 2, 64, 4, true},
                                     {4, 3, 2, 128, 6},
                                     {6, 3, 1, 160, 9},
                                     {6, 3, 2, 256, 15}}};
constexpr std::array<Row, 7> kMedium{{{1, 3, 1, 24, 3, true},
                                      {4, 3, 2, 48, 5, true},
                                      {4, 3, 2, 80, 5, true},
                                      {4, 3, 2, 160, 7},
                                      {6, 3, 1, 176, 14},
                                      {6, 3, 2, 304, 18},
                                      {6, 3, 1, 512, 5}}};
constexpr std::array<Row, 7> kLarge{{{1, 3, 1, 32, 4, true},
                                     {4, 3, 2, 64, 7, true},
                                     {4, 3, 2, 96, 7, true},
                                     {4, 3, 2, 192, 10},
                                     {6, 3, 1, 224, 19},
                                     {6, 3, 2, 384, 25},
                                     {6, 3, 1, 640, 7}}};

template <const auto& rows>
NetworkGraph version_2(const BuildOptions& options) {
  return efficientnet(options, rows, rows.front().channels, 1280);
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
       .build = build<version_1, EfficientNetLayout{100, 100}>},
      {.name = "efficientnet_b1",
       .title = "EfficientNet-B1",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(7'794'184),
       .macs = torchvision_gmacs(0.69),
       .image_size = 240,
       .build = build<version_1, EfficientNetLayout{100, 110}>},
      {.name = "efficientnet_b2",
       .title = "EfficientNet-B2",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(9'109'994),
       .macs = torchvision_gmacs(1.09),
       .image_size = 288,
       .build = build<version_1, EfficientNetLayout{110, 120}>},
      {.name = "efficientnet_b3",
       .title = "EfficientNet-B3",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(12'233'232),
       .macs = torchvision_gmacs(1.83),
       .image_size = 300,
       .build = build<version_1, EfficientNetLayout{120, 140}>},
      {.name = "efficientnet_b4",
       .title = "EfficientNet-B4",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(19'341'616),
       .macs = torchvision_gmacs(4.39),
       .image_size = 380,
       .build = build<version_1, EfficientNetLayout{140, 180}>},
      {.name = "efficientnet_b5",
       .title = "EfficientNet-B5",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(30'389'784),
       .macs = torchvision_gmacs(10.27),
       .image_size = 456,
       .build = build<version_1, EfficientNetLayout{160, 220}>},
      {.name = "efficientnet_b6",
       .title = "EfficientNet-B6",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(43'040'704),
       .macs = torchvision_gmacs(19.07),
       .image_size = 528,
       .build = build<version_1, EfficientNetLayout{180, 260}>},
      {.name = "efficientnet_b7",
       .title = "EfficientNet-B7",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(66'347'960),
       .macs = torchvision_gmacs(37.75),
       .image_size = 600,
       .build = build<version_1, EfficientNetLayout{200, 310}>},
      {.name = "efficientnet_v2_s",
       .title = "EfficientNet-v2 small",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(21'458'488),
       .macs = torchvision_gmacs(8.37),
       .image_size = 384,
       .build = version_2<kSmall>},
      {.name = "efficientnet_v2_m",
       .title = "EfficientNet-v2 medium",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(54'139'356),
       .macs = torchvision_gmacs(24.58),
       .image_size = 480,
       .build = version_2<kMedium>},
      {.name = "efficientnet_v2_l",
       .title = "EfficientNet-v2 large",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(118'515'272),
       .macs = torchvision_gmacs(56.08),
       .image_size = 480,
       .build = version_2<kLarge>},
  };
}

}  // namespace tracecast::zoo_builders
