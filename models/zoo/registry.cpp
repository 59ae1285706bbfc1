#include <string>
#include <vector>

#include "models/zoo/builders.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

using namespace zoo_builders;

constexpr std::string_view kTorchvision = "torchvision 0.15 model reference (num_params)";

constexpr std::string_view kAlexNetNames[] = {"alexnet_owt"};
constexpr std::string_view kGoogLeNetNames[] = {"inception_v1"};
constexpr std::string_view kCycleGanNames[] = {"cyclegan_monet2photo"};
constexpr std::string_view kResNet50Names[] = {"resnet50_v1.5", "resnet50_imagenet"};

/// A family's builder with one of its layouts.
template <auto family, auto layout>
NetworkGraph build(const BuildOptions& options) {
  return family(options, layout);
}

constexpr DenseNetLayout kDenseNet121{.layers = {6, 12, 24, 16}};
constexpr DenseNetLayout kDenseNet161{
    .layers = {6, 12, 36, 24}, .growth = 48, .first_channels = 96};
constexpr DenseNetLayout kDenseNet169{.layers = {6, 12, 32, 32}};
constexpr DenseNetLayout kDenseNet201{.layers = {6, 12, 48, 32}};
constexpr GoogLeNetLayout kGoogLeNet{};
constexpr GoogLeNetLayout kGoogLeNetBn{.batch_norm = true};
constexpr InceptionBnLayout kInceptionBn{};
constexpr InceptionBnLayout kInceptionBnMxnet{.as_mxnet = true};
constexpr SqueezeNetLayout kSqueezeNet10{
    .first_channels = 96, .first_kernel = 7, .pool_after = {2, 6}};
constexpr SqueezeNetLayout kSqueezeNet11{
    .first_channels = 64, .first_kernel = 3, .pool_after = {1, 3}};
constexpr ResNetLayout kResNet18{.blocks = {2, 2, 2, 2}, .bottleneck = false};
constexpr ResNetLayout kResNet18Cifar{
    .blocks = {2, 2, 2, 2}, .bottleneck = false, .small_images = true};
constexpr ResNetLayout kResNet34{.blocks = {3, 4, 6, 3}, .bottleneck = false};
constexpr ResNetLayout kResNet50{.blocks = {3, 4, 6, 3}};
constexpr ResNetLayout kResNet50V1{.blocks = {3, 4, 6, 3}, .stride_in_first = true};
constexpr ResNetLayout kResNet101{.blocks = {3, 4, 23, 3}};
constexpr ResNetLayout kResNet152{.blocks = {3, 8, 36, 3}};
constexpr ResNetLayout kResNet200{.blocks = {3, 24, 36, 3}, .pre_activation = true};
constexpr ResNetLayout kResNeXt50{.blocks = {3, 4, 6, 3}, .groups = 32, .group_width = 4};
constexpr ResNetLayout kResNeXt101{.blocks = {3, 4, 23, 3}, .groups = 32, .group_width = 4};
constexpr ResNetLayout kWideResNet50{.blocks = {3, 4, 6, 3}, .group_width = 128};
constexpr SsdResNetLayout kSsdResNet34{.bottleneck = false, .batch_norm = false};
constexpr SsdResNetLayout kSsdResNet50{.bottleneck = true, .batch_norm = true};
constexpr VggLayout kVgg11{{1, 1, 2, 2, 2}};
constexpr VggLayout kVgg13{{2, 2, 2, 2, 2}};
constexpr VggLayout kVgg16{{2, 2, 3, 3, 3}};
constexpr VggLayout kVgg19{{2, 2, 4, 4, 4}};

