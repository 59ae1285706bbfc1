#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

// Zeiler and Fergus, arXiv 1311.2901, with 512 channels in the last convolutions, as in the ONNX
// model zoo.
NetworkGraph zfnet512(const BuildOptions& options) {
  GraphBuilder b("zfnet512", options.batch);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  const Window pool = Window::square(3, 2), same = Window::square(3, 1, 1);
  x = conv_relu(b, "conv1", x, 96, Window::square(7, 2));
  x = b.lrn("norm1", x, 5);
  x = b.max_pool("pool1", x, pool, true);
  x = conv_relu(b, "conv2", x, 256, Window::square(5, 2));
  x = b.lrn("norm2", x, 5);
  x = b.max_pool("pool2", x, pool, true);
  x = conv_relu(b, "conv3", x, 512, same);
  x = conv_relu(b, "conv4", x, 512, same);
  x = conv_relu(b, "conv5", x, 512, same);
  x = b.max_pool("pool5", x, pool, true);
  x = b.flatten("flatten", x);
  x = hidden_layer(b, {"fc6", "relu6", "drop6"}, x, 4096, options.training);
  x = hidden_layer(b, {"fc7", "relu7", "drop7"}, x, 1024, options.training);
  b.graph().outputs = {b.linear_layer("fc8", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> zfnet512_networks() {
  return {
      {.name = "zfnet512",
       .title = "ZFNet, 512 channels",
       .source = "Zeiler and Fergus, arXiv 1311.2901, as exported to the ONNX model zoo",
       .image_size = 224,
       .build = zfnet512},
  };
}

}  // namespace tracecast::zoo_builders
