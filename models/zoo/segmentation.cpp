#include <string>
#include <vector>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"
#include "models/zoo/parts/resnet_features.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Blocks of the third stage of a ResNet whose last two keep the image's size.
struct SegmentationLayout {
  int third_stage;
  bool is_deeplab;
};

struct Segmentation {
  GraphBuilder& b;
  const BuildOptions& options;

  TensorId conv(const std::string& name, TensorId x, std::int64_t channels,
                const Window& window) const {
    return conv_bn_relu(b, name, x, channels, window);
  }
  /// A 3x3 to a quarter of the channels, and a 1x1 to the classes.
  TensorId fcn_head(const std::string& name, TensorId x) const {
    x = conv(name + ".0", x, b.shape(x)[1] / 4, Window::square(3, 1, 1));
    if (options.training) x = b.dropout(name + ".3", x);
    return b.conv_layer(name + ".4", x, *options.classes, Window::square(1), true);
  }
  /// Atrous spatial pyramid pooling: 1x1, three 3x3 with wide strides between their cells, and the
  /// image's mean.
  TensorId deeplab_head(const std::string& name, TensorId x) const {
    std::vector<TensorId> parts = {conv(name + ".aspp.0", x, 256, Window::square(1))};
    for (const std::int64_t rate : {12, 24, 36}) {
      parts.push_back(conv(name + ".aspp.rate" + std::to_string(rate), x, 256,
                           Window::square(3, 1, rate, rate)));
    }
    TensorId mean = b.global_avg_pool(name + ".aspp.mean", x);
    mean = conv(name + ".aspp.pooled", mean, 256, Window::square(1));
    Shape grown = b.shape(x);
    grown[1] = 256;
    parts.push_back(b.resize(name + ".aspp.grown", mean, grown, "linear"));
    x = conv(name + ".aspp.project", b.concat(name + ".aspp.cat", parts, 1), 256,
             Window::square(1));
    if (options.training) x = b.dropout(name + ".aspp.dropout", x);
    x = conv(name + ".1", x, 256, Window::square(3, 1, 1));
    return b.conv_layer(name + ".4", x, *options.classes, Window::square(1), true);
  }
  void grow(const std::string& name, TensorId x) const {
    const std::int64_t side = *options.image_size;
    b.graph().outputs.push_back(
        b.resize(name, x, {b.shape(x)[0], b.shape(x)[1], side, side}, "linear"));
  }
};

// torchvision/models/segmentation/fcn.py (Long et al., arXiv 1411.4038) and deeplabv3.py (Chen et
// al., arXiv 1706.05587), with the auxiliary head that its weights have.
NetworkGraph segmentation(const BuildOptions& options, const SegmentationLayout& layout) {
  GraphBuilder b("segmentation", options.batch);
  const Segmentation net{b, options};
  const TensorId images =
      b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  const std::vector<TensorId> stages =
      resnet_stages(b, images, {.blocks = {3, 4, layout.third_stage, 3}, .dilated = true});
  net.grow("out", layout.is_deeplab ? net.deeplab_head("classifier", stages[3])
                                    : net.fcn_head("classifier", stages[3]));
  net.grow("aux", net.fcn_head("aux_classifier", stages[2]));
  return std::move(b).take();
}

template <SegmentationLayout layout>
ZooEntry entry(std::string_view name, std::string_view title, std::int64_t parameters,
               double gmacs) {
  ZooEntry entry = torchvision_entry<segmentation, layout>(name, title, parameters, gmacs);
  entry.image_size = 520;
  entry.classes = 21;
  entry.data_set = "coco";
  return entry;
}

}  // namespace

std::vector<ZooEntry> segmentation_networks() {
  return {
      entry<SegmentationLayout{6, false}>("fcn_resnet50", "FCN on ResNet-50", 35'322'218, 152.72),
      entry<SegmentationLayout{23, false}>("fcn_resnet101", "FCN on ResNet-101", 54'314'346,
                                           232.74),
      entry<SegmentationLayout{6, true}>("deeplabv3_resnet50", "DeepLab v3 on ResNet-50",
                                         42'004'074, 178.72),
      entry<SegmentationLayout{23, true}>("deeplabv3_resnet101", "DeepLab v3 on ResNet-101",
                                          60'996'202, 258.74),
  };
}

}  // namespace tracecast::zoo_builders
