#include <array>
#include <string>
#include <vector>

#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::int64_t kSymbols = 148, kTacotronWidth = 512, kMels = 80, kPrenet = 256,
                       kCells = 1024;
constexpr std::int64_t kAttention = 128, kLocationFilters = 32, kLocationTaps = 31, kTaps = 5;
/// Frames of speech per symbol of text: about those of the LJ Speech set, 833 of 148 at the usual
/// lengths.
constexpr std::int64_t kFramesPerSymbol = 6;

/// NVIDIA DeepLearningExamples, PyTorch/SpeechSynthesis/Tacotron2/tacotron2/model.py; Shen et al.,
/// arXiv 1712.05884.
struct Tacotron {
  GraphBuilder& b;
  std::int64_t batch, frames, symbols;
  bool training;

  TensorId dropout(const std::string& name, TensorId x) const {
    return training ? b.dropout(name + ".dropout", x) : x;
  }
  TensorId convolution(const std::string& name, TensorId x, std::int64_t channels,
                       std::string_view function) const {
    x = b.conv_layer(name, x, channels,
                     {.kernel_w = kTaps, .pads = {.left = kTaps / 2, .right = kTaps / 2}}, true);
    x = b.batch_norm_layer(name + ".norm", x);
    if (!function.empty()) x = b.activation(name + "." + std::string(function), x, function);
    return dropout(name, x);
  }

  /// batch x symbols x 512
  TensorId encode() const {
    constexpr std::array<std::int64_t, 3> kChannelsFirst{0, 2, 1}, kTimeFirst{2, 0, 1},
        kBatchFirst{1, 0, 2};
    const TensorId ids = b.input("text", {batch, symbols}, true);
    TensorId x = b.embedding_layer("embedding", ids, kSymbols, kTacotronWidth);
    x = b.transpose("encoder.channels", x, kChannelsFirst);
    for (int i = 0; i < 3; ++i) {
      x = convolution("encoder.conv" + std::to_string(i), x, kTacotronWidth, "relu");
    }
    x = b.transpose("encoder.time", x, kTimeFirst);
    x = b.recurrent_layer("encoder.lstm", x, {.hidden = kTacotronWidth / 2, .bidirectional = true})
            .y;
    return b.transpose("encoder.batch", x, kBatchFirst);
  }

  /// A cell whose weights serve all frames.
  struct Cell {
    std::int64_t input;
    std::vector<TensorId> weights;
  };
  Cell cell(const std::string& name, std::int64_t input) const {
    constexpr std::int64_t kGates = 4 * kCells;
    return {input,
            {b.weight(name + ".weight_ih", {kGates, input}),
             b.weight(name + ".weight_hh", {kGates, kCells}), b.weight(name + ".bias_ih", {kGates}),
             b.weight(name + ".bias_hh", {kGates})}};
  }
  struct State {
    TensorId h, c;
  };
  State step(const std::string& name, const Cell& cell, TensorId x, const State& before) const {
    const TensorId in = b.reshape(name + ".view", x, {1, batch, cell.input});
    const TensorId states[] = {before.h, before.c};
    const auto result = b.recurrent(name, in, {.hidden = kCells}, cell.weights, states);
    return {result.last_h, *result.last_c};
  }
  TensorId row(const std::string& name, TensorId h) const {
    return b.reshape(name, h, {batch, kCells});
  }

  struct Weights {
    Cell attention, decoder;
    TensorId query, score, location_filter, location, mel, mel_bias, gate, gate_bias;
  };
  Weights weights() const {
    return {.attention = cell("attention_rnn", kPrenet + kTacotronWidth),
            .decoder = cell("decoder_rnn", kCells + kTacotronWidth),
            .query = b.weight("attention.query.weight", {kAttention, kCells}),
            .score = b.weight("attention.v.weight", {1, kAttention}),
            .location_filter =
                b.weight("attention.location_conv.weight", {kLocationFilters, 2, kLocationTaps}),
            .location = b.weight("attention.location.weight", {kAttention, kLocationFilters}),
            .mel = b.weight("mel.weight", {kMels, kCells + kTacotronWidth}),
            .mel_bias = b.weight("mel.bias", {kMels}),
            .gate = b.weight("gate.weight", {1, kCells + kTacotronWidth}),
            .gate_bias = b.weight("gate.bias", {1})};
  }

