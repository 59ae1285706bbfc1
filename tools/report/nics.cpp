#include "tools/report/nics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/text.hpp"

namespace tracecast {

std::string nics_text(std::span<const NodeNics> nics) {
  const bool are_alike = std::all_of(
      nics.begin(), nics.end(), [&](const NodeNics& n) { return n.nodes == nics.front().nodes; });
  std::string text;
  for (const NodeNics& n : nics) {
    if (!text.empty()) text += are_alike ? " and " : "; ";
    text += fmt::format("{} of {} ({} GB/s)", n.per_node, n.link,
                        three_digits(n.line_rate.in_gb_per_s()));
    if (!are_alike) text += fmt::format(" in each of {} nodes", n.nodes);
  }
  if (!text.empty() && are_alike) text += " in each node";
  return text;
}

void set_nics(nlohmann::ordered_json& doc, std::span<const NodeNics> nics) {
  for (const NodeNics& n : nics) {
    doc["nics"].push_back({{"nodes", n.nodes},
                           {"nics_per_node", n.per_node},
                           {"link", n.link},
                           {"line_rate_gb_per_s", n.line_rate.in_gb_per_s()}});
  }
}

}  // namespace tracecast
