// A shared library that stands for both the driver and CUPTI, found under either name: a GPU on
// which time passes as tests/traces/cupti/fake_cuda.hpp says. Environment: FAKE_CUPTI_VERSION
// (130001), FAKE_CUPTI_ENABLE (what enabling records of kernels and copies returns: 35 =
// insufficient privileges), FAKE_CUDA_INIT (what cuInit returns).
#include "tests/traces/cupti/fake_cuda.hpp"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "traces/cupti/cupti_api.hpp"

namespace {

using namespace tracecast::traces::cupti;
using tracecast::test::kFakeBegin;

long setting(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtol(text, nullptr, 10) : otherwise;
}

/// Calls by callback id, as CUPTI numbers and spells them.
const std::map<std::uint32_t, const char*> kRuntimeCalls = {
    {17, "cudaGetDevice_v3020"},         {41, "cudaMemcpyAsync_v3020"},
    {51, "cudaMemsetAsync_v3020"},       {131, "cudaStreamSynchronize_v3020"},
    {135, "cudaEventRecord_v3020"},      {147, "cudaStreamWaitEvent_v3020"},
    {211, "cudaLaunchKernel_ptsz_v7000"}};
const std::map<std::uint32_t, const char*> kDriverCalls = {{307, "cuLaunchKernel"},
                                                           {277, "cuMemcpyHtoDAsync_v2"}};

/// One lock for all: a fake need not be fast.
std::mutex mutex;
std::set<ActivityKind> enabled;
std::set<std::uint32_t> disabled_calls;
GiveBuffer give_buffer = nullptr;
TakeBuffer take_buffer = nullptr;
struct Buffer {
  std::uint8_t* bytes = nullptr;
  std::size_t size = 0, used = 0;
};
std::map<std::uint32_t, Buffer> buffers;  ///< by thread, each its own as in CUPTI
std::size_t dropped = 0;
bool is_nvtx_attached = false;
std::map<unsigned, std::uint64_t> stream_end, event_time;
std::atomic<std::uint32_t> last_correlation{0}, last_range{0};

Callback subscriber = nullptr;
void* subscriber_data = nullptr;
std::set<std::pair<CallbackDomain, std::uint32_t>> enabled_callbacks;

thread_local std::uint64_t host_ns = kFakeBegin;
thread_local std::vector<std::uint32_t> ranges;

/// Bytes of a record: CUPTI appends fields with its versions.
std::size_t record_bytes(const Activity& record) {
  const bool is_new = setting("FAKE_CUPTI_VERSION", 130001) > 12;
  switch (record.kind) {
    case ActivityKind::ConcurrentKernel:
      return is_new ? 208 : 144;
    case ActivityKind::Memcpy:
    case ActivityKind::Memset:
      return is_new ? 104 : 64;
    case ActivityKind::Synchronization:
      return is_new ? 56 : 40;
    default:
      return 64;
  }
}

std::uint32_t thread_id() { return static_cast<std::uint32_t>(::syscall(SYS_gettid)); }

void complete(Buffer& buffer) {
  if (buffer.bytes == nullptr) return;
  take_buffer(nullptr, 0, buffer.bytes, buffer.size, buffer.used);
  buffer = {};
}

template <class Record>
void add(const Record& record) {
  const std::lock_guard lock(mutex);
  if (!enabled.contains(record.kind)) return;
  Activity head{record.kind};
  const std::size_t bytes = record_bytes(head);
  Buffer& buffer = buffers[thread_id()];
  if (buffer.bytes != nullptr && buffer.used + bytes > buffer.size) complete(buffer);
  if (buffer.bytes == nullptr) {
    std::size_t most_records = 0;
    give_buffer(&buffer.bytes, &buffer.size, &most_records);
  }
  if (buffer.bytes == nullptr) {
    ++dropped;
    return;
  }
  std::memset(buffer.bytes + buffer.used, 0xAB, bytes);
  std::memcpy(buffer.bytes + buffer.used, &record, std::min(bytes, sizeof record));
  buffer.used += bytes;
}

void add_call(ActivityKind kind, std::uint32_t id, std::uint64_t begin, std::uint64_t end,
              std::uint32_t correlation) {
  {
    const std::lock_guard lock(mutex);
    if (kind == ActivityKind::Runtime && disabled_calls.contains(id)) return;
  }
  add(ApiActivity{kind, id, begin, end, static_cast<std::uint32_t>(::getpid()), thread_id(),
                  correlation, 0});
}

/// The runtime's call that begins now; its correlation.
std::uint32_t call(std::uint32_t id, std::uint64_t duration_ns = 4000,
                   std::uint32_t correlation = ++last_correlation) {
  add_call(ActivityKind::Runtime, id, host_ns, host_ns + duration_ns, correlation);
  host_ns += std::max<std::uint64_t>(10'000, duration_ns);
  return correlation;
}

/// The subscriber hears of a call when it begins and when this goes.
class AnnouncedCall {
 public:
  AnnouncedCall(CallbackDomain domain, std::uint32_t id, const void* parameters,
                std::uint32_t correlation, const char* symbol = nullptr)
      : domain_(domain), id_(id) {
    const auto& calls = domain == CallbackDomain::Runtime ? kRuntimeCalls : kDriverCalls;
    data_.function_name = calls.at(id);
    data_.parameters = parameters;
    data_.symbol = symbol;
    data_.scratch = &scratch_;
    data_.correlation = correlation;
    announce(0);
  }
  ~AnnouncedCall() { announce(1); }
  AnnouncedCall(const AnnouncedCall&) = delete;
  AnnouncedCall& operator=(const AnnouncedCall&) = delete;

 private:
  void announce(int site) {
    data_.site = site;
    if (subscriber != nullptr && enabled_callbacks.contains({domain_, id_}))
      subscriber(subscriber_data, domain_, id_, &data_);
  }
  CallbackDomain domain_;
  std::uint32_t id_;
  CallbackData data_{};
  std::uint64_t scratch_ = 0;
};

/// Arguments as CUDA lays them out.
struct LaunchArguments {
  const void* function;
  unsigned grid[3], block[3];
  void** arguments;
  std::size_t shared_bytes;
  void* stream;
};
struct DriverLaunchArguments {
  void* function;
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
};
struct CopyArguments {
  void* to;
  const void* from;
  std::size_t bytes;
  int kind;
  void* stream;
};
struct ClearArguments {
  void* at;
  int value;
  std::size_t bytes;
  void* stream;
};
void* handle(unsigned stream) { return reinterpret_cast<void*>(std::uintptr_t{stream} << 8); }

struct Span {
  std::uint64_t begin, end;
};
/// Work of a call that began at `called`, in its stream.
Span run(unsigned stream, std::uint64_t called, std::uint64_t duration_ns) {
  const std::lock_guard lock(mutex);
  const std::uint64_t begin = std::max(stream_end[stream], called + 2000);
  stream_end[stream] = begin + duration_ns;
  return {begin, begin + duration_ns};
}

}  // namespace

extern "C" {

// The driver
int cuInit(unsigned) {
  if (const long result = setting("FAKE_CUDA_INIT", 0); result != 0)
    return static_cast<int>(result);
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr) return 0;
  void* library = ::dlopen(path, RTLD_NOW);
  if (library == nullptr) return 0;
  return reinterpret_cast<int (*)()>(::dlsym(library, "InitializeInjection"))() != 0 ? 0 : 999;
}
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGet(int* device, int) { return *device = 0, 0; }
int cuDeviceGetName(char* name, int, int) { return std::strcpy(name, "NVIDIA H100"), 0; }
int cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = std::size_t{80} << 30, 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const std::map<int, int> values = {{10, 32}, {16, 132}, {39, 2048}, {75, 9}, {76, 0}};
  const auto at = values.find(attribute);
  return *value = at != values.end() ? at->second : 65536, 0;
}
int cuGetErrorName(int error, const char** name) {
  return *name = error == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_OTHER", 0;
}

