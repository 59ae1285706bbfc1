#include "calibrate/cuda/driver.hpp"

#include <fmt/format.h>

#include <array>

namespace tracecast::calibrate::cuda {
namespace {

constexpr int kNewestCuda = 13;  ///< that we know of

std::string fill(const Library& library, DriverApi& api) {
  Symbols symbols(library);
  symbols.need(api.init, {"cuInit"});
  symbols.need(api.driver_version, {"cuDriverGetVersion"});
  symbols.need(api.device_count, {"cuDeviceGetCount"});
  symbols.need(api.device_get, {"cuDeviceGet"});
  symbols.need(api.device_name, {"cuDeviceGetName"});
  symbols.want(api.device_uuid, {"cuDeviceGetUuid"});
  symbols.need(api.device_pci, {"cuDeviceGetPCIBusId"});
  symbols.need(api.device_memory, {"cuDeviceTotalMem_v2"});
  symbols.need(api.device_attribute, {"cuDeviceGetAttribute"});
  symbols.need(api.can_access_peer, {"cuDeviceCanAccessPeer"});
  symbols.need(api.context_retain, {"cuDevicePrimaryCtxRetain"});
  symbols.need(api.context_release, {"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease"});
  symbols.need(api.context_set, {"cuCtxSetCurrent"});
  symbols.need(api.enable_peer, {"cuCtxEnablePeerAccess"});
  symbols.need(api.error_name, {"cuGetErrorName"});
  symbols.need(api.memory_info, {"cuMemGetInfo_v2"});
  symbols.need(api.allocate, {"cuMemAlloc_v2"});
  symbols.need(api.release, {"cuMemFree_v2"});
  symbols.need(api.allocate_host, {"cuMemHostAlloc"});
  symbols.need(api.release_host, {"cuMemFreeHost"});
  symbols.need(api.copy_in, {"cuMemcpyHtoD_v2"});
  symbols.need(api.copy_out, {"cuMemcpyDtoH_v2"});
  symbols.need(api.copy_in_async, {"cuMemcpyHtoDAsync_v2"});
  symbols.need(api.copy_out_async, {"cuMemcpyDtoHAsync_v2"});
  symbols.need(api.copy_async, {"cuMemcpyDtoDAsync_v2"});
  symbols.need(api.copy_peer_async, {"cuMemcpyPeerAsync"});
  symbols.need(api.set_bytes, {"cuMemsetD8_v2"});
  symbols.need(api.stream_create, {"cuStreamCreate"});
  symbols.need(api.stream_destroy, {"cuStreamDestroy_v2"});
  symbols.need(api.stream_wait, {"cuStreamSynchronize"});
  symbols.need(api.context_wait, {"cuCtxSynchronize"});
  symbols.need(api.event_create, {"cuEventCreate"});
  symbols.need(api.event_destroy, {"cuEventDestroy_v2"});
  symbols.need(api.event_record, {"cuEventRecord"});
  symbols.need(api.event_wait, {"cuEventSynchronize"});
  symbols.need(api.event_elapsed, {"cuEventElapsedTime", "cuEventElapsedTime_v2"});
  symbols.need(api.module_load, {"cuModuleLoadData"});
  symbols.need(api.module_unload, {"cuModuleUnload"});
  symbols.need(api.module_function, {"cuModuleGetFunction"});
  symbols.need(api.launch, {"cuLaunchKernel"});
  return symbols.missing();
}

std::string error_text(const DriverApi& api, CUresult result) {
  const char* name = nullptr;
  if (api.error_name(result, &name) == CUDA_SUCCESS && name != nullptr) return name;
  return fmt::format("error {}", static_cast<int>(result));
}

/// What a person can do about a driver that does not start.
std::string advice(CUresult result) {
  switch (static_cast<int>(result)) {
    case 100:  // CUDA_ERROR_NO_DEVICE
      return "the driver sees no GPU";
    case 34:  // CUDA_ERROR_STUB_LIBRARY, since CUDA 11.1
      return "libcuda.so.1 is the toolkit's stub and no driver";
    case 803:  // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
      return "kernel module and libcuda.so.1 are of different driver versions";
    case 804:  // CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
      return "forward compatibility is not supported on this GPU";
    default:
      return "the driver does not start";
  }
}

}  // namespace

std::unique_ptr<Driver> Driver::open(const Library& library, int index, std::string& why) {
  std::unique_ptr<Driver> driver(new Driver);
  DriverApi& api = driver->api_;
  if (const std::string missing = fill(library, api); !missing.empty()) {
    why =
        fmt::format("{} lacks {}: a driver of CUDA 9 or later is needed", library.name(), missing);
    return nullptr;
  }
  if (const CUresult result = api.init(0); result != CUDA_SUCCESS) {
    why = fmt::format("no usable GPU: {} (cuInit: {})", advice(result), error_text(api, result));
    return nullptr;
  }
  if (api.device_count(&driver->num_devices_) != CUDA_SUCCESS || driver->num_devices_ == 0) {
    why = "no usable GPU: the driver sees none";
    return nullptr;
  }
  if (index >= driver->num_devices_) {
    why = fmt::format("no GPU of index {}: the driver sees {}", index, driver->num_devices_);
    return nullptr;
  }
  try {
    driver->check(api.device_get(&driver->device_, index), "cuDeviceGet");
    driver->check(api.context_retain(&driver->context_, driver->device_),
                  "cuDevicePrimaryCtxRetain");
    driver->check(api.context_set(driver->context_), "cuCtxSetCurrent");
    driver->check(api.stream_create(&driver->stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  } catch (const std::runtime_error& error) {
    why = fmt::format("GPU {} cannot be used: {}", index, error.what());
    return nullptr;
  }
  return driver;
}

Driver::~Driver() {
  if (stream_ != nullptr) api_.stream_destroy(stream_);
  if (context_ != nullptr) api_.context_release(device_);
}

void Driver::check(CUresult result, const char* what) const {
  if (result == CUDA_SUCCESS) return;
  const std::string text = fmt::format("{}: {}", what, error_text(api_, result));
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_FOUND:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
      throw CannotRun(text);
    default:
      throw DeviceLost(text);
  }
}

int Driver::attribute(CUdevice_attribute attribute) const {
  int value = 0;
  return api_.device_attribute(&value, attribute, device_) == CUDA_SUCCESS ? value : 0;
}

std::string Driver::name() const {
  std::array<char, 256> text{};
  if (api_.device_name(text.data(), static_cast<int>(text.size()) - 1, device_) != CUDA_SUCCESS)
    return "";
  return text.data();
}

std::string Driver::uuid() const {
  CUuuid id{};
  if (api_.device_uuid == nullptr || api_.device_uuid(&id, device_) != CUDA_SUCCESS) return "";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof(id.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(id.bytes[i]));
  }
  return text;
}

std::string Driver::pci_bus() const {
  std::array<char, 64> text{};
  if (api_.device_pci(text.data(), static_cast<int>(text.size()) - 1, device_) != CUDA_SUCCESS)
    return "";
  return text.data();
}

Bytes Driver::memory() const {
  std::size_t bytes = 0;
  if (api_.device_memory(&bytes, device_) != CUDA_SUCCESS) return Bytes(0);
  return Bytes(static_cast<double>(bytes));
}

Bytes Driver::free_memory() const {
  std::size_t free = 0, total = 0;
  if (api_.memory_info(&free, &total) != CUDA_SUCCESS) return Bytes(0);
  return Bytes(static_cast<double>(free));
}

std::string Driver::cuda_version() const {
  int version = 0;
  if (api_.driver_version(&version) != CUDA_SUCCESS) return "";
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

int Driver::cuda_major() const {
  int version = 0;
  return api_.driver_version(&version) == CUDA_SUCCESS && version >= 9000 ? version / 1000
                                                                          : kNewestCuda;
}
int Driver::cuda_major(const Library& library) {
  const auto ask = library.find<CUresult (*)(int*)>({"cuDriverGetVersion"});
  int version = 0;
  return ask != nullptr && ask(&version) == CUDA_SUCCESS && version >= 9000 ? version / 1000
                                                                            : kNewestCuda;
}

DeviceMemory::DeviceMemory(const Driver& driver, std::size_t bytes)
    : driver_(&driver), bytes_(bytes) {
  driver.check(driver.api().allocate(&at_, std::max<std::size_t>(bytes, 1)),
               "allocating device memory");
}
DeviceMemory::~DeviceMemory() {
  if (at_ != 0) driver_->api().release(at_);
}
DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(at_, other.at_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PinnedMemory::PinnedMemory(const Driver& driver, std::size_t bytes) : driver_(driver) {
  driver.check(driver.api().allocate_host(&at_, std::max<std::size_t>(bytes, 1), 0),
               "allocating page-locked memory");
}
PinnedMemory::~PinnedMemory() {
  if (at_ != nullptr) driver_.api().release_host(at_);
}

Event::Event(const Driver& driver) : driver_(&driver) {
  driver.check(driver.api().event_create(&event_, CU_EVENT_DEFAULT), "cuEventCreate");
}
Event::~Event() {
  if (event_ != nullptr) driver_->api().event_destroy(event_);
}
void Event::record() {
  driver_->check(driver_->api().event_record(event_, driver_->stream()), "cuEventRecord");
}
void Event::wait() const {
  driver_->check(driver_->api().event_wait(event_), "cuEventSynchronize");
}
Seconds Event::since(const Event& start) const {
  float ms = 0;
  driver_->check(driver_->api().event_elapsed(&ms, start.event_, event_), "cuEventElapsedTime");
  return Seconds(static_cast<double>(ms) * 1e-3);
}

Module::Module(const Driver& driver, std::string_view image) : driver_(driver) {
  driver.check(driver.api().module_load(&module_, image.data()), "loading our kernels");
}
Module::~Module() {
  if (module_ != nullptr) driver_.api().module_unload(module_);
}
CUfunction Module::function(const char* name) const {
  CUfunction function = nullptr;
  driver_.check(driver_.api().module_function(&function, module_, name), name);
  return function;
}

}  // namespace tracecast::calibrate::cuda
