#include "models/zoo/parts/pyramid.hpp"

#include <string>

namespace tracecast::zoo_builders {
namespace {

class Backbone {
 public:
  Backbone(GraphBuilder& b, bool training, const FrozenResNetLayout& layout)
      : b_(b), training_(training), layout_(layout) {}

  /// The results of the four stages.
  std::vector<TensorId> run(TensorId x) {
    const int blocks[] = {3, 4, layout_.third_stage, 3};
    is_frozen_ = training_;
    x = relu("relu", conv("conv1", x, 64, Window::square(7, 2, 3)));
    x = b_.max_pool("maxpool", x, Window::square(3, 2, 1));
    std::vector<TensorId> maps;
    for (int stage = 0; stage < 4; ++stage) {
      is_frozen_ = training_ && stage == 0;
      for (int i = 0; i < blocks[stage]; ++i) {
        const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
        x = block(name, x, std::int64_t{64} << stage, stage > 0 && i == 0 ? 2 : 1);
      }
      maps.push_back(x);
    }
    return maps;
  }

 private:
  TensorId relu(const std::string& name, TensorId x) {
    return b_.activation(name, x, "relu", true);
  }

  TensorId conv(const std::string& name, TensorId x, std::int64_t channels, const Window& window,
                std::int64_t groups = 1) {
    const Shape filter = {channels, b_.shape(x)[1] / groups, window.kernel_h, window.kernel_w};
    const TensorId weight =
        is_frozen_ ? b_.buffer(name + ".weight", filter) : b_.weight(name + ".weight", filter);
    const TensorId y = b_.conv(name, x, weight, {}, window, groups);
    const bool is_trained = layout_.norm == FrozenNorm::TrainedScale && !is_frozen_;
    return is_trained ? b_.batch_norm_layer(name + ".bn", y) : constant_norm(b_, name, y);
  }

  TensorId block(const std::string& name, TensorId x, std::int64_t planes, std::int64_t stride) {
    const std::int64_t width = planes * layout_.group_width / 64 * layout_.groups;
    TensorId y = relu(name + ".relu1", conv(name + ".conv1", x, width, Window::square(1)));
    y = relu(name + ".relu2",
             conv(name + ".conv2", y, width, Window::square(3, stride, 1), layout_.groups));
    y = conv(name + ".conv3", y, 4 * planes, Window::square(1));
    if (b_.shape(x)[1] != 4 * planes) {
      x = conv(name + ".downsample", x, 4 * planes, Window::square(1, stride));
    }
    return relu(name + ".relu3", b_.add(name + ".add", y, x, true));
  }

  GraphBuilder& b_;
  bool training_, is_frozen_ = false;
  FrozenResNetLayout layout_;
};

}  // namespace

std::int64_t matching_bytes(std::int64_t anchors) {
  constexpr std::int64_t kValues = 9, kBytes = 4;
  return kMostBoxes * anchors * kValues * kBytes;
}

TensorId constant_norm(GraphBuilder& b, const std::string& name, TensorId x) {
  const Shape per_channel = {1, b.shape(x)[1], 1, 1};
  x = b.mul(name + ".norm.mul", x, b.buffer(name + ".norm.scale", per_channel));
  return b.add(name + ".norm.add", x, b.buffer(name + ".norm.shift", per_channel));
}

std::vector<TensorId> frozen_resnet(GraphBuilder& b, TensorId images, bool training,
                                    const FrozenResNetLayout& layout) {
  return Backbone(b, training, layout).run(images);
}

std::vector<TensorId> feature_pyramid(GraphBuilder& b, const std::vector<TensorId>& maps) {
  std::vector<TensorId> levels(maps.size());
  TensorId above{};
  for (std::size_t i = maps.size(); i-- > 0;) {
    const std::string name = "fpn." + std::to_string(i);
    TensorId inner = b.conv_layer(name + ".inner", maps[i], 256, Window::square(1), true);
    if (i + 1 < maps.size()) {
      const TensorId larger = b.resize(name + ".up", above, b.shape(inner), "nearest");
      inner = b.add(name + ".add", inner, larger);
    }
    above = inner;
    levels[i] = b.conv_layer(name + ".layer", inner, 256, Window::square(3, 1, 1), true);
  }
  return levels;
}

}  // namespace tracecast::zoo_builders
