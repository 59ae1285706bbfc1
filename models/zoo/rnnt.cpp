#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/ops.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::int64_t kFeatures = 240, kEncoder = 1024, kPrediction = 512, kJoint = 512;
constexpr std::int64_t kPieces = 1024;  ///< of words, and the blank
constexpr std::int64_t kTokensPerSecond = 3;

/// Utterances of LibriSpeech's training sets under MLPerf's limit: 12.3 s on average, 16.7 s the
/// longest.
constexpr double kLongest = 16.7 / 12.3;

/// Two recurrent stacks of the encoder. Every batch has an utterance near the longest, whose steps
/// follow each other: as many samples as there are for `head` steps, half of them for `tail` steps
/// more.
struct Sound {
  TensorId head;
  std::optional<TensorId> tail;
};

class Encoder {
 public:
  Encoder(GraphBuilder& builder, bool training) : b_(builder), training_(training) {}

  Sound stack(const std::string& name, const Sound& x, int layers) {
    const GraphBuilder::RecurrentLayers shape{
        .hidden = kEncoder, .layers = layers, .dropout = training_};
    Sound result{.head = b_.recurrent_layer(name, x.head, shape).y, .tail = {}};
    if (x.tail) {
      const std::vector<TensorId> inputs = b_.graph().ops().back().inputs;
      result.tail = b_.recurrent(name + ".tail", *x.tail, shape, std::span(inputs).subspan(1)).y;
    }
    return each(name + ".dropout", result, [&](const std::string& part, TensorId y) {
      return training_ ? b_.dropout(part, y) : y;
    });
  }

  /// Two steps become one of twice the features.
  Sound pairs(const Sound& x) {
    return each("encoder", x, [&](const std::string& part, TensorId y) {
      const Shape shape = b_.shape(y);
      y = b_.reshape(part + ".pairs", y, {shape[0] / 2, 2, shape[1], kEncoder});
      const std::int64_t features_last[] = {0, 2, 1, 3};
      y = b_.transpose(part + ".turned", y, features_last);
      return b_.reshape(part + ".stacked", y, {shape[0] / 2, shape[1], 2 * kEncoder});
    });
  }

  /// One row a sample and step, without padding.
  TensorId rows(const Sound& x, std::int64_t count) {
    std::vector<TensorId> parts;
    (void)each("encoder", x, [&](const std::string& part, TensorId y) {
      const Shape shape = b_.shape(y);
      parts.push_back(b_.reshape(part + ".rows", y, {shape[0] * shape[1], kEncoder}));
      return y;
    });
    TensorId all = parts.size() > 1 ? b_.concat("encoder.packed", parts, 0) : parts.front();
    if (b_.shape(all)[0] > count) all = b_.slice("encoder.samples", all, {count, kEncoder});
    return all;
  }

 private:
  template <class Do>
  Sound each(const std::string& name, const Sound& x, Do act) {
    Sound result{.head = act(name, x.head), .tail = {}};
    if (x.tail) result.tail = act(name + ".tail", *x.tail);
    return result;
  }

  GraphBuilder& b_;
  bool training_;
};

// MLPerf Training v1.0 to v3.1, rnn_speech_recognition/pytorch (rnnt/model.py,
// configs/baseline_v3-1023sp.yaml). A sample is `seq_len` seconds of sound: 100 spectra a second of
// 80 bins, three of them a step. Every step meets every piece of the sentence; the transducer's
// loss over that lattice is here a softmax at each of its points. Its recurrent layers leave out
// what is padded of a batch sorted by length (--pre_sort_for_seq_split), its joint all padding
// (pack_w_relu_dropout). Guess: three pieces a second (LibriSpeech: 2.7 words a second).
NetworkGraph rnnt(const BuildOptions& options) {
  GraphBuilder b("rnnt", options.batch);
  const std::int64_t batch = options.batch, seconds = *options.seq_len;
  const auto dropout = [&](const std::string& name, TensorId x) {
    return options.training ? b.dropout(name, x) : x;
  };
  const std::int64_t steps = (100 * seconds / 3 + 1) / 2 * 2;
  // The longest; a batch of one has no other to be longer.
  const std::int64_t longest =
      batch > 1 ? std::llround(static_cast<double>(steps) * kLongest / 2) * 2 : steps;
  const std::int64_t head = 2 * steps - longest, tail = longest - head;
  Sound sound{.head = b.input("sound", {head, batch, kFeatures}), .tail = {}};
  if (tail > 0) sound.tail = b.input("sound.tail", {tail, (batch + 1) / 2, kFeatures});
  Encoder encoder(b, options.training);
  sound = encoder.stack("encoder.pre_rnn", sound, 2);
  sound = encoder.stack("encoder.post_rnn", encoder.pairs(sound), 3);
  TensorId x = encoder.rows(sound, batch * steps / 2);
  const bool drops = options.training;

  const std::int64_t pieces = kTokensPerSecond * seconds + 1;  // and the start
  const TensorId ids = b.input("pieces", {pieces, batch}, true);
  TensorId y = b.embedding_layer("prediction.embed", ids, kPieces - 1, kPrediction);
  y = b.recurrent_layer("prediction.rnn", y, {.hidden = kPrediction, .layers = 2, .dropout = drops})
          .y;
  y = dropout("prediction.dropout", y);

  const std::int64_t batch_first[] = {1, 0, 2};
  x = b.linear_layer("joint.enc", x, kJoint, true);
  y = b.linear_layer("joint.pred", b.transpose("joint.text", y, batch_first), kJoint, true);
  x = b.reshape("joint.rows", x, {batch, steps / 2, 1, kJoint});
  y = b.reshape("joint.columns", y, {batch, 1, pieces, kJoint});
  TensorId z = b.add("joint.add", x, y);
  z = dropout("joint.dropout", b.activation("joint.relu", z, "relu", true));
  z = b.linear_layer("joint.fc", z, kPieces, true);
  b.graph().outputs = {b.reshape("joint.points", z, {batch, (steps / 2) * pieces, kPieces})};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> rnnt_networks() {
  return {{.name = "rnnt",
           .aliases = {"rnn_t"},
           .title = "RNN transducer of MLPerf; lengths in seconds",
           .source = "MLPerf training v1.0, rnn_speech_recognition/pytorch",
           .seq_len = 12,  // LibriSpeech's training utterances: 12.3 s on average
           .classes = 1,
           .build = rnnt}};
}

}  // namespace tracecast::zoo_builders
