#include <array>
#include <string>
#include <vector>

#include "models/ops.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::int64_t kJasperBins = 64, kFramesPerSecond = 100, kLetters = 29;
constexpr int kRepeat = 5;

struct Block {
  std::int64_t channels, kernel;
};
/// The ten blocks of "10x5".
constexpr std::array<Block, 10> kBlocks{{{256, 11},
                                         {256, 11},
                                         {384, 13},
                                         {384, 13},
                                         {512, 17},
                                         {512, 17},
                                         {640, 21},
                                         {640, 21},
                                         {768, 25},
                                         {768, 25}}};

struct Jasper {
  GraphBuilder& b;
  bool training;

  /// Convolution over time that keeps the number of frames but for its stride, and batch norm.
  TensorId convolve(const std::string& name, TensorId x, std::int64_t channels, std::int64_t kernel,
                    std::int64_t stride = 1, std::int64_t dilation = 1) const {
    const std::int64_t pad = dilation * (kernel - 1) / 2;
    const Window window{.kernel_w = kernel,
                        .stride_w = stride,
                        .dilation_w = dilation,
                        .pads = {.left = pad, .right = pad}};
    return b.batch_norm_layer(name + ".bn", b.conv_layer(name, x, channels, window, false));
  }
  TensorId finish(const std::string& name, TensorId x) const {
    x = b.activation(name + ".relu", x, "relu", true);
    return training ? b.dropout(name + ".dropout", x) : x;
  }
  /// `kRepeat` convolutions; what all blocks before read is added, through a convolution of width 1
  /// each, before the last activation.
  TensorId block(const std::string& name, const std::vector<TensorId>& read,
                 const Block& of) const {
    TensorId x = read.back();
    for (int i = 0; i < kRepeat; ++i) {
      const std::string part = name + ".conv." + std::to_string(i);
      x = convolve(part, x, of.channels, of.kernel);
      if (i + 1 < kRepeat) x = finish(part, x);
    }
    for (std::size_t r = 0; r < read.size(); ++r) {
      const std::string part = name + ".res." + std::to_string(r);
      x = b.add(part + ".add", x, convolve(part, read[r], of.channels, 1));
    }
    return finish(name, x);
  }
};

// Li et al., arXiv 1904.03288, table 1 and its dense residuals, as NVIDIA's DeepLearningExamples
// trains it (PyTorch/SpeechRecognition/Jasper, jasper10x5dr). A sample is `seq_len` seconds of
// sound, 100 spectra of 64 bins each. Batches are padded to their longest sentence, 16 s of
// LibriSpeech's 12.3 on average. The source trains with CTC; here the loss is a softmax per frame.
// Frames beyond a sentence's end are not set to zero.
NetworkGraph jasper(const BuildOptions& options) {
  GraphBuilder b("jasper", options.batch);
  const Jasper net{b, options.training};
  TensorId x =
      b.input("spectrogram", {options.batch, kJasperBins, kFramesPerSecond * *options.seq_len});
  x = net.finish("prologue", net.convolve("prologue", x, 256, 11, 2));
  std::vector<TensorId> read;
  for (std::size_t i = 0; i < kBlocks.size(); ++i) {
    read.push_back(x);
    x = net.block("block." + std::to_string(i), read, kBlocks[i]);
  }
  x = net.finish("epilogue.0", net.convolve("epilogue.0", x, 896, 29, 1, 2));
  x = net.finish("epilogue.1", net.convolve("epilogue.1", x, 1024, 1));
  x = b.conv_layer("decoder", x, kLetters, Window::square(1), true);
  const std::int64_t frames_first[] = {0, 2, 1};
  b.graph().outputs = {b.transpose("letters", x, frames_first)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> jasper_networks() {
  return {{.name = "jasper",
           .aliases = {"jasper_10x5_dr"},
           .title = "Jasper 10x5 with dense residuals; lengths in seconds",
           .source = "NVIDIA/DeepLearningExamples, PyTorch/SpeechRecognition/Jasper",
           .parameters = rounded(333e6, 1e6, "Li et al., arXiv 1904.03288, table 4"),
           .seq_len = 16,
           .classes = 1,
           .build = jasper}};
}

}  // namespace tracecast::zoo_builders
