#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Caffe's LeNet: two convolutions and a hidden layer, wider than LeCun's, one ReLU.
NetworkGraph lenet(const BuildOptions& options) {
  GraphBuilder b("lenet", options.batch);
  TensorId x = b.input("images", {options.batch, 1, *options.image_size, *options.image_size});
  x = b.max_pool("pool1", b.conv_layer("conv1", x, 20, Window::square(5), true),
                 Window::square(2, 2));
  x = b.max_pool("pool2", b.conv_layer("conv2", x, 50, Window::square(5), true),
                 Window::square(2, 2));
  x = b.linear_layer("ip1", b.flatten("flatten", x), 500, true);
  x = b.activation("relu1", x, "relu", true);
  b.graph().outputs = {b.linear_layer("ip2", x, *options.classes, true)};
  return std::move(b).take();
}

/// LeNet-5 as frameworks' tutorials have it: ReLU and maxima, all maps connected.
NetworkGraph lenet5(const BuildOptions& options) {
  GraphBuilder b("lenet5", options.batch);
  TensorId x = b.input("images", {options.batch, 1, *options.image_size, *options.image_size});
  x = b.activation("relu1", b.conv_layer("conv1", x, 6, Window::square(5), true), "relu");
  x = b.max_pool("pool1", x, Window::square(2, 2));
  x = b.activation("relu2", b.conv_layer("conv2", x, 16, Window::square(5), true), "relu");
  x = b.flatten("flatten", b.max_pool("pool2", x, Window::square(2, 2)));
  x = b.activation("relu3", b.linear_layer("fc1", x, 120, true), "relu");
  x = b.activation("relu4", b.linear_layer("fc2", x, 84, true), "relu");
  b.graph().outputs = {b.linear_layer("fc3", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> lenet_networks() {
  return {
      {.name = "lenet",
       .title = "LeNet of Caffe, MNIST",
       .source = "BVLC/caffe, examples/mnist/lenet_train_test.prototxt",
       // 26 * 20, 501 * 50, 801 * 500, 501 * 10.
       .parameters = exact(431'080, "its layers' table"),
       .image_size = 28,
       .classes = 10,
       .data_set = "mnist",
       .build = lenet},
      {.name = "lenet5",
       .title = "LeNet-5 on 32x32 pixels",
       .source = "LeCun et al., 1998, figure 2; PyTorch's tutorial on neural networks",
       // 26 * 6, 151 * 16, 401 * 120, 121 * 84, 85 * 10.
       .parameters = exact(61'706, "its layers' table"),
       .image_size = 32,
       .classes = 10,
       .data_set = "mnist",
       .build = lenet5},
  };
}

}  // namespace tracecast::zoo_builders
