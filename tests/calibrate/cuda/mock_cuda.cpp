// A shared library that stands for NVIDIA's driver, NVML, CUPTI, NVRTC, cuBLAS and cuDNN at once,
// found under each of their names: a Tesla T4 that computes nothing and on which time passes as
// work is launched. It lets tests walk the whole way of the real device. Environment:
// MOCK_CUDA_INIT (what cuInit returns), MOCK_CUPTI_REFUSES, MOCK_LOST_AFTER (launches until the
// device faults). Types are ours: the header's macros would rename functions.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <list>
#include <string>
#include <vector>

namespace {

struct MockEvent {
  double at_ns = 0;
};
struct Record {  // CUpti_ActivityKernel4, as far as it is read
  std::uint32_t kind = 10;
  std::uint32_t gap_1[3] = {};
  std::uint64_t start = 0, end = 0;
  char gap_2[72] = {};
  const char* name = nullptr;
  char gap_3[32] = {};
};
static_assert(offsetof(Record, start) == 16 && offsetof(Record, name) == 104);

double now_ns = 1e9;
long launches = 0;
std::vector<Record> records;
bool is_recording = false;
using GiveBuffer = void (*)(std::uint8_t**, std::size_t*, std::size_t*);
using TakeBuffer = void (*)(void*, std::uint32_t, std::uint8_t*, std::size_t, std::size_t);
GiveBuffer give_buffer = nullptr;
TakeBuffer take_buffer = nullptr;

long setting(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtol(text, nullptr, 10) : otherwise;
}
bool is_lost() { return launches >= setting("MOCK_LOST_AFTER", 1L << 40); }

void work(const char* name, double ns) {
  ++launches;
  now_ns += 500;
  if (is_recording) {
    Record record;
    record.start = static_cast<std::uint64_t>(now_ns);
    record.end = static_cast<std::uint64_t>(now_ns + ns);
    record.name = name;
    records.push_back(record);
  }
  now_ns += ns;
}

int gemm(double m, double n, double k, double batch) {
  work("gemm", 3000 + 2 * m * n * k * batch / 4e3);  // 4 TFLOP/s
  return 0;
}

int one_object;
int give_object(void** to) {
  *to = &one_object;
  return 0;
}

}  // namespace

