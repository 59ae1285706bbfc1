#include <string>

#include "models/zoo/parts/family.hpp"
#include "models/zoo/parts/shared_weights.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::int64_t kNoise = 100, kSide = 64;

TensorId norm(GraphBuilder& b, SharedWeights& weights, const std::string& name, TensorId x) {
  const Shape channels = {b.shape(x)[1]};
  const TensorId scale = weights.get(b, name + ".weight", channels);
  const TensorId shift = weights.get(b, name + ".bias", channels);
  return b.batch_norm(weights.op(name), x, scale, shift,
                      b.buffer(weights.op(name + ".mean"), channels),
                      b.buffer(weights.op(name + ".variance"), channels));
}

/// Noise to 4x4 cells of 512 channels, then twice the side and half the channels, up to an image.
TensorId generate(GraphBuilder& b, SharedWeights& weights, const std::string& run, TensorId x) {
  weights.start(run);
  Window window = Window::square(4);
  for (const std::int64_t channels : {512, 256, 128, 64, 3}) {
    const std::string name = "conv" + std::to_string(channels);
    const TensorId filter = weights.get(b, name + ".weight", {b.shape(x)[1], channels, 4, 4});
    x = b.conv_transpose(weights.op(name), x, filter, {}, window);
    if (channels == 3) break;
    x = norm(b, weights, name + ".norm", x);
    x = b.activation(weights.op(name + ".relu"), x, "relu", true);
    window = Window::square(4, 2, 1);
  }
  return b.activation(weights.op("tanh"), x, "tanh");
}

TensorId discriminate(GraphBuilder& b, SharedWeights& weights, const std::string& run, TensorId x) {
  weights.start(run);
  for (const std::int64_t channels : {64, 128, 256, 512}) {
    const std::string name = "conv" + std::to_string(channels);
    const TensorId filter = weights.get(b, name + ".weight", {channels, b.shape(x)[1], 4, 4});
    x = b.conv(weights.op(name), x, filter, {}, Window::square(4, 2, 1));
    if (channels > 64) x = norm(b, weights, name + ".norm", x);
    x = b.activation(weights.op(name + ".leaky"), x, "leakyrelu", true);
  }
  const TensorId filter = weights.get(b, "conv1.weight", {1, b.shape(x)[1], 4, 4});
  x = b.conv(weights.op("conv1"), x, filter, {}, Window::square(4));
  return b.activation(weights.op("sigmoid"), x, "sigmoid");
}

// pytorch/examples, dcgan/main.py, after Radford et al., arXiv 1511.06434. Inference is the
// generator. A training step runs it once and the discriminator three times: on real images, on the
// generated ones without a gradient to the generator, and on the same with one.
NetworkGraph dcgan(const BuildOptions& options) {
  GraphBuilder b("dcgan", options.batch);
  SharedWeights generator("generator"), judge("judge");
  const TensorId noise = b.input("noise", {options.batch, kNoise, 1, 1});
  const TensorId fake = generate(b, generator, "fake", noise);
  if (!options.training) {
    b.graph().outputs = {fake};
    return std::move(b).take();
  }
  const std::int64_t side = *options.image_size;
  const TensorId real = b.input("images", {options.batch, 3, side, side});
  const TensorId detached = b.input("detached", {options.batch, 3, kSide, kSide});
  b.graph().outputs = {discriminate(b, judge, "real", real),
                       discriminate(b, judge, "detached", detached),
                       discriminate(b, judge, "fake", fake)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> dcgan_networks() {
  return {{.name = "dcgan",
           .title = "DCGAN, 64x64; inference: the generator",
           .source = "pytorch/examples, dcgan/main.py",
           // 16 (100 * 512 + 512 * 256 + 256 * 128 + 128 * 64 + 64 * 3) + 2 (512 + 256 + 128 + 64).
           .parameters = exact(3'576'704, "its layers' table"),
           .image_size = kSide,
           .classes = 1,
           .build = dcgan}};
}

}  // namespace tracecast::zoo_builders
