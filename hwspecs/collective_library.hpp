#pragma once
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/loaders/spec_identity.hpp"
#include "hwspecs/loaders/spec_text.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

enum class LibraryKind {
  Channels,    ///< rings and trees of GPUs in one kernel, pipelined (NCCL)
  HostSteps,   ///< the host sends buffer after buffer through its memory (MPI, Baidu's ring, Gloo)
  TreeCopies,  ///< whole buffers copied along a binary tree of GPUs (Caffe)
  Kernels,  ///< one kernel that reads its peers' buffers (inference engines); else another library
};
enum class CollectiveAlgorithm { Ring, Tree, Nvls, Direct, None };
[[nodiscard]] std::string_view to_string(CollectiveAlgorithm algorithm);
/// How a kernel of an inference engine all-reduces: each rank reads all buffers; or its share of
/// all and then the sums; or the switch reduces and multicasts.
enum class KernelAlgorithm { OneShot, TwoShot, Multicast };
[[nodiscard]] std::string_view to_string(KernelAlgorithm algorithm);
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
/// The most that a channel, or all of them, carry; by number of nodes: 1, 2, more. Empty: no such
/// bound.
struct CollectiveCap {
  int from_capability = 0;
  CollectiveAlgorithm algorithm{};
  CollectiveProtocol protocol{};
  std::vector<BytesPerSecond> per_channel, in_all;
};

/// Bandwidths of a channel that the search for channels tries, one after the other.
struct ChannelSpeeds {
  int from_capability = 0;
  std::vector<BytesPerSecond> speeds;
};
/// Of reductions in the switch: channels, and the share of the links that the library counts on.
struct SwitchReduction {
  int from_capability = 0;
  int channels = 0;
  double efficiency = 1;
  double algorithm_share = 1;  ///< buffer over what links carry, in the library's estimate
};
/// Buffers of up to `most` that an engine's kernel takes, on up to `ranks` GPUs of a node that
/// reach each other by NVLink.
struct EngineKernel {
  int from_capability = 0;
  int ranks = 0;
  KernelAlgorithm algorithm{};
  Bytes most{};
};

/// How a library of collectives behaves in a range of its versions; values and sources:
/// hwspecs/collective.
struct CollectiveLibrary : SpecIdentity {
  std::string library;             ///< "nccl"
  std::vector<std::string> words;  ///< that names in tables have, lower case
  std::string from_version;        ///< "2.4"
  std::string from_date;           ///< "2019-01"
  LibraryKind kind{};
  int trees_from_nodes = 0;    ///< 0: no trees
  bool relays_nvlink = false;  ///< through a third GPU
  bool nvlink_sharp = false;   ///< reductions in NVSwitches
  bool network_sharp = false;  ///< and in InfiniBand's switches, with those
  /// Traffic over payload: of PCIe between GPUs through a root complex; of a network whose NICs the
  /// GPUs cannot reach.
  double host_bridge_overhead = 1, staging_overhead = 1;
  double relay_overhead = 1;  ///< alike: of rings that pass a third GPU's memory
  double ring_plateau = 1;
  Seconds step{};
  /// By the kernel's TCP: a thread for each so much of a NIC's line rate, from one to the most;
  /// zero: one.
  BytesPerSecond line_rate_of_socket_thread{};
  int most_socket_threads = 1;
  std::vector<CollectivePath> paths;
  std::vector<CollectiveCap> caps;
  bool is_limited =
      false;  ///< times within a node are those of CollectiveEfficiency; `paths` choose
  std::vector<ChannelSpeeds> channel_speeds;
  std::vector<SwitchReduction> switch_reductions;
  std::vector<EngineKernel> kernels;  ///< in order of size, for each generation and number of ranks
  std::string otherwise;              ///< Kernels: library ("nccl") for everything else
  /// By protocol: factors on a tree's bandwidth for 64 B, 128 B, ...
  std::array<std::vector<double>, 3> tree_correction;

  /// Threads that serve the sockets of a NIC of such a line rate, of a host that has so many for
  /// it.
  [[nodiscard]] int socket_threads(BytesPerSecond line_rate, int available) const;
};

/// Reads one such file, which may be based on another that `find` has. `where` names it in errors.
/// Throws InputError with line or field.
[[nodiscard]] CollectiveLibrary parse_collective_library(std::string_view text,
                                                         std::string_view where,
                                                         const FindSpecText& find);
/// "2.4.8" ('.') or "2017-08" ('-') as numbers, which compare as versions do. Throws InputError:
/// anything else in it.
[[nodiscard]] std::vector<long long> numbers_in_order(std::string_view text, char separator,
                                                      std::string_view example);

}  // namespace tracecast
