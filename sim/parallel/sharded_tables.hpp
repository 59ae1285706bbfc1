#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hwspecs/software/strategy_profile.hpp"
#include "models/graph.hpp"
#include "sim/base/units.hpp"
#include "sim/parallel/data_parallel.hpp"

namespace tracecast {

/// A table whose rows a network looks up and adds: an EmbeddingBag's.
struct EmbeddingTable {
  OpId lookup;
  std::int64_t rows = 0, width = 0;
  std::int64_t bag = 1;  ///< rows of a sample
};
/// In the order of the graph.
[[nodiscard]] std::vector<EmbeddingTable> find_tables(const NetworkGraph& forward);

/// Where the tables of a network lie.
struct TablePlacement {
  /// By table: ranks that hold a part of its rows each; 0: all have all of it.
  std::vector<std::uint32_t> shards;
  // Of the ranks, the most that one has, per sample of the whole batch where that counts:
  double ids = 0;      ///< rows looked up
  double vectors = 0;  ///< sums of rows that it sends
  double rows = 0;     ///< of all its parts
  // Of a sample:
  double received = 0;  ///< sums of rows that its rank gets for it: more than tables where a bag
                        ///< lies on several ranks
};

/// Chance that some of `bag` ids fall into one of `shards` equal parts of a table: 1 - (1 - 1 /
/// shards)^bag.
[[nodiscard]] double share_of_bags(std::int64_t bag, std::uint32_t shards);
/// Chance that the average row is looked up twice or more by `lookups` random ids, of a Poisson
/// variable of mean m = lookups / rows: 1 - (1 + m) exp(-m).
[[nodiscard]] double repeat_probability(double lookups, std::int64_t rows);

/// As the strategy divides tables over `ranks`, each with `batch` samples. `row_limit`: rows that a
/// rank has room for; 0: any number. Ids are taken as spread evenly over the rows of their table.
///   Whole     ceil(tables / ranks) on a rank at most; the largest first, to the rank with the
///   fewest rows and room for one more Rows      every table over all ranks Balanced  work of a
///   table: rows read + vector_cost * vectors sent. One that is more than a rank's mean share, or
///   larger
///             than half its room, is cut into as many parts as that takes; the costliest part
///             first, to the rank with the least work so far among those with room
[[nodiscard]] TablePlacement place_tables(std::span<const EmbeddingTable> tables,
                                          std::uint32_t ranks, std::int64_t batch,
                                          const TableStrategy& strategy, double row_limit);

/// One rank's network: of the divided tables those of the fullest rank, looked up for the batch of
/// all.
struct ShardedNetwork {
  NetworkGraph forward;
  std::optional<OpId> communication;   ///< what its sums go through on their way to the samples'
                                       ///< ranks; nothing: all tables are replicated
  TensorId sent{}, received{}, ids{};  ///< of the communication
  std::optional<TensorId> replicated;  ///< sums of tables that all ranks have
  TablePlacement placement;
  std::vector<EmbeddingTable> tables;  ///< of the whole network
};

/// The lookups of a rank are one kernel each for its own and for the replicated tables, before all
/// else, so that the communication runs beside what does not need it; parts of a bag are added
/// where the Concat reads them. The communication is a Reshape between tensors of different sizes:
/// no kernel, and backward again one. Throws InputError: no tables, tables of different widths,
/// sums not joined by one Concat.
[[nodiscard]] ShardedNetwork divide_tables(const NetworkGraph& forward, std::uint32_t ranks,
                                           const TableStrategy& strategy, double row_limit);

/// The step of a divided network with the update of its rank's own tables behind their gradient, in
/// the backward pass: no other rank has to do with it.
[[nodiscard]] NetworkGraph with_tables_updated_at_once(const NetworkGraph& step,
                                                       const ShardedNetwork& network);

/// All-to-alls of a step: ids to the tables' ranks, sums of rows to the samples' ranks, in training
/// their gradients back; and what is added remotely: every number of the rows that a rank's samples
/// look up in the tables which all have,
///   rows * (1 - exp(-lookups / rows)) * width
struct TableCrossings {
  std::vector<CrossingWork> works;
  std::vector<Crossing> by_kernels;  ///< of the rank's program
};
[[nodiscard]] TableCrossings find_crossings(const ShardedNetwork& network, const NetworkGraph& step,
                                            const PricedStep& priced, const StepProgram& program,
                                            std::span<const Bytes> element_bytes,
                                            const TableStrategy& strategy);

}  // namespace tracecast
