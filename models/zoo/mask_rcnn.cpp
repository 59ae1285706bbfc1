#include <optional>
#include <string>
#include <vector>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"
#include "models/zoo/parts/pyramid.hpp"

namespace tracecast::zoo_builders {
namespace {

/// How many regions the heads read per image (torchvision's defaults): sampled proposals when
/// training, of which a quarter is positive and gets a mask; the best proposals and detections
/// else.
struct Regions {
  std::int64_t boxes, masks;
};
constexpr Regions kTraining{512, 128}, kInference{1000, 100};

/// Boxes alone, or with their masks.
enum class Heads { Boxes, BoxesAndMasks };

struct RegionLayout {
  Heads heads = Heads::Boxes;
  /// Heads one after the other, each on the boxes of the one before (Cai and Vasconcelos, arXiv
  /// 1712.00726); their boxes are of all classes alike.
  int cascade = 1;
  FrozenResNetLayout backbone{};
};

/// Of a square with as many pixels as 800 x 1088, in whole cells of the smallest map but one: the
/// short side is scaled to 800, and the long one of most of COCO's images is 4/3 of it, filled up
/// to a multiple of 32.
constexpr std::int64_t kImageSide = 928;

/// The feature pyramid's four levels and a fifth, every second cell of the last.
std::vector<TensorId> pyramid(GraphBuilder& b, bool training, TensorId images,
                              const FrozenResNetLayout& backbone) {
  std::vector<TensorId> levels = feature_pyramid(b, frozen_resnet(b, images, training, backbone));
  levels.push_back(b.max_pool("fpn.pool", levels.back(), Window::square(1, 2)));
  return levels;
}

/// Objectness and box of three anchors in every cell of every level, by the same weights. The
/// anchors of an image: their number.
std::int64_t propose(GraphBuilder& b, const std::vector<TensorId>& levels) {
  constexpr std::int64_t kAnchors = 3;
  struct Filter {
    TensorId weight, bias;
  };
  const auto filter = [&](const std::string& name, std::int64_t channels, std::int64_t kernel) {
    return Filter{b.weight(name + ".weight", {channels, 256, kernel, kernel}),
                  b.weight(name + ".bias", {channels})};
  };
  const Filter shared = filter("rpn.conv", 256, 3), score = filter("rpn.cls_logits", kAnchors, 1),
               box = filter("rpn.bbox_pred", 4 * kAnchors, 1);
  std::vector<TensorId> scores, boxes;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const std::string name = "rpn." + std::to_string(i);
    const std::int64_t batch = b.shape(levels[i])[0];
    TensorId x =
        b.conv(name + ".conv", levels[i], shared.weight, shared.bias, Window::square(3, 1, 1));
    x = b.activation(name + ".relu", x, "relu", true);
    const TensorId s = b.conv(name + ".cls_logits", x, score.weight, score.bias, {});
    const TensorId d = b.conv(name + ".bbox_pred", x, box.weight, box.bias, {});
    scores.push_back(b.reshape(name + ".scores", s, {batch, -1, 1}));
    boxes.push_back(b.reshape(name + ".boxes", d, {batch, -1, 4}));
  }
  b.graph().outputs = {b.concat("rpn.scores", scores, 1), b.concat("rpn.boxes", boxes, 1)};
  return b.shape(b.graph().outputs.front())[1];
}

/// Small ops round the heads, which read results back all the time (nonzero, suppression on the
/// host). Estimated from torchvision 0.15, models/detection: per batch generating anchors, decoding
/// boxes, the best of each level, pooling level by level (180); per image choosing proposals (25),
/// and when training matching and sampling them twice (130), else the same for detections (30) and
/// pasting each of up to 100 masks into its image (12 each).
std::int64_t count_small_ops(const BuildOptions& options, const Regions& regions) {
  const std::int64_t per_image = options.training ? 25 + 130 : 25 + 30 + 12 * regions.masks;
  return 180 + per_image * options.batch;
}

/// Four 3x3, twice the side, and a map for each class.
TensorId mask_head(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t classes) {
  for (int i = 1; i <= 4; ++i) {
    x = conv_relu(b, name + ".fcn" + std::to_string(i), x, 256, Window::square(3, 1, 1));
  }
  x = b.conv_transpose(name + ".conv5", x, b.weight(name + ".conv5.weight", {256, 256, 2, 2}),
                       b.weight(name + ".conv5.bias", {256}), Window::square(2, 2));
  x = b.activation(name + ".conv5.relu", x, "relu", true);
  return b.conv_layer(name + ".fcn_logits", x, classes, Window::square(1), true);
}

// torchvision/models/detection/mask_rcnn.py (maskrcnn_resnet50_fpn), after He et al., arXiv
// 1703.06870; without masks faster_rcnn.py (fasterrcnn_resnet50_fpn), after Ren et al., arXiv
// 1506.01497, and its pyramid. The regions are as many as the heads may get. Reading them from the
// pyramid (RoIAlign) is an operator without a cost model, bounded by its bytes.
NetworkGraph region_cnn(const BuildOptions& options, const RegionLayout& layout) {
  Regions regions = options.training ? kTraining : kInference;
  if (layout.heads == Heads::Boxes) regions.masks = 0;
  const std::int64_t batch = options.batch, classes = *options.classes;
  GraphBuilder b("mask_rcnn", batch);
  b.graph().reserve(620, 300);
  const TensorId images = b.input("images", {batch, 3, *options.image_size, *options.image_size});
  const std::vector<TensorId> levels = pyramid(b, options.training, images, layout.backbone);
  const std::int64_t anchors = propose(b, levels);
  const auto regions_of = [&](const std::string& name, std::int64_t count, std::int64_t side) {
    const Shape result[] = {{batch * count, 256, side, side}};
    const TensorId read[] = {levels[0], levels[1], levels[2], levels[3]};
    return b.unknown(name, "RoiAlign", read, result).front();
  };

  const bool is_cascade = layout.cascade > 1;
  std::vector<TensorId> scores, boxes, masks;
  for (int stage = 0; stage < layout.cascade; ++stage) {
    const std::string box = is_cascade ? "box" + std::to_string(stage) : "box";
    TensorId x = b.flatten(box + ".flatten", regions_of(box + ".roi_align", regions.boxes, 7));
    for (const char* layer : {"6", "7"}) {
      const std::string fc = box + ".fc" + layer, relu = box + ".relu" + layer;
      x = hidden_layer(b, {fc.c_str(), relu.c_str(), ""}, x, 1024, false);
    }
    scores.push_back(b.linear_layer(box + ".cls_score", x, classes, true));
    boxes.push_back(b.linear_layer(box + ".bbox_pred", x, is_cascade ? 4 : 4 * classes, true));
    if (layout.heads == Heads::BoxesAndMasks) {
      const std::string mask = is_cascade ? "mask" + std::to_string(stage) : "mask";
      masks.push_back(
          mask_head(b, mask, regions_of(mask + ".roi_align", regions.masks, 14), classes));
    }
  }
  const TensorId read[] = {scores.back(), boxes.back()};
  b.routine("regions", read,
            {.ops = count_small_ops(options, regions) * layout.cascade,
             .waits = true,
             .scratch_bytes = options.training ? matching_bytes(anchors) : 0});
  std::vector<TensorId>& outputs = b.graph().outputs;
  for (std::size_t stage = 0; stage < scores.size(); ++stage) {
    const std::string name = is_cascade ? std::to_string(stage) : "";
    outputs.push_back(
        b.reshape("box.scores" + name, scores[stage], {batch, regions.boxes, classes}));
    outputs.push_back(b.reshape("box.boxes" + name, boxes[stage],
                                {batch, regions.boxes, is_cascade ? 4 : 4 * classes}));
    if (masks.empty()) continue;
    const Shape shape = {batch, regions.masks * classes, 28, 28};
    outputs.push_back(b.reshape("mask.logits" + name, masks[stage], shape));
  }
  return std::move(b).take();
}

/// mmdetection's: its batch norms keep what came in, 80 classes and the background.
constexpr FrozenResNetLayout kResNet50{.norm = FrozenNorm::TrainedScale};
constexpr FrozenResNetLayout kResNet101{.third_stage = 23, .norm = FrozenNorm::TrainedScale};
constexpr FrozenResNetLayout kResNeXt101{
    .groups = 32, .group_width = 4, .third_stage = 23, .norm = FrozenNorm::TrainedScale};
constexpr FrozenResNetLayout kWideResNeXt101{
    .groups = 64, .group_width = 4, .third_stage = 23, .norm = FrozenNorm::TrainedScale};

template <RegionLayout layout>
ZooEntry mmdetection_entry(std::string_view name, std::string_view title) {
  return {.name = name,
          .title = title,
          .source = "mmdetection 2.11, configs of that name",
          .image_size = 1037,  // as many pixels as 800 x 1344, the largest of its batches
          .classes = 81,
          .data_set = "coco",
          .build = build<region_cnn, layout>};
}

}  // namespace

