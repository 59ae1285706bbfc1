#include <string>
#include <vector>

#include "models/ops.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// DenseNet: `layers[i]` layers in block i, each adding `growth` channels.
struct DenseNetLayout {
  int layers[4];
  std::int64_t growth = 32;
  std::int64_t first_channels = 64;
};

/// Batch norm, ReLU in place, convolution without bias: `index` is the suffix torchvision gives the
/// three.
TensorId norm_relu_conv(GraphBuilder& b, const std::string& name, const std::string& index,
                        TensorId x, std::int64_t channels, const Window& window) {
  x = b.batch_norm_layer(name + ".norm" + index, x);
  x = b.activation(name + ".relu" + index, x, "relu", true);
  return b.conv_layer(name + ".conv" + index, x, channels, window, false);
}

// torchvision/models/densenet.py, after Huang et al., arXiv 1608.06993. Every layer concatenates
// all earlier features anew, as torch.cat does, the first layer's single input included.
NetworkGraph densenet(const BuildOptions& options, const DenseNetLayout& layout) {
  GraphBuilder b("densenet", options.batch);
  b.graph().reserve(2600, 900);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = b.conv_layer("features.conv0", x, layout.first_channels, Window::square(7, 2, 3), false);
  x = b.batch_norm_layer("features.norm0", x);
  x = b.activation("features.relu0", x, "relu", true);
  x = b.max_pool("features.pool0", x, Window::square(3, 2, 1));
  for (int block = 0; block < 4; ++block) {
    const std::string block_name = "features.denseblock" + std::to_string(block + 1);
    std::vector<TensorId> features = {x};
    for (int layer = 0; layer < layout.layers[block]; ++layer) {
      const std::string name = block_name + ".denselayer" + std::to_string(layer + 1);
      TensorId y = b.concat(name + ".cat", features, 1);
      y = norm_relu_conv(b, name, "1", y, 4 * layout.growth, Window::square(1));
      y = norm_relu_conv(b, name, "2", y, layout.growth, Window::square(3, 1, 1));
      features.push_back(y);
    }
    x = b.concat(block_name + ".cat", features, 1);
    if (block < 3) {
      const std::string name = "features.transition" + std::to_string(block + 1);
      x = norm_relu_conv(b, name, "", x, b.shape(x)[1] / 2, Window::square(1));
      x = b.avg_pool(name + ".pool", x, Window::square(2, 2));
    }
  }
  x = b.batch_norm_layer("features.norm5", x);
  x = b.activation("relu", x, "relu", true);
  x = b.global_avg_pool("avgpool", x);
  x = b.flatten("flatten", x);
  x = b.linear_layer("classifier", x, *options.classes, true);
  b.graph().outputs = {x};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> densenet_networks() {
  return {
      {.name = "densenet121",
       .title = "DenseNet-121",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(7'978'856),
       .macs = torchvision_gmacs(2.83),
       .image_size = 224,
       .build = build<densenet, DenseNetLayout{.layers = {6, 12, 24, 16}}>},
      {.name = "densenet161",
       .title = "DenseNet-161",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(28'681'000),
       .macs = torchvision_gmacs(7.73),
       .image_size = 224,
       .build =
           build<densenet,
                 DenseNetLayout{.layers = {6, 12, 36, 24}, .growth = 48, .first_channels = 96}>},
      {.name = "densenet169",
       .title = "DenseNet-169",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(14'149'480),
       .macs = torchvision_gmacs(3.36),
       .image_size = 224,
       .build = build<densenet, DenseNetLayout{.layers = {6, 12, 32, 32}}>},
      {.name = "densenet201",
       .title = "DenseNet-201",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(20'013'928),
       .macs = torchvision_gmacs(4.29),
       .image_size = 224,
       .build = build<densenet, DenseNetLayout{.layers = {6, 12, 48, 32}}>},
  };
}

}  // namespace tracecast::zoo_builders
