#pragma once
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/spec_identity.hpp"
#include "hwspecs/spec_text.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

enum class LibraryKind {
  Channels,    ///< rings and trees of GPUs in one kernel, pipelined (NCCL)
  HostSteps,   ///< the host sends buffer after buffer through its memory (MPI, Baidu's ring, Gloo)
  TreeCopies,  ///< whole buffers copied along a binary tree of GPUs (Caffe)
};
enum class CollectiveAlgorithm { Ring, Tree, Nvls, Direct, None };
[[nodiscard]] std::string_view to_string(CollectiveAlgorithm algorithm);
enum class CollectiveProtocol { LowLatency, LowLatency128, Simple };
[[nodiscard]] std::string_view to_string(CollectiveProtocol protocol);

/// One algorithm with one protocol.
struct CollectivePath {
  CollectiveAlgorithm algorithm{};
  CollectiveProtocol protocol{};
  Seconds base{};
  Seconds nvlink_step{}, pcie_step{}, network_step{};
  double bandwidth_fraction = 1;  ///< payload over what the links carry
};
/// The most that a channel, or all of them, carry; by number of nodes: 1, 2, more. Empty: no such bound.
struct CollectiveCap {
  int from_capability = 0;
  CollectiveAlgorithm algorithm{};
  CollectiveProtocol protocol{};
  std::vector<BytesPerSecond> per_channel, in_all;
};

/// How a library of collectives behaves in a range of its versions; values and sources: hwspecs/collective.
struct CollectiveLibrary : SpecIdentity {
  std::string library;             ///< "nccl"
  std::vector<std::string> words;  ///< that names in tables have, lower case
  std::string from_version;        ///< "2.4"
  std::string from_date;           ///< "2019-01"
  LibraryKind kind{};
  int trees_from_nodes = 0;    ///< 0: no trees
  bool relays_nvlink = false;  ///< through a third GPU
  bool nvlink_sharp = false;   ///< reductions in NVSwitches
  /// Traffic over payload: of PCIe between GPUs through a root complex; of a network whose NICs the GPUs cannot reach.
  double host_bridge_overhead = 1, staging_overhead = 1;
  double relay_overhead = 1;  ///< alike: of rings that pass a third GPU's memory
  double ring_plateau = 1;
  Seconds step{};
  std::vector<CollectivePath> paths;
  std::vector<CollectiveCap> caps;
  /// By protocol: factors on a tree's bandwidth for 64 B, 128 B, ...
  std::array<std::vector<double>, 3> tree_correction;
};

/// Reads one such file, which may be based on another that `find` has. `where` names it in errors.
/// Throws InputError with line or field.
[[nodiscard]] CollectiveLibrary parse_collective_library(std::string_view text,
                                                         std::string_view where,
                                                         const FindSpecText& find);
/// "2.4.8" ('.') or "2017-08" ('-') as numbers, which compare as versions do. Throws InputError: anything else in it.
[[nodiscard]] std::vector<long long> numbers_in_order(std::string_view text, char separator,
                                                      std::string_view example);

}  // namespace tracecast
