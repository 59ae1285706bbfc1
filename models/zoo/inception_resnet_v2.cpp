#include <string>
#include <vector>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

const Window kOne = Window::square(1);
const Window kReduce = Window::square(3, 2);

/// Branches joined, brought to the input's width by a 1x1, scaled down and added to the input.
TensorId residual(GraphBuilder& b, const std::string& name, TensorId x,
                  const std::vector<TensorId>& branches, TensorId scale, bool with_relu = true) {
  TensorId y = b.concat(name + ".cat", branches, 1);
  y = b.conv_layer(name + ".up", y, b.shape(x)[1], kOne, true);
  y = b.add(name + ".add", b.mul(name + ".scale", y, scale), x);
  return with_relu ? b.activation(name + ".relu", y, "relu", true) : y;
}

TensorId stem(GraphBuilder& b, TensorId x) {
  x = chain(b, "stem", x,
            {{".1a", 32, kReduce}, {".2a", 32, Window::square(3)}, {".2b", 64, same_window(3, 3)}});
  x = b.max_pool("stem.pool1", x, kReduce);
  x = chain(b, "stem", x, {{".3b", 80, kOne}, {".4a", 192, Window::square(3)}});
  x = b.max_pool("stem.pool2", x, kReduce);
  const TensorId pooled = b.avg_pool("mixed_5b.pool", x, same_window(3, 3), false, false);
  const TensorId parts[] = {
      chain(b, "mixed_5b", x, {{".0", 96, kOne}}),
      chain(b, "mixed_5b", x, {{".1.0", 48, kOne}, {".1.1", 64, same_window(5, 5)}}),
      chain(b, "mixed_5b", x,
            {{".2.0", 64, kOne}, {".2.1", 96, same_window(3, 3)}, {".2.2", 96, same_window(3, 3)}}),
      chain(b, "mixed_5b", pooled, {{".3", 64, kOne}})};
  return b.concat("mixed_5b.cat", parts, 1);
}

TensorId block35(GraphBuilder& b, const std::string& name, TensorId x, TensorId scale) {
  return residual(
      b, name, x,
      {chain(b, name, x, {{".0", 32, kOne}}),
       chain(b, name, x, {{".1.0", 32, kOne}, {".1.1", 32, same_window(3, 3)}}),
       chain(
           b, name, x,
           {{".2.0", 32, kOne}, {".2.1", 48, same_window(3, 3)}, {".2.2", 64, same_window(3, 3)}})},
      scale);
}

TensorId block17(GraphBuilder& b, const std::string& name, TensorId x, TensorId scale) {
  return residual(
      b, name, x,
      {chain(b, name, x, {{".0", 192, kOne}}), chain(b, name, x,
                                                     {{".1.0", 128, kOne},
                                                      {".1.1", 160, same_window(1, 7)},
                                                      {".1.2", 192, same_window(7, 1)}})},
      scale);
}

TensorId block8(GraphBuilder& b, const std::string& name, TensorId x, TensorId scale,
                bool with_relu) {
  return residual(
      b, name, x,
      {chain(b, name, x, {{".0", 192, kOne}}), chain(b, name, x,
                                                     {{".1.0", 192, kOne},
                                                      {".1.1", 224, same_window(1, 3)},
                                                      {".1.2", 256, same_window(3, 1)}})},
      scale, with_relu);
}

TensorId mixed_6a(GraphBuilder& b, TensorId x) {
  const TensorId parts[] = {
      chain(b, "mixed_6a", x, {{".0", 384, kReduce}}),
      chain(b, "mixed_6a", x,
            {{".1.0", 256, kOne}, {".1.1", 256, same_window(3, 3)}, {".1.2", 384, kReduce}}),
      b.max_pool("mixed_6a.pool", x, kReduce)};
  return b.concat("mixed_6a.cat", parts, 1);
}

TensorId mixed_7a(GraphBuilder& b, TensorId x) {
  const TensorId parts[] = {
      chain(b, "mixed_7a", x, {{".0.0", 256, kOne}, {".0.1", 384, kReduce}}),
      chain(b, "mixed_7a", x, {{".1.0", 256, kOne}, {".1.1", 288, kReduce}}),
      chain(b, "mixed_7a", x,
            {{".2.0", 256, kOne}, {".2.1", 288, same_window(3, 3)}, {".2.2", 320, kReduce}}),
      b.max_pool("mixed_7a.pool", x, kReduce)};
  return b.concat("mixed_7a.cat", parts, 1);
}

// Szegedy et al., arXiv 1602.07261, as published in tf-slim (inception_resnet_v2.py), whose widths
// differ from the paper's; without the auxiliary head.
NetworkGraph inception_resnet_v2(const BuildOptions& options) {
  GraphBuilder b("inception_resnet_v2", options.batch);
  const TensorId scale = b.buffer("scale", {});
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = stem(b, x);
  for (int i = 0; i < 10; ++i) x = block35(b, "block35_" + std::to_string(i), x, scale);
  x = mixed_6a(b, x);
  for (int i = 0; i < 20; ++i) x = block17(b, "block17_" + std::to_string(i), x, scale);
  x = mixed_7a(b, x);
  for (int i = 0; i < 10; ++i) x = block8(b, "block8_" + std::to_string(i), x, scale, i < 9);
  x = conv_bn_relu(b, "conv2d_7b", x, 1536, kOne);
  x = b.flatten("flatten", b.global_avg_pool("avgpool", x));
  if (options.training) x = b.dropout("dropout", x);
  b.graph().outputs = {b.linear_layer("fc", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> inception_resnet_v2_networks() {
  return {{.name = "inception_resnet_v2",
           .title = "Inception-ResNet-v2",
           .source = "Szegedy et al., arXiv 1602.07261; tf-slim",
           .parameters = rounded(55.84e6, 0.01e6, "timm 0.9, results of inception_resnet_v2"),
           .image_size = 299,
           .build = inception_resnet_v2}};
}

}  // namespace tracecast::zoo_builders
