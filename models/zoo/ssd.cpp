#include <string>
#include <vector>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"
#include "models/zoo/parts/resnet_features.hpp"

namespace tracecast::zoo_builders {
namespace {

/// SSD300 on a ResNet-34 or, with `bottleneck`, ResNet-50; `batch_norm`: after the extra
/// convolutions.
struct SsdResNetLayout {
  bool bottleneck, batch_norm;
};

/// What predicts boxes from one feature map each: 4 coordinates and a score per class for every
/// default box.
class BoxHeads {
 public:
  BoxHeads(GraphBuilder& b, std::int64_t classes) : b_(b), classes_(classes) {}

  void add(TensorId features, std::int64_t boxes_per_cell) {
    const std::string index = std::to_string(coordinates_.size());
    coordinates_.push_back(head("loc." + index, features, boxes_per_cell, 4));
    scores_.push_back(head("conf." + index, features, boxes_per_cell, classes_));
  }
  /// The results of all maps together, N x values x boxes x 1.
  void finish() {
    b_.graph().outputs = {b_.concat("scores", scores_, 2),
                          b_.concat("coordinates", coordinates_, 2)};
  }

 private:
  TensorId head(const std::string& name, TensorId features, std::int64_t boxes_per_cell,
                std::int64_t values) {
    const TensorId y =
        b_.conv_layer(name, features, boxes_per_cell * values, Window::square(3, 1, 1), true);
    return b_.reshape(name + ".view", y, {b_.shape(y)[0], values, -1, 1});
  }

  GraphBuilder& b_;
  std::int64_t classes_;
  std::vector<TensorId> coordinates_, scores_;
};

constexpr std::int64_t kBoxesPerCell[] = {4, 6, 6, 6, 4, 4};

/// Convolutions that shrink the last map: 1x1 to `low_precision` channels, then 3x3 to `wide`.
struct Extra {
  std::int64_t low_precision, wide, stride;
};

/// Each channel vector divided by its length and multiplied by a learned scale (Liu et al.,
/// section 3.1).
TensorId normalized_channels(GraphBuilder& b, const std::string& name, TensorId x) {
  const std::int64_t channel_axis[] = {1};
  const TensorId square = b.mul(name + ".square", x, x);
  const TensorId sum = b.reduce(name + ".sum", square, channel_axis, true, "sum");
  const TensorId parts[] = {x, b.activation(name + ".sqrt", sum, "sqrt")};
  const TensorId unit = b.binary(name + ".div", "div", parts);
  return b.mul(name + ".scale", unit, b.weight(name + ".weight", {1, b.shape(x)[1], 1, 1}));
}

// torchvision/models/detection/ssd.py (ssd300_vgg16), after Liu et al., arXiv 1512.02325: VGG-16 up
// to conv5_3, its classifier as convolutions, four pairs of extra ones.
NetworkGraph ssd_vgg16(const BuildOptions& options) {
  constexpr int kConvolutions[] = {2, 2, 3, 3, 3};
  constexpr std::int64_t kChannels[] = {64, 128, 256, 512, 512};
  constexpr Extra kExtras[] = {{256, 512, 2}, {128, 256, 2}, {128, 256, 1}, {128, 256, 1}};
  GraphBuilder b("ssd300", options.batch);
  b.graph().reserve(180, 100);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  std::vector<TensorId> maps;
  for (int group = 0; group < 5; ++group) {
    const std::string name = std::to_string(group + 1);
    // The third pooling rounds up, so that 75 becomes 38.
    if (group > 0)
      x = b.max_pool("pool" + std::to_string(group), x, Window::square(2, 2), group == 3);
    for (int i = 0; i < kConvolutions[group]; ++i) {
      x = conv_relu(b, "conv" + name + "_" + std::to_string(i + 1), x, kChannels[group],
                    Window::square(3, 1, 1));
    }
    if (group == 3) maps.push_back(normalized_channels(b, "conv4_3_norm", x));
  }
  x = b.max_pool("pool5", x, Window::square(3, 1, 1));
  x = conv_relu(b, "fc6", x, 1024, Window::square(3, 1, 6, 6));
  x = conv_relu(b, "fc7", x, 1024, Window::square(1));
  maps.push_back(x);
  for (const Extra& extra : kExtras) {
    const std::string name = "conv" + std::to_string(maps.size() + 6);
    x = conv_relu(b, name + "_1", x, extra.low_precision, Window::square(1));
    x = conv_relu(b, name + "_2", x, extra.wide,
                  Window::square(3, extra.stride, extra.stride == 2 ? 1 : 0));
    maps.push_back(x);
  }
  BoxHeads heads(b, *options.classes);
  for (std::size_t i = 0; i < maps.size(); ++i) heads.add(maps[i], kBoxesPerCell[i]);
  heads.finish();
  return std::move(b).take();
}

// ResNet up to conv4_x, which keeps the size; five pairs of extra convolutions. With batch norm:
// NVIDIA/DeepLearningExamples, PyTorch/Detection/SSD/ssd/model.py (v1.1); without: the single stage
// detector of MLPerf Training v0.5 to v1.1.
NetworkGraph ssd_resnet(const BuildOptions& options, const SsdResNetLayout& layout) {
  constexpr Extra kExtras[] = {
      {256, 512, 2}, {256, 512, 2}, {128, 256, 2}, {128, 256, 1}, {128, 256, 1}};
  GraphBuilder b("ssd300", options.batch);
  b.graph().reserve(420, 220);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = resnet_features(
      b, x, {.blocks = {3, 4, 6, 0}, .strides = {1, 2, 1, 1}, .bottleneck = layout.bottleneck});
  BoxHeads heads(b, *options.classes);
  heads.add(x, kBoxesPerCell[0]);
  for (int i = 0; i < 5; ++i) {
    const Extra& extra = kExtras[i];
    const std::string name = "extra" + std::to_string(i);
    const Window window = Window::square(3, extra.stride, extra.stride == 2 ? 1 : 0);
    if (layout.batch_norm) {
      x = chain(b, name, x,
                {{".0", extra.low_precision, Window::square(1)}, {".1", extra.wide, window}});
    } else {
      x = conv_relu(b, name + ".0", x, extra.low_precision, Window::square(1));
      x = conv_relu(b, name + ".1", x, extra.wide, window);
    }
    heads.add(x, kBoxesPerCell[i + 1]);
  }
  heads.finish();
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> ssd_networks() {
  return {
      {.name = "ssd300",
       .title = "SSD300 on VGG-16",
       .source = "torchvision 0.15, ssd300_vgg16",
       .parameters = torchvision_parameters(35'641'826),
       .macs = torchvision_gmacs(34.86),
       .image_size = 300,
       .classes = 91,
       .data_set = "coco",
       .build = ssd_vgg16},
      {.name = "ssd300_rn34",
       .title = "SSD300 on ResNet-34, MLPerf's",
       .source = "MLPerf training v0.5, single_stage_detector",
       .image_size = 300,
       .classes = 81,
       .data_set = "coco",
       .build = build<ssd_resnet, SsdResNetLayout{.bottleneck = false, .batch_norm = false}>},
      {.name = "ssd300_rn50",
       .title = "SSD300 on ResNet-50, NVIDIA's",
       .source = "NVIDIA DeepLearningExamples, SSD300 v1.1 for PyTorch",
       .image_size = 300,
       .classes = 81,
       .data_set = "coco",
       .build = build<ssd_resnet, SsdResNetLayout{.bottleneck = true, .batch_norm = true}>},
  };
}

}  // namespace tracecast::zoo_builders