extern "C" {

// Driver
int cuInit(unsigned) { return static_cast<int>(setting("MOCK_CUDA_INIT", 0)); }
int cuDriverGetVersion(int* version) { return *version = 9020, 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGet(int* device, int) { return *device = 0, 0; }
int cuDeviceGetName(char* name, int, int) { return std::strcpy(name, "Tesla T4"), 0; }
int cuDeviceGetPCIBusId(char* bus, int, int) { return std::strcpy(bus, "0000:3B:00.0"), 0; }
int cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = 15ull << 30, 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75   ? 7
           : attribute == 76 ? 5
           : attribute == 16 ? 40
           : attribute == 13 ? 1590000
                             : 0;
  return 0;
}
int cuDeviceCanAccessPeer(int* can, int, int) { return *can = 0, 0; }
int cuDevicePrimaryCtxRetain(void** context, int) { return give_object(context); }
int cuDevicePrimaryCtxRelease(int) { return 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuCtxEnablePeerAccess(void*, unsigned) { return 0; }
int cuGetErrorName(int error, const char** name) {
  *name = error == 100   ? "CUDA_ERROR_NO_DEVICE"
          : error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                         : "CUDA_ERROR_OTHER";
  return 0;
}
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return *free = *total = 15ull << 30, 0;
}
int cuMemAlloc_v2(std::uint64_t* at, std::size_t bytes) {
  static std::uint64_t next = 1u << 20;
  if (bytes > 15ull << 30) return 2;
  *at = next;
  next += bytes + 256;
  return 0;
}
int cuMemFree_v2(std::uint64_t) { return 0; }
int cuMemHostAlloc(void** at, std::size_t bytes, unsigned) {
  return (*at = std::malloc(bytes)) ? 0 : 2;
}
int cuMemFreeHost(void* at) { return std::free(at), 0; }
static int copy(double bytes) { return now_ns += 1000 + bytes / 10, 0; }  // 10 GB/s
int cuMemcpyHtoD_v2(std::uint64_t, const void*, std::size_t bytes) {
  return copy(static_cast<double>(bytes));
}
int cuMemcpyDtoH_v2(void*, std::uint64_t, std::size_t bytes) {
  return copy(static_cast<double>(bytes));
}
int cuMemcpyHtoDAsync_v2(std::uint64_t, const void*, std::size_t bytes, void*) {
  return copy(static_cast<double>(bytes));
}
int cuMemcpyDtoHAsync_v2(void*, std::uint64_t, std::size_t bytes, void*) {
  return copy(static_cast<double>(bytes));
}
int cuMemcpyDtoDAsync_v2(std::uint64_t, std::uint64_t, std::size_t bytes, void*) {
  return copy(static_cast<double>(bytes) / 10);
}
int cuMemcpyPeerAsync(...) { return 0; }
int cuMemsetD8_v2(std::uint64_t, unsigned char, std::size_t) { return 0; }
int cuStreamCreate(void** stream, unsigned) { return give_object(stream); }
int cuStreamDestroy_v2(void*) { return 0; }
int cuStreamSynchronize(void*) { return is_lost() ? 700 : 0; }
int cuCtxSynchronize() { return is_lost() ? 700 : 0; }
int cuEventCreate(void** event, unsigned) { return *event = new MockEvent, 0; }
int cuEventDestroy_v2(void* event) { return delete static_cast<MockEvent*>(event), 0; }
int cuEventRecord(void* event, void*) { return static_cast<MockEvent*>(event)->at_ns = now_ns, 0; }
int cuEventSynchronize(void*) { return is_lost() ? 700 : 0; }
int cuEventElapsedTime(float* ms, void* from, void* to) {
  *ms = static_cast<float>(
      (static_cast<MockEvent*>(to)->at_ns - static_cast<MockEvent*>(from)->at_ns) * 1e-6);
  return 0;
}
int cuModuleLoadData(void** module, const void* image) {
  return std::strcmp(static_cast<const char*>(image), "mock image") == 0 ? give_object(module)
                                                                         : 200;
}
int cuModuleUnload(void*) { return 0; }
int cuModuleGetFunction(void** function, void*, const char* name) {
  static std::list<std::string> names;
  return *function = names.emplace_back(name).data(), 0;
}
int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned,
                   unsigned, unsigned, void*, void** arguments, void**) {
  const std::string name = static_cast<const char*>(function);
  const double elements = static_cast<double>(blocks) * threads * 4;
  if (name == "spin") {
    now_ns += static_cast<double>(*static_cast<long long*>(arguments[0])) / 1.59;
  } else {
    work(static_cast<const char*>(function),
         name == "empty" ? 1500 : 2000 + elements * 8 / 250);  // 250 GB/s
  }
  return 0;
}

// NVML
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  return std::strcmp(bus, "0000:3B:00.0") == 0 ? give_object(device) : 6;
}
int nvmlSystemGetDriverVersion(char* text, unsigned) { return std::strcpy(text, "396.44"), 0; }
int nvmlDeviceGetClockInfo(void*, int kind, unsigned* mhz) {
  return *mhz = kind == 2 ? 5001 : 1590, 0;
}
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) { return *celsius = 60, 0; }
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) { return *milliwatts = 69500, 0; }
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) { return *milliwatts = 70000, 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* bits) {
  return *bits = 0x4, 0;
}

// CUPTI
int cuptiActivityRegisterCallbacks(GiveBuffer give, TakeBuffer take) {
  give_buffer = give;
  take_buffer = take;
  return 0;
}
int cuptiActivityEnable(int) {
  if (setting("MOCK_CUPTI_REFUSES", 0) != 0) return 35;
  return is_recording = true, 0;
}
int cuptiActivityDisable(int) { return is_recording = false, 0; }
int cuptiActivityFlushAll(std::uint32_t) {
  for (std::size_t done = 0; done < records.size();) {
    std::uint8_t* buffer = nullptr;
    std::size_t bytes = 0, most = 0;
    give_buffer(&buffer, &bytes, &most);
    const std::size_t count = std::min(bytes / sizeof(Record), records.size() - done);
    std::memcpy(buffer, records.data() + done, count * sizeof(Record));
    done += count;
    take_buffer(nullptr, 0, buffer, bytes, count * sizeof(Record));
  }
  records.clear();
  return 0;
}
int cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t bytes, std::uint8_t** record) {
  std::uint8_t* next = *record == nullptr ? buffer : *record + sizeof(Record);
  if (next + sizeof(Record) > buffer + bytes) return 12;
  return *record = next, 0;
}
int cuptiGetResultString(int, const char** text) {
  return *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", 0;
}

