#pragma once
#include <cstdint>
#include <vector>

#include "sim/network/fabric.hpp"

namespace tracecast {

/// What ranks do with each other: it decides which of them may stand for others.
enum class Meeting {
  /// They meet only in collectives of all ranks, each one coupled transfer that waits for the last
  /// of them. Then a rank
  /// counts by when it is ready, and where it stands does not matter.
  InCollectives,
  /// They send to others: who shares links with whom counts too.
  InMessages,
};

/// Ranks of a class do the same at the same times when all of them run the same program.
struct RankClasses {
  std::vector<std::uint32_t> class_of;  ///< by rank
  std::vector<Rank> representatives;    ///< by class: its first rank
  std::vector<std::uint32_t> sizes;     ///< by class

  /// Fewer classes than ranks.
  [[nodiscard]] bool folds() const { return representatives.size() < class_of.size(); }
};

/// Which ranks are provably alike.
///   InCollectives: same GPU, same machine, same compute factor.
///   InMessages: also the same slot, the same slow links, and nodes that a collective of nodes on
///   one switch, or of switches with alike nodes below, brings onto each other: an automorphism of
///   the fabric that keeps machines, links and rates.
/// A rank whose start is jittered is alike to none: its moment is its own. Classes are numbered by
/// first rank.
[[nodiscard]] RankClasses fold(const Fabric& fabric, Meeting meeting);

}  // namespace tracecast
