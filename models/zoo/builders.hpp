#pragma once
#include "models/graph.hpp"
#include "models/zoo/zoo.hpp"

/// One function per network or family; registry.cpp gives them their names.
namespace tracecast::zoo_builders {

[[nodiscard]] NetworkGraph alexnet(const BuildOptions& options);
[[nodiscard]] NetworkGraph inception_v3(const BuildOptions& options);

/// VGG: 3x3 convolutions in five groups, each followed by a pooling; `convolutions[i]` of them in
/// group i.
struct VggLayout {
  int convolutions[5];
};
[[nodiscard]] NetworkGraph vgg(const BuildOptions& options, const VggLayout& layout);

/// ResNet and what grew from it. `blocks[i]` blocks in stage i.
struct ResNetLayout {
  int blocks[4];
  bool bottleneck = true;         ///< 1x1, 3x3, 1x1; else two 3x3
  std::int64_t groups = 1;        ///< of the 3x3 convolution (ResNeXt: 32)
  std::int64_t group_width = 64;  ///< channels of the 3x3 per group in the first stage
  bool stride_in_first =
      false;  ///< the stage's stride sits in the first 1x1 (He et al.), not in the 3x3
};
[[nodiscard]] NetworkGraph resnet(const BuildOptions& options, const ResNetLayout& layout);

}  // namespace tracecast::zoo_builders
