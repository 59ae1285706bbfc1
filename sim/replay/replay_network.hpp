#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "hwspecs/collective_library.hpp"
#include "models/ranks_program.hpp"
#include "sim/network/fabric.hpp"

namespace tracecast {

/// How many times as fast links are, by FabricLinkKind.
struct LinkFactors {
  static constexpr std::size_t kKinds = static_cast<std::size_t>(FabricLinkKind::HostMemory) + 1;
  std::array<double, kKinds> bandwidth;
  double latency = 1;  ///< of a collective's steps: more is slower
  LinkFactors() { bandwidth.fill(1); }
};

/// Where a recorded job's collectives ran, and where they are to run.
struct ReplayNetwork {
  const Fabric& recorded;  ///< of as many ranks as the recorded job had
  const Fabric& target;    ///< of as many as it is to have
  const CollectiveLibrary& library;
  LinkFactors factors;  ///< of the target; the library's choice of algorithm stays
};

/// Where the time that a collective moves data for comes from.
enum class MovingBasis : std::uint8_t {
  Scaled,     ///< recorded, times the target's price over the recorded network's
  Estimated,  ///< the same for what of a single rank's kernel is taken to be moving; its waiting
              ///< stays
  Kept,       ///< as recorded: kind or size are not
};
[[nodiscard]] std::string_view to_string(MovingBasis basis);

/// Collectives of one kind among as many ranks, before and after.
struct MovingChange {
  std::optional<Collective> kind;
  std::int64_t recorded_ranks = 0, ranks = 0;
  MovingBasis basis{};
  std::uint64_t count = 0;
  Seconds recorded{}, moved{};  ///< sums over collectives; of single kernels their waiting included
  Seconds priced{};             ///< what the recorded network's price for them is
};

/// Gives the job's collectives their time on another network or among another number of ranks.
///   moving' = moving * price(target, N') / price(recorded, N)
/// with prices from Communicator::plan: latency + bytes / min(rate_cap, min over uses of bandwidth
/// / weight). What the recorded collective took beyond its price (contention, older libraries) it
/// keeps in proportion. Groups of all recorded ranks become groups of all ranks of the target,
/// smaller ones keep their size; they stand on consecutive ranks. Each rank's buffer stays as large
/// as it was. Of a kernel without counterparts the lesser of its price and the quickest of its like
/// counts as moving, and the rest, its waiting, stays.
/// Needs target.num_ranks() >= 2.
std::vector<MovingChange> move_collectives(RanksProgram& job, const ReplayNetwork& network);

}  // namespace tracecast