int cuCtxGetCurrent(void** context) { return *context = &buffers, 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuCtxGetDevice(int* device) { return *device = 0, 0; }
int cuEventCreate(std::uint64_t** event, unsigned) { return *event = new std::uint64_t(0), 0; }
/// When the stream has done what it has, or now: its number is in the handle.
int cuEventRecord(std::uint64_t* event, void* stream) {
  const std::lock_guard lock(mutex);
  const auto number = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(stream) >> 8);
  return *event = std::max(stream_end[number], host_ns), 0;
}
int cuEventQuery(std::uint64_t*) { return 0; }
int cuEventSynchronize(std::uint64_t*) { return 0; }
int cuEventElapsedTime(float* ms, const std::uint64_t* from, const std::uint64_t* to) {
  return *ms = static_cast<float>(static_cast<std::int64_t>(*to - *from)) * 1e-6f, 0;
}

// What one call of the runtime does
void fake_launch(const char* name, unsigned stream, std::uint64_t duration_ns) {
  add_call(ActivityKind::Runtime, 17, host_ns - 1000, host_ns - 500, ++last_correlation);
  const std::uint64_t called = host_ns;
  const std::uint32_t correlation = ++last_correlation;
  Span span{};
  {
    const LaunchArguments arguments{name, {132, 1, 1}, {256, 1, 1}, nullptr, 2048, handle(stream)};
    const AnnouncedCall announced(CallbackDomain::Runtime, 211, &arguments, correlation, name);
    const DriverLaunchArguments inner{nullptr, {132, 1, 1}, {256, 1, 1}, 2048, handle(stream)};
    const AnnouncedCall within(CallbackDomain::Driver, 307, &inner, correlation, name);
    span = run(stream, called, duration_ns);
  }
  add_call(ActivityKind::Driver, 307, called + 500, called + 3500, correlation);
  call(211, 4000, correlation);
  KernelActivity kernel{};
  kernel.kind = ActivityKind::ConcurrentKernel;
  kernel.registers_per_thread = 40;
  kernel.start = span.begin;
  kernel.end = span.end;
  kernel.stream = stream;
  kernel.grid[0] = 132;
  kernel.grid[1] = kernel.grid[2] = kernel.block[1] = kernel.block[2] = 1;
  kernel.block[0] = 256;
  kernel.static_shared_bytes = 1024;
  kernel.dynamic_shared_bytes = 2048;
  kernel.correlation = correlation;
  kernel.name = name;
  add(kernel);
}
void fake_copy_to_device(unsigned stream, std::uint64_t bytes) {
  const std::uint32_t correlation = ++last_correlation;
  Span span{};
  {
    const CopyArguments arguments{nullptr, nullptr, bytes, 1, handle(stream)};
    const AnnouncedCall announced(CallbackDomain::Runtime, 41, &arguments, correlation);
    span = run(stream, host_ns, bytes / 10);
  }
  call(41, 4000, correlation);
  MemcpyActivity copy{};
  copy.kind = ActivityKind::Memcpy;
  copy.copy_kind = 1;
  copy.source_kind = 2;
  copy.target_kind = 3;
  copy.bytes = bytes;
  copy.start = span.begin;
  copy.end = span.end;
  copy.stream = stream;
  copy.correlation = correlation;
  add(copy);
}
void fake_clear(unsigned stream, std::uint64_t bytes) {
  const std::uint32_t correlation = ++last_correlation;
  Span span{};
  {
    const ClearArguments arguments{nullptr, 0, bytes, handle(stream)};
    const AnnouncedCall announced(CallbackDomain::Runtime, 51, &arguments, correlation);
    span = run(stream, host_ns, bytes / 100);
  }
  call(51, 4000, correlation);
  add(MemsetActivity{ActivityKind::Memset, 0, bytes, span.begin, span.end, 0, 1, stream,
                     correlation});
}
void fake_record_event(unsigned event, unsigned stream) {
  const std::uint32_t correlation = call(135);
  {
    const std::lock_guard lock(mutex);
    event_time[event] = stream_end[stream];
  }
  add(CudaEventActivity{ActivityKind::CudaEvent, correlation, 1, stream, event});
}
void fake_wait_for_event(unsigned stream, unsigned event) {
  const std::uint64_t begin = host_ns;
  const std::uint32_t correlation = call(147);
  {
    const std::lock_guard lock(mutex);
    stream_end[stream] = std::max(stream_end[stream], event_time[event]);
  }
  add(SynchronizationActivity{ActivityKind::Synchronization, 2, begin, begin + 4000, correlation, 1,
                              stream, event});
}
void fake_wait_for_stream(unsigned stream) {
  const std::uint64_t begin = host_ns;
  std::uint64_t end = 0;
  {
    const std::lock_guard lock(mutex);
    end = std::max(begin + 4000, stream_end[stream]);
  }
  const std::uint32_t correlation = call(131, end - begin);
  add(SynchronizationActivity{ActivityKind::Synchronization, 3, begin, end, correlation, 1, stream,
                              0xFFFFFFFF});
}
void fake_work_on_host(std::uint64_t ns) { host_ns += ns; }

