#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/collective_library.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

enum class EfficiencyLink { Nvlink, Pcie };

/// What GPUs of a generation have of their own, in thousands of cycles of the boost clock: a hop (a
/// flag from one GPU's kernel to the next one's) and the start of a kernel on all ranks.
struct GenerationFactors {
  EfficiencyLink link{};
  int from_capability = 0;
  double hop_kilocycles = 0, start_kilocycles = 0;
  int dies = 1;  ///< of a GPU: what crosses from one to the other takes longer
};
/// Rings of one protocol; counts are of hops, shares of what a ring's links carry.
struct RingEfficiency {
  EfficiencyLink link{};
  CollectiveProtocol protocol{};
  double start_hops = 0, step_hops = 0;
  int slices = 1;  ///< in which the chunk of a step goes on
  double slice_hops = 0;
  double link_fraction = 1;
  double local_per_pass = 0, local_once = 0;  ///< chunks copied within the GPU
  double distributed_hops = 0;                ///< once several blocks share the buffer
};
/// All-reduces in a switch that reduces.
struct SwitchEfficiency {
  double round_hops = 0, gpus_exponent = 0, fill_rounds = 0, link_fraction = 1;
};
/// Messages from rank to rank.
struct MessageEfficiency {
  EfficiencyLink link{};
  double start_hops = 0, peer_hops = 0, grow_hops = 0;
  Bytes grow{};
  double link_fraction = 1, local_share = 0;
  double pair_fraction = 1;  ///< in place of link_fraction where one GPU sends, the other receives
};
/// One kernel of an inference engine.
struct KernelEfficiency {
  std::string library;  ///< id of a CollectiveLibrary
  KernelAlgorithm algorithm{};
  Seconds start{};
  double start_hops = 0, rank_hops = 0;
  Bytes window{};  ///< in flight: what a GPU reads in three hops; zero: no bound
  double link_fraction = 1;
};
/// Of measured over predicted, on GPUs that were left out of the fit.
struct EfficiencySd {
  EfficiencyLink link{};
  Bytes from{};
  double log_sd = 0;
  bool is_of_kernels = false;  ///< of inference engines; else of rings and messages
};

/// A kernel launched alone by every process, as a profiler sees it: it waits for its peers and
/// starts cold.
struct IsolatedEfficiency {
  Seconds wait{};
  double factor = 1;
  double small_log_sd = 0.2, large_log_sd = 0.2;  ///< below 1 MiB and from there on
  [[nodiscard]] Seconds time(Seconds back_to_back) const { return wait + factor * back_to_back; }
};
/// How fast the kernels of libraries of collectives go within a node, fitted:
/// hwspecs/pace/default.textproto, which tools/fit/collective_fit writes. Formulas:
/// sim/network/node_collective.hpp.
struct CollectiveEfficiency {
  std::string data_set;
  std::vector<GenerationFactors> generations;
  std::vector<RingEfficiency> rings;
  SwitchEfficiency nvls;
  std::vector<MessageEfficiency> messages;
  std::vector<KernelEfficiency> kernels;
  std::vector<EfficiencySd> uncertainties;
  IsolatedEfficiency isolated;

  /// The newest generation that a GPU reaches; nothing for older ones.
  [[nodiscard]] const GenerationFactors* find_generation(EfficiencyLink link, int capability) const;
  [[nodiscard]] const RingEfficiency* find_ring(EfficiencyLink link,
                                                CollectiveProtocol protocol) const;
  [[nodiscard]] const MessageEfficiency* find_messages(EfficiencyLink link) const;
  [[nodiscard]] const KernelEfficiency* find_kernel(std::string_view library,
                                                    KernelAlgorithm algorithm) const;
  /// Standard deviation of the logarithm of measured over predicted. Without an entry 0.2, which
  /// older rows had.
  [[nodiscard]] double log_sd(EfficiencyLink link, Bytes bytes, bool is_kernel = false) const;
};

/// Reads such a file; `where` names it in errors. Throws InputError: syntax, a value that is absent
/// or out of range.
[[nodiscard]] CollectiveEfficiency parse_collective_efficiency(std::string_view text,
                                                               std::string_view where);

/// The file's text, to the byte what the fit ships: `comment` first, numbers with four digits.
[[nodiscard]] std::string collective_efficiency_text(const CollectiveEfficiency& efficiency,
                                                     std::string_view comment);

}  // namespace tracecast
