#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

// OverFeat, the fast network: Sermanet et al., arXiv 1312.6229, table 1.
NetworkGraph overfeat(const BuildOptions& options) {
  GraphBuilder b("overfeat", options.batch);
  b.graph().reserve(48, 32);
  const Window pool = Window::square(2, 2);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = conv_relu(b, "conv1", x, 96, Window::square(11, 4));
  x = b.max_pool("pool1", x, pool);
  x = conv_relu(b, "conv2", x, 256, Window::square(5));
  x = b.max_pool("pool2", x, pool);
  x = conv_relu(b, "conv3", x, 512, Window::square(3, 1, 1));
  x = conv_relu(b, "conv4", x, 1024, Window::square(3, 1, 1));
  x = conv_relu(b, "conv5", x, 1024, Window::square(3, 1, 1));
  x = b.max_pool("pool5", x, pool);
  x = b.flatten("flatten", x);
  x = hidden_layer(b, {"fc6", "relu6", "drop6"}, x, 3072, options.training);
  x = hidden_layer(b, {"fc7", "relu7", "drop7"}, x, 4096, options.training);
  b.graph().outputs = {b.linear_layer("fc8", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> overfeat_networks() {
  return {
      {.name = "overfeat",
       .title = "OverFeat, fast",
       .source = "Sermanet et al., arXiv 1312.6229, table 1",
       .parameters = rounded(145e6, 1e6, "Sermanet et al., arXiv 1312.6229, table 4"),
       .macs = rounded(2810e6, 10e6, "Sermanet et al., arXiv 1312.6229, table 4"),
       .image_size = 231,
       .build = overfeat},
  };
}

}  // namespace tracecast::zoo_builders
