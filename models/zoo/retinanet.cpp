#include <optional>
#include <string>
#include <vector>

#include "models/zoo/parts/family.hpp"
#include "models/zoo/parts/pyramid.hpp"

namespace tracecast::zoo_builders {
namespace {

/// A head on every level of the pyramid: 3x3 convolutions by the same weights, then one that
/// predicts.
struct HeadLayout {
  std::int64_t anchors = 9;
  bool constant_norm =
      false;  ///< a batch norm that is constant, of each level its own, in place of a bias
};

class Head {
 public:
  Head(GraphBuilder& b, const std::string& name, std::int64_t values, const HeadLayout& layout)
      : b_(b), name_(name), values_(values), layout_(layout) {
    for (int i = 0; i < 5; ++i) {
      const std::string conv = name + "." + std::to_string(i);
      const std::int64_t channels = i < 4 ? 256 : layout.anchors * values;
      weights_.push_back(b.weight(conv + ".weight", {channels, 256, 3, 3}));
      biases_.emplace_back();
      if (!is_normalized(i)) biases_.back() = b.weight(conv + ".bias", {channels});
    }
  }
  /// batch x anchors x values of one level.
  TensorId read(TensorId x, std::size_t level) {
    for (int i = 0; i < 5; ++i) {
      const auto layer = static_cast<std::size_t>(i);
      const std::string conv = name_ + "." + std::to_string(i) + "." + std::to_string(level);
      x = b_.conv(conv, x, weights_[layer], biases_[layer], Window::square(3, 1, 1));
      if (is_normalized(i)) x = constant_norm(b_, conv, x);
      if (i < 4) x = b_.activation(conv + ".relu", x, "relu", true);
    }
    const std::string name = name_ + ".out." + std::to_string(level);
    return b_.reshape(name, x, {b_.shape(x)[0], -1, values_});
  }

 private:
  [[nodiscard]] bool is_normalized(int layer) const { return layout_.constant_norm && layer < 4; }

