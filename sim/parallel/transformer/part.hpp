#pragma once
#include <tuple>

#include "sim/base/units.hpp"

namespace tracecast {

/// What one rank holds: pieces of the network in the order data passes them.
struct RankPart {
  bool embedding = false, head = false;
  int dense_layers = 0, expert_layers = 0;
  int wide_dense_layers = 0, wide_expert_layers = 0;  ///< beside these, in bf16
  using Key = std::tuple<bool, bool, int, int, int, int>;
  [[nodiscard]] Key key() const {
    return {embedding, head, dense_layers, expert_layers, wide_dense_layers, wide_expert_layers};
  }
};

/// Elapsed: the kernels', or the host's where it is slower.
struct RankPartTimes {
  Seconds forward{};   ///< alone
  Seconds backward{};  ///< alone between stages; without stages the rest of `both`
  Seconds both{};      ///< one after the other, the host running ahead
};

}  // namespace tracecast
