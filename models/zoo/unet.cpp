#include <string>
#include <vector>

#include "models/ops.hpp"
#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

TensorId two_convolutions(GraphBuilder& b, const std::string& name, TensorId x,
                          std::int64_t channels) {
  x = conv_bn_relu(b, name + ".0", x, channels, Window::square(3, 1, 1));
  return conv_bn_relu(b, name + ".1", x, channels, Window::square(3, 1, 1));
}

// Ronneberger et al., arXiv 1505.04597, as github.com/milesial/Pytorch-UNet has it: padded, with batch norm.
NetworkGraph unet(const BuildOptions& options) {
  GraphBuilder b("unet", options.batch);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  std::vector<TensorId> skips;
  std::int64_t channels = 64;
  x = two_convolutions(b, "inc", x, channels);
  for (int level = 1; level <= 4; ++level) {
    const std::string name = "down" + std::to_string(level);
    skips.push_back(x);
    channels *= 2;
    x = b.max_pool(name + ".pool", x, Window::square(2, 2));
    x = two_convolutions(b, name, x, channels);
  }
  for (int level = 1; level <= 4; ++level) {
    const std::string name = "up" + std::to_string(level);
    channels /= 2;
    const TensorId weight = b.weight(name + ".up.weight", {2 * channels, channels, 2, 2});
    const TensorId bias = b.weight(name + ".up.bias", {channels});
    x = b.conv_transpose(name + ".up", x, weight, bias, Window::square(2, 2));
    const TensorId halves[] = {skips.back(), x};
    skips.pop_back();
    x = two_convolutions(b, name, b.concat(name + ".cat", halves, 1), channels);
  }
  b.graph().outputs = {b.conv_layer("outc", x, *options.classes, Window::square(1), true)};
  return std::move(b).take();
}

TensorId two_valid_convolutions(GraphBuilder& b, const std::string& name, TensorId x,
                                std::int64_t channels) {
  for (const char* part : {".0", ".1"}) {
    x = b.conv_layer(name + part, x, channels, Window::square(3), true);
    x = b.activation(name + part + ".relu", x, "relu", true);
  }
  return x;
}

// The paper's own: convolutions without padding, what is skipped to is cut from the middle. Ops as in NVIDIA's
// DeepLearningExamples (TensorFlow/Segmentation/UNet_Medical, model/layers.py).
NetworkGraph unet_medical(const BuildOptions& options) {
  GraphBuilder b("unet_medical", options.batch);
  TensorId x = b.input("images", {options.batch, 1, *options.image_size, *options.image_size});
  std::vector<TensorId> skips;
  std::int64_t channels = 64;
  x = two_valid_convolutions(b, "input", x, channels);
  for (int level = 1; level <= 4; ++level) {
    const std::string name = "down" + std::to_string(level);
    skips.push_back(x);
    channels *= 2;
    x = b.max_pool(name + ".pool", x, Window::square(2, 2));
    x = two_valid_convolutions(b, name, x, channels);
  }
  if (options.training) x = b.dropout("bottleneck.dropout", x);
  for (int level = 1; level <= 4; ++level) {
    const std::string name = "up" + std::to_string(level);
    channels /= 2;
    const TensorId weight = b.weight(name + ".up.weight", {2 * channels, channels, 2, 2});
    const TensorId bias = b.weight(name + ".up.bias", {channels});
    x = b.conv_transpose(name + ".up", x, weight, bias, Window::square(2, 2));
    x = b.activation(name + ".up.relu", x, "relu", true);
    const TensorId halves[] = {b.slice(name + ".crop", skips.back(), b.shape(x)), x};
    skips.pop_back();
    x = two_valid_convolutions(b, name, b.concat(name + ".cat", halves, 1), channels);
  }
  b.graph().outputs = {b.conv_layer("output", x, *options.classes, Window::square(1), true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> unet_networks() {
  return {{.name = "unet",
           .title = "U-Net, padded, batch norm",
           .source = "github.com/milesial/Pytorch-UNet",
           .image_size = 512,
           .classes = 2,
           .build = unet},
          {.name = "unet_medical",
           .title = "U-Net as published: no padding, no norm",
           .source = "Ronneberger et al., arXiv 1505.04597",
           .image_size = 572,
           .classes = 2,
           .build = unet_medical}};
}

}  // namespace tracecast::zoo_builders
