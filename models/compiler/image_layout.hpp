#pragma once
#include "hwspecs/software/framework_profile.hpp"
#include "models/graph.hpp"

namespace tracecast {

/// Whether a compiler lays the images of a network's convolutions channels last, by its rule. Ops
/// are those of the graph and one for every tensor that it is given, weights among them: what a
/// compiler's own graph has nodes for, apart from ops that it takes apart.
[[nodiscard]] bool lays_channels_last(const NetworkGraph& forward, const ImageLayoutRule& rule,
                                      bool trains);

}  // namespace tracecast