// clang-format off
constexpr ZooEntry kZoo[] = {
    {"alexnet", kAlexNetNames, "AlexNet, one tower", kTorchvision, 61'100'840, 224, alexnet},
    {"caffenet", {}, "AlexNet of Caffe, two groups", "BVLC Caffe models/bvlc_alexnet (60,965,224)", 60'965'224, 227, caffenet},
    {"cifar10_cnn", {}, "CIFAR-10 CNN, TensorFlow's tutorial", "tensorflow.org tutorials, Convolutional Neural Networks (1,068,298)", 1'068'298, 24, cifar10_cnn, 10},
    {"cyclegan", kCycleGanNames, "CycleGAN; inference: one generator", "github.com/junyanz/pytorch-CycleGAN-and-pix2pix (prints 11.378 M, discriminator 2.765 M)", 11'378'179, 256, cyclegan, 1},
    {"densenet121", {}, "DenseNet-121", kTorchvision, 7'978'856, 224, build<densenet, kDenseNet121>},
    {"densenet161", {}, "DenseNet-161", kTorchvision, 28'681'000, 224, build<densenet, kDenseNet161>},
    {"densenet169", {}, "DenseNet-169", kTorchvision, 14'149'480, 224, build<densenet, kDenseNet169>},
    {"densenet201", {}, "DenseNet-201", kTorchvision, 20'013'928, 224, build<densenet, kDenseNet201>},
    {"googlenet", kGoogLeNetNames, "GoogLeNet as published, with LRN", "Szegedy et al., arXiv 1409.4842, table 1 (the count with biases)", 6'998'552, 224, build<googlenet, kGoogLeNet>},
    {"googlenet_bn", {}, "GoogLeNet with batch norm", kTorchvision, 6'624'904, 224, build<googlenet, kGoogLeNetBn>},
    {"inception_bn", {}, "Inception with batch norm, MXNet's", "MXNet 1.x symbols/inception-bn.py (the count of that definition)", 11'295'240, 224, build<inception_bn, kInceptionBnMxnet>},
    {"inception_v2", {}, "Inception with batch norm as published", "Ioffe and Szegedy, arXiv 1502.03167, figure 5 (the count of that table)", 11'194'984, 224, build<inception_bn, kInceptionBn>},
    {"inception_v3", {}, "Inception-v3", kTorchvision, 23'834'568, 299, inception_v3},
    {"inception_v4", {}, "Inception-v4", "Szegedy et al., arXiv 1602.07261; count of timm 0.9 (42.68 M)", 42'679'816, 299, inception_v4},
    {"minigo", {}, "MiniGo; image size = board", "github.com/tensorflow/minigo dual_net.py, early 2018 (the count of that definition)", 191'386, 9, minigo, 82},
    {"mobilenet_v2", {}, "MobileNet-v2", kTorchvision, 3'504'872, 224, mobilenet_v2},
    {"overfeat", {}, "OverFeat, fast", "Sermanet et al., arXiv 1312.6229, table 1 (145 M)", 145'920'872, 231, overfeat},
    {"resnet101", {}, "ResNet-101 v1.5", kTorchvision, 44'549'160, 224, build<resnet, kResNet101>},
    {"resnet152", {}, "ResNet-152 v1.5", kTorchvision, 60'192'808, 224, build<resnet, kResNet152>},
    {"resnet18", {}, "ResNet-18", kTorchvision, 11'689'512, 224, build<resnet, kResNet18>},
    {"resnet18_cifar10", {}, "ResNet-18 for 32x32 images", "github.com/kuangliu/pytorch-cifar models/resnet.py (11,173,962)", 11'173'962, 32, build<resnet, kResNet18Cifar>, 10},
    {"resnet200", {}, "ResNet-200, pre-activation", "fb.resnet.torch models/preresnet.lua (the count of that definition)", 64'666'152, 224, build<resnet, kResNet200>},
    {"resnet34", {}, "ResNet-34", kTorchvision, 21'797'672, 224, build<resnet, kResNet34>},
    {"resnet50", kResNet50Names, "ResNet-50 v1.5, stride in the 3x3", kTorchvision, 25'557'032, 224, build<resnet, kResNet50>},
    {"resnet50_v1", {}, "ResNet-50 as published, stride in the first 1x1", kTorchvision, 25'557'032, 224, build<resnet, kResNet50V1>},
    {"resnext101_32x4d", {}, "ResNeXt-101 32x4d", "Xie et al., arXiv 1611.05431, section 4 (44 M)", 44'177'704, 224, build<resnet, kResNeXt101>},
    {"resnext50_32x4d", {}, "ResNeXt-50 32x4d", kTorchvision, 25'028'904, 224, build<resnet, kResNeXt50>},
    {"shufflenet", {}, "ShuffleNet, 4 groups", "Zhang et al., arXiv 1707.01083; the count of the ONNX model zoo's file", 1'393'320, 224, shufflenet},
    {"squeezenet1_0", {}, "SqueezeNet 1.0", kTorchvision, 1'248'424, 224, build<squeezenet, kSqueezeNet10>},
    {"squeezenet1_1", {}, "SqueezeNet 1.1", kTorchvision, 1'235'496, 224, build<squeezenet, kSqueezeNet11>},
    {"ssd300", {}, "SSD300 on VGG-16", "torchvision 0.15 ssd300_vgg16 (num_params)", 35'641'826, 300, ssd_vgg16, 91},
    {"ssd300_rn34", {}, "SSD300 on ResNet-34, MLPerf's", "MLPerf training single_stage_detector (the count of that definition)", 19'972'534, 300, build<ssd_resnet, kSsdResNet34>, 81},
    {"ssd300_rn50", {}, "SSD300 on ResNet-50, NVIDIA's", "NVIDIA DeepLearningExamples SSD300 v1.1 for PyTorch (the count of that definition)", 22'894'902, 300, build<ssd_resnet, kSsdResNet50>, 81},
    {"vgg11", {}, "VGG-11 (A)", kTorchvision, 132'863'336, 224, build<vgg, kVgg11>},
    {"vgg13", {}, "VGG-13 (B)", kTorchvision, 133'047'848, 224, build<vgg, kVgg13>},
    {"vgg16", {}, "VGG-16 (D)", kTorchvision, 138'357'544, 224, build<vgg, kVgg16>},
    {"vgg19", {}, "VGG-19 (E)", kTorchvision, 143'667'240, 224, build<vgg, kVgg19>},
    {"wide_resnet50_2", {}, "Wide ResNet-50-2", kTorchvision, 68'883'240, 224, build<resnet, kWideResNet50>},
    {"zfnet512", {}, "ZFNet, 512 channels", "Zeiler and Fergus, arXiv 1311.2901; the count of the ONNX model zoo's file", 87'250'536, 224, zfnet512},
};
// clang-format on

/// Letters and digits in lower case: "ResNet-50_v1.5" and "resnet50_v1.5" are one name.
std::string plain(std::string_view name) {
  std::string text = to_lower(name);
  std::erase_if(text, [](char c) { return c == '-' || c == '_' || c == ' '; });
  return text;
}

constexpr std::int64_t kMostSamples = 1 << 24;
constexpr std::int64_t kMostClasses = 1 << 24;
constexpr std::int64_t kMostPixels = 1 << 16;

NetworkGraph build_at(const ZooEntry& entry, BuildOptions options, std::int64_t image_size) {
  options.image_size = image_size;
  options.classes = options.classes.value_or(entry.classes);
  return entry.build(options);
}

}  // namespace

