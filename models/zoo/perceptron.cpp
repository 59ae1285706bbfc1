#include "models/ops.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

// Keras examples/reuters_mlp.py: 1000 words as a bag, 512 units, 46 topics.
NetworkGraph mlp_reuters(const BuildOptions& options) {
  GraphBuilder b("mlp_reuters", options.batch);
  TensorId x = b.input("words", {options.batch, 1000});
  x = b.linear_layer("dense_1", x, 512, true);
  x = b.activation("activation_1", x, "relu");
  if (options.training) x = b.dropout("dropout_1", x);
  x = b.linear_layer("dense_2", x, 46, true);
  b.graph().outputs = {b.softmax("activation_2", x)};
  return std::move(b).take();
}

// TensorFlow 1.x tutorials/mnist/mnist_softmax.py: 28 x 28 pixels, 10 digits.
NetworkGraph softmax_regression(const BuildOptions& options) {
  GraphBuilder b("softmax_regression", options.batch);
  TensorId x = b.input("images", {options.batch, 784});
  x = b.linear_layer("linear", x, 10, true);
  b.graph().outputs = {b.softmax("softmax", x)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> perceptron_networks() {
  return {
      {.name = "mlp_reuters",
       .aliases = {"mlp"},
       .title = "512 units on 1000 words, 46 topics",
       .source = "Keras, examples/reuters_mlp.py",
       .build = mlp_reuters},
      {.name = "softmax_regression",
       .title = "Softmax regression, MNIST",
       .source = "TensorFlow 1.x, tutorials/mnist/mnist_softmax.py",
       .build = softmax_regression},
  };
}

}  // namespace tracecast::zoo_builders
