#pragma once
#include <initializer_list>
#include <string>

#include "models/ops.hpp"

/// Groups of ops that several networks of the zoo share.
namespace tracecast::zoo_builders {

/// A window of different height and width that keeps the image's size at stride 1 (odd kernels).
[[nodiscard]] inline Window same_window(std::int64_t kernel_h, std::int64_t kernel_w) {
  return {.kernel_h = kernel_h,
          .kernel_w = kernel_w,
          .pads = {.top = kernel_h / 2,
                   .left = kernel_w / 2,
                   .bottom = kernel_h / 2,
                   .right = kernel_w / 2}};
}

/// Convolution (a bias before a batch norm is rare), batch norm, ReLU in place; named NAME.conv,
/// NAME.bn, NAME.relu.
inline TensorId conv_bn_relu(GraphBuilder& b, const std::string& name, TensorId x,
                             std::int64_t channels, const Window& window, std::int64_t groups = 1,
                             bool with_bias = false) {
  x = b.conv_layer(name + ".conv", x, channels, window, with_bias, groups);
  x = b.batch_norm_layer(name + ".bn", x);
  return b.activation(name + ".relu", x, "relu", true);
}

/// Convolution with bias, ReLU in place; named NAME and NAME.relu.
inline TensorId conv_relu(GraphBuilder& b, const std::string& name, TensorId x,
                          std::int64_t channels, const Window& window, std::int64_t groups = 1) {
  x = b.conv_layer(name, x, channels, window, true, groups);
  return b.activation(name + ".relu", x, "relu", true);
}

/// torchvision.ops.stochastic_depth by rows: whole samples are dropped when training, numbers drawn
/// for them in each pass.
inline TensorId stochastic_depth(GraphBuilder& b, const std::string& name, TensorId x) {
  TensorId kept = b.buffer(name + ".kept", {b.shape(x)[0], 1, 1, 1});
  kept = b.activation(name + ".bernoulli", kept, "bernoulli");
  return b.mul(name + ".stochastic_depth", x, b.activation(name + ".survival", kept, "div"));
}

/// The same tensor by so many views, as code that turns axes one by one makes them: ops of the host
/// alone.
inline TensorId viewed(GraphBuilder& b, const std::string& name, TensorId x, int views) {
  for (int i = 0; i < views; ++i) {
    x = b.reshape(name + ".view_" + std::to_string(i), x, b.shape(x));
  }
  return x;
}

/// Names of a hidden layer's three ops.
struct HiddenNames {
  const char *gemm, *relu, *dropout;
};

/// Linear layer, ReLU in place and, when training, dropout: what classifiers of the older networks
/// end in.
inline TensorId hidden_layer(GraphBuilder& b, const HiddenNames& names, TensorId x,
                             std::int64_t features, bool training) {
  x = b.linear_layer(names.gemm, x, features, true);
  x = b.activation(names.relu, x, "relu", true);
  return training ? b.dropout(names.dropout, x) : x;
}

/// One convolution of a branch: name within the block, channels, window.
struct Step {
  const char* name;
  std::int64_t channels;
  Window window;
};

/// The steps one after the other, each a convolution with batch norm and ReLU; names are NAME +
/// step.
inline TensorId chain(GraphBuilder& b, const std::string& name, TensorId x,
                      std::initializer_list<Step> steps) {
  for (const Step& step : steps) {
    x = conv_bn_relu(b, name + step.name, x, step.channels, step.window);
  }
  return x;
}

/// Two such steps side by side on the same input.
inline TensorId fork(GraphBuilder& b, const std::string& name, TensorId x, const Step& left,
                     const Step& right) {
  const TensorId halves[] = {chain(b, name, x, {left}), chain(b, name, x, {right})};
  return b.concat(name + ".cat", halves, 1);
}

}  // namespace tracecast::zoo_builders
