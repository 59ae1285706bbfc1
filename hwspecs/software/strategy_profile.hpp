#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/gpu_spec.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// How the gradients of the replicas become one.
enum class Communication {
  AllReduce,  ///< a collective; every replica updates its own weights
  OnHost,     ///< weights in host memory: fetched before each layer, gradients pushed, added and
              ///< applied there
  Scattered,  ///< weights scattered over the GPUs of the box: fetched from, gradients pushed to the
              ///< one that has them
  Copies,     ///< each gradient added on one GPU of the box, the sum copied to all
  FirstGpu,   ///< weights broadcast before each step, gradients reduced to the first GPU, which
              ///< alone updates
  Served,  ///< each gradient added on one GPU of the box, the sum sent to a server process, which
           ///< updates the weight; back the same way
};

/// Who drives the replicas.
enum class Replicas {
  Processes,  ///< one per GPU
  Threads,    ///< of one process, without a common lock
  Python,     ///< of one process, under the interpreter's lock
};

/// How tables are divided among GPUs.
enum class TableSharding {
  Whole,     ///< as many on every GPU, the largest first to the one with the fewest rows
  Rows,      ///< each over all GPUs
  Balanced,  ///< whole, but those that are more than a GPU's share of the work are cut by rows
};

/// Embedding tables that lie on one GPU each, or in parts on several, and are looked up there for
/// all.
struct TableStrategy {
  TableSharding parallel_layout{};
  Bytes replicated{};             ///< tables up to this size, of 4-byte numbers, are on every GPU
  double repeat_probability = 1;  ///< so are those of whose rows an average one is looked up twice
                                  ///< in a GPU's batch with more
  double vector_cost = 1;         ///< of sending one, in rows read
  double memory_share =
      1;  ///< of a GPU's memory, what tables and their optimizer's states may fill
  bool prefetches_ids = false;  ///< of the next batch while this one is computed
  bool keeps_wide = false;      ///< rows of 4-byte numbers whatever the network runs in
  /// Of rows that all GPUs of one node have, each adds its gradients number by number to the copy
  /// of the row's owner.
  bool adds_remotely = false;
};

/// When a strategy is what a framework's users take.
struct UsualStrategy {
  std::string framework;    ///< id
  std::string before_date;  ///< "2017-04"; empty: until today
  bool one_node = true, several_nodes = true;
};

/// Documented behaviour of data-parallel training, hwspecs/strategy/*.textproto.
struct StrategyProfile {
  std::string id;
  std::string name;
  std::vector<std::string> aliases;
  std::vector<std::string> words;  ///< of runs that use it, lower case
  std::vector<UsualStrategy> usual;

  Communication communication{};
  Replicas replicas{};
  std::string library;  ///< id of a CollectiveLibrary

  Bytes bucket{};                 ///< gradients that travel together; 0 = each alone
  Bytes first_bucket{};           ///< of the bucket that is ready first
  Seconds cycle{};                ///< gradients wait for the next multiple of it; 0 = they do not
  bool overlaps_backward = true;  ///< else the communication begins with the last gradient
  bool overlaps_accumulated = true;    ///< the same where gradients of micro-batches were added up
  bool updates_as_they_come = false;   ///< else the update waits for all
  bool overlaps_next_forward = false;  ///< a layer of the next step waits for its own weights only
  Bytes gradient_element{};            ///< on its way; 0 = as computed
  double packing_copies = 0;           ///< kernels that copy a gradient into its bucket and back
  /// Each GPU of a node updates its part of the weights; gradients are packed all by one kernel.
  bool divides_updates = false;

  /// A data set's rows and edges lie in parts in the memory of all GPUs, where they fit; else in
  /// host memory.
  bool divides_stores = false;

  Seconds host_per_bucket{};
  BytesPerSecond host_add{};      ///< while the host adds and applies; 0 = it does not
  BytesPerSecond message_rate{};  ///< of one copy or message at most; 0 = as the links

  std::optional<TableStrategy> tables;  ///< nothing: every replica has all tables

  /// Rate of one thread that hands the input to all replicas; 0 = no such thread.
  BytesPerSecond feed_rate{};

  double forward_lock_share =
      0;  ///< of the host's time per forward op that other replicas wait for
  double backward_lock_share = 0;
  Seconds replicate_per_op{};  ///< per forward op, for the copies of modules

  std::vector<SpecSource> sources;
  std::vector<SpecValue> values;
};

/// What sets GPUs side by side apart, hwspecs/host/ranks.textproto.
struct RankVariation {
  /// Standard deviation, over ranks, of a step's compute time relative to its mean.
  double rank_sd = 0;
  /// Factor of kernels on a device whose board carries others that work as well: they share its
  /// power and heat.
  double shared_board_time_factor = 1;
  /// What one process moves between GPUs that cannot reach each other, all such copies together:
  /// the driver takes them through host memory one after the other.
  BytesPerSecond staged_copies{};
  /// What one thread moves over the kernel's TCP where `tcp_cpu` is the processor (`tcp_link`: the
  /// link on which it was seen).
  BytesPerSecond tcp_thread{};
  std::string tcp_cpu, tcp_link;
  std::vector<SpecSource> sources;
  std::vector<SpecValue> values;
};
/// Reads text format (message RankVariation); `where` names it in errors. Throws InputError.
[[nodiscard]] RankVariation parse_rank_variation(std::string_view text, std::string_view where);

/// Reads text format (hwspecs/proto/strategy_profile.proto); `where` names it in errors. Throws
/// InputError: syntax, a missing or absurd value, a value without a source.
[[nodiscard]] StrategyProfile parse_strategy(std::string_view text, std::string_view where);

}  // namespace tracecast
