#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/ids.hpp"
#include "traces/name_table.hpp"

/// What a profiler recorded, whatever its format: one struct of arrays for each kind of record, so
/// that millions of records stay small, and texts, streams, threads and launch geometries kept
/// once. Times are integer nanoseconds: `begin_ns` since Trace::epoch_ns. Records stand in the
/// order of the file.
namespace tracecast::traces {

using StreamId = Id<struct StreamTag>;      ///< into Trace::streams
using ThreadId = Id<struct ThreadTag>;      ///< into Trace::threads
using GeometryId = Id<struct GeometryTag>;  ///< into Trace::geometries; 0 = not recorded

struct Span {
  std::int64_t begin_ns = 0, duration_ns = 0;
  [[nodiscard]] std::int64_t end_ns() const { return begin_ns + duration_ns; }
  friend bool operator==(const Span&, const Span&) = default;
};

/// A GPU's queue, by the profiler's numbers.
struct Stream {
  std::int64_t device = 0, number = 0;
  friend auto operator<=>(const Stream&, const Stream&) = default;
};
/// A thread of the host. Profilers name threads by number or by text.
struct Thread {
  std::string process, thread;
  friend auto operator<=>(const Thread&, const Thread&) = default;
};
/// How a kernel was launched; 0 = not recorded.
struct Geometry {
  std::array<std::uint32_t, 3> grid{}, block{};
  std::uint32_t registers_per_thread = 0;
  std::uint32_t shared_bytes = 0;  ///< of one block, static and dynamic
  friend auto operator<=>(const Geometry&, const Geometry&) = default;
};

/// Kernels on the GPU. `correlation` is the launching call's, `op` the External id of the operator
/// (0 = none recorded).
struct Kernels {
  std::vector<Span> span;
  std::vector<NameId> name;
  std::vector<StreamId> stream;
  std::vector<GeometryId> geometry;
  std::vector<std::uint32_t> correlation;
  std::vector<std::uint32_t> op;
  [[nodiscard]] std::size_t size() const { return span.size(); }
};

enum class CopyKind : std::uint8_t {
  Unknown,
  HostToDevice,
  DeviceToHost,
  DeviceToDevice,
  PeerToPeer,
  HostToHost
};
/// What kind of host memory took part; pageable memory goes through a buffer of the driver.
enum class HostMemory : std::uint8_t { Unknown, Pageable, Pinned, Managed };
[[nodiscard]] std::string_view to_string(CopyKind kind);
[[nodiscard]] std::string_view to_string(HostMemory memory);

/// `bytes` 0 = not recorded.
struct Copies {
  std::vector<Span> span;
  std::vector<StreamId> stream;
  std::vector<CopyKind> kind;
  std::vector<HostMemory> memory;
  std::vector<std::uint64_t> bytes;
  std::vector<std::uint32_t> correlation;
  std::vector<std::uint32_t> op;
  [[nodiscard]] std::size_t size() const { return span.size(); }
};
struct Memsets {
  std::vector<Span> span;
  std::vector<StreamId> stream;
  std::vector<std::uint64_t> bytes;
  std::vector<std::uint32_t> correlation;
  std::vector<std::uint32_t> op;
  [[nodiscard]] std::size_t size() const { return span.size(); }
};

/// Calls of the CUDA or HIP runtime and driver on a host thread, and the profiler's own overhead
/// (no correlation).
struct Calls {
  std::vector<Span> span;
  std::vector<NameId> name;
  std::vector<ThreadId> thread;
  std::vector<std::uint32_t> correlation;
  std::vector<std::uint32_t> op;
  [[nodiscard]] std::size_t size() const { return span.size(); }
};

enum class SyncKind : std::uint8_t { Unknown, Event, StreamWaitEvent, Stream, Context };
[[nodiscard]] std::string_view to_string(SyncKind kind);
/// Waiting for the GPU, by the host or (StreamWaitEvent) by a stream. -1 = not recorded or does not
/// apply.
struct Syncs {
  std::vector<Span> span;
  std::vector<SyncKind> kind;
  std::vector<std::int64_t> stream;          ///< number of the stream that waits
  std::vector<std::int64_t> awaited_stream;  ///< number of the stream that is waited for
  std::vector<std::int64_t> awaited_event;   ///< event id
  std::vector<std::int64_t> awaited_record;  ///< correlation of the call that recorded the event
  std::vector<std::uint32_t> correlation;
  [[nodiscard]] std::size_t size() const { return span.size(); }
};

/// Operators of the framework on a host thread. Dims, types and values are the texts of the file,
/// name 0 = not recorded.
struct Ops {
  std::vector<Span> span;
  std::vector<NameId> name;
  std::vector<ThreadId> thread;
  std::vector<std::uint32_t> id;  ///< External id, by which kernels and calls name it; 0 = none
  std::vector<NameId> dims;       ///< of the inputs, "[[32,3,224,224],[]]"
  std::vector<NameId> types;      ///< of the inputs
  std::vector<NameId> values;     ///< of scalar inputs: strides, paddings
  std::vector<std::int64_t> sequence;  ///< joins a backward op to its forward op; -1 = none
  std::vector<std::uint32_t>
      forward_thread;  ///< profiler's number of the forward op's thread; 0 = not a backward op
  [[nodiscard]] std::size_t size() const { return span.size(); }
};

/// Named stretches: steps, ranges of the program, data loading. On the GPU's side the stream is
/// known, else the thread.
struct Marks {
  std::vector<Span> span;
  std::vector<NameId> name;
  std::vector<ThreadId> thread;
  std::vector<bool> on_gpu;
  [[nodiscard]] std::size_t size() const { return span.size(); }
};

/// What a collective moves, as a kernel's or an operator's record tells it.
struct Collectives {
  std::vector<NameId> name;           ///< "allreduce"
  std::vector<std::uint32_t> kernel;  ///< index into `kernels`, or kNone
  std::vector<std::uint32_t> op;      ///< External id of the recording operator, or 0
  std::vector<NameId> data_type;      ///< "Float"
  std::vector<std::int64_t> in_elements, out_elements;
  std::vector<std::int64_t> group_size;  ///< ranks; 0 = not recorded
  std::vector<NameId> group;             ///< name of the process group
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  [[nodiscard]] std::size_t size() const { return name.size(); }
};

/// Ends of the arrows from forward to backward operators; two ends with the same id belong
/// together.
struct ForwardBackward {
  std::vector<std::int64_t> id;
  std::vector<std::int64_t> at_ns;
  std::vector<ThreadId> thread;
  std::vector<bool> is_backward;
  [[nodiscard]] std::size_t size() const { return id.size(); }
};

/// Allocations (bytes > 0) and releases of the framework's allocator. Totals are -1 when not
/// recorded.
struct Allocations {
  std::vector<std::int64_t> at_ns, bytes, total_allocated, total_reserved;
  std::vector<std::int32_t> device;  ///< -1 = host
  [[nodiscard]] std::size_t size() const { return at_ns.size(); }
};

/// Sums that a profiler prints instead of records: kernels, copies and memsets of a name ("[CUDA
/// memcpy HtoD]"), or calls of the API.
struct Totals {
  std::vector<NameId> name;
  std::vector<bool> is_call;
  std::vector<std::uint64_t> count;
  std::vector<std::int64_t> ns, least_ns, most_ns;
  [[nodiscard]] std::size_t size() const { return name.size(); }
};

/// Counters measured over all invocations of a kernel.
struct Metrics {
  std::vector<NameId> device, kernel, metric;
  std::vector<std::uint64_t> invocations;
  std::vector<double> least, most, average;  ///< of one invocation, in the metric's own unit
  [[nodiscard]] std::size_t size() const { return kernel.size(); }
};

enum class NodeKind : std::uint8_t {
  Unknown,
  Operator,  ///< of a framework's execution trace
  Metadata,
  MemoryLoad,
  MemoryStore,
  Compute,
  Send,
  Receive,
  Collective,
};
inline constexpr std::size_t kNodeKindCount = 9;
[[nodiscard]] std::string_view to_string(NodeKind kind);

/// Nodes of an execution graph: what depends on what, with or without times.
struct Nodes {
  std::vector<std::uint64_t> id;
  std::vector<NameId> name;
  std::vector<NodeKind> kind;
  std::vector<bool> on_gpu;
  std::vector<std::int64_t> duration_ns;        ///< -1 = not recorded
  std::vector<NameId> dims, types, values;      ///< of the inputs, as Ops has them
  std::vector<std::uint64_t> message_bytes;     ///< of messages, copies; 0 = none or not recorded
  std::vector<std::uint32_t> first_dependency;  ///< where the node's own begin in `dependency`
  std::vector<std::uint64_t> dependency;  ///< ids of nodes, data dependencies and control ones
  [[nodiscard]] std::size_t size() const { return id.size(); }
};

/// A GPU of the host, as the profiler saw it; 0 = not recorded.
struct Device {
  std::int64_t id = 0;
  std::string name;
  std::uint64_t memory_bytes = 0;
  int compute_major = 0, compute_minor = 0;
  int sm_count = 0, warp_size = 0, max_threads_per_sm = 0;
  std::uint64_t registers_per_sm = 0, shared_bytes_per_sm = 0;
};

/// Content of a file that the record form does not hold, or that is wrong.
struct LeftOut {
  std::uint64_t count = 0;
  bool is_damage = false;  ///< wrong, rather than of no use here
};

/// One process's recording: one rank of a job.
struct Trace {
  std::string source;  ///< file, or member of an archive, without its folders
  std::string format;  ///< "PyTorch Kineto"
  std::int64_t epoch_ns =
      0;  ///< what times are relative to, since 1970; 0 = they are absolute or the epoch is unknown
  std::optional<std::int64_t> rank, world_size;

  NameTable names;
  std::vector<Device> devices;
  std::vector<Stream> streams;
  std::vector<Thread> threads;
  std::vector<Geometry> geometries{Geometry{}};

  Kernels kernels;
  Copies copies;
  Memsets memsets;
  Calls calls;
  Syncs syncs;
  Ops ops;
  Marks marks;
  Collectives collectives;
  ForwardBackward forward_backward;
  Allocations allocations;
  Totals totals;
  Metrics metrics;
  Nodes nodes;
  std::map<std::string, LeftOut, std::less<>> left_out;  ///< by kind, in words

  [[nodiscard]] std::string_view operator[](NameId id) const { return names[id]; }
  void leave_out(std::string_view kind, bool is_damage = false);  ///< kinds beyond 256 as one
};

/// All that one file holds: one trace, or one for each rank.
struct Recording {
  std::vector<Trace> traces;
};

}  // namespace tracecast::traces
