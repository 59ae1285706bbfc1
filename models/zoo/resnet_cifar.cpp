#include <string>

#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Three stages of `blocks` blocks each on 32x32, 16x16 and 8x8 pixels, 16, 32 and 64 times
/// `widening` channels.
struct CifarResNetLayout {
  int blocks;
  std::int64_t widening = 1;
};

struct CifarResNet {
  GraphBuilder& b;

  TensorId norm_relu(const std::string& name, TensorId x) const {
    return b.activation(name + ".relu", b.batch_norm_layer(name, x), "relu", true);
  }
  TensorId conv(const std::string& name, TensorId x, std::int64_t channels,
                std::int64_t stride = 1) const {
    return b.conv_layer(name, x, channels, Window::square(3, stride, 1), false);
  }
  /// Two 3x3; where the image halves, the shortcut is every second pixel with channels of zeros
  /// (option A).
  TensorId block(const std::string& name, TensorId x, std::int64_t channels,
                 std::int64_t stride) const {
    TensorId y = norm_relu(name + ".bn1", conv(name + ".conv1", x, channels, stride));
    y = b.batch_norm_layer(name + ".bn2", conv(name + ".conv2", y, channels));
    if (stride > 1) {
      const Shape out = b.shape(y);
      const std::int64_t missing = channels - b.shape(x)[1];
      x = b.slice(name + ".pixels", x, {out[0], b.shape(x)[1], out[2], out[3]});
      const std::int64_t before[] = {0, missing / 2, 0, 0};
      const std::int64_t after[] = {0, missing - missing / 2, 0, 0};
      x = b.pad(name + ".zeros", x, before, after);
    }
    return b.activation(name + ".relu", b.add(name + ".add", y, x, true), "relu");
  }
  /// Norms and ReLUs before the convolutions; a 1x1 as shortcut where channels or pixels change.
  TensorId wide_block(const std::string& name, TensorId x, std::int64_t channels,
                      std::int64_t stride) const {
    TensorId y = norm_relu(name + ".bn1", x);
    if (b.shape(x)[1] != channels) {
      x = b.conv_layer(name + ".shortcut", y, channels, Window::square(1, stride), false);
    }
    y = conv(name + ".conv1", y, channels, stride);
    y = conv(name + ".conv2", norm_relu(name + ".bn2", y), channels);
    return b.add(name + ".add", y, x);
  }
};

// He et al., arXiv 1512.03385, section 4.2; github.com/akamaster/pytorch_resnet_cifar10. Widened:
// Zagoruyko and Komodakis, arXiv 1605.07146, table 1, without dropout.
NetworkGraph resnet_cifar(const BuildOptions& options, const CifarResNetLayout& layout) {
  GraphBuilder b("resnet_cifar", options.batch);
  const CifarResNet net{b};
  const bool is_wide = layout.widening > 1;
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = net.conv("conv1", x, 16);
  if (!is_wide) x = net.norm_relu("bn1", x);
  for (int stage = 0; stage < 3; ++stage) {
    const std::int64_t channels = (16 << stage) * layout.widening;
    for (int i = 0; i < layout.blocks; ++i) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      x = is_wide ? net.wide_block(name, x, channels, stride)
                  : net.block(name, x, channels, stride);
    }
  }
  if (is_wide) x = net.norm_relu("bn1", x);
  x = b.flatten("flatten", b.global_avg_pool("avgpool", x));
  b.graph().outputs = {b.linear_layer("linear", x, *options.classes, true)};
  return std::move(b).take();
}

constexpr std::string_view kHe = "He et al., arXiv 1512.03385, table 6";
constexpr std::string_view kZagoruyko = "Zagoruyko and Komodakis, arXiv 1605.07146";

template <CifarResNetLayout layout>
ZooEntry entry(std::string_view name, std::vector<std::string_view> aliases, std::string_view title,
               double millions, double unit, std::string_view source) {
  return {.name = name,
          .aliases = std::move(aliases),
          .title = title,
          .source = source,
          .parameters = rounded(millions * 1e6, unit * 1e6, source),
          .image_size = 32,
          .classes = 10,
          .build = build<resnet_cifar, layout>};
}

}  // namespace

std::vector<ZooEntry> resnet_cifar_networks() {
  return {
      entry<CifarResNetLayout{3}>("resnet20_cifar10", {"resnet20"}, "ResNet-20 for 32x32 images",
                                  0.27, 0.01, kHe),
      entry<CifarResNetLayout{5}>("resnet32_cifar10", {"resnet32"}, "ResNet-32 for 32x32 images",
                                  0.46, 0.01, kHe),
      entry<CifarResNetLayout{7}>("resnet44_cifar10", {"resnet44"}, "ResNet-44 for 32x32 images",
                                  0.66, 0.01, kHe),
      entry<CifarResNetLayout{9}>("resnet56_cifar10", {"resnet56"}, "ResNet-56 for 32x32 images",
                                  0.85, 0.01, kHe),
      entry<CifarResNetLayout{18}>("resnet110_cifar10", {"resnet110"},
                                   "ResNet-110 for 32x32 images", 1.7, 0.1, kHe),
      entry<CifarResNetLayout{2, 8}>("wrn_16_8", {"wide_resnet16_8"},
                                     "Wide ResNet-16-8 for 32x32 images", 11.0, 0.1, kZagoruyko),
      entry<CifarResNetLayout{4, 10}>("wrn_28_10", {"wide_resnet28_10"},
                                      "Wide ResNet-28-10 for 32x32 images", 36.5, 0.1, kZagoruyko),
  };
}

}  // namespace tracecast::zoo_builders
