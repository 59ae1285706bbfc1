#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "sim/network/fabric.hpp"

namespace tracecast {

/// "8 of ethernet_100g (12.5 GB/s) in each node"; of unlike nodes a part per group. Empty: there is
/// one node.
[[nodiscard]] std::string nics_text(std::span<const NodeNics> nics);

/// Adds "nics": [{"nodes", "nics_per_node", "link", "line_rate_gb_per_s"}], where there are several
/// nodes.
void set_nics(nlohmann::ordered_json& doc, std::span<const NodeNics> nics);

}  // namespace tracecast
