#pragma once
#include <string_view>

namespace tracecast {

/// What ranks do together.
enum class Collective {
  AllReduce,
  ReduceScatter,
  AllGather,
  Broadcast,  ///< from the first rank
  Reduce,     ///< to the first rank
  AllToAll,
  SendReceive,  ///< from the first rank to the second
};
[[nodiscard]] std::string_view to_string(Collective collective);

}  // namespace tracecast
