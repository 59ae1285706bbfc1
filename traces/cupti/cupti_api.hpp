#pragma once
#include <cstddef>
#include <cstdint>

/// What we use of CUPTI, declared by ourselves so that the recorder builds
/// where no CUDA toolkit is and one build serves every CUPTI from CUDA 9 to 13.
/// A record holds only the fields that all versions have in the same place:
/// CUPTI appends. A test compares every offset with NVIDIA's header where that
/// is installed. Times are nanoseconds of one clock for host and GPU. Source:
/// CUPTI documentation, "CUPTI Activity API" and "CUPTI Callback API";
/// cupti_activity.h of CUDA 13.0.
namespace tracecast::traces::cupti {

inline constexpr int kSuccess = 0;
inline constexpr int kInsufficientPrivileges = 35;
inline constexpr int kVirtualInsufficientPrivileges = 40;
inline constexpr std::uint32_t kOldestVersion = 10;  ///< CUPTI's own number of CUDA 9.0's

enum class ActivityKind : std::uint32_t {
  Memcpy = 1,
  Memset = 2,
  Kernel = 3,
  Driver = 4,
  Runtime = 5,
  ConcurrentKernel = 10,
  Marker = 12,
  Overhead = 17,
  MemcpyPeer = 22,
  CudaEvent = 36,
  Synchronization = 38,
};

struct Activity {
  ActivityKind kind;
};
struct KernelActivity {
  ActivityKind kind;
  std::uint8_t cache_config, shared_memory_config;
  std::uint16_t registers_per_thread;
  std::uint32_t partitioned_cache_requested, partitioned_cache_executed;
  std::uint64_t start, end, completed;
  std::uint32_t device, context, stream;
  std::int32_t grid[3], block[3];
  std::int32_t static_shared_bytes, dynamic_shared_bytes;
  std::uint32_t local_bytes_per_thread, local_bytes_total;
  std::uint32_t correlation;
  std::int64_t grid_id;
  const char* name;  ///< mangled; CUPTI's own
};
struct MemcpyActivity {
  ActivityKind kind;
  std::uint8_t copy_kind, source_kind, target_kind, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, correlation;
};
struct MemcpyPeerActivity {
  ActivityKind kind;
  std::uint8_t copy_kind, source_kind, target_kind, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream;
  std::uint32_t source_device, source_context, target_device, target_context;
  std::uint32_t correlation;
};
struct MemsetActivity {
  ActivityKind kind;
  std::uint32_t value;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, correlation;
};
struct ApiActivity {
  ActivityKind kind;
  std::uint32_t callback_id;
  std::uint64_t start, end;
  std::uint32_t process, thread, correlation, return_value;
};
struct MarkerActivity {
  ActivityKind kind;
  std::uint32_t flags;
  std::uint64_t timestamp;
  std::uint32_t id, object_kind;
  std::uint32_t process, thread;  ///< of a host object
  std::uint32_t object_rest[2];
  const char* name;  ///< null where a range ends
};
inline constexpr std::uint32_t kMarkerInstant = 1, kMarkerStart = 2, kMarkerEnd = 4;
struct OverheadActivity {
  ActivityKind kind;
  std::uint32_t overhead_kind, object_kind;
  std::uint32_t process, thread, object_rest;
  std::uint64_t start, end;
};
struct SynchronizationActivity {
  ActivityKind kind;
  std::uint32_t type;
  std::uint64_t start, end;
  std::uint32_t correlation, context, stream, event;
};
struct CudaEventActivity {
  ActivityKind kind;
  std::uint32_t correlation, context, stream, event;
};

enum class CallbackDomain : int { Driver = 1, Runtime = 2 };
/// More than there are ids of calls: CUDA 13 has 500 runtime and 800 driver calls.
inline constexpr std::uint32_t kMostCallbackIds = 2000;

/// What a callback learns of the call it stands in.
struct CallbackData {
  int site;  ///< 0 = entered, 1 = about to return
  const char* function_name;
  const void* parameters;  ///< the call's own, in a struct
  void* return_value;
  const char* symbol;  ///< of the launched kernel
  void* context;
  std::uint32_t context_id;
  std::uint64_t* scratch;  ///< the same word at entry and return
  std::uint32_t correlation;
};

using GiveBuffer = void (*)(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records);
using TakeBuffer = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer,
                            std::size_t bytes, std::size_t valid_bytes);
using Callback = void (*)(void* ours, CallbackDomain domain, std::uint32_t callback_id,
                          const CallbackData* data);

/// CUPTI's functions; all return kSuccess or an error. Those behind
/// `set_thread_id_type` may be null.
struct Api {
  int (*get_version)(std::uint32_t*) = nullptr;
  int (*get_timestamp)(std::uint64_t*) = nullptr;
  int (*get_result_string)(int, const char**) = nullptr;
  int (*get_callback_name)(CallbackDomain, std::uint32_t, const char**) = nullptr;
  int (*activity_enable)(ActivityKind) = nullptr;
  int (*activity_disable)(ActivityKind) = nullptr;
  int (*register_callbacks)(GiveBuffer, TakeBuffer) = nullptr;
  int (*flush_all)(std::uint32_t flag) = nullptr;
  int (*get_next_record)(std::uint8_t*, std::size_t, Activity**) = nullptr;
  int (*get_num_dropped)(void* context, std::uint32_t stream, std::size_t*) = nullptr;
  int (*subscribe)(void** subscriber, Callback, void* ours) = nullptr;
  int (*unsubscribe)(void* subscriber) = nullptr;
  int (*enable_callback)(std::uint32_t enable, void* subscriber, CallbackDomain,
                         std::uint32_t callback_id) = nullptr;
  int (*set_thread_id_type)(int type) = nullptr;  ///< 1 = the system's ids; since CUDA 10.2
  int (*enable_runtime_api)(std::uint32_t callback_id,
                            std::uint8_t) = nullptr;  ///< since 12.x
  int (*enable_driver_api)(std::uint32_t callback_id, std::uint8_t) = nullptr;

  /// The first required function that `library` (of dlopen) lacks; null when
  /// all are there.
  const char* load(void* library);
};

}  // namespace tracecast::traces::cupti
