#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/ops.hpp"

/// What detectors have in common.
namespace tracecast::zoo_builders {

/// Batch norms of a backbone that is fine-tuned.
enum class FrozenNorm {
  /// A GEMM and a sum per channel, both constants (torchvision, detectron2: FrozenBatchNorm2d):
  /// what
  /// comes in is not kept.
  Constant,
  /// A batch norm of constant statistics whose scale and shift are trained (mmdetection:
  /// norm_eval=True, requires_grad=True): its gradient reads what came in.
  TrainedScale,
};

/// Groups of the 3x3 convolutions (ResNeXt: 32 of 4 channels in the first stage).
struct FrozenResNetLayout {
  std::int64_t groups = 1, group_width = 64;
  int third_stage = 6;  ///< blocks; of ResNet-101 and ResNeXt-101 23
  FrozenNorm norm = FrozenNorm::Constant;
};

/// Boxes of the image with most of them, which sets the peak of a pass over the data set. Source:
/// COCO, annotations of train2017.
inline constexpr std::int64_t kMostBoxes = 93;
/// Memory of matching `anchors` with the boxes of one image: for each pair two corners, a width and
/// a height, of two values each, the intersection, the sum of areas and the union. Source:
/// torchvision/ops/boxes.py, _box_inter_union; detectron2/structures/boxes.py and
/// mmdet/core/bbox/iou_calculators hold 6 and 8 values instead of 9.
[[nodiscard]] std::int64_t matching_bytes(std::int64_t anchors);

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
