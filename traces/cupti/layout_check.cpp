// Compiled where NVIDIA's header is: our declarations against every version of
// each record that CUDA 13's header still carries, those of CUDA 9.0 among
// them. Nothing here makes code.
#include <cupti.h>

#include "traces/cupti/cupti_api.hpp"

namespace tracecast::traces::cupti {
namespace {

#define SAME(theirs, their_field, ours, our_field)                            \
  static_assert(offsetof(theirs, their_field) == offsetof(ours, our_field) && \
                sizeof(theirs::their_field) == sizeof(ours::our_field))

#define CHECK_KERNEL(T)                                                \
  SAME(T, registersPerThread, KernelActivity, registers_per_thread);   \
  SAME(T, start, KernelActivity, start);                               \
  SAME(T, end, KernelActivity, end);                                   \
  SAME(T, deviceId, KernelActivity, device);                           \
  SAME(T, streamId, KernelActivity, stream);                           \
  SAME(T, staticSharedMemory, KernelActivity, static_shared_bytes);    \
  SAME(T, dynamicSharedMemory, KernelActivity, dynamic_shared_bytes);  \
  SAME(T, correlationId, KernelActivity, correlation);                 \
  SAME(T, name, KernelActivity, name);                                 \
  static_assert(offsetof(T, gridX) == offsetof(KernelActivity, grid)); \
  static_assert(offsetof(T, blockX) == offsetof(KernelActivity, block))
CHECK_KERNEL(CUpti_ActivityKernel4);  // CUDA 9.0
CHECK_KERNEL(CUpti_ActivityKernel5);
CHECK_KERNEL(CUpti_ActivityKernel6);
CHECK_KERNEL(CUpti_ActivityKernel7);
CHECK_KERNEL(CUpti_ActivityKernel8);
CHECK_KERNEL(CUpti_ActivityKernel9);
CHECK_KERNEL(CUpti_ActivityKernel10);  // CUDA 13.0

#define CHECK_COPY(T, Ours)            \
  SAME(T, copyKind, Ours, copy_kind);  \
  SAME(T, srcKind, Ours, source_kind); \
  SAME(T, dstKind, Ours, target_kind); \
  SAME(T, bytes, Ours, bytes);         \
  SAME(T, start, Ours, start);         \
  SAME(T, end, Ours, end);             \
  SAME(T, deviceId, Ours, device);     \
  SAME(T, streamId, Ours, stream);     \
  SAME(T, correlationId, Ours, correlation)
CHECK_COPY(CUpti_ActivityMemcpy, MemcpyActivity);
CHECK_COPY(CUpti_ActivityMemcpy3, MemcpyActivity);
CHECK_COPY(CUpti_ActivityMemcpy4, MemcpyActivity);
CHECK_COPY(CUpti_ActivityMemcpy5, MemcpyActivity);
CHECK_COPY(CUpti_ActivityMemcpy6, MemcpyActivity);
CHECK_COPY(CUpti_ActivityMemcpyPtoP, MemcpyPeerActivity);
CHECK_COPY(CUpti_ActivityMemcpyPtoP2, MemcpyPeerActivity);
CHECK_COPY(CUpti_ActivityMemcpyPtoP3, MemcpyPeerActivity);
CHECK_COPY(CUpti_ActivityMemcpyPtoP4, MemcpyPeerActivity);

#define CHECK_MEMSET(T)                      \
  SAME(T, bytes, MemsetActivity, bytes);     \
  SAME(T, start, MemsetActivity, start);     \
  SAME(T, end, MemsetActivity, end);         \
  SAME(T, deviceId, MemsetActivity, device); \
  SAME(T, streamId, MemsetActivity, stream); \
  SAME(T, correlationId, MemsetActivity, correlation)
CHECK_MEMSET(CUpti_ActivityMemset);
CHECK_MEMSET(CUpti_ActivityMemset2);
CHECK_MEMSET(CUpti_ActivityMemset3);
CHECK_MEMSET(CUpti_ActivityMemset4);

SAME(CUpti_ActivityAPI, cbid, ApiActivity, callback_id);
SAME(CUpti_ActivityAPI, start, ApiActivity, start);
SAME(CUpti_ActivityAPI, end, ApiActivity, end);
SAME(CUpti_ActivityAPI, threadId, ApiActivity, thread);
SAME(CUpti_ActivityAPI, correlationId, ApiActivity, correlation);

#define CHECK_MARKER(T)                                  \
  SAME(T, flags, MarkerActivity, flags);                 \
  SAME(T, timestamp, MarkerActivity, timestamp);         \
  SAME(T, id, MarkerActivity, id);                       \
  SAME(T, objectId.pt.threadId, MarkerActivity, thread); \
  SAME(T, name, MarkerActivity, name)
CHECK_MARKER(CUpti_ActivityMarker);
CHECK_MARKER(CUpti_ActivityMarker2);

#define CHECK_OVERHEAD(T)                                  \
  SAME(T, overheadKind, OverheadActivity, overhead_kind);  \
  SAME(T, objectId.pt.threadId, OverheadActivity, thread); \
  SAME(T, start, OverheadActivity, start);                 \
  SAME(T, end, OverheadActivity, end)
CHECK_OVERHEAD(CUpti_ActivityOverhead);
CHECK_OVERHEAD(CUpti_ActivityOverhead2);
CHECK_OVERHEAD(CUpti_ActivityOverhead3);

#define CHECK_SYNC(T)                                           \
  SAME(T, type, SynchronizationActivity, type);                 \
  SAME(T, start, SynchronizationActivity, start);               \
  SAME(T, end, SynchronizationActivity, end);                   \
  SAME(T, correlationId, SynchronizationActivity, correlation); \
  SAME(T, streamId, SynchronizationActivity, stream);           \
  SAME(T, cudaEventId, SynchronizationActivity, event)
CHECK_SYNC(CUpti_ActivitySynchronization);
CHECK_SYNC(CUpti_ActivitySynchronization2);

#define CHECK_EVENT(T)                                    \
  SAME(T, correlationId, CudaEventActivity, correlation); \
  SAME(T, streamId, CudaEventActivity, stream);           \
  SAME(T, eventId, CudaEventActivity, event)
CHECK_EVENT(CUpti_ActivityCudaEvent);
CHECK_EVENT(CUpti_ActivityCudaEvent2);

SAME(CUpti_CallbackData, callbackSite, CallbackData, site);
SAME(CUpti_CallbackData, functionName, CallbackData, function_name);
SAME(CUpti_CallbackData, functionParams, CallbackData, parameters);
SAME(CUpti_CallbackData, symbolName, CallbackData, symbol);
SAME(CUpti_CallbackData, context, CallbackData, context);
SAME(CUpti_CallbackData, correlationData, CallbackData, scratch);
SAME(CUpti_CallbackData, correlationId, CallbackData, correlation);

// Arguments that launch_calls.cpp reads by offset.
#define LIES_AT(T, field, offset) static_assert(offsetof(T, field) == (offset))
LIES_AT(cuLaunchKernel_params, gridDimX, 8);
LIES_AT(cuLaunchKernel_params, blockDimX, 20);
LIES_AT(cuLaunchKernel_params, sharedMemBytes, 32);
LIES_AT(cuLaunchKernel_params, hStream, 40);
LIES_AT(cuLaunchCooperativeKernel_params, hStream, 40);
LIES_AT(cuLaunchKernelEx_params, config, 0);
LIES_AT(CUlaunchConfig, blockDimX, 12);
LIES_AT(CUlaunchConfig, sharedMemBytes, 24);
LIES_AT(CUlaunchConfig, hStream, 32);
LIES_AT(cuGraphLaunch_params, hStream, 8);
LIES_AT(cuMemcpyHtoDAsync_v2_params, ByteCount, 16);
LIES_AT(cuMemcpyHtoDAsync_v2_params, hStream, 24);
LIES_AT(cuMemcpyDtoHAsync_v2_params, hStream, 24);
LIES_AT(cuMemcpyDtoDAsync_v2_params, hStream, 24);
LIES_AT(cuMemcpyAsync_params, hStream, 24);
LIES_AT(cuMemsetD8Async_params, N, 16);
LIES_AT(cuMemsetD8Async_params, hStream, 24);
LIES_AT(cuMemsetD16Async_params, hStream, 24);
LIES_AT(cuMemsetD32Async_params, hStream, 24);
LIES_AT(cudaLaunchKernel_v7000_params, gridDim, 8);
LIES_AT(cudaLaunchKernel_v7000_params, blockDim, 20);
LIES_AT(cudaLaunchKernel_v7000_params, sharedMem, 40);
LIES_AT(cudaLaunchKernel_v7000_params, stream, 48);
LIES_AT(cudaLaunchCooperativeKernel_v9000_params, stream, 48);
LIES_AT(cudaLaunchKernelExC_v11060_params, config, 0);
LIES_AT(cudaLaunchConfig_t, blockDim, 12);
LIES_AT(cudaLaunchConfig_t, dynamicSmemBytes, 24);
LIES_AT(cudaLaunchConfig_t, stream, 32);
LIES_AT(cudaGraphLaunch_v10000_params, stream, 8);
LIES_AT(cudaMemcpyAsync_v3020_params, count, 16);
LIES_AT(cudaMemcpyAsync_v3020_params, kind, 24);
LIES_AT(cudaMemcpyAsync_v3020_params, stream, 32);
LIES_AT(cudaMemsetAsync_v3020_params, count, 16);
LIES_AT(cudaMemsetAsync_v3020_params, stream, 24);

static_assert(CUPTI_ACTIVITY_KIND_MEMCPY == static_cast<int>(ActivityKind::Memcpy));
static_assert(CUPTI_ACTIVITY_KIND_MEMSET == static_cast<int>(ActivityKind::Memset));
static_assert(CUPTI_ACTIVITY_KIND_DRIVER == static_cast<int>(ActivityKind::Driver));
static_assert(CUPTI_ACTIVITY_KIND_RUNTIME == static_cast<int>(ActivityKind::Runtime));
static_assert(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ==
              static_cast<int>(ActivityKind::ConcurrentKernel));
static_assert(CUPTI_ACTIVITY_KIND_MARKER == static_cast<int>(ActivityKind::Marker));
static_assert(CUPTI_ACTIVITY_KIND_OVERHEAD == static_cast<int>(ActivityKind::Overhead));
static_assert(CUPTI_ACTIVITY_KIND_MEMCPY2 == static_cast<int>(ActivityKind::MemcpyPeer));
static_assert(CUPTI_ACTIVITY_KIND_CUDA_EVENT == static_cast<int>(ActivityKind::CudaEvent));
static_assert(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION ==
              static_cast<int>(ActivityKind::Synchronization));
static_assert(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES == kInsufficientPrivileges);
static_assert(CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES ==
              kVirtualInsufficientPrivileges);
static_assert(CUPTI_CB_DOMAIN_DRIVER_API == static_cast<int>(CallbackDomain::Driver));
static_assert(CUPTI_CB_DOMAIN_RUNTIME_API == static_cast<int>(CallbackDomain::Runtime));

}  // namespace
}  // namespace tracecast::traces::cupti