static void add_marker(std::uint32_t flags, std::uint32_t id, const char* name) {
  MarkerActivity mark{};
  mark.kind = ActivityKind::Marker;
  mark.flags = flags;
  mark.timestamp = host_ns;
  mark.id = id;
  mark.object_kind = 2;
  mark.process = static_cast<std::uint32_t>(::getpid());
  mark.thread = thread_id();
  mark.name = name;
  add(mark);
}
/// As NVTX: at its first use it asks the library of the environment to attach.
void fake_push_range(const char* text) {
  static std::once_flag once;
  std::call_once(once, [] {
    const char* path = std::getenv("NVTX_INJECTION64_PATH");
    void* library = path != nullptr ? ::dlopen(path, RTLD_NOW) : nullptr;
    if (library == nullptr) return;
    reinterpret_cast<int (*)(void*)>(::dlsym(library, "InitializeInjectionNvtx2"))(nullptr);
  });
  const char* name = nullptr;
  {
    static auto& names = *new std::set<std::string>;  // CUPTI's texts outlive exit handlers
    const std::lock_guard lock(mutex);
    name = names.insert(text).first->c_str();
  }
  ranges.push_back(++last_range);
  if (is_nvtx_attached) add_marker(kMarkerStart, ranges.back(), name);
}
void fake_pop_range() {
  if (is_nvtx_attached) add_marker(kMarkerEnd, ranges.back(), nullptr);
  ranges.pop_back();
}

