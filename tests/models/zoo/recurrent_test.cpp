#include <doctest/doctest.h>

#include <string>

#include "models/training.hpp"
#include "models/unroll.hpp"
#include "models/zoo/zoo.hpp"

using namespace tracecast;

TEST_SUITE_BEGIN("models/zoo/recurrent");

TEST_CASE("parameters are those of the sources, layer by layer") {
  struct Row {
    const char* name;
    std::int64_t parameters;
  };
  const Row rows[] = {
      // embedding and GEMM with the words, 4 * 200 * (200 + 200 + 2) per layer
      {"lstm_wikitext2", 33278 * 200 * 2 + 33278 + 2 * 800 * 402},
      // 4 h (h + h + 1) per layer
      {"ptb_small", 10000 * 200 * 2 + 10000 + 2 * 800 * 401},
      {"ptb_medium", 10000 * 650 * 2 + 10000 + 2 * 2600 * 1301},
      {"ptb_large", 10000 * 1500 * 2 + 10000 + 2 * 6000 * 3001},
      // one table, both directions, 2048 to 1024, two of 1024; decoder: 1024, three that read 2048;
      // attention: two
      // matrices, v and its scale and bias; classifier
      {"gnmt_v2", 32320 * 1024 + 2 * 4096 * 2050 + 4096 * 3074 + 2 * 4096 * 2050 + 4096 * 2050 +
                      3 * 4096 * 3074 + 2 * 1024 * 1024 + 1024 + 1 + 1024 + 32320 * 1025},
      // 1 x 41 x 11 and 32 x 21 x 11 to 32 with bias and batch norm; 3 gates of 800 in both
      // directions on 672 or 800
      // features; batch norms of 800; 29 letters
      {"deepspeech2", 32 * 452 + 64 + 32 * (32 * 231 + 1) + 64 + 2 * 2400 * (672 + 800 + 2) +
                          4 * 2 * 2400 * (800 + 800 + 2) + 5 * 1600 + 29 * 800},
      {"seq2_bown_cnn", 5147 * 1024 + 1024 * (3 * 1024 + 1) + 1024 * (4 * 1024 + 1) + 2 * 2048 + 2},
      // LSTMs of 1024 on 240, 1024 and two stacked; of 512 on embedded pieces; both joined; pieces
      {"rnnt", 4096 * (240 + 1024 + 2) + 3 * 4096 * 2050 + 4096 * 3074 + 1023 * 512 +
                   2 * 2048 * 1026 + 512 * 1025 + 512 * 513 + 1024 * 513},
      // convolutions; 4 * 512 * (1024 + 512 + 2); one value, six actions
      {"a3c_pong", 32 * 26 + 32 * 801 + 64 * 513 + 64 * 577 + 2048 * 1538 + 513 + 6 * 513},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(build_network(row.name, {}).parameter_count() == row.parameters);
  }
  // About 160 M, 14 M and 66 M, as people say.
  CHECK(rows[4].parameters == 160'671'297);
  CHECK(rows[0].parameters == 13'987'678);
  CHECK(rows[3].parameters == 66'022'000);
}

TEST_CASE("multiply-adds of the language model are counted by hand") {
  // Per word: two layers of 800 x 400, and 200 x 33278.
  CHECK(build_network("lstm_wikitext2", {.batch = 3}).forward_macs() ==
        3.0 * 35 * (2 * 800 * 400 + 200 * 33278));
  // Twice the words, twice the work.
  CHECK(build_network("lstm_wikitext2", {.seq_len = 70}).forward_macs() ==
        2 * build_network("lstm_wikitext2", {}).forward_macs());
}

TEST_CASE("every one trains, fused and unrolled, and updates each weight") {
  for (const char* name :
       {"lstm_wikitext2", "ptb_small", "gnmt_v2", "deepspeech2", "seq2_bown_cnn", "a3c_pong"}) {
    for (const bool unrolled : {false, true}) {
      CAPTURE(name);
      CAPTURE(unrolled);
      const std::int64_t length = std::string(name) == "deepspeech2" ? 1 : 5;
      NetworkGraph graph = build_network(name, {.batch = 2, .seq_len = length, .training = true});
      if (unrolled) graph = unroll_recurrent(graph);
      std::size_t weights = 0, updates = 0, unknown = 0;
      for (const Tensor& tensor : graph.tensors()) weights += tensor.role == TensorRole::Weight;
      const NetworkGraph step = make_training_graph(std::move(graph), {});
      for (const Op& op : step.ops()) {
        updates += op.kind == OpKind::Optimizer;
        unknown += op.kind == OpKind::Unknown;
      }
      CHECK(updates == weights);
      CHECK(unknown == 0);
    }
  }
}

TEST_CASE("speech is shorter after the convolutions: 12 s are 586 steps") {
  // 1201 spectra; (1201 - 11) / 2 + 1 = 596; 596 - 11 + 1 = 586
  const NetworkGraph graph = build_network("deepspeech2", {.batch = 4});
  CHECK(to_string(graph.tensor(graph.outputs[0]).shape) == "586x4x29");
}

TEST_SUITE_END();
