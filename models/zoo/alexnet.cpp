#include <string>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Of the one tower: what TensorFlow's benchmarks have otherwise than torchvision.
struct AlexNetLayout {
  std::int64_t fourth_channels = 256;
  std::int64_t first_pad = 2;  ///< 0 for images of 227 instead of 224
};

/// Of Caffe's two networks in two groups.
struct CaffeLayout {
  bool pools_first;  ///< before LRN
};

/// Of those with the channels of the two groups in one tower.
struct OneTowerLayout {
  bool pools_first;            ///< before LRN
  std::int64_t first_pad = 0;  ///< 1 for images of 227 instead of 224
};

// torchvision/models/alexnet.py, after Krizhevsky, "One weird trick for parallelizing convolutional
// neural networks", arXiv 1404.5997: one tower, no groups, no LRN.
NetworkGraph alexnet(const BuildOptions& options, const AlexNetLayout& layout) {
  GraphBuilder b("alexnet", options.batch);
  b.graph().reserve(48, 32);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  const auto conv_relu = [&](std::int64_t index, std::int64_t channels, const Window& window) {
    x = b.conv_layer("features." + std::to_string(index), x, channels, window, true);
    x = b.activation("features." + std::to_string(index + 1), x, "relu", true);
  };
  const auto pool = [&](const char* name) { x = b.max_pool(name, x, Window::square(3, 2)); };
  conv_relu(0, 64, Window::square(11, 4, layout.first_pad));
  pool("features.2");
  conv_relu(3, 192, Window::square(5, 1, 2));
  pool("features.5");
  conv_relu(6, 384, Window::square(3, 1, 1));
  conv_relu(8, layout.fourth_channels, Window::square(3, 1, 1));
  conv_relu(10, 256, Window::square(3, 1, 1));
  pool("features.12");
  x = b.adaptive_avg_pool("avgpool", x, 6, 6);
  x = b.flatten("flatten", x);
  if (options.training) x = b.dropout("classifier.0", x);
  x = b.linear_layer("classifier.1", x, 4096, true);
  x = b.activation("classifier.2", x, "relu", true);
  if (options.training) x = b.dropout("classifier.3", x);
  x = b.linear_layer("classifier.4", x, 4096, true);
  x = b.activation("classifier.5", x, "relu", true);
  x = b.linear_layer("classifier.6", x, *options.classes, true);
  b.graph().outputs = {x};
  return std::move(b).take();
}

// BVLC Caffe's bvlc_alexnet, after Krizhevsky et al., NIPS 2012: two groups of channels, LRN before
// the first two poolings; and bvlc_reference_caffenet, which has it behind them. The first two
// poolings round down as in the exported ONNX file; at the usual 227 rounding makes no difference.
NetworkGraph two_groups(const BuildOptions& options, const CaffeLayout& layout) {
  GraphBuilder b("alexnet", options.batch);
  b.graph().reserve(48, 32);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  const Window pool = Window::square(3, 2), same = Window::square(3, 1, 1);
  const auto norm_and_pool = [&](const std::string& index, TensorId in) {
    if (!layout.pools_first) in = b.lrn("norm" + index, in, 5);
    in = b.max_pool("pool" + index, in, pool);
    return layout.pools_first ? b.lrn("norm" + index, in, 5) : in;
  };
  x = norm_and_pool("1", conv_relu(b, "conv1", x, 96, Window::square(11, 4)));
  x = norm_and_pool("2", conv_relu(b, "conv2", x, 256, Window::square(5, 1, 2), 2));
  x = conv_relu(b, "conv3", x, 384, same);
  x = conv_relu(b, "conv4", x, 384, same, 2);
  x = conv_relu(b, "conv5", x, 256, same, 2);
  x = b.max_pool("pool5", x, pool, true);
  x = b.flatten("flatten", x);
  x = hidden_layer(b, {"fc6", "relu6", "drop6"}, x, 4096, options.training);
  x = hidden_layer(b, {"fc7", "relu7", "drop7"}, x, 4096, options.training);
  b.graph().outputs = {b.linear_layer("fc8", x, *options.classes, true)};
  return std::move(b).take();
}

