#include <string>

#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// NASNet-A (cells @ 24 * channels).
struct NasNetLayout {
  int cells;  ///< normal ones in each of three stages
  std::int64_t channels, stem;
  bool skips_reduction;  ///< the cell after a reduction reads what the reduction's input read
};

struct NasNet {
  GraphBuilder& b;

  TensorId relu(const std::string& name, TensorId x) const { return b.activation(name, x, "relu"); }
  /// TensorFlow's "SAME".
  Window same(TensorId x, std::int64_t kernel, std::int64_t stride) const {
    Window window = Window::square(kernel, stride);
    window.pads = same_padding(b.shape(x)[2], b.shape(x)[3], window);
    return window;
  }
  TensorId average(const std::string& name, TensorId x, std::int64_t stride) const {
    return b.avg_pool(name, x, same(x, 3, stride), false, false);
  }
  TensorId maximum(const std::string& name, TensorId x) const {
    return b.max_pool(name, x, same(x, 3, 2));
  }
  /// Twice: ReLU, depthwise, 1x1, batch norm; the first has the stride.
  TensorId separable(const std::string& name, TensorId x, std::int64_t channels,
                     std::int64_t kernel, std::int64_t stride = 1) const {
    for (const char* part : {".1", ".2"}) {
      const std::int64_t in = b.shape(x)[1];
      x = relu(name + part + ".relu", x);
      x = b.conv_layer(name + part + ".depthwise", x, in, same(x, kernel, stride), false, in);
      x = b.conv_layer(name + part + ".pointwise", x, channels, Window::square(1), false);
      x = b.batch_norm_layer(name + part + ".bn", x);
      stride = 1;
    }
    return x;
  }
  TensorId squeeze(const std::string& name, TensorId x, std::int64_t channels) const {
    x = b.conv_layer(name + ".conv", relu(name + ".relu", x), channels, Window::square(1), false);
    return b.batch_norm_layer(name + ".bn", x);
  }
  /// Halves the image: a 1x1 on every second pixel, and another on those between them.
  TensorId halve(const std::string& name, TensorId x, std::int64_t channels) const {
    const Window every_second = Window::square(1, 2);
    x = relu(name + ".relu", x);
    const auto path = [&](const std::string& part) {
      const TensorId y = b.avg_pool(part + ".pick", x, every_second);
      return b.conv_layer(part + ".conv", y, channels / 2, Window::square(1), false);
    };
    const TensorId both[] = {path(name + ".path_1"), path(name + ".path_2")};
    return b.batch_norm_layer(name + ".bn", b.concat(name + ".cat", both, 1));
  }
  TensorId normal(const std::string& name, TensorId x, TensorId before,
                  std::int64_t channels) const {
    const TensorId left = b.shape(before)[2] > b.shape(x)[2]
                              ? halve(name + ".prev", before, channels)
                              : squeeze(name + ".prev", before, channels);
    const TensorId right = squeeze(name + ".conv_1x1", x, channels);
    const TensorId joined[] = {
        left,
        b.add(name + ".0", separable(name + ".0.left", right, channels, 5),
              separable(name + ".0.right", left, channels, 3)),
        b.add(name + ".1", separable(name + ".1.left", left, channels, 5),
              separable(name + ".1.right", left, channels, 3)),
        b.add(name + ".2", average(name + ".2.left", right, 1), left),
        b.add(name + ".3", average(name + ".3.left", left, 1), average(name + ".3.right", left, 1)),
        b.add(name + ".4", separable(name + ".4.left", right, channels, 3), right)};
    return b.concat(name + ".cat", joined, 1);
  }
  TensorId reduction(const std::string& name, TensorId right, TensorId left,
                     std::int64_t channels) const {
    const TensorId zero = b.add(name + ".0", separable(name + ".0.left", right, channels, 5, 2),
                                separable(name + ".0.right", left, channels, 7, 2));
    const TensorId one = b.add(name + ".1", maximum(name + ".1.left", right),
                               separable(name + ".1.right", left, channels, 7, 2));
    const TensorId two = b.add(name + ".2", average(name + ".2.left", right, 2),
                               separable(name + ".2.right", left, channels, 5, 2));
    const TensorId three = b.add(name + ".3", average(name + ".3.right", zero, 1), one);
    const TensorId four = b.add(name + ".4", separable(name + ".4.left", zero, channels, 3),
                                maximum(name + ".4.right", right));
    const TensorId joined[] = {one, two, three, four};
    return b.concat(name + ".cat", joined, 1);
  }
};

// Zoph et al., arXiv 1707.07012, figure 4 and appendix; tensorflow/models, nasnet. Left out: the
// auxiliary head and the dropped paths of training.
NetworkGraph nasnet(const BuildOptions& options, const NasNetLayout& layout) {
  GraphBuilder b("nasnet", options.batch);
  b.graph().reserve(3600, 1500);
  const NasNet net{b};
  const std::int64_t first = layout.channels / 4, second = layout.channels / 2;
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  const TensorId stem = b.batch_norm_layer(
      "conv0.bn", b.conv_layer("conv0", x, layout.stem, Window::square(3, 2), false));
  TensorId before =
      net.reduction("cell_stem_0", net.squeeze("cell_stem_0.conv_1x1", stem, first), stem, first);
  x = net.reduction("cell_stem_1", net.squeeze("cell_stem_1.conv_1x1", before, second),
                    net.halve("cell_stem_1.prev", stem, second), second);
  std::int64_t channels = layout.channels;
  for (int stage = 0; stage < 3; ++stage) {
    const std::string name = "stage_" + std::to_string(stage) + ".";
    if (stage > 0) {
      channels *= 2;
      const TensorId reduced =
          net.reduction(name + "reduction", net.squeeze(name + "reduction.conv_1x1", x, channels),
                        net.squeeze(name + "reduction.prev", before, channels), channels);
      if (!layout.skips_reduction) before = x;
      x = reduced;
    }
    for (int i = 0; i < layout.cells; ++i) {
      const TensorId next = net.normal(name + std::to_string(i), x, before, channels);
      before = x;
      x = next;
    }
  }
  x = b.flatten("flatten", b.global_avg_pool("avg_pool", net.relu("relu", x)));
  if (options.training) x = b.dropout("dropout", x);
  b.graph().outputs = {b.linear_layer("last_linear", x, *options.classes, true)};
  return std::move(b).take();
}

constexpr std::string_view kZoph = "Zoph et al., arXiv 1707.07012, table 2";
constexpr std::string_view kPretrained = "Keras applications, trainable parameters";

}  // namespace

std::vector<ZooEntry> nasnet_networks() {
  return {
      {.name = "nasnet_large",
       .aliases = {"nasneta_large", "nasnet_a_large"},
       .title = "NASNet-A large, 6 @ 4032",
       .source = kZoph,
       .parameters = exact(88'753'150, kPretrained),
       .macs = rounded(23.8e9, 0.1e9, kZoph),
       .image_size = 331,
       .build = build<nasnet, NasNetLayout{6, 168, 96, true}>},
      {.name = "nasnet_mobile",
       .aliases = {"nasneta_mobile", "nasnet_a_mobile"},
       .title = "NASNet-A mobile, 4 @ 1056",
       .source = kZoph,
       .parameters = exact(5'289'978, kPretrained),
       .macs = rounded(564e6, 1e6, "Zoph et al., arXiv 1707.07012, table 3"),
       .image_size = 224,
       .build = build<nasnet, NasNetLayout{4, 44, 32, false}>},
  };
}

}  // namespace tracecast::zoo_builders
