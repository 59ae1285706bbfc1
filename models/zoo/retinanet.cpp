#include <string>
#include <vector>

#include "models/zoo/parts/family.hpp"
#include "models/zoo/parts/pyramid.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::int64_t kAnchors = 9;

/// The same four 3x3 convolutions and a last one on every level of the pyramid.
class Head {
 public:
  Head(GraphBuilder& b, const std::string& name, std::int64_t values) : b_(b), name_(name) {
    for (int i = 0; i < 5; ++i) {
      const std::string conv = name + "." + std::to_string(i);
      const std::int64_t channels = i < 4 ? 256 : kAnchors * values;
      weights_.push_back(b.weight(conv + ".weight", {channels, 256, 3, 3}));
      biases_.push_back(b.weight(conv + ".bias", {channels}));
    }
    values_ = values;
  }
  /// batch x anchors x values of one level.
  TensorId read(TensorId x, std::size_t level) {
    for (std::size_t i = 0; i < 5; ++i) {
      const std::string conv = name_ + "." + std::to_string(i) + "." + std::to_string(level);
      x = b_.conv(conv, x, weights_[i], biases_[i], Window::square(3, 1, 1));
      if (i < 4) x = b_.activation(conv + ".relu", x, "relu", true);
    }
    const std::string name = name_ + ".out." + std::to_string(level);
    return b_.reshape(name, x, {b_.shape(x)[0], -1, values_});
  }

 private:
  GraphBuilder& b_;
  std::string name_;
  std::vector<TensorId> weights_, biases_;
  std::int64_t values_ = 0;
};

// torchvision/models/detection/retinanet.py, after Lin et al., arXiv 1708.02002; with ResNeXt-50 and 264 classes the
// detector of MLPerf training since v2.0. Images are square here. Focal loss, matching and suppression are not in the
// graph.
NetworkGraph retinanet(const BuildOptions& options, const FrozenResNetLayout& layout) {
  GraphBuilder b("retinanet", options.batch);
  const TensorId images =
      b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  std::vector<TensorId> maps = frozen_resnet(b, images, options.training, layout);
  maps.erase(maps.begin());
  std::vector<TensorId> levels = feature_pyramid(b, maps);
  levels.push_back(b.conv_layer("fpn.p6", levels.back(), 256, Window::square(3, 2, 1), true));
  const TensorId p6 = b.activation("fpn.p6.relu", levels.back(), "relu");
  levels.push_back(b.conv_layer("fpn.p7", p6, 256, Window::square(3, 2, 1), true));
  Head classes(b, "cls", *options.classes), boxes(b, "bbox", 4);
  std::vector<TensorId> scores, coordinates;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    scores.push_back(classes.read(levels[i], i));
    coordinates.push_back(boxes.read(levels[i], i));
  }
  b.graph().outputs = {b.concat("scores", scores, 1), b.concat("boxes", coordinates, 1)};
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
      {.name = "retinanet_resnext50",
       .title = "RetinaNet on ResNeXt-50, MLPerf's",
       .source = "MLPerf training v2.0, single_stage_detector (retinanet_resnext50_32x4d_fpn)",
       .image_size = 800,
       .classes = 264,
       .build = build<retinanet, FrozenResNetLayout{.groups = 32, .group_width = 4}>},
  };
}

}  // namespace tracecast::zoo_builders
