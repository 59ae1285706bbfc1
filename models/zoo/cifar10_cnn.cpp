#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

// tensorflow/models, tutorials/image/cifar10/cifar10.py: two convolutions with local response
// normalisation, three GEMMs; every window keeps or halves the image ("SAME").
NetworkGraph cifar10_cnn(const BuildOptions& options) {
  GraphBuilder b("cifar10_cnn", options.batch);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  const auto pool = [&](const char* name, TensorId in) {
    Window window = Window::square(3, 2);
    window.pads = same_padding(b.shape(in)[2], b.shape(in)[3], window);
    return b.max_pool(name, in, window);
  };
  x = conv_relu(b, "conv1", x, 64, same_window(5, 5));
  x = pool("pool1", x);
  x = b.lrn("norm1", x, 9);
  x = conv_relu(b, "conv2", x, 64, same_window(5, 5));
  x = b.lrn("norm2", x, 9);
  x = pool("pool2", x);
  x = b.flatten("flatten", x);
  x = hidden_layer(b, {"local3", "local3.relu", ""}, x, 384, false);
  x = hidden_layer(b, {"local4", "local4.relu", ""}, x, 192, false);
  b.graph().outputs = {b.linear_layer("softmax_linear", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> cifar10_cnn_networks() {
  return {
      {.name = "cifar10_cnn",
       .title = "CIFAR-10 CNN, TensorFlow's tutorial",
       .source = "tensorflow/models, tutorials/image/cifar10",
       .parameters = exact(1'068'298, "tensorflow.org tutorials, Convolutional Neural Networks"),
       // Its text has "about 19.5M" multiply-adds; its layers, on the 24x24 pixels they get,
       // make 18.47 M.
       .image_size = 24,
       .classes = 10,
       .build = cifar10_cnn},
  };
}

}  // namespace tracecast::zoo_builders
