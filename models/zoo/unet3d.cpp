#include <array>
#include <string>
#include <vector>

#include "models/ops.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::array<std::int64_t, 5> kChannels{32, 64, 128, 256, 320};
constexpr int kLevels = 5;

Window cube(std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  Window window = Window::square(kernel, stride, pad);
  window.kernel_d = kernel;
  window.stride_d = stride;
  window.pads.front = window.pads.back = pad;
  return window;
}

TensorId convolve(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t channels,
                  std::int64_t stride) {
  x = b.conv_layer(name, x, channels, cube(3, stride, 1), false);
  const TensorId scale = b.weight(name + ".norm.weight", {channels});
  const TensorId bias = b.weight(name + ".norm.bias", {channels});
  x = b.instance_norm(name + ".norm", x, scale, bias);
  return b.activation(name + ".relu", x, "relu", true);
}

TensorId two_convolutions(GraphBuilder& b, const std::string& name, TensorId x,
                          std::int64_t channels, std::int64_t stride) {
  x = convolve(b, name + ".conv1", x, channels, stride);
  return convolve(b, name + ".conv2", x, channels, 1);
}

// MLPerf Training v1.0 to v3.1, image_segmentation/pytorch (model/unet3d.py, model/layers.py):
// instance norm with weights, five halvings of a cube of `image_size` voxels, three classes.
NetworkGraph unet3d(const BuildOptions& options) {
  GraphBuilder b("unet3d", options.batch);
  const std::int64_t side = *options.image_size;
  TensorId x = b.input("volume", {options.batch, 1, side, side, side});
  x = two_convolutions(b, "input_block", x, kChannels.front(), 1);
  std::vector<TensorId> skips;
  std::vector<std::int64_t> widths;
  for (int level = 1; level <= kLevels; ++level) {
    skips.push_back(x);
    widths.push_back(b.shape(x)[1]);
    const std::size_t of = level < kLevels ? static_cast<std::size_t>(level) : kChannels.size() - 1;
    x = two_convolutions(b, "down" + std::to_string(level), x, kChannels[of], 2);
  }
  for (int level = kLevels; level >= 1; --level) {
    const std::string name = "up" + std::to_string(level);
    const std::int64_t channels = widths.back();
    const TensorId weight = b.weight(name + ".up.weight", {b.shape(x)[1], channels, 2, 2, 2});
    const TensorId bias = b.weight(name + ".up.bias", {channels});
    x = b.conv_transpose(name + ".up", x, weight, bias, cube(2, 2, 0));
    const TensorId halves[] = {x, skips.back()};
    x = two_convolutions(b, name, b.concat(name + ".cat", halves, 1), channels, 1);
    skips.pop_back();
    widths.pop_back();
  }
  b.graph().outputs = {b.conv_layer("output", x, *options.classes, cube(1, 1, 0), true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> unet3d_networks() {
  return {{.name = "unet3d",
           .aliases = {"3d_unet"},
           .title = "3D U-Net of MLPerf, kidney tumours; sizes are sides of cubes",
           .source = "MLPerf training v1.0, image_segmentation/pytorch",
           .image_size = 128,
           .classes = 3,
           .build = unet3d}};
}

}  // namespace tracecast::zoo_builders
