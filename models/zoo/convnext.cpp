#include <array>
#include <string>

#include "models/ops.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

struct ConvNextLayout {
  std::array<int, 4> widths, depths;
};

constexpr std::array<std::int64_t, 4> kChannelsLast = {0, 2, 3, 1}, kChannelsFirst = {0, 3, 1, 2};

/// Over the channels of an image.
TensorId image_norm(GraphBuilder& b, const std::string& name, TensorId x) {
  x = b.transpose(name + ".last", x, kChannelsLast);
  x = b.layer_norm_layer(name, x);
  return b.transpose(name + ".first", x, kChannelsFirst);
}

TensorId block(GraphBuilder& b, const std::string& name, TensorId x) {
  const std::int64_t width = b.shape(x)[1];
  TensorId y = b.conv_layer(name + ".0", x, width, Window::square(7, 1, 3), true, width);
  y = b.transpose(name + ".1", y, kChannelsLast);
  y = b.layer_norm_layer(name + ".2", y);
  y = b.linear_layer(name + ".3", y, 4 * width, true);
  y = b.activation(name + ".4", y, "gelu");
  y = b.linear_layer(name + ".5", y, width, true);
  y = b.transpose(name + ".6", y, kChannelsFirst);
  y = b.mul(name + ".scaled", y, b.weight(name + ".layer_scale", {width, 1, 1}));
  return b.add(name + ".add", y, x);
}

// torchvision/models/convnext.py, after Liu et al., arXiv 2201.03545. Left out: the stochastic depth of training.
NetworkGraph convnext(const BuildOptions& options, const ConvNextLayout& layout) {
  GraphBuilder b("convnext", options.batch);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  for (std::size_t stage = 0; stage < layout.widths.size(); ++stage) {
    const std::string name = "features." + std::to_string(2 * stage);
    // The stem divides the image into patches of 4 x 4, each later stage into 2 x 2.
    if (stage > 0) x = image_norm(b, name + ".0", x);
    const Window patch = stage == 0 ? Window::square(4, 4) : Window::square(2, 2);
    x = b.conv_layer(name + ".1", x, layout.widths[stage], patch, true);
    if (stage == 0) x = image_norm(b, name + ".2", x);
    for (int i = 0; i < layout.depths[stage]; ++i) {
      x = block(b, "features." + std::to_string(2 * stage + 1) + "." + std::to_string(i), x);
    }
  }
  x = b.global_avg_pool("avgpool", x);
  x = image_norm(b, "classifier.0", x);
  x = b.flatten("classifier.1", x);
  b.graph().outputs = {b.linear_layer("classifier.2", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> convnext_networks() {
  return {
      torchvision_entry<convnext, ConvNextLayout{{96, 192, 384, 768}, {3, 3, 9, 3}}>(
          "convnext_tiny", "ConvNeXt tiny", 28'589'128, 4.46),
      torchvision_entry<convnext, ConvNextLayout{{96, 192, 384, 768}, {3, 3, 27, 3}}>(
          "convnext_small", "ConvNeXt small", 50'223'688, 8.68),
      torchvision_entry<convnext, ConvNextLayout{{128, 256, 512, 1024}, {3, 3, 27, 3}}>(
          "convnext_base", "ConvNeXt base", 88'591'464, 15.36),
      torchvision_entry<convnext, ConvNextLayout{{192, 384, 768, 1536}, {3, 3, 27, 3}}>(
          "convnext_large", "ConvNeXt large", 197'767'336, 34.36),
  };
}

}  // namespace tracecast::zoo_builders
