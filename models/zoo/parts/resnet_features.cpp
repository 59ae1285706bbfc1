#include "models/zoo/parts/resnet_features.hpp"

#include <string>
#include <utility>

namespace tracecast::zoo_builders {
namespace {

struct Stage {
  std::int64_t planes;  ///< channels before expansion
  std::int64_t stride;
  std::int64_t dilation = 1;  ///< of the 3x3
};

/// Adds one residual block. The sum is written over the last batch norm's output and the ReLU over
/// the sum, as torchvision's `out += identity` and inplace ReLU do.
TensorId residual_block(GraphBuilder& b, const std::string& name, TensorId x,
                        const ResNetLayout& layout, const Stage& stage) {
  const auto conv_bn = [&](const std::string& conv, const std::string& bn, TensorId in,
                           std::int64_t channels, const Window& window, std::int64_t groups) {
    return b.batch_norm_layer(name + bn,
                              b.conv_layer(name + conv, in, channels, window, false, groups));
  };
  const std::int64_t out_channels = stage.planes * (layout.bottleneck ? 4 : 1);
  TensorId shortcut = x;
  TensorId y;
  if (layout.bottleneck) {
    const std::int64_t width = stage.planes * layout.group_width / 64 * layout.groups;
    const std::int64_t first = layout.stride_in_first ? stage.stride : 1;
    const std::int64_t second = layout.stride_in_first ? 1 : stage.stride;
    y = conv_bn(".conv1", ".bn1", x, width, Window::square(1, first), 1);
    y = b.activation(name + ".relu1", y, "relu", true);
    y = conv_bn(".conv2", ".bn2", y, width,
                Window::square(3, second, stage.dilation, stage.dilation), layout.groups);
    y = b.activation(name + ".relu2", y, "relu", true);
    y = conv_bn(".conv3", ".bn3", y, out_channels, Window::square(1), 1);
  } else {
    y = conv_bn(".conv1", ".bn1", x, stage.planes, Window::square(3, stage.stride, 1), 1);
    y = b.activation(name + ".relu1", y, "relu", true);
    y = conv_bn(".conv2", ".bn2", y, stage.planes, Window::square(3, 1, 1), 1);
  }
  if (stage.stride != 1 || b.shape(x)[1] != out_channels) {
    shortcut = conv_bn(".downsample.0", ".downsample.1", x, out_channels,
                       Window::square(1, stage.stride), 1);
  }
  y = b.add(name + ".add", y, shortcut, true);
  return b.activation(name + ".relu", y, "relu", true);
}

/// Adds one residual block with the batch norms and ReLUs before the convolutions. The first block
/// of the network has none before it (the stem has just done that); the first of a later stage
/// shares them with its shortcut.
TensorId pre_activation_block(GraphBuilder& b, const std::string& name, TensorId x,
                              const Stage& stage, bool is_first, bool starts_stage) {
  const auto norm_relu = [&](const char* index, TensorId in) {
    in = b.batch_norm_layer(name + ".bn" + index, in);
    return b.activation(name + ".relu" + index, in, "relu", true);
  };
  const std::int64_t out_channels = stage.planes * 4;
  TensorId y = is_first ? x : norm_relu("1", x);
  TensorId shortcut = starts_stage ? y : x;
  if (starts_stage) {
    shortcut = b.conv_layer(name + ".downsample", shortcut, out_channels,
                            Window::square(1, stage.stride), false);
  }
  y = b.conv_layer(name + ".conv1", y, stage.planes, Window::square(1), false);
  y = norm_relu("2", y);
  y = b.conv_layer(name + ".conv2", y, stage.planes, Window::square(3, stage.stride, 1), false);
  y = norm_relu("3", y);
  y = b.conv_layer(name + ".conv3", y, out_channels, Window::square(1), false);
  return b.add(name + ".add", y, shortcut, true);
}

}  // namespace

std::vector<TensorId> resnet_stages(GraphBuilder& b, TensorId x, const ResNetLayout& layout) {
  std::vector<TensorId> stages;
  if (layout.small_images) {
    x = b.conv_layer("conv1", x, 64, Window::square(3, 1, 1), false);
  } else if (layout.deep_stem) {
    for (const auto& [name, channels] : {std::pair("stem.0", 32), std::pair("stem.1", 32)}) {
      const bool is_first = b.shape(x)[1] == 3;
      x = b.conv_layer(name, x, channels, Window::square(3, is_first ? 2 : 1, 1), false);
      x = b.batch_norm_layer(std::string(name) + ".bn", x);
      x = b.activation(std::string(name) + ".relu", x, "relu", true);
    }
    x = b.conv_layer("conv1", x, 64, Window::square(3, 1, 1), false);
  } else {
    x = b.conv_layer("conv1", x, 64, Window::square(7, 2, 3), false);
  }
  x = b.batch_norm_layer("bn1", x);
  x = b.activation("relu", x, "relu", true);
  if (!layout.small_images) {
    x = b.max_pool("maxpool", x, Window::square(3, 2, layout.pools_up ? 0 : 1), layout.pools_up);
  }
  std::int64_t dilation = 1;
  for (int i = 0; i < 4; ++i) {
    const bool keeps_size = layout.dilated && i >= 2;
    for (int j = 0; j < layout.blocks[i]; ++j) {
      if (keeps_size && j == 1) dilation *= layout.strides[i];
      const Stage stage{.planes = std::int64_t{64} << i,
                        .stride = j == 0 && !keeps_size ? layout.strides[i] : 1,
                        .dilation = dilation};
      const std::string name = "layer" + std::to_string(i + 1) + "." + std::to_string(j);
      x = layout.pre_activation ? pre_activation_block(b, name, x, stage, i == 0 && j == 0, j == 0)
                                : residual_block(b, name, x, layout, stage);
    }
    stages.push_back(x);
  }
  return stages;
}

TensorId resnet_features(GraphBuilder& b, TensorId x, const ResNetLayout& layout) {
  return resnet_stages(b, x, layout).back();
}

}  // namespace tracecast::zoo_builders
