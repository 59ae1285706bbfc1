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

/// Of a square with as many pixels as 800 x 1088, in whole cells of the smallest map but one: the
/// short side is scaled to 800, and the long one of most of COCO's images is 4/3 of it, filled up
/// to a multiple of 32.
constexpr std::int64_t kImageSide = 928;

/// The feature pyramid's four levels and a fifth, every second cell of the last.
std::vector<TensorId> pyramid(GraphBuilder& b, bool training, TensorId images) {
  std::vector<TensorId> levels = feature_pyramid(b, frozen_resnet(b, images, training, {}));
  levels.push_back(b.max_pool("fpn.pool", levels.back(), Window::square(1, 2)));
  return levels;
}

/// Objectness and box of three anchors in every cell of every level, by the same weights.
void propose(GraphBuilder& b, const std::vector<TensorId>& levels) {
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
TensorId mask_head(GraphBuilder& b, TensorId x, std::int64_t classes) {
  for (int i = 1; i <= 4; ++i) {
    x = conv_relu(b, "mask.fcn" + std::to_string(i), x, 256, Window::square(3, 1, 1));
  }
  x = b.conv_transpose("mask.conv5", x, b.weight("mask.conv5.weight", {256, 256, 2, 2}),
                       b.weight("mask.conv5.bias", {256}), Window::square(2, 2));
  x = b.activation("mask.conv5.relu", x, "relu", true);
  return b.conv_layer("mask.fcn_logits", x, classes, Window::square(1), true);
}

// torchvision/models/detection/mask_rcnn.py (maskrcnn_resnet50_fpn), after He et al., arXiv
// 1703.06870; without masks faster_rcnn.py (fasterrcnn_resnet50_fpn), after Ren et al., arXiv
// 1506.01497, and its pyramid. The regions are as many as the heads may get. Reading them from the
// pyramid (RoIAlign) is an operator without a cost model, bounded by its bytes.
NetworkGraph region_cnn(const BuildOptions& options, Heads heads) {
  Regions regions = options.training ? kTraining : kInference;
  if (heads == Heads::Boxes) regions.masks = 0;
  const std::int64_t batch = options.batch, classes = *options.classes;
  GraphBuilder b("mask_rcnn", batch);
  b.graph().reserve(620, 300);
  const TensorId images = b.input("images", {batch, 3, *options.image_size, *options.image_size});
  const std::vector<TensorId> levels = pyramid(b, options.training, images);
  propose(b, levels);
  const auto regions_of = [&](const std::string& name, std::int64_t count, std::int64_t side) {
    const Shape result[] = {{batch * count, 256, side, side}};
    const TensorId read[] = {levels[0], levels[1], levels[2], levels[3]};
    return b.unknown(name, "RoiAlign", read, result).front();
  };

  TensorId x = b.flatten("box.flatten", regions_of("box.roi_align", regions.boxes, 7));
  x = hidden_layer(b, {"box.fc6", "box.relu6", ""}, x, 1024, false);
  x = hidden_layer(b, {"box.fc7", "box.relu7", ""}, x, 1024, false);
  const TensorId scores = b.linear_layer("box.cls_score", x, classes, true);
  const TensorId boxes = b.linear_layer("box.bbox_pred", x, 4 * classes, true);

  std::optional<TensorId> mask;
  if (heads == Heads::BoxesAndMasks) {
    mask = mask_head(b, regions_of("mask.roi_align", regions.masks, 14), classes);
  }
  const TensorId read[] = {scores, boxes};
  b.routine("regions", read, {.ops = count_small_ops(options, regions), .waits = true});
  std::vector<TensorId>& outputs = b.graph().outputs;
  outputs.push_back(b.reshape("box.scores", scores, {batch, regions.boxes, classes}));
  outputs.push_back(b.reshape("box.boxes", boxes, {batch, regions.boxes, 4 * classes}));
  if (mask) {
    const Shape shape = {batch, regions.masks * classes, 28, 28};
    outputs.push_back(b.reshape("mask.logits", *mask, shape));
  }
  return std::move(b).take();
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
       .build = build<region_cnn, Heads::BoxesAndMasks>},
      {.name = "faster_rcnn",
       .aliases = {"fasterrcnn_resnet50_fpn"},
       .title = "Faster R-CNN on ResNet-50 FPN",
       .source = "torchvision 0.15, fasterrcnn_resnet50_fpn",
       .parameters = torchvision_parameters(41'755'286),
       .image_size = kImageSide,
       .classes = 91,
       .data_set = "coco",
       .build = build<region_cnn, Heads::Boxes>},
  };
}

}  // namespace tracecast::zoo_builders
