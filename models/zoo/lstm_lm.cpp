#include <string>

#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Language model: an embedding as wide as the layers, LSTM layers, a GEMM with every word.
struct LstmLayout {
  std::int64_t vocabulary, width;
  int biases = 1;       ///< per gate: 1 in TensorFlow, 2 in PyTorch
  bool dropout = true;  ///< after the embedding, between the layers and after them
  int layers = 2;
};

// A sample is a row of `seq_len` words. Time first, as both sources have it. TensorFlow's loss and
// PyTorch's are over every word. What PyTorch's example does besides (clipping of gradients, states
// kept from one batch to the next) is not here.
NetworkGraph lstm_lm(const BuildOptions& options, const LstmLayout& layout) {
  GraphBuilder b("lstm_lm", options.batch);
  const bool dropout = options.training && layout.dropout;
  const TensorId ids = b.input("words", {*options.seq_len, options.batch}, true);
  TensorId x = b.embedding_layer("embedding", ids, layout.vocabulary, layout.width);
  if (dropout) x = b.dropout("embedding_dropout", x);
  x = b.recurrent_layer("lstm", x,
                        {.hidden = layout.width,
                         .layers = layout.layers,
                         .biases = layout.biases,
                         .dropout = dropout})
          .y;
  if (dropout) x = b.dropout("lstm_dropout", x);
  b.graph().outputs = {b.linear_layer("softmax", x, layout.vocabulary, true)};
  return std::move(b).take();
}

constexpr std::string_view kPtb =
    "tensorflow/models r1.13, tutorials/rnn/ptb; Zaremba et al., arXiv 1409.2329";

}  // namespace

std::vector<ZooEntry> lstm_lm_networks() {
  return {
      {.name = "lstm_wikitext2",
       .aliases = {"lstm_lm"},
       .title = "LSTM language model, 2 x 200, WikiText-2",
       .source = "pytorch/examples word_language_model (1.0), emsize 200, nhid 200",
       .seq_len = 35,
       .classes = 1,
       .build = build<lstm_lm, LstmLayout{33278, 200, 2}>},
      {.name = "ptb_large",
       .title = "LSTM language model, 2 x 1500, Penn Treebank",
       .source = kPtb,
       .parameters = rounded(66e6, 1e6, "Press and Wolf, arXiv 1608.05859, table 3"),
       .seq_len = 35,
       .classes = 1,
       .build = build<lstm_lm, LstmLayout{10000, 1500}>},
      {.name = "ptb_medium",
       .title = "LSTM language model, 2 x 650, Penn Treebank",
       .source = kPtb,
       .seq_len = 35,
       .classes = 1,
       .build = build<lstm_lm, LstmLayout{10000, 650}>},
      {.name = "ptb_small",
       .title = "LSTM language model, 2 x 200, Penn Treebank",
       .source = kPtb,
       .seq_len = 20,
       .classes = 1,
       .build = build<lstm_lm, LstmLayout{10000, 200, 1, false}>},
  };
}

}  // namespace tracecast::zoo_builders
