#include <array>
#include <string>
#include <vector>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Channels of the three stages and of the last 1x1. `downcasts_late`: the halving units keep their
/// input's channels up to the last 1x1.
struct ShuffleNetV2Layout {
  std::array<std::int64_t, 3> channels{116, 232, 464};
  std::int64_t last = 1024;
  bool small_images = false;  ///< stem without stride and pooling, as for CIFAR
  bool downcasts_late = false;
  bool with_bias = false;  ///< of convolutions, although a batch norm follows
};

constexpr std::array<int, 3> kUnits = {4, 8, 4};

/// Interleaves the two halves of the channels.
TensorId shuffle(GraphBuilder& b, const std::string& name, TensorId x) {
  const Shape in = b.shape(x);
  const std::int64_t swap_groups[] = {0, 2, 1, 3, 4};
  x = b.reshape(name + ".groups", x, {in[0], 2, in[1] / 2, in[2], in[3]});
  x = b.transpose(name + ".shuffle", x, swap_groups);
  return b.reshape(name + ".channels", x, in);
}

/// One half of the channels passes, the other goes through 1x1, depthwise 3x3, 1x1; where the image
/// halves, both halves come from the whole input.
TensorId unit(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t channels,
              const ShuffleNetV2Layout& layout, bool halves) {
  const std::int64_t half = channels / 2;
  const bool bias = layout.with_bias;
  TensorId left = x, right = x;
  if (!halves) {
    const std::int64_t sizes[] = {half, half};
    const std::vector<TensorId> parts = b.split(name + ".split", x, 1, sizes);
    left = parts[0];
    right = parts[1];
  }
  const std::int64_t width = layout.downcasts_late ? b.shape(right)[1] : half;
  right = conv_bn_relu(b, name + ".2.1", right, width, Window::square(1), 1, bias);
  right = b.conv_layer(name + ".2.2.conv", right, width, Window::square(3, halves ? 2 : 1, 1), bias,
                       width);
  right = b.batch_norm_layer(name + ".2.2.bn", right);
  right = conv_bn_relu(b, name + ".2.3", right, half, Window::square(1), 1, bias);
  if (halves) {
    const std::int64_t in = b.shape(left)[1];
    left = b.conv_layer(name + ".1.1.conv", left, in, Window::square(3, 2, 1), bias, in);
    left = b.batch_norm_layer(name + ".1.1.bn", left);
    left = conv_bn_relu(b, name + ".1.2", left, half, Window::square(1), 1, bias);
  }
  const TensorId both[] = {left, right};
  return shuffle(b, name, b.concat(name + ".cat", both, 1));
}

// Ma et al., arXiv 1807.11164. For 32x32 images the stem neither strides nor pools.
NetworkGraph shufflenet_v2(const BuildOptions& options, const ShuffleNetV2Layout& layout) {
  GraphBuilder b("shufflenet_v2", options.batch);
  b.graph().reserve(520, 240);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  if (layout.small_images) {
    x = b.conv_layer("stem.conv", x, 24, Window::square(3, 1, 1), layout.with_bias);
    x = b.batch_norm_layer("stem.bn", x);
  } else {
    x = conv_bn_relu(b, "stem", x, 24, Window::square(3, 2, 1));
    x = b.max_pool("stem.pool", x, Window::square(3, 2, 1));
  }
  for (std::size_t stage = 0; stage < kUnits.size(); ++stage) {
    for (int i = 0; i < kUnits[stage]; ++i) {
      const std::string name = "stage" + std::to_string(stage + 2) + "." + std::to_string(i);
      x = unit(b, name, x, layout.channels[stage], layout, i == 0);
    }
  }
  x = conv_bn_relu(b, "conv5", x, layout.last, Window::square(1), 1, layout.with_bias);
  x = b.global_avg_pool("avgpool", x);
  x = b.flatten("flatten", x);
  b.graph().outputs = {b.linear_layer("fc", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> shufflenet_v2_networks() {
  return {
      {.name = "shufflenet_v2",
       .aliases = {"shufflenet_v2_x1_0"},
       .title = "ShuffleNet v2, width 1",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(2'278'604),
       .macs = torchvision_gmacs(0.14),
       .image_size = 224,
       .build = build<shufflenet_v2, ShuffleNetV2Layout{}>},
      {.name = "shufflenet_v2_x0_5",
       .title = "ShuffleNet v2, width 0.5",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(1'366'792),
       .macs = rounded(41e6, 1e6, "Ma et al., arXiv 1807.11164, table 8"),
       .image_size = 224,
       .build = build<shufflenet_v2, ShuffleNetV2Layout{{48, 96, 192}}>},
      {.name = "shufflenet_v2_x1_5",
       .title = "ShuffleNet v2, width 1.5",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(3'503'624),
       .macs = torchvision_gmacs(0.30),
       .image_size = 224,
       .build = build<shufflenet_v2, ShuffleNetV2Layout{{176, 352, 704}}>},
      {.name = "shufflenet_v2_x2_0",
       .title = "ShuffleNet v2, width 2",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(7'393'996),
       .macs = torchvision_gmacs(0.58),
       .image_size = 224,
       .build = build<shufflenet_v2, ShuffleNetV2Layout{{244, 488, 976}, 2048}>},
      {.name = "shufflenet_v2_cifar",
       .aliases = {"shufflenet_v2_cifar_100"},
       .title = "ShuffleNet v2 for CIFAR-100",
       .source = "github.com/weiaicunzai/pytorch-cifar100, models/shufflenetv2.py",
       .parameters = rounded(1.3e6, 0.1e6, "github.com/weiaicunzai/pytorch-cifar100, README"),
       .image_size = 32,
       .classes = 100,
       .build = build<shufflenet_v2,
                      ShuffleNetV2Layout{
                          .small_images = true, .downcasts_late = true, .with_bias = true}>},
  };
}

}  // namespace tracecast::zoo_builders
