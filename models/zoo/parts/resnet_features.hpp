#pragma once
#include <cstdint>
#include <vector>

#include "models/ops.hpp"

namespace tracecast::zoo_builders {

/// ResNet and what grew from it. `blocks[i]` blocks in stage i.
struct ResNetLayout {
  int blocks[4];
  int strides[4] = {1, 2, 2, 2};  ///< of each stage's first block
  bool bottleneck = true;         ///< 1x1, 3x3, 1x1; else two 3x3
  std::int64_t groups = 1;        ///< of the 3x3 convolution (ResNeXt: 32)
  std::int64_t group_width = 64;  ///< channels of the 3x3 per group in the first stage
  bool stride_in_first =
      false;  ///< the stage's stride sits in the first 1x1 (He et al.), not in the 3x3
  bool pre_activation = false;  ///< norm and ReLU before the convolutions; bottleneck blocks only
  bool small_images = false;    ///< stem of one 3x3 without stride or pooling, as for CIFAR
  bool pools_up = false;  ///< windows that may reach beyond the image, and no padding, as in Caffe
  /// The last two stages keep the image's size: instead, the cells of their 3x3s lie 2 and 4 apart,
  /// in each stage's first block as in the stage before.
  bool dilated = false;
  bool deep_stem = false;  ///< three 3x3 of 32, 32 and 64 channels in place of the 7x7 (v1c)
};

/// The results of a ResNet's four stages.
[[nodiscard]] std::vector<TensorId> resnet_stages(GraphBuilder& b, TensorId x,
                                                  const ResNetLayout& layout);

/// A ResNet's stem and residual blocks, without pooling and classifier.
[[nodiscard]] TensorId resnet_features(GraphBuilder& b, TensorId x, const ResNetLayout& layout);

}  // namespace tracecast::zoo_builders
