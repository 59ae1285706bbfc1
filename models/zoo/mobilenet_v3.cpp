#include <algorithm>
#include <span>
#include <string>

#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

struct Row {
  std::int64_t kernel, wide, channels;
  bool squeezes, hard_swish;
  std::int64_t stride;
};
constexpr Row kLarge[] = {
    {3, 16, 16, false, false, 1}, {3, 64, 24, false, false, 2}, {3, 72, 24, false, false, 1},
    {5, 72, 40, true, false, 2},  {5, 120, 40, true, false, 1}, {5, 120, 40, true, false, 1},
    {3, 240, 80, false, true, 2}, {3, 200, 80, false, true, 1}, {3, 184, 80, false, true, 1},
    {3, 184, 80, false, true, 1}, {3, 480, 112, true, true, 1}, {3, 672, 112, true, true, 1},
    {5, 672, 160, true, true, 2}, {5, 960, 160, true, true, 1}, {5, 960, 160, true, true, 1}};
constexpr Row kSmall[] = {
    {3, 16, 16, true, false, 2}, {3, 72, 24, false, false, 2}, {3, 88, 24, false, false, 1},
    {5, 96, 40, true, true, 2},  {5, 240, 40, true, true, 1},  {5, 240, 40, true, true, 1},
    {5, 120, 48, true, true, 1}, {5, 144, 48, true, true, 1},  {5, 288, 96, true, true, 2},
    {5, 576, 96, true, true, 1}, {5, 576, 96, true, true, 1}};

struct MobileNetV3 {
  GraphBuilder& b;

  TensorId conv_bn(const std::string& name, TensorId x, std::int64_t channels, const Window& window,
                   const char* activation, std::int64_t groups = 1) const {
    x = b.conv_layer(name + ".0", x, channels, window, false, groups);
    x = b.batch_norm_layer(name + ".1", x);
    if (activation == nullptr) return x;
    // Hard swish needs its input later: done in place, PyTorch would copy that first.
    return b.activation(name + ".2", x, activation, activation == std::string_view("relu"));
  }
  TensorId squeeze_excite(const std::string& name, TensorId x) const {
    // A quarter of the channels, to a multiple of 8 that is not a tenth smaller.
    const std::int64_t quarter = b.shape(x)[1] / 4;
    std::int64_t squeezed = std::max<std::int64_t>(8, (quarter + 4) / 8 * 8);
    if (10 * squeezed < 9 * quarter) squeezed += 8;
    TensorId scale = b.global_avg_pool(name + ".avgpool", x);
    scale = b.conv_layer(name + ".fc1", scale, squeezed, Window::square(1), true);
    scale = b.activation(name + ".relu", scale, "relu");
    scale = b.conv_layer(name + ".fc2", scale, b.shape(x)[1], Window::square(1), true);
    return b.mul(name + ".scale", b.activation(name + ".hardsigmoid", scale, "hardsigmoid"), x);
  }
  TensorId block(const std::string& name, TensorId x, const Row& row) const {
    const char* const activation = row.hard_swish ? "hardswish" : "relu";
    const std::int64_t in = b.shape(x)[1];
    TensorId y = x;
    if (row.wide != in) y = conv_bn(name + ".expand", y, row.wide, Window::square(1), activation);
    const Window window = Window::square(row.kernel, row.stride, row.kernel / 2);
    y = conv_bn(name + ".depthwise", y, row.wide, window, activation, row.wide);
    if (row.squeezes) y = squeeze_excite(name + ".se", y);
    y = conv_bn(name + ".project", y, row.channels, Window::square(1), nullptr);
    return row.stride == 1 && in == row.channels ? b.add(name + ".add", y, x, true) : y;
  }
};

// torchvision/models/mobilenetv3.py, after Howard et al., arXiv 1905.02244, tables 1 and 2.
NetworkGraph mobilenet_v3(const BuildOptions& options, std::span<const Row> rows,
                          std::int64_t last) {
  GraphBuilder b("mobilenet_v3", options.batch);
  b.graph().reserve(640, 250);
  const MobileNetV3 net{b};
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = net.conv_bn("features.0", x, 16, Window::square(3, 2, 1), "hardswish");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    x = net.block("features." + std::to_string(i + 1), x, rows[i]);
  }
  x = net.conv_bn("features.last", x, 6 * b.shape(x)[1], Window::square(1), "hardswish");
  x = b.flatten("flatten", b.global_avg_pool("avgpool", x));
  x = b.activation("classifier.1", b.linear_layer("classifier.0", x, last, true), "hardswish");
  if (options.training) x = b.dropout("classifier.2", x, true);
  b.graph().outputs = {b.linear_layer("classifier.3", x, *options.classes, true)};
  return std::move(b).take();
}

NetworkGraph large(const BuildOptions& options) { return mobilenet_v3(options, kLarge, 1280); }
NetworkGraph small(const BuildOptions& options) { return mobilenet_v3(options, kSmall, 1024); }

}  // namespace

std::vector<ZooEntry> mobilenet_v3_networks() {
  return {
      {.name = "mobilenet_v3_large",
       .title = "MobileNet-v3 large",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(5'483'032),
       .macs = torchvision_gmacs(0.22),
       .image_size = 224,
       .build = large},
      {.name = "mobilenet_v3_small",
       .title = "MobileNet-v3 small",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(2'542'856),
       .macs = rounded(57e6, 1e6, "torchvision 0.15, GFLOPS of the weights"),
       .image_size = 224,
       .build = small},
  };
}

}  // namespace tracecast::zoo_builders