std::span<const ZooEntry> zoo() { return kZoo; }

const ZooEntry* find_network(std::string_view name) {
  const std::string wanted = plain(name);
  for (const ZooEntry& entry : kZoo) {
    if (plain(entry.name) == wanted) return &entry;
    for (const std::string_view alias : entry.aliases) {
      if (plain(alias) == wanted) return &entry;
    }
  }
  return nullptr;
}

std::int64_t smallest_image_size(const ZooEntry& entry, const BuildOptions& options) {
  // Windows shrink images monotonically: bisect between a size that fails and one that works.
  std::int64_t too_small = 0, enough = entry.image_size;
  while (enough - too_small > 1) {
    const std::int64_t middle = too_small + (enough - too_small) / 2;
    try {
      (void)build_at(entry, options, middle);
      enough = middle;
    } catch (const InputError&) {
      too_small = middle;
    }
  }
  return enough;
}

NetworkGraph build_network(std::string_view name, const BuildOptions& options) {
  const ZooEntry* entry = find_network(name);
  if (entry == nullptr) {
    std::vector<std::string> names;
    for (const ZooEntry& known : kZoo) {
      names.emplace_back(known.name);
      names.insert(names.end(), known.aliases.begin(), known.aliases.end());
    }
    throw InputError("network", "'" + std::string(name) + "'", describe_choices(name, names));
  }
  const std::string where = "network " + std::string(entry->name);
  if (options.batch < 1 || options.batch > kMostSamples) {
    throw InputError(where, "batch " + std::to_string(options.batch),
                     "1 to " + std::to_string(kMostSamples));
  }
  const std::int64_t classes = options.classes.value_or(entry->classes);
  if (classes < 1 || classes > kMostClasses) {
    throw InputError(where, std::to_string(classes) + " classes",
                     "1 to " + std::to_string(kMostClasses));
  }
  const std::int64_t image_size = options.image_size.value_or(entry->image_size);
  const std::string size_text = "image size " + std::to_string(image_size);
  if (image_size < 1 || image_size > kMostPixels) {
    throw InputError(where, size_text, "1 to " + std::to_string(kMostPixels));
  }
  try {
    NetworkGraph graph = build_at(*entry, options, image_size);
    graph.name = entry->name;
    return graph;
  } catch (const InputError&) {
    const std::int64_t least = smallest_image_size(*entry, options);
    if (image_size >= least) throw;  // something else is wrong, and says so itself
    throw InputError(where, size_text,
                     std::to_string(least) + " or more: below it a window no longer fits");
  }
}

}  // namespace tracecast
