#include <array>
#include <string>

#include "models/ops.hpp"
#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Widths, depths and channels per group of the four stages; Y has squeeze-and-excitation, X has
/// none.
struct RegNetLayout {
  std::array<int, 4> widths, depths, groups;
  bool excites = true;
};

TensorId conv_bn(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t channels,
                 const Window& window, std::int64_t groups = 1) {
  x = b.conv_layer(name + ".0", x, channels, window, false, groups);
  return b.batch_norm_layer(name + ".1", x);
}

/// The mean of each channel through two GEMMs, as a factor on the channel.
TensorId squeeze_excitation(GraphBuilder& b, const std::string& name, TensorId x,
                            std::int64_t squeezed) {
  const std::int64_t channels = b.shape(x)[1];
  TensorId s = b.global_avg_pool(name + ".avgpool", x);
  s = b.conv_layer(name + ".fc1", s, squeezed, Window::square(1), true);
  s = b.activation(name + ".relu", s, "relu");
  s = b.conv_layer(name + ".fc2", s, channels, Window::square(1), true);
  s = b.activation(name + ".sigmoid", s, "sigmoid");
  return b.mul(name + ".scale", x, s);
}

// torchvision/models/regnet.py, after Radosavovic et al., arXiv 2003.13678.
NetworkGraph regnet(const BuildOptions& options, const RegNetLayout& layout) {
  GraphBuilder b("regnet", options.batch);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = conv_bn_relu(b, "stem", x, 32, Window::square(3, 2, 1));
  for (std::size_t stage = 0; stage < layout.widths.size(); ++stage) {
    const std::int64_t width = layout.widths[stage];
    for (int i = 0; i < layout.depths[stage]; ++i) {
      const std::string name = "block" + std::to_string(stage + 1) + "-" + std::to_string(i);
      const std::int64_t in = b.shape(x)[1];
      const int stride = i == 0 ? 2 : 1;
      const TensorId skip = in != width || stride > 1
                                ? conv_bn(b, name + ".proj", x, width, Window::square(1, stride))
                                : x;
      TensorId y = conv_bn_relu(b, name + ".f.a", x, width, Window::square(1));
      y = conv_bn_relu(b, name + ".f.b", y, width, Window::square(3, stride, 1),
                       width / layout.groups[stage]);
      // A quarter of the block's input, rounded as Python does (all are whole).
      if (layout.excites) y = squeeze_excitation(b, name + ".f.se", y, (in + 2) / 4);
      y = conv_bn(b, name + ".f.c", y, width, Window::square(1));
      x = b.activation(name + ".relu", b.add(name + ".add", skip, y), "relu", true);
    }
  }
  x = b.global_avg_pool("avgpool", x);
  x = b.flatten("flatten", x);
  b.graph().outputs = {b.linear_layer("fc", x, *options.classes, true)};
  return std::move(b).take();
}

constexpr std::array<int, 4> same(int width) { return {width, width, width, width}; }

}  // namespace

std::vector<ZooEntry> regnet_networks() {
  return {
      torchvision_entry<regnet, RegNetLayout{{32, 64, 160, 400}, {1, 2, 7, 12}, same(16), false}>(
          "regnet_x_400mf", "RegNetX 400 MF", 5'495'976, 0.41),
      torchvision_entry<regnet, RegNetLayout{{64, 128, 288, 672}, {1, 3, 7, 5}, same(16), false}>(
          "regnet_x_800mf", "RegNetX 800 MF", 7'259'656, 0.80),
      torchvision_entry<regnet, RegNetLayout{{72, 168, 408, 912}, {2, 4, 10, 2}, same(24), false}>(
          "regnet_x_1.6gf", "RegNetX 1.6 GF", 9'190'136, 1.60),
      torchvision_entry<regnet, RegNetLayout{{96, 192, 432, 1008}, {2, 6, 15, 2}, same(48), false}>(
          "regnet_x_3.2gf", "RegNetX 3.2 GF", 15'296'552, 3.18),
      torchvision_entry<
          regnet, RegNetLayout{{80, 240, 720, 1920}, {2, 5, 15, 1}, {80, 120, 120, 120}, false}>(
          "regnet_x_8gf", "RegNetX 8 GF", 39'572'648, 7.99),
      torchvision_entry<regnet,
                        RegNetLayout{{256, 512, 896, 2048}, {2, 6, 13, 1}, same(128), false}>(
          "regnet_x_16gf", "RegNetX 16 GF", 54'278'536, 15.94),
      torchvision_entry<regnet,
                        RegNetLayout{{336, 672, 1344, 2520}, {2, 7, 13, 1}, same(168), false}>(
          "regnet_x_32gf", "RegNetX 32 GF", 107'811'560, 31.74),
      torchvision_entry<regnet, RegNetLayout{{48, 104, 208, 440}, {1, 3, 6, 6}, same(8)}>(
          "regnet_y_400mf", "RegNetY 400 MF", 4'344'144, 0.40),
      torchvision_entry<regnet, RegNetLayout{{64, 144, 320, 784}, {1, 3, 8, 2}, same(16)}>(
          "regnet_y_800mf", "RegNetY 800 MF", 6'432'512, 0.83),
      torchvision_entry<regnet, RegNetLayout{{48, 120, 336, 888}, {2, 6, 17, 2}, same(24)}>(
          "regnet_y_1.6gf", "RegNetY 1.6 GF", 11'202'430, 1.61),
      torchvision_entry<regnet, RegNetLayout{{72, 216, 576, 1512}, {2, 5, 13, 1}, same(24)}>(
          "regnet_y_3.2gf", "RegNetY 3.2 GF", 19'436'338, 3.18),
      torchvision_entry<regnet, RegNetLayout{{224, 448, 896, 2016}, {2, 4, 10, 1}, same(56)}>(
          "regnet_y_8gf", "RegNetY 8 GF", 39'381'472, 8.47),
      torchvision_entry<regnet, RegNetLayout{{224, 448, 1232, 3024}, {2, 4, 11, 1}, same(112)}>(
          "regnet_y_16gf", "RegNetY 16 GF", 83'590'140, 15.91),
      torchvision_entry<regnet, RegNetLayout{{232, 696, 1392, 3712}, {2, 5, 12, 1}, same(232)}>(
          "regnet_y_32gf", "RegNetY 32 GF", 145'046'770, 32.28),
  };
}

}  // namespace tracecast::zoo_builders
