#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tracecast {

/// GPUs joined by direct links, bricks of one speed.
struct LinkMesh {
  std::uint32_t num_nodes = 0;
  std::vector<int> bricks;  ///< a * num_nodes + b: parallel links; symmetric

  [[nodiscard]] int between(std::uint32_t a, std::uint32_t b) const {
    return bricks[a * num_nodes + b];
  }
};

/// A closed way through all nodes.
struct MeshCycle {
  std::vector<std::uint32_t> order;
  /// The bricks it takes, one per hop; a hop over a third node takes two.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> bricks;
};

/// As many cycles through all nodes as fit into the bricks at once, each brick once: every cycle is
/// two rings, one in each direction. `relay`: nodes without a direct brick may be neighbours over a
/// third one. At least three nodes. Found by depth-first search, the first in the order of nodes; a
/// search that takes more than a million steps ends with what it has. The number cannot exceed half
/// the least degree.
[[nodiscard]] std::vector<MeshCycle> pack_cycles(const LinkMesh& mesh, bool relay);

}  // namespace tracecast
