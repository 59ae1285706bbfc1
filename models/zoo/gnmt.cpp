#include <string>

#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::int64_t kVocabulary = 32320, kWidth = 1024;
constexpr int kLayers = 4;

struct Gnmt {
  GraphBuilder& b;
  std::int64_t batch, tokens;
  bool training;

  TensorId dropout(const std::string& name, TensorId x) const {
    return training ? b.dropout(name + ".dropout", x) : x;
  }
  TensorId lstm(const std::string& name, TensorId x, bool both_directions = false) const {
    return b.recurrent_layer(name, x, {.hidden = kWidth, .bidirectional = both_directions}).y;
  }

  /// The first layer in both directions; the third and fourth beside a residual.
  TensorId encode(TensorId x) const {
    for (int i = 0; i < kLayers; ++i) {
      const std::string name = "encoder." + std::to_string(i);
      const TensorId y = lstm(name, dropout(name, x), i == 0);
      x = i < 2 ? y : b.add(name + ".residual", y, x);
    }
    return x;
  }

  /// Bahdanau's scores, normalised: v tanh(query + key + bias), for every pair of words at once;
  /// batch first.
  TensorId attend(TensorId query, TensorId memory) const {
    const std::int64_t first[] = {1, 0, 2};
    query = b.transpose("attention.query_first", query, first);
    memory = b.transpose("attention.memory_first", memory, first);
    TensorId q = b.linear_layer("attention.linear_q", query, kWidth, false);
    TensorId k = b.linear_layer("attention.linear_k", memory, kWidth, false);
    q = b.reshape("attention.q", q, {batch, tokens, 1, kWidth});
    k = b.reshape("attention.k", k, {batch, 1, tokens, kWidth});
    TensorId sum = b.add("attention.sum", q, k);
    sum = b.add("attention.bias", sum, b.weight("attention.normalize_bias", {kWidth}));
    sum = b.activation("attention.tanh", sum, "tanh");
    TensorId v = b.weight("attention.linear_att", {kWidth});
    v = b.mul("attention.scale", v, b.weight("attention.normalize_scalar", {1}));
    v = b.reshape("attention.v", v, {kWidth, 1});
    TensorId scores = b.matmul("attention.scores", sum, v);
    scores = b.reshape("attention.pairs", scores, {batch, tokens, tokens});
    scores = b.softmax("attention.softmax", scores);
    const TensorId context = b.matmul("attention.context", scores, memory);
    return b.transpose("attention.time_first", context, first);
  }

  /// The first layer asks; what it gets back stands beside the input of every later layer.
  TensorId decode(TensorId x, TensorId memory) const {
    x = lstm("decoder.0", x);
    const TensorId context = attend(x, memory);
    for (int i = 1; i < kLayers; ++i) {
      const std::string name = "decoder." + std::to_string(i);
      const TensorId both[] = {dropout(name, x), context};
      const TensorId y = lstm(name, b.concat(name + ".concat", both, 2));
      x = i == 1 ? y : b.add(name + ".residual", y, x);
    }
    return b.linear_layer("classifier", x, kVocabulary, true);
  }
};

// NVIDIA DeepLearningExamples, PyTorch/Translation/GNMT
// (seq2seq/models/{gnmt,encoder,decoder,attention}.py), the "v2" of MLPerf: attention follows the
// decoder's first layer, which therefore runs over all words at once in training. A sample is a
// pair of sentences of `seq_len` words each; source and target share one embedding. Inference is
// the same pass over a given target, without beam search.
NetworkGraph gnmt(const BuildOptions& options) {
  GraphBuilder b("gnmt_v2", options.batch);
  const std::int64_t tokens = *options.seq_len;
  const TensorId table = b.weight("embedding.weight", {kVocabulary, kWidth});
  const TensorId source = b.input("source", {tokens, options.batch}, true);
  const TensorId target = b.input("target", {tokens, options.batch}, true);
  const Gnmt net{b, options.batch, tokens, options.training};
  const TensorId memory = net.encode(b.embedding("encoder.embedding", source, table));
  b.graph().outputs = {net.decode(b.embedding("decoder.embedding", target, table), memory)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> gnmt_networks() {
  return {{.name = "gnmt_v2",
           .aliases = {"gnmt", "rnn_translator"},
           .title = "GNMT v2, 4 + 4 layers of 1024",
           .source = "NVIDIA DeepLearningExamples, PyTorch GNMT; MLPerf rnn_translator",
           .seq_len = 50,
           .classes = 1,
           .build = gnmt}};
}

}  // namespace tracecast::zoo_builders
