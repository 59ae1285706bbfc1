#include <algorithm>
#include <string>
#include <vector>

#include "models/ops.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::int64_t kBins = 80, kGroup = 8, kWaveglowChannels = 512, kHop = 256, kWindow = 1024;
constexpr int kFlows = 12, kLayers = 8, kFlowsPerOutput = 4;
constexpr std::int64_t kOutputChannels = 2;

struct WaveGlow {
  GraphBuilder& b;
  TensorId spectrum;  ///< batch, bins * group, groups of samples

  /// Convolution whose weight is a direction times a length per output channel (weight norm).
  TensorId convolve(const std::string& name, TensorId x, std::int64_t channels,
                    std::int64_t kernel = 1, std::int64_t dilation = 1) const {
    const std::int64_t pad = dilation * (kernel - 1) / 2;
    const TensorId direction = b.weight(name + ".weight_v", {channels, b.shape(x)[1], kernel});
    const TensorId length = b.weight(name + ".weight_g", {channels, 1, 1});
    const TensorId bias = b.weight(name + ".bias", {channels});
    return b.conv(
        name, x, b.mul(name + ".weight", direction, length), bias,
        {.kernel_w = kernel, .dilation_w = dilation, .pads = {.left = pad, .right = pad}});
  }
  std::vector<TensorId> halves(const std::string& name, TensorId x, std::int64_t first) const {
    const std::int64_t sizes[] = {first, b.shape(x)[1] - first};
    return b.split(name, x, 1, sizes);
  }
  /// Gated convolutions, each twice as dilated as the last; their sum says how the other half is
  /// scaled and shifted.
  TensorId coupling(const std::string& name, TensorId half) const {
    const std::int64_t width = b.shape(half)[1];
    TensorId x = convolve(name + ".start", half, kWaveglowChannels);
    TensorId sum = x;
    for (int i = 0; i < kLayers; ++i) {
      const std::string layer = name + "." + std::to_string(i);
      const TensorId in =
          convolve(layer + ".in", x, 2 * kWaveglowChannels, 3, std::int64_t{1} << i);
      const TensorId conditions = convolve(layer + ".cond", spectrum, 2 * kWaveglowChannels);
      const auto gates =
          halves(layer + ".gates", b.add(layer + ".add", in, conditions), kWaveglowChannels);
      const TensorId acts = b.mul(layer + ".gate", b.activation(layer + ".tanh", gates[0], "tanh"),
                                  b.activation(layer + ".sigmoid", gates[1], "sigmoid"));
      const bool is_last = i + 1 == kLayers;
      TensorId skip =
          convolve(layer + ".res_skip", acts, is_last ? kWaveglowChannels : 2 * kWaveglowChannels);
      if (!is_last) {
        const auto parts = halves(layer + ".parts", skip, kWaveglowChannels);
        x = b.add(layer + ".residual", x, parts[0]);
        skip = parts[1];
      }
      sum = i == 0 ? skip : b.add(layer + ".sum", sum, skip);
    }
    return b.conv_layer(name + ".end", sum, 2 * width, Window::square(1), true);
  }
};

// Prenger et al., arXiv 1811.00002, as NVIDIA's DeepLearningExamples trains it
// (PyTorch/SpeechSynthesis/Tacotron2, waveglow/model.py, 512 channels). A sample is a segment of
// `seq_len` samples of sound. The determinants of the mixing matrices and the sums of the loss are
// left out; inference runs the same layers from the other end.
NetworkGraph waveglow(const BuildOptions& options) {
  GraphBuilder b("waveglow", options.batch);
  const std::int64_t groups = std::max<std::int64_t>(*options.seq_len / kGroup, 1);
  const std::int64_t sound = groups * kGroup, frames = sound / kHop + 1;
  TensorId mel = b.input("mel", {options.batch, kBins, frames});
  const TensorId weight = b.weight("upsample.weight", {kBins, kBins, kWindow});
  const TensorId bias = b.weight("upsample.bias", {kBins});
  mel = b.conv_transpose("upsample", mel, weight, bias, {.kernel_w = kWindow, .stride_w = kHop});
  mel = b.slice("trim", mel, {options.batch, kBins, sound});
  mel = b.reshape("fold", mel, {options.batch, kBins, groups, kGroup});
  const std::int64_t group_before_time[] = {0, 1, 3, 2};
  mel = b.transpose("squeeze", mel, group_before_time);
  const WaveGlow net{b, b.reshape("spectrum", mel, {options.batch, kBins * kGroup, groups})};

  TensorId x = b.input("sound", {options.batch, kGroup, groups});
  std::vector<TensorId> outputs;
  for (int flow = 0; flow < kFlows; ++flow) {
    const std::string name = "flow." + std::to_string(flow);
    if (flow > 0 && flow % kFlowsPerOutput == 0) {
      const auto parts = net.halves(name + ".early", x, kOutputChannels);
      outputs.push_back(parts[0]);
      x = parts[1];
    }
    const std::int64_t channels = b.shape(x)[1];
    x = b.conv_layer(name + ".mix", x, channels, Window::square(1), false);
    const auto parts = net.halves(name + ".halves", x, channels / 2);
    const auto affine =
        net.halves(name + ".affine", net.coupling(name + ".wn", parts[0]), channels / 2);
    TensorId other =
        b.mul(name + ".scaled", b.activation(name + ".exp", affine[1], "exp"), parts[1]);
    other = b.add(name + ".shifted", other, affine[0]);
    const TensorId both[] = {parts[0], other};
    x = b.concat(name + ".cat", both, 1);
  }
  outputs.push_back(x);
  b.graph().outputs = {b.concat("z", outputs, 1)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> waveglow_networks() {
  return {{.name = "waveglow",
           .title = "WaveGlow, 512 channels; lengths in samples of sound",
           .source = "NVIDIA/DeepLearningExamples, PyTorch/SpeechSynthesis/Tacotron2",
           .seq_len = 8000,
           .classes = 1,
           .rates_count_tokens = true,
           .build = waveglow}};
}

}  // namespace tracecast::zoo_builders
