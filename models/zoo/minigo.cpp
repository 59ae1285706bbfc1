#include <cmath>
#include <string>

#include "models/ops.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

// github.com/tensorflow/minigo, dual_net.py as of early 2018, after Silver et al., Nature 550,
// 2017: the board's side N is the image size, and decides the rest: N residual blocks whose width
// is the power of two nearest to N^2 / 3 (in the exponent). 17 planes: eight past positions of
// either colour and who plays.
NetworkGraph minigo(const BuildOptions& options) {
  const std::int64_t side = *options.image_size;
  const double exponent = std::round(std::log2(static_cast<double>(side * side) / 3));
  const std::int64_t width = std::int64_t{1} << static_cast<int>(std::max(exponent, 0.0));
  const std::int64_t points = side * side;
  GraphBuilder b("minigo", options.batch);
  TensorId x = b.input("positions", {options.batch, 17, side, side});
  const auto conv_bn = [&](const std::string& name, TensorId in) {
    in = b.conv_layer(name + ".conv", in, width, Window::square(3, 1, 1), true);
    return b.batch_norm_layer(name + ".bn", in);
  };
  // The heads' batch norms have neither scale nor shift; what they use in place is constant.
  const auto head = [&](const std::string& name, std::int64_t channels) {
    const TensorId y = b.conv_layer(name + ".conv", x, channels, Window::square(1), true);
    const auto constant = [&](const char* what) {
      return b.buffer(name + ".bn." + what, {channels});
    };
    const TensorId normalized = b.batch_norm(name + ".bn", y, constant("ones"), constant("zeros"),
                                             constant("mean"), constant("variance"));
    return b.flatten(name + ".flatten", b.activation(name + ".relu", normalized, "relu"));
  };
  x = b.activation("stem.relu", conv_bn("stem", x), "relu");
  for (std::int64_t i = 0; i < side; ++i) {
    const std::string name = "block" + std::to_string(i);
    const TensorId y = b.activation(name + ".relu1", conv_bn(name + ".1", x), "relu");
    x = b.add(name + ".add", x, conv_bn(name + ".2", y));
    x = b.activation(name + ".relu2", x, "relu");
  }
  const TensorId policy = b.linear_layer("policy.fc", head("policy", 2), points + 1, true);
  TensorId value = b.linear_layer("value.fc1", head("value", 1), 2 * width, true);
  value = b.activation("value.fc1.relu", value, "relu");
  value = b.linear_layer("value.fc2", value, 1, true);
  b.graph().outputs = {policy, b.activation("value.tanh", value, "tanh")};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> minigo_networks() {
  return {
      {.name = "minigo",
       .title = "MiniGo; image size = board",
       .source = "github.com/tensorflow/minigo, dual_net.py, early 2018",
       .image_size = 9,
       .classes = 82,
       .build = minigo},
  };
}

}  // namespace tracecast::zoo_builders
