#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/ops.hpp"

/// What torchvision's detectors have in common.
namespace tracecast::zoo_builders {

/// Groups of the 3x3 convolutions (ResNeXt: 32 of 4 channels in the first stage).
struct FrozenResNetLayout {
  std::int64_t groups = 1, group_width = 64;
};

/// The four stages' results of a ResNet-50 whose batch norms are constant: a GEMM and a sum per
/// channel. When training, the stem and the first stage do not.
[[nodiscard]] std::vector<TensorId> frozen_resnet(GraphBuilder& b, TensorId images, bool training,
                                                  const FrozenResNetLayout& layout);

/// A batch norm that is constant: a GEMM and a sum per channel.
[[nodiscard]] TensorId constant_norm(GraphBuilder& b, const std::string& name, TensorId x);

/// Every map in 256 channels, the smaller ones added to the larger from the top, then a 3x3.
[[nodiscard]] std::vector<TensorId> feature_pyramid(GraphBuilder& b,
                                                    const std::vector<TensorId>& maps);

}  // namespace tracecast::zoo_builders