// NVRTC
int nvrtcVersion(int* major, int* minor) { return *major = 9, *minor = 2, 0; }
int nvrtcCreateProgram(void** program, const char*, const char*, int, const char**, const char**) {
  return give_object(program);
}
int nvrtcDestroyProgram(void**) { return 0; }
int nvrtcCompileProgram(void*, int, const char**) { return 0; }
int nvrtcGetPTXSize(void*, std::size_t* bytes) { return *bytes = 11, 0; }
int nvrtcGetPTX(void*, char* to) { return std::memcpy(to, "mock image", 11), 0; }
int nvrtcGetProgramLogSize(void*, std::size_t* bytes) { return *bytes = 1, 0; }
int nvrtcGetProgramLog(void*, char* to) { return *to = 0, 0; }

// cuBLAS
int cublasCreate_v2(void** handle) { return give_object(handle); }
int cublasDestroy_v2(void*) { return 0; }
int cublasGetVersion_v2(void*, int* version) { return *version = 9204, 0; }
int cublasSetStream_v2(void*, void*) { return 0; }
int cublasSetMathMode(void*, int) { return 0; }
int cublasSgemm_v2(void*, int, int, int m, int n, int k, ...) { return gemm(m, n, k, 1); }
int cublasSgemmStridedBatched(void*, int, int, int m, int n, int k, ...) {
  return gemm(m, n, k, 8);
}
int cublasGemmEx(void*, int, int, int m, int n, int k, const void*, const void*, int type, ...) {
  return type == 3 && k % 4 != 0 ? 15 : gemm(m, n, k, 0.25);  // int8 wants multiples of 4
}
int cublasGemmStridedBatchedEx(void*, int, int, int m, int n, int k, ...) {
  return gemm(m, n, k, 2);
}

// cuDNN
std::size_t cudnnGetVersion() { return 7605; }
const char* cudnnGetErrorString(int) { return "CUDNN_STATUS_NOT_SUPPORTED"; }
int cudnnCreate(void** handle) { return give_object(handle); }
int cudnnDestroy(void*) { return 0; }
int cudnnSetStream(void*, void*) { return 0; }
#define TRACECAST_MOCK_DESCRIPTOR(kind)                                    \
  int cudnnCreate##kind##Descriptor(void** to) { return give_object(to); } \
  int cudnnDestroy##kind##Descriptor(void*) { return 0; }
TRACECAST_MOCK_DESCRIPTOR(Tensor)
TRACECAST_MOCK_DESCRIPTOR(Filter)
TRACECAST_MOCK_DESCRIPTOR(Convolution)
TRACECAST_MOCK_DESCRIPTOR(Pooling)
int cudnnSetTensor4dDescriptor(...) { return 0; }
int cudnnSetTensorNdDescriptor(...) { return 0; }
int cudnnSetFilter4dDescriptor(...) { return 0; }
int cudnnSetConvolution2dDescriptor(...) { return 0; }
int cudnnSetConvolutionGroupCount(...) { return 0; }
int cudnnSetConvolutionMathType(...) { return 0; }
int cudnnSetPooling2dDescriptor(...) { return 0; }
#define TRACECAST_MOCK_WORKSPACE(pass)                                                            \
  int cudnnGetConvolution##pass##WorkspaceSize(void*, void*, void*, void*, void*, int algorithm,  \
                                               std::size_t* bytes) {                              \
    return *bytes = 1000, algorithm == 4 ? 9 : 0; /* one algorithm that this version lacks */     \
  }                                                                                               \
  int cudnnGetConvolution##pass##Algorithm_v7(void*, void*, void*, void*, void*, int, int* count, \
                                              void*) {                                            \
    return *count = 0, 0;                                                                         \
  }
TRACECAST_MOCK_WORKSPACE(Forward)
TRACECAST_MOCK_WORKSPACE(BackwardData)
TRACECAST_MOCK_WORKSPACE(BackwardFilter)
// Two kernels, as of a transform and a GEMM; one algorithm that fails although its workspace was
// told.
int cudnnConvolutionForward(void*, const void*, void*, const void*, void*, const void*, void*,
                            int algorithm, ...) {
  if (algorithm == 5) return 9;
  return work("transform", 5000), work("convolve", 50000), 0;
}
int cudnnConvolutionBackwardData(...) { return work("convolve", 60000), 0; }
int cudnnConvolutionBackwardFilter(...) { return work("convolve", 70000), 0; }
int cudnnPoolingForward(...) { return work("pool", 10000), 0; }
int cudnnBatchNormalizationForwardTraining(...) { return work("norm", 20000), 0; }
int cudnnBatchNormalizationForwardInference(...) { return work("norm", 15000), 0; }
}
