#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "traces/idle_gaps.hpp"
#include "traces/kernel_names/kernel_names.hpp"
#include "traces/tally.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// What calls of the runtime and driver are for.
enum class CallKind : std::uint8_t {
  Launch,  ///< of kernels and graphs
  Memory,  ///< allocation, release, and questions about the device and its memory
  Copy,    ///< copies and memsets
  Sync,    ///< waiting for the GPU
  Event,
  Other,
};
inline constexpr std::size_t kCallKindCount = 6;
[[nodiscard]] std::string_view to_string(CallKind kind);
[[nodiscard]] CallKind call_kind(std::string_view name);

struct ClassTime {
  KernelClass kernel_class{};
  Tally kernels;
  double share = 0;  ///< of the GPU time: the sum of all kernels, copies and memsets
};
struct AlgorithmTime {
  Algorithm algorithm{};
  Tally kernels;
  double share = 0;
};
struct CopyTime {
  CopyKind kind{};
  HostMemory memory{};
  Tally copies;
  std::uint64_t bytes = 0, sized = 0;  ///< `sized`: copies whose size is recorded
  std::int64_t sized_ns = 0;           ///< their time
  std::uint64_t median_bytes = 0;      ///< of the sized ones
  std::int64_t beside_kernels_ns = 0;  ///< how much of the time some kernel ran as well
};
struct NamedTime {
  std::string name;
  Tally tally;
};
struct KernelTime {
  std::string name;  ///< as people write it
  KernelClass kernel_class{};
  Tally kernels;
};
struct NodeTime {
  NodeKind kind{};
  Tally nodes;  ///< time: of those whose duration is recorded
  std::uint64_t message_bytes = 0;
};
struct MetricSum {
  std::string metric;
  std::uint64_t rows = 0, invocations = 0;
  double sum = 0;  ///< average times invocations, over all kernels
};
struct CollectiveTime {
  std::string name;
  Tally kernels;
  std::int64_t elements = 0;  ///< sum of the larger of in and out, where recorded
};

/// What one trace says. Where a profile holds sums or graph nodes in place of records, counts and
/// times by class and by name come from those, and what needs single records (span, busy time,
/// concurrency, gaps) is zero. Of metrics, which have no times, the invocations of the first one
/// count as kernels.
struct Summary {
  std::string source, format;
  std::string gpu;  ///< name of the device that ran most kernels; empty = not recorded
  std::size_t gpus_in_host = 0, gpus_used = 0;
  std::optional<std::int64_t> rank, world_size;

  std::uint64_t kernels = 0, distinct_kernels = 0, collective_kernels = 0;
  std::uint64_t streams = 0;  ///< that ran kernels
  std::uint64_t copies = 0, memsets = 0, calls = 0, ops = 0;
  std::int64_t span_ns = 0;      ///< first kernel's begin to last kernel's end
  std::int64_t busy_ns = 0;      ///< of it, at least one kernel ran
  std::int64_t gpu_time_ns = 0;  ///< sum of kernels, copies and memsets
  std::vector<NamedTime> steps;  ///< in order of time; tally.count = 1

  std::vector<ClassTime> classes;         ///< longest first
  std::vector<AlgorithmTime> algorithms;  ///< of convolutions, longest first
  std::vector<KernelTime> top_kernels;    ///< longest first, at most 10 names

  /// A stream runs one kernel after the other: kernels recorded as longer than some that began
  /// after them in their stream, and these.
  std::uint64_t overrunning = 0, overrun = 0;
  std::int64_t concurrent_ns = 0;  ///< of the busy time, two or more kernels ran
  std::uint32_t most_concurrent = 0;
  std::int64_t collective_alone_ns = 0;  ///< collectives ran and no other kernel did
  std::vector<CollectiveTime> collectives;
  std::vector<CopyTime> copy_kinds;
  Tally memset_time;
  std::array<Tally, kCallKindCount> call_kinds{};
  std::vector<NamedTime> top_calls;  ///< longest first, at most 10 names

  /// Of an execution graph. Its GPU nodes that have a duration count as kernels above.
  std::uint64_t nodes = 0, gpu_nodes = 0;
  std::int64_t gpu_nodes_ns = 0;
  std::vector<NodeTime> node_kinds;
  std::vector<MetricSum> metrics;

  std::int64_t work_span_ns = 0;  ///< first to last GPU work of any kind
  std::int64_t idle_ns = 0;       ///< of it, no GPU work ran
  IdleTimes idle{};
  std::int64_t peak_allocated_bytes = -1;  ///< by the framework's allocator; -1 = not recorded
  std::map<std::string, LeftOut, std::less<>> left_out;
};

[[nodiscard]] Summary summarize(const Trace& trace, const KernelNames& names);

/// What the ranks of one recording say together: counts, times by class and lists are sums; steps,
/// span, busy time, streams and everything about a single clock are the first rank's. Needs one
/// summary at least.
[[nodiscard]] Summary summarize_ranks(const std::vector<Summary>& ranks);

}  // namespace tracecast::traces
