#pragma once
#include <cstdint>
#include <vector>

#include "traces/replay/gpu_work.hpp"
#include "traces/replay/program.hpp"

namespace tracecast::traces {

/// Work that waits for work of another stream.
struct StreamWait {
  std::uint32_t waiter = 0, awaited = 0;  ///< indices into GpuWorks::all
};
/// A call that returns when GPU work has ended.
struct HostWait {
  std::uint32_t call = 0;
  std::vector<std::uint32_t>
      awaited;              ///< indices into GpuWorks::all; all ended when the call returned
  bool moves_data = false;  ///< only then the call begins what it does
};
struct Waits {
  std::vector<StreamWait> streams;  ///< sorted by waiter
  std::vector<HostWait> host;       ///< sorted by call
};

/// Who waited for whom, from the profiler's records of synchronisation (Syncs) where it made any;
/// else from the calls:
/// - cudaStreamWaitEvent before the thread's next launch, into another stream than its last one:
/// that work waits for
///   the last launch. Into the same stream: it waits for the last work of every other stream. Where
///   that ends too late: for the last before it that does not, since the event may be older.
/// - cudaStreamSynchronize: the thread's last launch. cudaDeviceSynchronize and cudaFree: all
/// streams.
///   cudaEventSynchronize: the last work to end during the call.
/// - copies whose call holds the host until they are done: those that end before their call does.
/// - copies from pageable memory whose call puts them through a buffer of the driver's and returns
/// when the last part is in
///   there: those of more than 64 KB that begin before their call ends. They wait for the work
///   before them in their stream. Source: CUDA Runtime API, "API synchronization behavior".
/// Awaited work that ends after what was to wait for it is dropped and counted in `account`.
[[nodiscard]] Waits find_waits(const Trace& trace, const GpuWorks& works, ReplayAccount& account);

}  // namespace tracecast::traces
