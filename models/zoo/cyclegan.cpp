#include <string>
#include <vector>

#include "models/ops.hpp"
#include "models/zoo/parts/family.hpp"
#include "models/zoo/parts/shared_weights.hpp"

namespace tracecast::zoo_builders {
namespace {

TensorId reflection_pad(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t cells) {
  const std::int64_t around[] = {0, 0, cells, cells};
  return b.pad(name, x, around, around);
}

TensorId conv(GraphBuilder& b, SharedWeights& weights, const std::string& name, TensorId x,
              std::int64_t channels, const Window& window) {
  const TensorId filter =
      weights.get(b, name + ".weight", {channels, b.shape(x)[1], window.kernel_h, window.kernel_w});
  const TensorId bias = weights.get(b, name + ".bias", {channels});
  return b.conv(weights.op(name), x, filter, bias, window);
}

TensorId norm_relu(GraphBuilder& b, SharedWeights& weights, const std::string& name, TensorId x) {
  x = b.instance_norm(weights.op(name + ".norm"), x);
  return b.activation(weights.op(name + ".relu"), x, "relu", true);
}

/// Twice the side: a transposed convolution, or every pixel four times and a convolution.
enum class Growth { Transposed, Resized };
TensorId grow(GraphBuilder& b, SharedWeights& weights, const std::string& name, TensorId x,
              std::int64_t channels, Growth growth) {
  if (growth == Growth::Resized) {
    const Shape from = b.shape(x);
    x = b.resize(weights.op(name + ".resize"), x, {from[0], from[1], 2 * from[2], 2 * from[3]},
                 "nearest");
    return conv(b, weights, name, x, channels, Window::square(3, 1, 1));
  }
  const TensorId filter = weights.get(b, name + ".weight", {b.shape(x)[1], channels, 3, 3});
  const TensorId bias = weights.get(b, name + ".bias", {channels});
  return b.conv_transpose(weights.op(name), x, filter, bias, Window::square(3, 2, 1), 1, 1, 1);
}

/// Two convolutions with stride 2, nine residual blocks, and twice twice the side.
TensorId generate(GraphBuilder& b, SharedWeights& weights, const std::string& run, TensorId x,
                  Growth growth) {
  weights.start(run);
  x = reflection_pad(b, weights.op("pad1"), x, 3);
  x = norm_relu(b, weights, "conv1", conv(b, weights, "conv1", x, 64, Window::square(7)));
  x = norm_relu(b, weights, "down1", conv(b, weights, "down1", x, 128, Window::square(3, 2, 1)));
  x = norm_relu(b, weights, "down2", conv(b, weights, "down2", x, 256, Window::square(3, 2, 1)));
  for (int i = 0; i < 9; ++i) {
    const std::string name = "block" + std::to_string(i);
    TensorId y = reflection_pad(b, weights.op(name + ".pad1"), x, 1);
    y = conv(b, weights, name + ".conv1", y, 256, Window::square(3));
    y = norm_relu(b, weights, name + ".conv1", y);
    y = reflection_pad(b, weights.op(name + ".pad2"), y, 1);
    y = conv(b, weights, name + ".conv2", y, 256, Window::square(3));
    y = b.instance_norm(weights.op(name + ".conv2.norm"), y);
    x = b.add(weights.op(name + ".add"), x, y);
  }
  for (const std::int64_t channels : {128, 64}) {
    const std::string name = "up" + std::to_string(channels);
    x = grow(b, weights, name, x, channels, growth);
    x = norm_relu(b, weights, name, x);
  }
  x = reflection_pad(b, weights.op("pad2"), x, 3);
  x = conv(b, weights, "conv2", x, 3, Window::square(7));
  return b.activation(weights.op("tanh"), x, "tanh");
}

/// Scores overlapping 70x70 patches: five 4x4 convolutions, three of them with stride 2.
TensorId discriminate(GraphBuilder& b, SharedWeights& weights, const std::string& run, TensorId x) {
  weights.start(run);
  const auto leaky = [&](const std::string& name, TensorId y) {
    return b.activation(weights.op(name + ".relu"), y, "leakyrelu", true);
  };
  x = leaky("conv1", conv(b, weights, "conv1", x, 64, Window::square(4, 2, 1)));
  std::int64_t channels = 64;
  for (int i = 2; i <= 4; ++i) {
    channels *= 2;
    const std::string name = "conv" + std::to_string(i);
    x = conv(b, weights, name, x, channels, Window::square(4, i < 4 ? 2 : 1, 1));
    x = leaky(name, b.instance_norm(weights.op(name + ".norm"), x));
  }
  return conv(b, weights, "conv5", x, 1, Window::square(4, 1, 1));
}

// github.com/junyanz/pytorch-CycleGAN-and-pix2pix (resnet_9blocks, 70x70 PatchGAN, instance norm),
// after Zhu et al., arXiv 1703.10593. Inference is one generator. A training step runs each
// generator on the image of its domain, on the other's result (cycle) and on its target domain
// (identity), and each discriminator on what its generator has just made, on a real image and on an
// older result from the pool. With Growth::Resized: github.com/eriklindernoren/ PyTorch-GAN,
// implementations/cyclegan, whose generators resize and convolve. What the original saves by
// freezing the discriminators while the generators learn (their weight gradients on the first of
// these) is not left out.
NetworkGraph cyclegan(const BuildOptions& options, Growth growth) {
  const Shape image = {options.batch, 3, *options.image_size, *options.image_size};
  GraphBuilder b("cyclegan", options.batch);
  SharedWeights to_b("to_b"), to_a("to_a"), judge_a("judge_a"), judge_b("judge_b");
  const TensorId real_a = b.input("images_a", image);
  const TensorId fake_b = generate(b, to_b, "fake", real_a, growth);
  if (!options.training) {
    b.graph().outputs = {fake_b};
    return std::move(b).take();
  }
  const TensorId real_b = b.input("images_b", image);
  const TensorId fake_a = generate(b, to_a, "fake", real_b, growth);
  std::vector<TensorId>& outputs = b.graph().outputs;
  outputs.push_back(generate(b, to_a, "cycle", fake_b, growth));
  outputs.push_back(generate(b, to_b, "cycle", fake_a, growth));
  outputs.push_back(generate(b, to_a, "identity", real_a, growth));
  outputs.push_back(generate(b, to_b, "identity", real_b, growth));
  outputs.push_back(discriminate(b, judge_a, "fake", fake_a));
  outputs.push_back(discriminate(b, judge_b, "fake", fake_b));
  outputs.push_back(discriminate(b, judge_a, "real", real_a));
  outputs.push_back(discriminate(b, judge_b, "real", real_b));
  outputs.push_back(discriminate(b, judge_a, "pool", b.input("pool_a", image)));
  outputs.push_back(discriminate(b, judge_b, "pool", b.input("pool_b", image)));
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> cyclegan_networks() {
  return {
      {.name = "cyclegan",
       .title = "CycleGAN; inference: one generator",
       .source = "github.com/junyanz/pytorch-CycleGAN-and-pix2pix",
       .parameters = rounded(11.378e6, 1e3, "printed by that program"),
       .image_size = 256,
       .classes = 1,
       .build = build<cyclegan, Growth::Transposed>},
      {.name = "cyclegan_monet2photo",
       .title = "CycleGAN whose generators resize; inference: one",
       .source = "github.com/eriklindernoren/PyTorch-GAN, implementations/cyclegan",
       .image_size = 256,
       .classes = 1,
       .build = build<cyclegan, Growth::Resized>},
  };
}

}  // namespace tracecast::zoo_builders
