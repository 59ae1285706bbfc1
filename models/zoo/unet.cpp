#include <string>
#include <vector>

#include "models/ops.hpp"
#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

using Convolve = TensorId(GraphBuilder& b, const std::string& name, TensorId x,
                          std::int64_t channels);

TensorId padded_convolutions(GraphBuilder& b, const std::string& name, TensorId x,
                             std::int64_t channels) {
  x = conv_bn_relu(b, name + ".0", x, channels, Window::square(3, 1, 1));
  return conv_bn_relu(b, name + ".1", x, channels, Window::square(3, 1, 1));
}

TensorId valid_convolutions(GraphBuilder& b, const std::string& name, TensorId x,
                            std::int64_t channels) {
  for (const char* part : {".0", ".1"}) {
    x = b.conv_layer(name + part, x, channels, Window::square(3), true);
    x = b.activation(name + part + ".relu", x, "relu", true);
  }
  return x;
}

/// Four halvings and back, 64 channels at first. `as_published`: what is skipped to is cut from the
/// middle, images grow through an activation, and in training the narrowest one is dropped from.
NetworkGraph u_shape(GraphBuilder b, const BuildOptions& options, std::int64_t planes,
                     Convolve* convolve, bool as_published) {
  TensorId x = b.input("images", {options.batch, planes, *options.image_size, *options.image_size});
  std::vector<TensorId> skips;
  std::int64_t channels = 64;
  x = convolve(b, "inc", x, channels);
  for (int level = 1; level <= 4; ++level) {
    const std::string name = "down" + std::to_string(level);
    skips.push_back(x);
    channels *= 2;
    x = b.max_pool(name + ".pool", x, Window::square(2, 2));
    x = convolve(b, name, x, channels);
  }
  if (as_published && options.training) x = b.dropout("bottleneck.dropout", x);
  for (int level = 1; level <= 4; ++level) {
    const std::string name = "up" + std::to_string(level);
    channels /= 2;
    const TensorId weight = b.weight(name + ".up.weight", {2 * channels, channels, 2, 2});
    const TensorId bias = b.weight(name + ".up.bias", {channels});
    x = b.conv_transpose(name + ".up", x, weight, bias, Window::square(2, 2));
    TensorId skip = skips.back();
    skips.pop_back();
    if (as_published) {
      x = b.activation(name + ".up.relu", x, "relu", true);
      skip = b.slice(name + ".crop", skip, b.shape(x));
    }
    const TensorId halves[] = {skip, x};
    x = convolve(b, name, b.concat(name + ".cat", halves, 1), channels);
  }
  b.graph().outputs = {b.conv_layer("outc", x, *options.classes, Window::square(1), true)};
  return std::move(b).take();
}

// Ronneberger et al., arXiv 1505.04597, as github.com/milesial/Pytorch-UNet has it: padded, with
// batch norm.
NetworkGraph unet(const BuildOptions& options) {
  return u_shape(GraphBuilder("unet", options.batch), options, 3, padded_convolutions, false);
}

// The paper's own, without padding. Ops as in NVIDIA's DeepLearningExamples
// (TensorFlow/Segmentation/UNet_Medical, model/layers.py).
NetworkGraph unet_medical(const BuildOptions& options) {
  return u_shape(GraphBuilder("unet_medical", options.batch), options, 1, valid_convolutions, true);
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
