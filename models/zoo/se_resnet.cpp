#include <string>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// `blocks[i]` bottlenecks in stage i, whose 3x3 has `groups` groups of `group_width` channels in
/// the first stage.
struct SeResNetLayout {
  int blocks[4];
  std::int64_t groups = 1, group_width = 64;
};

struct SeResNet {
  GraphBuilder& b;
  const SeResNetLayout& layout;

  TensorId conv_bn(const std::string& name, TensorId x, std::int64_t channels, const Window& window,
                   std::int64_t groups = 1) const {
    x = b.conv_layer(name + ".conv", x, channels, window, false, groups);
    return b.batch_norm_layer(name + ".bn", x);
  }
  TensorId relu(const std::string& name, TensorId x) const {
    return b.activation(name, x, "relu", true);
  }
  /// Channels weighted by a small network of their means, a sixteenth as wide.
  TensorId squeeze_excite(const std::string& name, TensorId x) const {
    const std::int64_t channels = b.shape(x)[1];
    TensorId scale = b.global_avg_pool(name + ".pool", x);
    scale = b.conv_layer(name + ".fc1", scale, channels / 16, Window::square(1), true);
    scale =
        b.conv_layer(name + ".fc2", relu(name + ".relu", scale), channels, Window::square(1), true);
    return b.mul(name + ".scale", x, b.activation(name + ".sigmoid", scale, "sigmoid"));
  }
  TensorId block(const std::string& name, TensorId x, std::int64_t planes,
                 std::int64_t stride) const {
    const std::int64_t width = planes * layout.group_width / 64 * layout.groups, out = 4 * planes;
    TensorId y = relu(name + ".relu1", conv_bn(name + ".1", x, width, Window::square(1)));
    y = conv_bn(name + ".2", y, width, Window::square(3, stride, 1), layout.groups);
    y = conv_bn(name + ".3", relu(name + ".relu2", y), out, Window::square(1));
    y = squeeze_excite(name + ".se", y);
    if (b.shape(x)[1] != out) x = conv_bn(name + ".downsample", x, out, Window::square(1, stride));
    return relu(name + ".relu3", b.add(name + ".add", y, x, true));
  }
};

// Hu et al., arXiv 1709.01507, on ResNet v1.5 and ResNeXt, as in NVIDIA's DeepLearningExamples and
// timm (seresnet50, seresnext50_32x4d, seresnext101_32x4d).
NetworkGraph se_resnet(const BuildOptions& options, const SeResNetLayout& layout) {
  GraphBuilder b("se_resnet", options.batch);
  const SeResNet net{b, layout};
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = net.relu("relu", net.conv_bn("stem", x, 64, Window::square(7, 2, 3)));
  x = b.max_pool("maxpool", x, Window::square(3, 2, 1));
  for (int stage = 0; stage < 4; ++stage) {
    for (int i = 0; i < layout.blocks[stage]; ++i) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
      x = net.block(name, x, std::int64_t{64} << stage, stage > 0 && i == 0 ? 2 : 1);
    }
  }
  x = b.flatten("flatten", b.global_avg_pool("avgpool", x));
  b.graph().outputs = {b.linear_layer("fc", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> se_resnet_networks() {
  return {
      {.name = "se_resnet50",
       .title = "SE-ResNet-50",
       .source = "Hu et al., arXiv 1709.01507; timm 0.9, seresnet50",
       .parameters = rounded(28.09e6, 0.01e6, "timm 0.9, results of seresnet50"),
       .image_size = 224,
       .build = build<se_resnet, SeResNetLayout{.blocks = {3, 4, 6, 3}}>},
      {.name = "se_resnext50_32x4d",
       .aliases = {"se_resnext50"},
       .title = "SE-ResNeXt-50 32x4d",
       .source = "Hu et al., arXiv 1709.01507; timm 0.9, seresnext50_32x4d",
       .parameters = rounded(27.56e6, 0.01e6, "timm 0.9, results of seresnext50_32x4d"),
       .image_size = 224,
       .build = build<se_resnet,
                      SeResNetLayout{.blocks = {3, 4, 6, 3}, .groups = 32, .group_width = 4}>},
      {.name = "se_resnext101_32x4d",
       .title = "SE-ResNeXt-101 32x4d",
       .source = "Hu et al., arXiv 1709.01507; NVIDIA DeepLearningExamples",
       .parameters = rounded(48.96e6, 0.01e6, "timm 0.9, results of seresnext101_32x4d"),
       .image_size = 224,
       .build = build<se_resnet,
                      SeResNetLayout{.blocks = {3, 4, 23, 3}, .groups = 32, .group_width = 4}>},
  };
}

}  // namespace tracecast::zoo_builders
