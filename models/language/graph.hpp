#pragma once
#include <cstdint>

#include "models/graph.hpp"
#include "models/language/network.hpp"

namespace tracecast {

struct LanguageGraphSizes {
  std::int64_t batch = 1, tokens = 1;  ///< sequences, and tokens of each
};

/// The forward pass over whole sequences as transformers runs it without fused attention: ids in, logits of every token
/// out. Scores, scale, mask, softmax and context are ops of their own, and so are the steps of norms and rotary
/// positions (transformers 4.40, modeling_llama.py and its kin). Experts run one by one where their source does, else as
/// products of all experts at once, every expert with an even share of the tokens; with fewer tokens than experts, as
/// many experts as can be met. Recurrences (gated delta rule, state space scan) and the choice of keys by an indexer have no
/// cost model: ops of kind Unknown, bounded by their bytes. Prediction layers are not run.
/// Throws InputError naming the network: tokens beyond learned positions or 2^20, sizes whose product is too large.
[[nodiscard]] NetworkGraph language_graph(const LanguageNetwork& network,
                                          const LanguageGraphSizes& sizes);

/// Tokens of a sequence where nobody says how many: the context, at most 4096.
[[nodiscard]] std::int64_t usual_tokens(const LanguageNetwork& network);

}  // namespace tracecast
