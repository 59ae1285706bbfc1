#include <string>

#include "models/ops.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::int64_t kFeatures = 240, kEncoder = 1024, kPrediction = 512, kJoint = 512;
constexpr std::int64_t kPieces = 1024;  ///< of words, and the blank
constexpr std::int64_t kTokensPerSecond = 3;

// MLPerf Training v1.0 to v3.1, rnn_speech_recognition/pytorch (rnnt/model.py, configs/baseline_v3-1023sp.yaml). A sample is
// `seq_len` seconds of sound: 100 spectra a second of 80 bins, three of them a step. Every step meets every piece of the
// sentence; the transducer's loss over that lattice is here a softmax at each of its points.
// Guess: three pieces a second (LibriSpeech: 2.7 words a second).
NetworkGraph rnnt(const BuildOptions& options) {
  GraphBuilder b("rnnt", options.batch);
  const std::int64_t batch = options.batch, seconds = *options.seq_len;
  const auto dropout = [&](const std::string& name, TensorId x) {
    return options.training ? b.dropout(name, x) : x;
  };
  const std::int64_t steps = (100 * seconds / 3 + 1) / 2 * 2;
  TensorId x = b.input("sound", {steps, batch, kFeatures});
  const bool drops = options.training;
  x = b.recurrent_layer("encoder.pre_rnn", x, {.hidden = kEncoder, .layers = 2, .dropout = drops})
          .y;
  x = dropout("encoder.pre_rnn.dropout", x);
  // Two steps become one of twice the features.
  x = b.reshape("encoder.pairs", x, {steps / 2, 2, batch, kEncoder});
  const std::int64_t features_last[] = {0, 2, 1, 3};
  x = b.transpose("encoder.turned", x, features_last);
  x = b.reshape("encoder.stacked", x, {steps / 2, batch, 2 * kEncoder});
  x = b.recurrent_layer("encoder.post_rnn", x, {.hidden = kEncoder, .layers = 3, .dropout = drops})
          .y;
  x = dropout("encoder.post_rnn.dropout", x);

  const std::int64_t pieces = kTokensPerSecond * seconds + 1;  // and the start
  const TensorId ids = b.input("pieces", {pieces, batch}, true);
  TensorId y = b.embedding_layer("prediction.embed", ids, kPieces - 1, kPrediction);
  y = b.recurrent_layer("prediction.rnn", y, {.hidden = kPrediction, .layers = 2, .dropout = drops})
          .y;
  y = dropout("prediction.dropout", y);

  const std::int64_t batch_first[] = {1, 0, 2};
  x = b.linear_layer("joint.enc", b.transpose("joint.sound", x, batch_first), kJoint, true);
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
