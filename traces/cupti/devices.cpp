#include "traces/cupti/devices.hpp"

#include "traces/cupti/find_function.hpp"

namespace tracecast::traces::cupti {
namespace {

/// Numbers of CUdevice_attribute, cuda.h.
enum Attribute : int {
  kSharedBytesPerSm = 81,
  kRegistersPerSm = 82,
  kSmCount = 16,
  kWarpSize = 10,
  kThreadsPerSm = 39,
  kComputeMajor = 75,
  kComputeMinor = 76,
};

}  // namespace

void describe_devices(StreamWriter& writer) {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return;
  const auto find = [driver](auto& to, const char* name) {
    return find_function(driver, to, name);
  };
  int (*get_version)(int*) = nullptr;
  int (*get_count)(int*) = nullptr;
  int (*get_device)(int*, int) = nullptr;
  int (*get_name)(char*, int, int) = nullptr;
  int (*get_memory)(std::size_t*, int) = nullptr;
  int (*get_attribute)(int*, int, int) = nullptr;
  int count = 0, version = 0;
  if (!find(get_version, "cuDriverGetVersion") || !find(get_count, "cuDeviceGetCount") ||
      !find(get_device, "cuDeviceGet") || !find(get_name, "cuDeviceGetName") ||
      !find(get_memory, "cuDeviceTotalMem_v2") || !find(get_attribute, "cuDeviceGetAttribute") ||
      get_count(&count) != 0) {
    return;
  }
  get_version(&version);
  for (int i = 0; i < count; ++i) {
    int device = 0;
    if (get_device(&device, i) != 0) continue;
    const auto attribute = [&](Attribute which) {
      int value = 0;
      return get_attribute(&value, which, device) == 0 ? value : 0;
    };
    char name[256] = "";
    std::size_t memory = 0;
    get_name(name, sizeof name, device);
    get_memory(&memory, device);
    writer.add(DeviceRecord{.memory_bytes = memory,
                            .id = i,
                            .compute_major = attribute(kComputeMajor),
                            .compute_minor = attribute(kComputeMinor),
                            .sm_count = attribute(kSmCount),
                            .warp_size = attribute(kWarpSize),
                            .threads_per_sm = attribute(kThreadsPerSm),
                            .registers_per_sm = attribute(kRegistersPerSm),
                            .shared_bytes_per_sm = attribute(kSharedBytesPerSm),
                            .name = writer.name(name),
                            .driver_version = static_cast<std::uint32_t>(version)});
  }
}

}  // namespace tracecast::traces::cupti
