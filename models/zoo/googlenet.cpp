#include <string>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// GoogLeNet as published, or with batch norm as torchvision has it.
struct GoogLeNetLayout {
  bool batch_norm = false;
  bool rounds_up = true;  ///< poolings of odd images, as Caffe and PyTorch's ceil_mode do
};

/// Channels of one inception module: 1x1; reduction and result of the 3x3 and the 5x5 branch; after
/// the pooling.
struct Module {
  const char* name;
  std::int64_t one, reduce3, three, reduce5, five, pooled;
};

constexpr Module kModules[] = {
    {"inception_3a", 64, 96, 128, 16, 32, 32},     {"inception_3b", 128, 128, 192, 32, 96, 64},
    {"inception_4a", 192, 96, 208, 16, 48, 64},    {"inception_4b", 160, 112, 224, 24, 64, 64},
    {"inception_4c", 128, 128, 256, 24, 64, 64},   {"inception_4d", 112, 144, 288, 32, 64, 64},
    {"inception_4e", 256, 160, 320, 32, 128, 128}, {"inception_5a", 256, 160, 320, 32, 128, 128},
    {"inception_5b", 384, 192, 384, 48, 128, 128}};

// Szegedy et al., arXiv 1409.4842, table 1, with the poolings rounded up as in BVLC Caffe's
// bvlc_googlenet; with `batch_norm` torchvision/models/googlenet.py: no LRN, 3x3 where the paper
// has 5x5, another last pooling.
NetworkGraph googlenet(const BuildOptions& options, const GoogLeNetLayout& layout) {
  GraphBuilder b("googlenet", options.batch);
  b.graph().reserve(500, 260);
  const auto conv = [&](const std::string& name, TensorId x, std::int64_t channels,
                        const Window& window) {
    return layout.batch_norm ? conv_bn_relu(b, name, x, channels, window)
                             : conv_relu(b, name, x, channels, window);
  };
  const Window one = Window::square(1), pool = Window::square(3, 2);
  const Window large = same_window(layout.batch_norm ? 3 : 5, layout.batch_norm ? 3 : 5);
  std::vector<TensorId> auxiliary;
  const auto auxiliary_head = [&](const std::string& name, TensorId x) {
    x = layout.batch_norm ? b.adaptive_avg_pool(name + ".pool", x, 4, 4)
                          : b.avg_pool(name + ".pool", x, Window::square(5, 3), layout.rounds_up);
    x = conv(name + ".conv", x, 128, one);
    x = b.flatten(name + ".flatten", x);
    x = b.linear_layer(name + ".fc1", x, 1024, true);
    x = b.activation(name + ".relu", x, "relu", true);
    x = b.dropout(name + ".dropout", x);
    auxiliary.push_back(b.linear_layer(name + ".fc2", x, *options.classes, true));
  };

  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = conv("conv1", x, 64, Window::square(7, 2, 3));
  x = b.max_pool("pool1", x, pool, layout.rounds_up);
  if (!layout.batch_norm) x = b.lrn("norm1", x, 5);
  x = conv("conv2_reduce", x, 64, one);
  x = conv("conv2", x, 192, same_window(3, 3));
  if (!layout.batch_norm) x = b.lrn("norm2", x, 5);
  x = b.max_pool("pool2", x, pool, layout.rounds_up);
  for (int i = 0; i < 9; ++i) {
    const Module& m = kModules[i];
    const std::string name = m.name;
    const TensorId reduced3 = conv(name + ".3x3_reduce", x, m.reduce3, one);
    const TensorId reduced5 = conv(name + ".5x5_reduce", x, m.reduce5, one);
    const TensorId pooled = b.max_pool(name + ".pool", x, same_window(3, 3), true);
    const TensorId parts[] = {conv(name + ".1x1", x, m.one, one),
                              conv(name + ".3x3", reduced3, m.three, same_window(3, 3)),
                              conv(name + ".5x5", reduced5, m.five, large),
                              conv(name + ".pool_proj", pooled, m.pooled, one)};
    x = b.concat(name + ".cat", parts, 1);
    if (options.training && i == 2) auxiliary_head("aux1", x);
    if (options.training && i == 5) auxiliary_head("aux2", x);
    if (i == 1) x = b.max_pool("pool3", x, pool, layout.rounds_up);
    if (i == 6)
      x = b.max_pool("pool4", x, layout.batch_norm ? Window::square(2, 2) : pool, layout.rounds_up);
  }
  x = b.global_avg_pool("avgpool", x);
  x = b.flatten("flatten", x);
  if (options.training) x = b.dropout("dropout", x);
  b.graph().outputs = {b.linear_layer("fc", x, *options.classes, true)};
  for (const TensorId logits : auxiliary) b.graph().outputs.push_back(logits);
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> googlenet_networks() {
  return {
      {.name = "googlenet",
       .title = "GoogLeNet as published, with LRN",
       .source = "Szegedy et al., arXiv 1409.4842, table 1",
       .image_size = 224,
       .build = build<googlenet, GoogLeNetLayout{}>},
      {.name = "googlenet_bn",
       .title = "GoogLeNet with batch norm",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(6'624'904),
       .macs = torchvision_gmacs(1.50),
       .image_size = 224,
       .build = build<googlenet, GoogLeNetLayout{.batch_norm = true}>},
      {.name = "inception_v1",
       .title = "GoogLeNet as in the ONNX model zoo",
       .source = "onnx/models, inception_v1: bvlc_googlenet with poolings rounded down",
       .macs = rounded(1.43e9, 0.01e9, "Sze et al., arXiv 1703.09039, table II"),
       .image_size = 224,
       .build = build<googlenet, GoogLeNetLayout{.rounds_up = false}>},
  };
}

}  // namespace tracecast::zoo_builders
