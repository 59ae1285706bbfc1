#include <string>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// SqueezeNet: the first convolution, and after which of the eight fire modules (from 0) images are
/// pooled.
struct SqueezeNetLayout {
  std::int64_t first_channels, first_kernel;
  int pool_after[2];
};

/// Squeeze to few channels by 1x1, expand by 1x1 and 3x3 side by side.
TensorId fire(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t squeeze,
              std::int64_t expand) {
  x = conv_relu(b, name + ".squeeze", x, squeeze, Window::square(1));
  const TensorId both[] = {conv_relu(b, name + ".expand1x1", x, expand, Window::square(1)),
                           conv_relu(b, name + ".expand3x3", x, expand, Window::square(3, 1, 1))};
  return b.concat(name + ".cat", both, 1);
}

// torchvision/models/squeezenet.py, after Iandola et al., arXiv 1602.07360 (1.0) and the authors'
// repository (1.1).
NetworkGraph squeezenet(const BuildOptions& options, const SqueezeNetLayout& layout) {
  struct Fire {
    std::int64_t squeeze, expand;
  };
  constexpr Fire kFires[] = {{16, 64},  {16, 64},  {32, 128}, {32, 128},
                             {48, 192}, {48, 192}, {64, 256}, {64, 256}};
  GraphBuilder b("squeezenet", options.batch);
  b.graph().reserve(140, 80);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  const Window pool = Window::square(3, 2);
  x = conv_relu(b, "features.0", x, layout.first_channels, Window::square(layout.first_kernel, 2));
  x = b.max_pool("features.pool1", x, pool, true);
  for (int i = 0; i < 8; ++i) {
    x = fire(b, "features.fire" + std::to_string(i + 2), x, kFires[i].squeeze, kFires[i].expand);
    if (i == layout.pool_after[0]) x = b.max_pool("features.pool2", x, pool, true);
    if (i == layout.pool_after[1]) x = b.max_pool("features.pool3", x, pool, true);
  }
  if (options.training) x = b.dropout("classifier.0", x);
  x = conv_relu(b, "classifier.1", x, *options.classes, Window::square(1));
  x = b.global_avg_pool("classifier.3", x);
  b.graph().outputs = {b.flatten("flatten", x)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> squeezenet_networks() {
  return {
      {.name = "squeezenet1_0",
       .title = "SqueezeNet 1.0",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(1'248'424),
       .macs = torchvision_gmacs(0.82),
       .image_size = 224,
       .build =
           build<squeezenet,
                 SqueezeNetLayout{.first_channels = 96, .first_kernel = 7, .pool_after = {2, 6}}>},
      {.name = "squeezenet1_1",
       .title = "SqueezeNet 1.1",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(1'235'496),
       .macs = torchvision_gmacs(0.35),
       .image_size = 224,
       .build =
           build<squeezenet,
                 SqueezeNetLayout{.first_channels = 64, .first_kernel = 3, .pool_after = {1, 3}}>},
  };
}

}  // namespace tracecast::zoo_builders
