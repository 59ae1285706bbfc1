#include "sim/parallel/transformer/memory.hpp"

#include <doctest/doctest.h>

#include "tests/support/specs.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("sim/parallel/transformer/memory");

TEST_CASE("model states shrink as the ZeRO paper's table says") {
  // Rajbhandari et al., table 1: 7.5 billion weights, 64 ranks, 16 bytes each: 2 + 2 + 12.
  struct Row {
    const char* what;
    int zero;
    double gigabytes;
  };
  const Row rows[] = {
      {"everything everywhere: 7.5 x 16", 0, 120},
      {"optimizer divided: 7.5 (4 + 12 / 64)", 1, 31.40625},
      {"gradients too: 7.5 (2 + 14 / 64)", 2, 16.640625},
      {"weights too: 7.5 x 16 / 64", 3, 1.875},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const ParallelPlan plan{.data = 64, .zero = row.zero};
    const TransformerMemory m =
        model_states({.dense = 7.5e9}, plan, find_training_software("megatron_2021"), false);
    CHECK((m.weights + m.gradients + m.optimizer).in_bytes() ==
          doctest::Approx(row.gigabytes * 1e9));
  }
}

TEST_CASE("gradients kept in fp32 take twice the bytes, groups of ranks hold copies") {
  const ParallelPlan plan{.data = 64, .zero = 1, .zero_ranks = 8};
  const TransformerMemory m =
      model_states({.dense = 8e9}, plan, find_training_software("megatron"), false);
  CHECK(m.gradients.in_bytes() == doctest::Approx(32e9));
  CHECK(m.optimizer.in_bytes() == doctest::Approx(12e9));  // 12 x 8e9 / 8
}

TEST_CASE("an optimizer keeps its states and, in mixed precision, an fp32 weight") {
  struct Row {
    OptimizerKind optimizer;
    bool is_fp32;
    double bytes;  ///< per weight
  };
  for (const Row& row : {Row{OptimizerKind::Sgd, false, 4}, Row{OptimizerKind::Momentum, false, 8},
                         Row{OptimizerKind::Lamb, false, 12}, Row{OptimizerKind::None, false, 0},
                         Row{OptimizerKind::Sgd, true, 0}, Row{OptimizerKind::AdamW, true, 8}}) {
    const TransformerMemory m = model_states({.dense = 1e9}, {}, find_training_software("megatron"),
                                             row.is_fp32, row.optimizer);
    CHECK(m.optimizer.in_bytes() == row.bytes * 1e9);
  }
}

TEST_CASE("states of 8 bits and factored ones take their bytes") {
  // Adam 8, in 8 bits 2 and two scales of 4 bytes for each 256 weights.
  CHECK(state_bytes(OptimizerKind::Adam) == 8);
  CHECK(state_bytes(OptimizerKind::Adam8bit) == doctest::Approx(2.03125));
  CHECK(state_bytes(OptimizerKind::Adafactor) == 0);
  const ParallelPlan plan{.data = 4};
  const TransformerMemory adam = model_states({.dense = 1e9}, plan, {}, false, OptimizerKind::Adam);
  const TransformerMemory packed =
      model_states({.dense = 1e9}, plan, {}, false, OptimizerKind::Adam8bit);
  CHECK((adam.optimizer - packed.optimizer).in_bytes() == doctest::Approx(5.96875e9));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