  /// Probabilities over symbols: v tanh(query + location + memory); location from those of the
  /// frame before and their sum.
  TensorId align(const std::string& name, const Weights& w, TensorId query, TensorId keys,
                 TensorId before, TensorId sum) const {
    constexpr std::array<std::int64_t, 3> kSwap{0, 2, 1};
    TensorId q = b.linear(name + ".query", query, w.query, std::nullopt);
    q = b.reshape(name + ".query.view", q, {batch, 1, kAttention});
    const TensorId both[] = {before, sum};
    TensorId where = b.concat(name + ".cat", both, 1);
    where = b.conv(name + ".location_conv", where, w.location_filter, std::nullopt,
                   {.kernel_w = kLocationTaps,
                    .pads = {.left = kLocationTaps / 2, .right = kLocationTaps / 2}});
    where = b.linear(name + ".location", b.transpose(name + ".location.time", where, kSwap),
                     w.location, std::nullopt);
    const TensorId terms[] = {q, where, keys};
    TensorId scores = b.activation(name + ".tanh", b.binary(name + ".sum", "add", terms), "tanh");
    scores = b.linear(name + ".v", scores, w.score, std::nullopt);
    return b.softmax(name + ".softmax", b.reshape(name + ".scores", scores, {batch, 1, symbols}));
  }

  struct Speech {
    TensorId mels;   ///< batch x 80 x frames
    TensorId gates;  ///< batch x frames: whether it ends here
  };
  /// Frame by frame: what attention gives depends on the frame before.
  Speech decode(TensorId memory) const {
    const Weights w = weights();
    const TensorId keys = b.linear_layer("attention.memory", memory, kAttention, false);
    TensorId x = b.input("mels", {frames, batch, kMels});
    for (int i = 0; i < 2; ++i) {
      const std::string name = "prenet." + std::to_string(i);
      x = b.activation(name + ".relu", b.linear_layer(name, x, kPrenet, false), "relu");
      x = dropout(name, x);
    }
    const std::vector<std::int64_t> ones(static_cast<std::size_t>(frames), 1);
    const std::vector<TensorId> prenet = b.split("frames", x, 0, ones);
    State attention{b.buffer("attention.h", {1, batch, kCells}),
                    b.buffer("attention.c", {1, batch, kCells})};
    State decoder{b.buffer("decoder.h", {1, batch, kCells}),
                  b.buffer("decoder.c", {1, batch, kCells})};
    TensorId context = b.buffer("context", {batch, kTacotronWidth});
    TensorId aligned = b.buffer("aligned", {batch, 1, symbols}),
             sum = b.buffer("aligned.sum", {batch, 1, symbols});
    std::vector<TensorId> mels, gates;
    for (std::int64_t t = 0; t < frames; ++t) {
      const std::string name = "frame" + std::to_string(t);
      const TensorId frame =
          b.reshape(name + ".prenet", prenet[static_cast<std::size_t>(t)], {batch, kPrenet});
      const TensorId in[] = {frame, context};
      attention =
          step(name + ".attention_rnn", w.attention, b.concat(name + ".in", in, -1), attention);
      const TensorId query = dropout(name + ".query", row(name + ".h", attention.h));
      aligned = align(name + ".align", w, query, keys, aligned, sum);
      sum = b.add(name + ".align.total", sum, aligned);
      context = b.reshape(name + ".context.view", b.matmul(name + ".context", aligned, memory),
                          {batch, kTacotronWidth});
      const TensorId second[] = {query, context};
      decoder =
          step(name + ".decoder_rnn", w.decoder, b.concat(name + ".second", second, -1), decoder);
      const TensorId output = dropout(name + ".decoder", row(name + ".decoder.h", decoder.h));
      const TensorId last[] = {output, context};
      const TensorId read = b.concat(name + ".last", last, -1);
      const TensorId mel = b.linear(name + ".mel", read, w.mel, w.mel_bias);
      gates.push_back(b.linear(name + ".gate", read, w.gate, w.gate_bias));
      mels.push_back(b.reshape(name + ".mel.view", mel, {batch, kMels, 1}));
    }
    return {b.concat("mels.out", mels, 2), b.concat("gates.out", gates, 1)};
  }

  TensorId refine(TensorId mels) const {
    TensorId x = mels;
    for (int i = 0; i < 4; ++i) {
      x = convolution("postnet.conv" + std::to_string(i), x, kTacotronWidth, "tanh");
    }
    return b.add("postnet.add", mels, convolution("postnet.conv4", x, kMels, {}));
  }
};

/// A sample is a spoken sentence of `seq_len` frames; its text has a sixth as many symbols.
NetworkGraph tacotron2(const BuildOptions& options) {
  GraphBuilder b("tacotron2", options.batch);
  const std::int64_t frames = *options.seq_len;
  const Tacotron net{b, options.batch, frames, std::max<std::int64_t>(1, frames / kFramesPerSymbol),
                     options.training};
  const Tacotron::Speech speech = net.decode(net.encode());
  b.graph().outputs = {net.refine(speech.mels), speech.gates};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> tacotron2_networks() {
  return {{.name = "tacotron2",
           .title = "Tacotron 2, frame by frame",
           .source = "NVIDIA DeepLearningExamples, PyTorch Tacotron2; arXiv 1712.05884",
           .parameters = exact(28'193'153, "NVIDIA tacotron2 checkpoint"),
           .seq_len = 800,
           .most_tokens = 2000,
           .classes = 1,
           .build = tacotron2}};
}

}  // namespace tracecast::zoo_builders