  GraphBuilder& b_;
  std::string name_;
  std::int64_t values_;
  HeadLayout layout_;
  std::vector<TensorId> weights_;
  std::vector<std::optional<TensorId>> biases_;
};

/// Scores and coordinates of all levels together.
struct Predictions {
  TensorId scores, boxes;
};

Predictions predict_boxes(GraphBuilder& b, const std::vector<TensorId>& levels,
                          std::int64_t classes, const HeadLayout& layout) {
  Head scores_head(b, "cls", classes, layout), boxes_head(b, "bbox", 4, layout);
  std::vector<TensorId> scores, coordinates;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    scores.push_back(scores_head.read(levels[i], i));
    coordinates.push_back(boxes_head.read(levels[i], i));
  }
  return {b.concat("scores", scores, 1), b.concat("boxes", coordinates, 1)};
}

/// The pyramid on the last three stages and two smaller maps, each a convolution on the one before.
std::vector<TensorId> five_levels(GraphBuilder& b, const BuildOptions& options,
                                  const FrozenResNetLayout& layout) {
  const TensorId images =
      b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  std::vector<TensorId> maps = frozen_resnet(b, images, options.training, layout);
  maps.erase(maps.begin());
  std::vector<TensorId> levels = feature_pyramid(b, maps);
  levels.push_back(b.conv_layer("fpn.p6", levels.back(), 256, Window::square(3, 2, 1), true));
  const TensorId p6 = b.activation("fpn.p6.relu", levels.back(), "relu");
  levels.push_back(b.conv_layer("fpn.p7", p6, 256, Window::square(3, 2, 1), true));
  return levels;
}

/// What training holds besides the graph's tensors. The focal loss keeps for each score, in fp32:
/// targets, logits and targets of anchors that count, probabilities, their complement and that of
/// the targets, the complement of p_t, its power, the cross entropy and alpha_t; a log-probability
/// is the graph's own. Source: torchvision/ops/focal_loss.py and what autograd saves of it,
/// models/detection/retinanet.py.
RoutineAttributes losses_of(GraphBuilder& b, const Predictions& found) {
  constexpr std::int64_t kKept = 9, kBytes = 4;
  return {.scratch_bytes = matching_bytes(b.shape(found.scores)[1]),
          .kept_bytes = element_count(b.shape(found.scores)) * kKept * kBytes};
}

// torchvision/models/detection/retinanet.py, after Lin et al., arXiv 1708.02002; with ResNeXt-50
// and 264 classes the detector of MLPerf training since v2.0. Images are square here. Of focal loss
// and matching the graph has the memory, not the time; suppression is not in it.
NetworkGraph retinanet(const BuildOptions& options, const FrozenResNetLayout& layout) {
  GraphBuilder b("retinanet", options.batch);
  const std::vector<TensorId> levels = five_levels(b, options, layout);
  const Predictions found = predict_boxes(b, levels, *options.classes, {});
  b.graph().outputs = {found.scores, found.boxes};
  if (options.training) {
    const TensorId read[] = {found.scores, found.boxes};
    b.routine("losses", read, losses_of(b, found));
  }
  return std::move(b).take();
}

// NVIDIA/DeepLearningExamples, TensorFlow/Detection/SSD, configs/ssd320_full_1gpus.config, on
// TensorFlow's Object Detection API: its SSD is a RetinaNet of 320x320 with six anchors a cell.
// Boxes are suppressed class by class and image by image (22 ops each in
// multiclass_non_max_suppression, core/post_processing.py, the suppression itself on the CPU, and
// 60 per image round them), targets are assigned image by image (140 ops, estimated:
// core/target_assigner.py and what it calls).
NetworkGraph ssd320_fpn(const BuildOptions& options) {
  GraphBuilder b("ssd320_fpn", options.batch);
  const std::vector<TensorId> levels = five_levels(b, options, {});
  const std::int64_t classes = *options.classes;
  const Predictions found =
      predict_boxes(b, levels, classes, {.anchors = 6, .constant_norm = true});
  b.graph().outputs = {found.scores, found.boxes};
  const TensorId read[] = {found.scores, found.boxes};
  if (options.training) {
    b.routine("targets", read, {.ops = 140 * options.batch});
  } else {
    b.routine("suppression", read, {.ops = (22 * classes + 60) * options.batch, .waits = true});
  }
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> retinanet_networks() {
  return {
      {.name = "retinanet_resnet50",
       .title = "RetinaNet on ResNet-50 FPN",
       .source = "torchvision 0.15, retinanet_resnet50_fpn",
       .parameters = torchvision_parameters(34'014'999),
       .image_size = 800,
       .classes = 91,
       .build = build<retinanet, FrozenResNetLayout{}>},
      {.name = "retinanet_r50_fpn",
       .title = "RetinaNet on ResNet-50, mmdetection's",
       .source = "mmdetection 2.11, configs of that name",
       .image_size = 1037,
       .classes = 80,
       .data_set = "coco",
       .build = build<retinanet, FrozenResNetLayout{.norm = FrozenNorm::TrainedScale}>},
      {.name = "retinanet_r101_fpn",
       .title = "RetinaNet on ResNet-101, mmdetection's",
       .source = "mmdetection 2.11, configs of that name",
       .image_size = 1037,
       .classes = 80,
       .data_set = "coco",
       .build = build<retinanet,
                      FrozenResNetLayout{.third_stage = 23, .norm = FrozenNorm::TrainedScale}>},
      {.name = "retinanet_resnext50",
       .title = "RetinaNet on ResNeXt-50, MLPerf's",
       .source = "MLPerf training v2.0, single_stage_detector (retinanet_resnext50_32x4d_fpn)",
       .image_size = 800,
       .classes = 264,
       .build = build<retinanet, FrozenResNetLayout{.groups = 32, .group_width = 4}>},
      {.name = "ssd320_fpn_rn50",
       .title = "SSD320 on ResNet-50 FPN, NVIDIA's for TensorFlow",
       .source = "NVIDIA DeepLearningExamples, TensorFlow/Detection/SSD (ssd320_full_1gpus.config)",
       .image_size = 320,
       .classes = 90,
       .data_set = "coco",
       .build = ssd320_fpn},
  };
}

}  // namespace tracecast::zoo_builders
