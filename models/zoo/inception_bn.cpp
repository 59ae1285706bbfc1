#include <string>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Inception with batch norm, as published or as MXNet's examples have it.
struct InceptionBnLayout {
  bool as_mxnet = false;
};

/// Channels of one module; `one` = 0: the image is halved and the pooling branch keeps its
/// channels.
struct Module {
  const char* name;
  std::int64_t one, reduce3, three, reduce_double, twice, pooled;
  bool max_pooling;
};

constexpr Module kModules[] = {
    {"3a", 64, 64, 64, 64, 96, 32, false},       {"3b", 64, 64, 96, 64, 96, 64, false},
    {"3c", 0, 128, 160, 64, 96, 0, true},        {"4a", 224, 64, 96, 96, 128, 128, false},
    {"4b", 192, 96, 128, 96, 128, 128, false},   {"4c", 160, 128, 160, 128, 160, 96, false},
    {"4d", 96, 128, 192, 160, 192, 96, false},   {"4e", 0, 128, 192, 192, 256, 0, true},
    {"5a", 352, 192, 320, 160, 224, 128, false}, {"5b", 352, 192, 320, 192, 224, 128, true}};

/// MXNet's modules project the pooling of stage 4 to one width throughout.
constexpr std::int64_t kMxnetPooled4 = 128;

// Ioffe and Szegedy, arXiv 1502.03167, figure 5: 3x3 and double 3x3 branches, batch norm after
// every convolution. With `as_mxnet` example/image-classification/symbols/inception-bn.py of
// MXNet 1.x: poolings rounded down, biases before the batch norms.
NetworkGraph inception_bn(const BuildOptions& options, const InceptionBnLayout& layout) {
  GraphBuilder b("inception_bn", options.batch);
  b.graph().reserve(720, 260);
  const auto conv = [&](const std::string& name, TensorId x, std::int64_t channels,
                        const Window& window) {
    return conv_bn_relu(b, name, x, channels, window, 1, layout.as_mxnet);
  };
  const Window one = Window::square(1), pool = Window::square(3, 2);
  const bool rounds_up = !layout.as_mxnet;
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = conv("conv1", x, 64, Window::square(7, 2, 3));
  x = b.max_pool("pool1", x, pool, rounds_up);
  x = conv("conv2_reduce", x, 64, one);
  x = conv("conv2", x, 192, same_window(3, 3));
  x = b.max_pool("pool2", x, pool, rounds_up);
  for (const Module& m : kModules) {
    const std::string name = std::string("inception_") + m.name;
    const bool halves = m.one == 0;
    const Window last = Window::square(3, halves ? 2 : 1, 1);
    std::vector<TensorId> parts;
    if (!halves) parts.push_back(conv(name + ".1x1", x, m.one, one));
    TensorId y = conv(name + ".3x3_reduce", x, m.reduce3, one);
    parts.push_back(conv(name + ".3x3", y, m.three, last));
    y = conv(name + ".double_reduce", x, m.reduce_double, one);
    y = conv(name + ".double_1", y, m.twice, same_window(3, 3));
    parts.push_back(conv(name + ".double_2", y, m.twice, last));
    y = m.max_pooling ? b.max_pool(name + ".pool", x, last) : b.avg_pool(name + ".pool", x, last);
    if (!halves) {
      const bool is_stage_4 = m.name[0] == '4';
      y = conv(name + ".pool_proj", y, layout.as_mxnet && is_stage_4 ? kMxnetPooled4 : m.pooled,
               one);
    }
    parts.push_back(y);
    x = b.concat(name + ".cat", parts, 1);
  }
  x = b.global_avg_pool("avgpool", x);
  x = b.flatten("flatten", x);
  b.graph().outputs = {b.linear_layer("fc", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> inception_bn_networks() {
  return {
      {.name = "inception_bn",
       .title = "Inception with batch norm, MXNet's",
       .source = "MXNet 1.x, symbols/inception-bn.py",
       .image_size = 224,
       .build = build<inception_bn, InceptionBnLayout{.as_mxnet = true}>},
      {.name = "inception_v2",
       .title = "Inception with batch norm as published",
       .source = "Ioffe and Szegedy, arXiv 1502.03167, figure 5",
       .image_size = 224,
       .build = build<inception_bn, InceptionBnLayout{}>},
  };
}

}  // namespace tracecast::zoo_builders