std::vector<ZooEntry> mask_rcnn_networks() {
  return {
      {.name = "mask_rcnn",
       .aliases = {"maskrcnn_resnet50_fpn"},
       .title = "Mask R-CNN on ResNet-50 FPN",
       .source = "torchvision 0.15, maskrcnn_resnet50_fpn",
       .parameters = torchvision_parameters(44'401'393),
       .image_size = kImageSide,
       .classes = 91,
       .data_set = "coco",
       .build = build<region_cnn, RegionLayout{.heads = Heads::BoxesAndMasks}>},
      {.name = "faster_rcnn",
       .aliases = {"fasterrcnn_resnet50_fpn"},
       .title = "Faster R-CNN on ResNet-50 FPN",
       .source = "torchvision 0.15, fasterrcnn_resnet50_fpn",
       .parameters = torchvision_parameters(41'755'286),
       .image_size = kImageSide,
       .classes = 91,
       .data_set = "coco",
       .build = build<region_cnn, RegionLayout{}>},
      mmdetection_entry<RegionLayout{.backbone = kResNet50}>("faster_rcnn_r50_fpn",
                                                             "Faster R-CNN on ResNet-50, "
                                                             "mmdetection's"),
      mmdetection_entry<RegionLayout{.backbone = kResNet101}>("faster_rcnn_r101_fpn",
                                                              "Faster R-CNN on ResNet-101, "
                                                              "mmdetection's"),
      mmdetection_entry<RegionLayout{.heads = Heads::BoxesAndMasks, .backbone = kResNet50}>(
          "mask_rcnn_r50_fpn", "Mask R-CNN on ResNet-50, mmdetection's"),
      mmdetection_entry<RegionLayout{.heads = Heads::BoxesAndMasks, .backbone = kResNet101}>(
          "mask_rcnn_r101_fpn", "Mask R-CNN on ResNet-101, mmdetection's"),
      mmdetection_entry<RegionLayout{.heads = Heads::BoxesAndMasks, .backbone = kResNeXt101}>(
          "mask_rcnn_x101_32x4d_fpn", "Mask R-CNN on ResNeXt-101, mmdetection's"),
      mmdetection_entry<RegionLayout{.heads = Heads::BoxesAndMasks, .backbone = kWideResNeXt101}>(
          "mask_rcnn_x101_64x4d_fpn", "Mask R-CNN on ResNeXt-101 64x4d, mmdetection's"),
      mmdetection_entry<RegionLayout{.backbone = kWideResNeXt101}>(
          "faster_rcnn_x101_64x4d_fpn", "Faster R-CNN on ResNeXt-101 64x4d, mmdetection's"),
      mmdetection_entry<RegionLayout{.cascade = 3, .backbone = kResNet50}>(
          "cascade_rcnn_r50_fpn", "Cascade R-CNN on ResNet-50, mmdetection's"),
      mmdetection_entry<RegionLayout{.cascade = 3, .backbone = kResNet101}>(
          "cascade_rcnn_r101_fpn", "Cascade R-CNN on ResNet-101, mmdetection's"),
      mmdetection_entry<RegionLayout{.cascade = 3, .backbone = kResNeXt101}>(
          "cascade_rcnn_x101_32x4d_fpn", "Cascade R-CNN on ResNeXt-101, mmdetection's"),
      mmdetection_entry<RegionLayout{
          .heads = Heads::BoxesAndMasks, .cascade = 3, .backbone = kResNet50}>(
          "cascade_mask_rcnn_r50_fpn", "Cascade Mask R-CNN on ResNet-50, mmdetection's"),
      mmdetection_entry<RegionLayout{
          .heads = Heads::BoxesAndMasks, .cascade = 3, .backbone = kResNet101}>(
          "cascade_mask_rcnn_r101_fpn", "Cascade Mask R-CNN on ResNet-101, mmdetection's"),
      mmdetection_entry<RegionLayout{
          .heads = Heads::BoxesAndMasks, .cascade = 3, .backbone = kResNeXt101}>(
          "cascade_mask_rcnn_x101_32x4d_fpn", "Cascade Mask R-CNN on ResNeXt-101, mmdetection's"),
  };
}

}  // namespace tracecast::zoo_builders
