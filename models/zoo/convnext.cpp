#include <array>
#include <string>

#include "models/ops.hpp"
#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

struct ConvNextLayout {
  std::array<int, 4> widths, depths;
};

constexpr std::array<std::int64_t, 4> kChannelsLast = {0, 2, 3, 1};

/// torch.permute moves nothing: from the first norm on images lie channels last, and every order of
/// axes is a view of that.
TensorId permuted(GraphBuilder& b, const std::string& name, TensorId x, bool to_last) {
  const Shape s = b.shape(x);
  return b.append({.name = name, .kind = OpKind::Reshape, .inputs = {x}},
                  to_last ? Shape{s[0], s[2], s[3], s[1]} : Shape{s[0], s[3], s[1], s[2]});
}

/// Over the channels of an image; `turns`: they lie first still, so the norm copies them.
TensorId image_norm(GraphBuilder& b, const std::string& name, TensorId x, bool turns = false) {
  x = turns ? b.transpose(name + ".last", x, kChannelsLast) : permuted(b, name + ".last", x, true);
  x = b.layer_norm_layer(name, x);
  return permuted(b, name + ".first", x, false);
}

/// `drops`: whole samples.
TensorId block(GraphBuilder& b, const std::string& name, TensorId x, bool drops) {
  const std::int64_t width = b.shape(x)[1];
  TensorId y = b.conv_layer(name + ".0", x, width, Window::square(7, 1, 3), true, width);
  b.lay_channels_last(y);
  y = permuted(b, name + ".1", y, true);
  y = b.layer_norm_layer(name + ".2", y);
  y = b.linear_layer(name + ".3", y, 4 * width, true);
  y = b.activation(name + ".4", y, "gelu");
  y = b.linear_layer(name + ".5", y, width, true);
  y = permuted(b, name + ".6", y, false);
  y = b.mul(name + ".scaled", y, b.weight(name + ".layer_scale", {width, 1, 1}));
  if (drops) y = stochastic_depth(b, name, y);
  return b.add(name + ".add", y, x);
}

// torchvision/models/convnext.py, after Liu et al., arXiv 2201.03545.
NetworkGraph convnext(const BuildOptions& options, const ConvNextLayout& layout) {
  GraphBuilder b("convnext", options.batch);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  for (std::size_t stage = 0; stage < layout.widths.size(); ++stage) {
    const std::string name = "features." + std::to_string(2 * stage);
    // The stem divides the image into patches of 4 x 4, each later stage into 2 x 2.
    if (stage > 0) x = image_norm(b, name + ".0", x);
    const Window patch = stage == 0 ? Window::square(4, 4) : Window::square(2, 2);
    x = b.conv_layer(name + ".1", x, layout.widths[stage], patch, true);
    if (stage > 0) b.lay_channels_last(x);
    if (stage == 0) x = image_norm(b, name + ".2", x, true);
    for (int i = 0; i < layout.depths[stage]; ++i) {
      x = block(b, "features." + std::to_string(2 * stage + 1) + "." + std::to_string(i), x,
                options.training && (stage > 0 || i > 0));
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
