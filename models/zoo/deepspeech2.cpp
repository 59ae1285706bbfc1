#include <string>

#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::int64_t kHidden = 800, kBins = 161, kFramesPerSecond = 100, kLetters = 29;
constexpr int kLayers = 5;

/// Convolution without padding, batch norm, values cut at 0 and 20.
TensorId convolve(GraphBuilder& b, const std::string& name, TensorId x, const Window& window) {
  x = b.conv_layer(name, x, 32, window, true);
  x = b.batch_norm_layer(name + ".bn", x);
  return b.activation(name + ".hardtanh", x, "clip", true);
}

/// Batch norm over the features of all frames.
TensorId norm(GraphBuilder& b, const std::string& name, TensorId x) {
  const Shape shape = b.shape(x);
  x = b.reshape(name + ".rows", x, {shape[0] * shape[1], shape[2]});
  x = b.batch_norm_layer(name, x);
  return b.reshape(name + ".frames", x, shape);
}

/// A GRU in both directions whose results are added.
TensorId layer(GraphBuilder& b, int index, TensorId x) {
  const std::string name = "rnns." + std::to_string(index);
  if (index > 0) x = norm(b, name + ".bn", x);
  x = b.recurrent_layer(name, x, {.cell = CellKind::Gru, .hidden = kHidden, .bidirectional = true})
          .y;
  const Shape shape = b.shape(x);
  x = b.reshape(name + ".directions", x, {shape[0], shape[1], 2, kHidden});
  const std::int64_t axis[] = {2};
  return b.reduce(name + ".sum", x, axis, false, "sum");
}

// MLPerf training v0.5, speech_recognition/pytorch (model.py, params.py), after
// github.com/SeanNaren/deepspeech.pytorch and Amodei et al., arXiv 1512.02595. A sample is
// `seq_len` seconds of sound, 100 spectra of 161 bins each. The source trains with CTC on the
// host's own kernels; here the loss is a softmax per frame.
NetworkGraph deepspeech2(const BuildOptions& options) {
  GraphBuilder b("deepspeech2", options.batch);
  const std::int64_t frames = kFramesPerSecond * *options.seq_len + 1;
  TensorId x = b.input("spectrogram", {options.batch, 1, kBins, frames});
  x = convolve(b, "conv.0", x, {.kernel_h = 41, .kernel_w = 11, .stride_h = 2, .stride_w = 2});
  x = convolve(b, "conv.3", x, {.kernel_h = 21, .kernel_w = 11, .stride_h = 2});
  const Shape image = b.shape(x);
  x = b.reshape("features", x, {image[0], image[1] * image[2], image[3]});
  const std::int64_t time_first[] = {2, 0, 1};
  x = b.transpose("time_first", x, time_first);
  for (int i = 0; i < kLayers; ++i) x = layer(b, i, x);
  x = norm(b, "fc.bn", x);
  b.graph().outputs = {b.linear_layer("fc", x, kLetters, false)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> deepspeech2_networks() {
  return {{.name = "deepspeech2",
           .aliases = {"ds2"},
           .title = "DeepSpeech2, 5 GRU layers of 800 in both directions; lengths in seconds",
           .source = "MLPerf training v0.5, speech_recognition/pytorch",
           .seq_len = 12,  // LibriSpeech's training utterances: 12.3 s on average
           .classes = 1,
           .build = deepspeech2}};
}

}  // namespace tracecast::zoo_builders
