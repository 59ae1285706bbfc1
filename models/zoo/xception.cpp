#include <string>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

struct Xception {
  GraphBuilder& b;

  TensorId relu(const std::string& name, TensorId x) const { return b.activation(name, x, "relu"); }
  /// Depthwise 3x3, 1x1, batch norm.
  TensorId separable(const std::string& name, TensorId x, std::int64_t channels) const {
    const std::int64_t in = b.shape(x)[1];
    x = b.conv_layer(name + ".depthwise", x, in, Window::square(3, 1, 1), false, in);
    x = b.conv_layer(name + ".pointwise", x, channels, Window::square(1), false);
    return b.batch_norm_layer(name + ".bn", x);
  }
  /// Two separable convolutions and a pooling beside a 1x1 with stride 2.
  TensorId halve(const std::string& name, TensorId x, std::int64_t first, std::int64_t channels,
                 bool starts_with_relu) const {
    Window pool = Window::square(3, 2);
    pool.pads = same_padding(b.shape(x)[2], b.shape(x)[3], pool);
    TensorId y = starts_with_relu ? relu(name + ".relu1", x) : x;
    y = separable(name + ".sepconv1", y, first);
    y = separable(name + ".sepconv2", relu(name + ".relu2", y), channels);
    y = b.max_pool(name + ".pool", y, pool);
    TensorId shortcut = b.conv_layer(name + ".skip", x, channels, Window::square(1, 2), false);
    shortcut = b.batch_norm_layer(name + ".skip_bn", shortcut);
    return b.add(name + ".add", y, shortcut);
  }
};

// Chollet, arXiv 1610.02357, figure 5; as in Keras applications.
NetworkGraph xception(const BuildOptions& options) {
  GraphBuilder b("xception", options.batch);
  const Xception net{b};
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = conv_bn_relu(b, "block1_conv1", x, 32, Window::square(3, 2));
  x = conv_bn_relu(b, "block1_conv2", x, 64, Window::square(3));
  x = net.halve("block2", x, 128, 128, false);
  x = net.halve("block3", x, 256, 256, true);
  x = net.halve("block4", x, 728, 728, true);
  for (int i = 5; i <= 12; ++i) {
    const std::string name = "block" + std::to_string(i);
    TensorId y = x;
    for (const char* part : {"1", "2", "3"}) {
      y = net.separable(name + ".sepconv" + part, net.relu(name + ".relu" + part, y), 728);
    }
    x = b.add(name + ".add", y, x);
  }
  x = net.halve("block13", x, 728, 1024, true);
  x = net.relu("block14.relu1", net.separable("block14.sepconv1", x, 1536));
  x = net.relu("block14.relu2", net.separable("block14.sepconv2", x, 2048));
  x = b.flatten("flatten", b.global_avg_pool("avg_pool", x));
  b.graph().outputs = {b.linear_layer("predictions", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> xception_networks() {
  return {{.name = "xception",
           .title = "Xception",
           .source = "Chollet, arXiv 1610.02357, figure 5; Keras applications",
           .parameters = exact(22'855'952, "Keras applications, trainable parameters"),
           .image_size = 299,
           .build = xception}};
}

}  // namespace tracecast::zoo_builders
