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

// mmsegmentation 0.11, decode_heads: heads of 512 channels on a ResNet with a deep stem whose last
// two stages keep their size, and an auxiliary FCN on the third.
enum class DecodeHead { Fcn, Psp, Aspp, SeparableAspp };
struct MmSegmentationLayout {
  int third_stage;
  DecodeHead head;
};

class MmHeads {
 public:
  MmHeads(GraphBuilder& b, const BuildOptions& options) : b_(b), options_(options) {}

  TensorId decode(DecodeHead head, const std::vector<TensorId>& stages) {
    const TensorId x = stages[3];
    switch (head) {
      case DecodeHead::Fcn:
        return fcn("decode", x, 512, 2);
      case DecodeHead::Psp:
        return classify("decode", pyramid_pooling(x), 512);
      case DecodeHead::Aspp:
        return classify("decode", atrous(x, false), 512);
      case DecodeHead::SeparableAspp:
        return classify("decode", with_low_level(atrous(x, true), stages[0]), 512);
    }
    return x;
  }
  /// 3x3 convolutions, what came in beside their result, a 3x3 more where there are several.
  TensorId fcn(const std::string& name, TensorId x, std::int64_t channels, int convolutions) {
    TensorId y = x;
    for (int i = 0; i < convolutions; ++i) {
      y = conv(name + ".convs." + std::to_string(i), y, channels, Window::square(3, 1, 1));
    }
    if (convolutions > 1) {
      const TensorId both[] = {x, y};
      y = conv(name + ".cat", b_.concat(name + ".both", both, 1), channels,
               Window::square(3, 1, 1));
    }
    return classify(name, y, channels);
  }

 private:
  TensorId conv(const std::string& name, TensorId x, std::int64_t channels, const Window& window) {
    return conv_bn_relu(b_, name, x, channels, window);
  }
  /// 3x3 of each channel by itself, then a 1x1.
  TensorId separable(const std::string& name, TensorId x, std::int64_t channels,
                     const Window& window) {
    const std::int64_t inner = b_.shape(x)[1];
    x = b_.conv(name + ".depthwise", x,
                b_.weight(name + ".depthwise.weight", {inner, 1, window.kernel_h, window.kernel_w}),
                {}, window, inner);
    x = b_.batch_norm_layer(name + ".depthwise.bn", x);
    x = b_.activation(name + ".depthwise.relu", x, "relu", true);
    return conv(name + ".pointwise", x, channels, Window::square(1));
  }
  TensorId grown(const std::string& name, TensorId x, TensorId like) {
    Shape shape = b_.shape(like);
    shape[1] = b_.shape(x)[1];
    return b_.resize(name, x, shape, "linear");
  }
  TensorId classify(const std::string& name, TensorId x, std::int64_t) {
    if (options_.training) x = b_.dropout(name + ".dropout", x);
    return b_.conv_layer(name + ".seg", x, *options_.classes, Window::square(1), true);
  }
  /// Means of 1, 2, 3 and 6 cells a side, in 512 channels each.
  TensorId pyramid_pooling(TensorId x) {
    std::vector<TensorId> parts{x};
    for (const std::int64_t cells : {1, 2, 3, 6}) {
      const std::string name = "decode.psp." + std::to_string(cells);
      TensorId mean = b_.adaptive_avg_pool(name + ".mean", x, cells, cells);
      mean = conv(name, mean, 512, Window::square(1));
      parts.push_back(grown(name + ".grown", mean, x));
    }
    return conv("decode.bottleneck", b_.concat("decode.psp.cat", parts, 1), 512,
                Window::square(3, 1, 1));
  }
  TensorId atrous(TensorId x, bool is_separable) {
    TensorId mean = b_.global_avg_pool("decode.mean", x);
    mean = conv("decode.pooled", mean, 512, Window::square(1));
    std::vector<TensorId> parts{grown("decode.pooled.grown", mean, x)};
    parts.push_back(conv("decode.aspp.1", x, 512, Window::square(1)));
    for (const std::int64_t rate : {12, 24, 36}) {
      const std::string name = "decode.aspp." + std::to_string(rate);
      const Window window = Window::square(3, 1, rate, rate);
      parts.push_back(is_separable ? separable(name, x, 512, window) : conv(name, x, 512, window));
    }
    return conv("decode.bottleneck", b_.concat("decode.aspp.cat", parts, 1), 512,
                Window::square(3, 1, 1));
  }
  TensorId with_low_level(TensorId x, TensorId low) {
    const TensorId thin = conv("decode.low", low, 48, Window::square(1));
    const TensorId both[] = {grown("decode.up", x, low), thin};
    x = b_.concat("decode.low.cat", both, 1);
    for (const char* name : {"decode.sep.0", "decode.sep.1"}) {
      x = separable(name, x, 512, Window::square(3, 1, 1));
    }
    return x;
  }

  GraphBuilder& b_;
  const BuildOptions& options_;
};

NetworkGraph mm_segmentation(const BuildOptions& options, const MmSegmentationLayout& layout) {
  GraphBuilder b("segmentation", options.batch);
  const Segmentation net{b, options};
  const TensorId images =
      b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  const std::vector<TensorId> stages = resnet_stages(
      b, images, {.blocks = {3, 4, layout.third_stage, 3}, .dilated = true, .deep_stem = true});
  MmHeads heads(b, options);
  net.grow("out", heads.decode(layout.head, stages));
  net.grow("aux", heads.fcn("aux", stages[2], 256, 1));
  return std::move(b).take();
}

template <MmSegmentationLayout layout>
ZooEntry mm_entry(std::string_view name, std::string_view title) {
  return {.name = name,
          .title = title,
          .source = "mmsegmentation 0.11, configs of that name",
          .image_size = 724,  // as many pixels as 512 x 1024
          .classes = 19,
          .build = build<mm_segmentation, layout>};
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
      mm_entry<MmSegmentationLayout{6, DecodeHead::Fcn}>("fcn_r50_d8",
                                                         "FCN on ResNet-50, "
                                                         "mmsegmentation's"),
      mm_entry<MmSegmentationLayout{23, DecodeHead::Fcn}>("fcn_r101_d8",
                                                          "FCN on ResNet-101, "
                                                          "mmsegmentation's"),
      mm_entry<MmSegmentationLayout{6, DecodeHead::Psp}>("pspnet_r50_d8",
                                                         "PSPNet on ResNet-50, "
                                                         "mmsegmentation's"),
      mm_entry<MmSegmentationLayout{23, DecodeHead::Psp}>("pspnet_r101_d8",
                                                          "PSPNet on ResNet-101, "
                                                          "mmsegmentation's"),
      mm_entry<MmSegmentationLayout{6, DecodeHead::Aspp}>("deeplabv3_r50_d8",
                                                          "DeepLab v3 on ResNet-50, "
                                                          "mmsegmentation's"),
      mm_entry<MmSegmentationLayout{23, DecodeHead::Aspp}>("deeplabv3_r101_d8",
                                                           "DeepLab v3 on ResNet-101, "
                                                           "mmsegmentation's"),
      mm_entry<MmSegmentationLayout{6, DecodeHead::SeparableAspp}>("deeplabv3plus_r50_d8",
                                                                   "DeepLab v3+ on ResNet-50, "
                                                                   "mmsegmentation's"),
      mm_entry<MmSegmentationLayout{23, DecodeHead::SeparableAspp}>("deeplabv3plus_r101_d8",
                                                                    "DeepLab v3+ on ResNet-101, "
                                                                    "mmsegmentation's"),
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
