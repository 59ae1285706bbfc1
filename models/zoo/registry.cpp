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
constexpr std::string_view kResNet50Names[] = {"resnet50_v1.5"};

constexpr ZooEntry kZoo[] = {
    {"alexnet", kAlexNetNames, "AlexNet, one tower", kTorchvision, 61'100'840, 224, 63, alexnet},
    {"resnet101",
     {},
     "ResNet-101 v1.5",
     kTorchvision,
     44'549'160,
     224,
     1,
     [](const BuildOptions& o) {
       return resnet(o, {.blocks = {3, 4, 23, 3}});
     }},
    {"resnet152",
     {},
     "ResNet-152 v1.5",
     kTorchvision,
     60'192'808,
     224,
     1,
     [](const BuildOptions& o) {
       return resnet(o, {.blocks = {3, 8, 36, 3}});
     }},
    {"resnet18",
     {},
     "ResNet-18",
     kTorchvision,
     11'689'512,
     224,
     1,
     [](const BuildOptions& o) {
       return resnet(o, {.blocks = {2, 2, 2, 2}, .bottleneck = false});
     }},
    {"resnet34",
     {},
     "ResNet-34",
     kTorchvision,
     21'797'672,
     224,
     1,
     [](const BuildOptions& o) {
       return resnet(o, {.blocks = {3, 4, 6, 3}, .bottleneck = false});
     }},
    {"resnet50", kResNet50Names, "ResNet-50 v1.5, stride in the 3x3", kTorchvision, 25'557'032, 224,
     1,
     [](const BuildOptions& o) {
       return resnet(o, {.blocks = {3, 4, 6, 3}});
     }},
    {"resnet50_v1",
     {},
     "ResNet-50 as published, stride in the first 1x1",
     kTorchvision,
     25'557'032,
     224,
     1,
     [](const BuildOptions& o) {
       return resnet(o, {.blocks = {3, 4, 6, 3}, .stride_in_first = true});
     }},
    {"resnext101_32x4d",
     {},
     "ResNeXt-101 32x4d",
     "Xie et al., arXiv 1611.05431, table 2 (44.2 M)",
     44'177'704,
     224,
     1,
     [](const BuildOptions& o) {
       return resnet(o, {.blocks = {3, 4, 23, 3}, .groups = 32, .group_width = 4});
     }},
    {"resnext50_32x4d",
     {},
     "ResNeXt-50 32x4d",
     kTorchvision,
     25'028'904,
     224,
     1,
     [](const BuildOptions& o) {
       return resnet(o, {.blocks = {3, 4, 6, 3}, .groups = 32, .group_width = 4});
     }},
    {"vgg11",
     {},
     "VGG-11 (A)",
     kTorchvision,
     132'863'336,
     224,
     32,
     [](const BuildOptions& o) {
       return vgg(o, {{1, 1, 2, 2, 2}});
     }},
    {"vgg13",
     {},
     "VGG-13 (B)",
     kTorchvision,
     133'047'848,
     224,
     32,
     [](const BuildOptions& o) {
       return vgg(o, {{2, 2, 2, 2, 2}});
     }},
    {"vgg16",
     {},
     "VGG-16 (D)",
     kTorchvision,
     138'357'544,
     224,
     32,
     [](const BuildOptions& o) {
       return vgg(o, {{2, 2, 3, 3, 3}});
     }},
    {"vgg19",
     {},
     "VGG-19 (E)",
     kTorchvision,
     143'667'240,
     224,
     32,
     [](const BuildOptions& o) {
       return vgg(o, {{2, 2, 4, 4, 4}});
     }},
    {"wide_resnet50_2",
     {},
     "Wide ResNet-50-2",
     kTorchvision,
     68'883'240,
     224,
     1,
     [](const BuildOptions& o) {
       return resnet(o, {.blocks = {3, 4, 6, 3}, .group_width = 128});
     }},
};

/// Letters and digits in lower case: "ResNet-50_v1.5" and "resnet50_v1.5" are one name.
std::string plain(std::string_view name) {
  std::string text = to_lower(name);
  std::erase_if(text, [](char c) { return c == '-' || c == '_' || c == ' '; });
  return text;
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
  constexpr std::int64_t kMostClasses = 1 << 24;
  constexpr std::int64_t kMostPixels = 1 << 16;
  if (options.classes < 1 || options.classes > kMostClasses) {
    throw InputError("network " + std::string(entry->name),
                     std::to_string(options.classes) + " classes",
                     "1 to " + std::to_string(kMostClasses));
  }
  BuildOptions complete = options;
  complete.image_size = options.image_size.value_or(entry->image_size);
  if (*complete.image_size < entry->smallest_image_size || *complete.image_size > kMostPixels) {
    throw InputError("network " + std::string(entry->name),
                     "image size " + std::to_string(*complete.image_size),
                     std::to_string(entry->smallest_image_size) + " to " +
                         std::to_string(kMostPixels) + " (the windows of this network)");
  }
  NetworkGraph graph = entry->build(complete);
  graph.name = entry->name;
  return graph;
}

}  // namespace tracecast