// CUPTI
int InitializeInjectionNvtx2(void*) {
  is_nvtx_attached = true;
  return 1;
}
int cuptiGetVersion(std::uint32_t* version) {
  return *version = static_cast<std::uint32_t>(setting("FAKE_CUPTI_VERSION", 130001)), 0;
}
int cuptiGetTimestamp(std::uint64_t* ns) { return *ns = host_ns, 0; }
int cuptiGetResultString(int result, const char** text) {
  *text = result == kInsufficientPrivileges ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
                                            : "CUPTI_ERROR_OTHER";
  return 0;
}
int cuptiGetCallbackName(CallbackDomain domain, std::uint32_t id, const char** name) {
  const auto& calls = domain == CallbackDomain::Runtime ? kRuntimeCalls : kDriverCalls;
  const auto at = calls.find(id);
  if (at == calls.end()) return 1;
  return *name = at->second, 0;
}
int cuptiActivityEnable(ActivityKind kind) {
  const long refusal = setting("FAKE_CUPTI_ENABLE", 0);
  const bool is_work = kind == ActivityKind::ConcurrentKernel || kind == ActivityKind::Memcpy ||
                       kind == ActivityKind::MemcpyPeer || kind == ActivityKind::Memset;
  if (is_work && refusal != 0) return static_cast<int>(refusal);
  const std::lock_guard lock(mutex);
  enabled.insert(kind);
  return 0;
}
int cuptiActivityDisable(ActivityKind kind) {
  const std::lock_guard lock(mutex);
  enabled.erase(kind);
  return 0;
}
int cuptiActivityRegisterCallbacks(GiveBuffer give, TakeBuffer take) {
  give_buffer = give;
  take_buffer = take;
  return 0;
}
int cuptiActivityFlushAll(std::uint32_t) {
  const std::lock_guard lock(mutex);
  for (auto& [thread, buffer] : buffers) complete(buffer);
  return 0;
}
int cuptiActivityGetNextRecord(std::uint8_t* bytes, std::size_t valid, Activity** record) {
  std::uint8_t* next = *record == nullptr
                           ? bytes
                           : reinterpret_cast<std::uint8_t*>(*record) + record_bytes(**record);
  if (next >= bytes + valid) return 12;
  return *record = reinterpret_cast<Activity*>(next), 0;
}
int cuptiActivityGetNumDroppedRecords(void*, std::uint32_t, std::size_t* count) {
  return *count = std::exchange(dropped, 0), 0;
}
int cuptiSetThreadIdType(int) { return 0; }
int cuptiActivityEnableRuntimeApi(std::uint32_t id, std::uint8_t enable) {
  const std::lock_guard lock(mutex);
  enable != 0 ? disabled_calls.erase(id) : disabled_calls.insert(id).second;
  return 0;
}
int cuptiActivityEnableDriverApi(std::uint32_t, std::uint8_t) { return 0; }
int cuptiSubscribe(void** to, Callback callback, void* data) {
  subscriber = callback;
  subscriber_data = data;
  return *to = &subscriber, 0;
}
int cuptiUnsubscribe(void*) { return subscriber = nullptr, 0; }
int cuptiEnableCallback(std::uint32_t, void*, CallbackDomain domain, std::uint32_t id) {
  return enabled_callbacks.emplace(domain, id), 0;
}

}  // extern "C"
