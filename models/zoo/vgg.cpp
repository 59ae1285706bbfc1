#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// VGG: 3x3 convolutions in five groups, each followed by a pooling; `convolutions[i]` of them in
/// group i.
struct VggLayout {
  int convolutions[5];
  bool batch_norm = false;  ///< after every convolution
};

// torchvision/models/vgg.py, after Simonyan and Zisserman, arXiv 1409.1556, table 1 (columns A, B,
// D, E).
NetworkGraph vgg(const BuildOptions& options, const VggLayout& layout) {
  constexpr std::int64_t kChannels[] = {64, 128, 256, 512, 512};
  GraphBuilder b("vgg", options.batch);
  b.graph().reserve(112, 64);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  int index = 0;
  const auto next = [&] { return "features." + std::to_string(index++); };
  for (int group = 0; group < 5; ++group) {
    for (int i = 0; i < layout.convolutions[group]; ++i) {
      x = b.conv_layer(next(), x, kChannels[group], Window::square(3, 1, 1), true);
      if (layout.batch_norm) x = b.batch_norm_layer(next(), x);
      x = b.activation(next(), x, "relu", true);
    }
    x = b.max_pool(next(), x, Window::square(2, 2));
  }
  // The published classifier reads whatever the features leave; torchvision averages larger maps
  // down to 7x7 (its stretching of smaller ones only repeats numbers, which no other framework
  // does).
  if (b.shape(x)[2] >= 7) x = b.adaptive_avg_pool("avgpool", x, 7, 7);
  x = b.flatten("flatten", x);
  x = hidden_layer(b, {"classifier.0", "classifier.1", "classifier.2"}, x, 4096, options.training);
  x = hidden_layer(b, {"classifier.3", "classifier.4", "classifier.5"}, x, 4096, options.training);
  x = b.linear_layer("classifier.6", x, *options.classes, true);
  b.graph().outputs = {x};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> vgg_networks() {
  return {
      {.name = "vgg11",
       .title = "VGG-11 (A)",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(132'863'336),
       .macs = torchvision_gmacs(7.61),
       .image_size = 224,
       .build = build<vgg, VggLayout{{1, 1, 2, 2, 2}}>},
      {.name = "vgg13",
       .title = "VGG-13 (B)",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(133'047'848),
       .macs = torchvision_gmacs(11.31),
       .image_size = 224,
       .build = build<vgg, VggLayout{{2, 2, 2, 2, 2}}>},
      {.name = "vgg16",
       .title = "VGG-16 (D)",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(138'357'544),
       .macs = torchvision_gmacs(15.47),
       .image_size = 224,
       .build = build<vgg, VggLayout{{2, 2, 3, 3, 3}}>},
      {.name = "vgg19",
       .title = "VGG-19 (E)",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(143'667'240),
       .macs = torchvision_gmacs(19.63),
       .image_size = 224,
       .build = build<vgg, VggLayout{{2, 2, 4, 4, 4}}>},
      {.name = "vgg11_bn",
       .title = "VGG-11 (A) with batch norm",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(132'868'840),
       .macs = torchvision_gmacs(7.61),
       .image_size = 224,
       .build = build<vgg, VggLayout{{1, 1, 2, 2, 2}, true}>},
      {.name = "vgg13_bn",
       .title = "VGG-13 (B) with batch norm",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(133'053'736),
       .macs = torchvision_gmacs(11.31),
       .image_size = 224,
       .build = build<vgg, VggLayout{{2, 2, 2, 2, 2}, true}>},
      {.name = "vgg16_bn",
       .title = "VGG-16 (D) with batch norm",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(138'365'992),
       .macs = torchvision_gmacs(15.47),
       .image_size = 224,
       .build = build<vgg, VggLayout{{2, 2, 3, 3, 3}, true}>},
      {.name = "vgg19_bn",
       .title = "VGG-19 (E) with batch norm",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(143'678'248),
       .macs = torchvision_gmacs(19.63),
       .image_size = 224,
       .build = build<vgg, VggLayout{{2, 2, 4, 4, 4}, true}>},
  };
}

}  // namespace tracecast::zoo_builders
