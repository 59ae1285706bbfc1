#include <string>
#include <vector>

#include "models/ops.hpp"
#include "models/zoo/builders.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Batch norm, ReLU in place, convolution without bias: `index` is the suffix torchvision gives the three.
TensorId norm_relu_conv(GraphBuilder& b, const std::string& name, const std::string& index,
                        TensorId x, std::int64_t channels, const Window& window) {
  x = b.batch_norm_layer(name + ".norm" + index, x);
  x = b.activation(name + ".relu" + index, x, "relu", true);
  return b.conv_layer(name + ".conv" + index, x, channels, window, false);
}

}  // namespace

// torchvision/models/densenet.py, after Huang et al., arXiv 1608.06993. Every layer concatenates all earlier
// features anew, as torch.cat does, the first layer's single input included.
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

}  // namespace tracecast::zoo_builders
