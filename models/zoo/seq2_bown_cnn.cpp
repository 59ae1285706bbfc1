#include <string>

#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::int64_t kWordVectors = 5147, kWidth = 1024;

/// Paddle's sequence_conv_pool: every word with its neighbours in one row, a GEMM, ELU, the
/// greatest over the words.
TensorId convolve(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t words) {
  const std::int64_t batch = b.shape(x)[0], tokens = b.shape(x)[1];
  const std::int64_t before[] = {0, (words - 1) / 2, 0}, after[] = {0, words / 2, 0};
  x = b.pad(name + ".pad", x, before, after);
  const TensorId indices = b.tensor({.name = name + ".positions",
                                     .shape = {tokens, words},
                                     .role = TensorRole::Buffer,
                                     .is_integer = true});
  x = b.gather(name + ".context", x, indices, 1);
  x = b.reshape(name + ".rows", x, {batch, tokens, words * kWidth});
  x = b.linear_layer(name, x, kWidth, true);
  x = b.activation(name + ".elu", x, "elu");
  const std::int64_t axis[] = {1};
  return b.reduce(name + ".max", x, axis, false, "max");
}

// MLPerf training v0.5, sentiment_analysis/paddle/train.py (convolution_net), after Johnson and
// Zhang, arXiv 1412.1058. A sample is a review of `seq_len` words. The source's embedding gradient
// has only the rows that occur; here it is dense.
NetworkGraph seq2_bown_cnn(const BuildOptions& options) {
  GraphBuilder b("seq2_bown_cnn", options.batch);
  const TensorId ids = b.input("words", {options.batch, *options.seq_len}, true);
  const TensorId x = b.embedding_layer("embedding", ids, kWordVectors, kWidth);
  const TensorId three = convolve(b, "conv_3", x, 3), four = convolve(b, "conv_4", x, 4);
  TensorId y = b.add("prediction", b.linear_layer("fc_3", three, *options.classes, false),
                     b.linear_layer("fc_4", four, *options.classes, true));
  b.graph().outputs = {b.softmax("softmax", y)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> seq2_bown_cnn_networks() {
  return {{.name = "seq2_bown_cnn",
           .aliases = {"sentiment_cnn"},
           .title = "Seq2-BowN-CNN, sentiment of film reviews",
           .source = "MLPerf training v0.5, sentiment_analysis/paddle (conv); IMDB words: 5147",
           .seq_len = 234,  // words of an IMDB review on average
           .classes = 2,
           .build = seq2_bown_cnn}};
}

}  // namespace tracecast::zoo_builders
