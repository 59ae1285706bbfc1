#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "models/language/network.hpp"
#include "models/transformer/layout.hpp"

namespace tracecast {

/// A network whose layers can be shared among GPUs, and what of it is left out then.
struct ShardableNetwork {
  TransformerLayout layout;
  std::vector<std::string> left_out{};  ///< "norms of queries and keys", ...
};

/// The layout of a network of grouped-query or latent attention whose layers are alike but for
/// leading dense ones. Sinks, norms of heads without weights, gates of attention, norms of results,
/// windows unlike the first, biases of some GEMMs alone and layers that predict further tokens are
/// small beside the rest: left out and named. Throws InputError naming `where` and what cannot be
/// shared among GPUs yet: keys chosen by an indexer, recurrent layers, layers of other makes in
/// between.
[[nodiscard]] ShardableNetwork shardable(const LanguageNetwork& network, std::string_view where);

}  // namespace tracecast
