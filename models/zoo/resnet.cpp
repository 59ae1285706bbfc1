#include <string>

#include "models/zoo/parts/family.hpp"
#include "models/zoo/parts/resnet_features.hpp"

namespace tracecast::zoo_builders {
namespace {

// torchvision/models/resnet.py, after He et al., arXiv 1512.03385, and Xie et al. (ResNeXt), arXiv
// 1611.05431.
NetworkGraph resnet(const BuildOptions& options, const ResNetLayout& layout) {
  GraphBuilder b("resnet", options.batch);
  const int num_blocks = layout.blocks[0] + layout.blocks[1] + layout.blocks[2] + layout.blocks[3];
  b.graph().reserve(static_cast<std::size_t>(26 * num_blocks + 60),
                    static_cast<std::size_t>(10 * num_blocks + 20));
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = resnet_features(b, x, layout);
  if (layout.pre_activation) {
    x = b.batch_norm_layer("bn_last", x);
    x = b.activation("relu_last", x, "relu", true);
  }
  x = layout.pools_up ? b.avg_pool("avgpool", x, Window::square(b.shape(x)[2]), true, false)
                      : b.global_avg_pool("avgpool", x);
  x = b.flatten("flatten", x);
  x = b.linear_layer("fc", x, *options.classes, true);
  b.graph().outputs = {x};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> resnet_networks() {
  return {
      {.name = "resnet101",
       .title = "ResNet-101 v1.5",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(44'549'160),
       .macs = torchvision_gmacs(7.80),
       .image_size = 224,
       .build = build<resnet, ResNetLayout{.blocks = {3, 4, 23, 3}}>},
      {.name = "resnet152",
       .title = "ResNet-152 v1.5",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(60'192'808),
       .macs = torchvision_gmacs(11.51),
       .image_size = 224,
       .build = build<resnet, ResNetLayout{.blocks = {3, 8, 36, 3}}>},
      {.name = "resnet18",
       .title = "ResNet-18",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(11'689'512),
       .macs = torchvision_gmacs(1.81),
       .image_size = 224,
       .build = build<resnet, ResNetLayout{.blocks = {2, 2, 2, 2}, .bottleneck = false}>},
      {.name = "resnet18_cifar10",
       .title = "ResNet-18 for 32x32 images",
       .source = "github.com/kuangliu/pytorch-cifar, models/resnet.py",
       .parameters = exact(11'173'962, "github.com/kuangliu/pytorch-cifar, models/resnet.py"),
       .image_size = 32,
       .classes = 10,
       .build =
           build<resnet,
                 ResNetLayout{.blocks = {2, 2, 2, 2}, .bottleneck = false, .small_images = true}>},
      {.name = "resnet200",
       .title = "ResNet-200, pre-activation",
       .source = "fb.resnet.torch, models/preresnet.lua",
       .image_size = 224,
       .build = build<resnet, ResNetLayout{.blocks = {3, 24, 36, 3}, .pre_activation = true}>},
      {.name = "resnet34",
       .title = "ResNet-34",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(21'797'672),
       .macs = torchvision_gmacs(3.66),
       .image_size = 224,
       .build = build<resnet, ResNetLayout{.blocks = {3, 4, 6, 3}, .bottleneck = false}>},
      {.name = "resnet50",
       .aliases = {"resnet50_v1.5", "resnet50_imagenet"},
       .title = "ResNet-50 v1.5, stride in the 3x3",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(25'557'032),
       .macs = torchvision_gmacs(4.09),
       .image_size = 224,
       .build = build<resnet, ResNetLayout{.blocks = {3, 4, 6, 3}}>},
      {.name = "resnet50_v1",
       .title = "ResNet-50 v1, stride in the first 1x1",
       .source = "He et al., arXiv 1512.03385, table 1",
       .parameters = torchvision_parameters(25'557'032),
       .macs = rounded(3.8e9, 0.1e9, "He et al., arXiv 1512.03385, table 1"),
       .image_size = 224,
       .build = build<resnet, ResNetLayout{.blocks = {3, 4, 6, 3}, .stride_in_first = true}>},
      {.name = "resnet50_caffe",
       .title = "ResNet-50 of the authors' Caffe files: v1, poolings rounded up",
       .source =
           "KaimingHe/deep-residual-networks, ResNet-50; Lasagne/Recipes, modelzoo/resnet50.py",
       .image_size = 224,
       .build =
           build<resnet,
                 ResNetLayout{.blocks = {3, 4, 6, 3}, .stride_in_first = true, .pools_up = true}>},
      {.name = "resnext101_32x4d",
       .title = "ResNeXt-101 32x4d",
       .source = "Xie et al., arXiv 1611.05431, table 1",
       .parameters = rounded(44.18e6, 0.01e6, "timm 0.9, results of resnext101_32x4d"),
       .image_size = 224,
       .build =
           build<resnet, ResNetLayout{.blocks = {3, 4, 23, 3}, .groups = 32, .group_width = 4}>},
      {.name = "resnext50_32x4d",
       .title = "ResNeXt-50 32x4d",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(25'028'904),
       .macs = torchvision_gmacs(4.23),
       .image_size = 224,
       .build =
           build<resnet, ResNetLayout{.blocks = {3, 4, 6, 3}, .groups = 32, .group_width = 4}>},
      {.name = "resnext101_32x8d",
       .title = "ResNeXt-101 32x8d",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(88'791'336),
       .macs = torchvision_gmacs(16.41),
       .image_size = 224,
       .build =
           build<resnet, ResNetLayout{.blocks = {3, 4, 23, 3}, .groups = 32, .group_width = 8}>},
      {.name = "resnext101_64x4d",
       .title = "ResNeXt-101 64x4d",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(83'455'272),
       .macs = torchvision_gmacs(15.46),
       .image_size = 224,
       .build =
           build<resnet, ResNetLayout{.blocks = {3, 4, 23, 3}, .groups = 64, .group_width = 4}>},
      {.name = "wide_resnet101_2",
       .title = "Wide ResNet-101-2",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(126'886'696),
       .macs = torchvision_gmacs(22.75),
       .image_size = 224,
       .build = build<resnet, ResNetLayout{.blocks = {3, 4, 23, 3}, .group_width = 128}>},
      {.name = "wide_resnet50_2",
       .title = "Wide ResNet-50-2",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(68'883'240),
       .macs = torchvision_gmacs(11.40),
       .image_size = 224,
       .build = build<resnet, ResNetLayout{.blocks = {3, 4, 6, 3}, .group_width = 128}>},
  };
}

}  // namespace tracecast::zoo_builders