// MXNet's example symbol: one tower with the channels of the two. In 2016 it pooled before LRN,
// since 2017 LRN comes first, as in PaddlePaddle's benchmark of 2016.
NetworkGraph channels_of_two(const BuildOptions& options, const OneTowerLayout& layout) {
  GraphBuilder b("alexnet", options.batch);
  b.graph().reserve(48, 32);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  const Window pool = Window::square(3, 2), same = Window::square(3, 1, 1);
  const auto norm_and_pool = [&](const std::string& index, TensorId in) {
    if (!layout.pools_first) in = b.lrn("lrn" + index, in, 5);
    in = b.max_pool("pool" + index, in, pool);
    return layout.pools_first ? b.lrn("lrn" + index, in, 5) : in;
  };
  x = norm_and_pool("1", conv_relu(b, "conv1", x, 96, Window::square(11, 4, layout.first_pad)));
  x = norm_and_pool("2", conv_relu(b, "conv2", x, 256, Window::square(5, 1, 2)));
  x = conv_relu(b, "conv3", x, 384, same);
  x = conv_relu(b, "conv4", x, 384, same);
  x = conv_relu(b, "conv5", x, 256, same);
  x = b.flatten("flatten", b.max_pool("pool3", x, pool));
  x = hidden_layer(b, {"fc1", "relu6", "dropout1"}, x, 4096, options.training);
  x = hidden_layer(b, {"fc2", "relu7", "dropout2"}, x, 4096, options.training);
  b.graph().outputs = {b.linear_layer("fc3", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> alexnet_networks() {
  return {
      {.name = "alexnet",
       .aliases = {"alexnet_owt"},
       .title = "AlexNet, one tower",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(61'100'840),
       .macs = torchvision_gmacs(0.71),
       .image_size = 224,
       .build = build<alexnet, AlexNetLayout{}>},
      {.name = "alexnet_tf",
       .title = "AlexNet of TensorFlow's benchmarks",
       .source = "tensorflow/benchmarks, tf_cnn_benchmarks/models/alexnet_model.py",
       .image_size = 227,
       .build = build<alexnet, AlexNetLayout{.fourth_channels = 384, .first_pad = 0}>},
      {.name = "alexnet_mxnet",
       .title = "AlexNet of MXNet, without groups",
       .source = "apache/incubator-mxnet 1.0, example/image-classification/symbols/alexnet.py",
       .image_size = 224,
       .build = build<channels_of_two, OneTowerLayout{.pools_first = false}>},
      {.name = "alexnet_mxnet_0",
       .title = "AlexNet of MXNet in 2016, without groups",
       .source = "dmlc/mxnet 0.7, example/image-classification/symbol_alexnet.py",
       .image_size = 224,
       .build = build<channels_of_two, OneTowerLayout{.pools_first = true}>},
      {.name = "alexnet_paddle",
       .title = "AlexNet of PaddlePaddle, without groups",
       .source = "PaddlePaddle/Paddle 0.10, benchmark/paddle/image/alexnet.py",
       .image_size = 227,
       .build = build<channels_of_two, OneTowerLayout{.pools_first = false, .first_pad = 1}>},
      {.name = "bvlc_alexnet",
       .title = "AlexNet of Caffe, two groups",
       .source = "BVLC Caffe, models/bvlc_alexnet",
       .parameters = exact(60'965'224, "BVLC Caffe, weights of models/bvlc_alexnet"),
       .macs = rounded(724e6, 1e6, "Sze et al., arXiv 1703.09039, table II"),
       .image_size = 227,
       .build = build<two_groups, CaffeLayout{.pools_first = false}>},
      {.name = "caffenet",
       .aliases = {"bvlc_reference_caffenet"},
       .title = "CaffeNet: AlexNet, pooling before LRN",
       .source = "BVLC Caffe, models/bvlc_reference_caffenet",
       .parameters = exact(60'965'224, "BVLC Caffe, weights of models/bvlc_reference_caffenet"),
       .image_size = 227,
       .build = build<two_groups, CaffeLayout{.pools_first = true}>},
  };
}

}  // namespace tracecast::zoo_builders
