#pragma once
#include <cuda.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "calibrate/cuda/library.hpp"
#include "calibrate/device/device.hpp"
#include "sim/base/units.hpp"

namespace tracecast::calibrate::cuda {

/// The driver's functions that we use, by the names that every driver since CUDA 9 exports. Types
/// are those of CUDA 13's cuda.h, which have not changed; the header's macros (cuEventElapsedTime
/// -> _v2) are by-passed by asking for symbols as text.
struct DriverApi {
  CUresult (*init)(unsigned) = nullptr;
  CUresult (*driver_version)(int*) = nullptr;
  CUresult (*device_count)(int*) = nullptr;
  CUresult (*device_get)(CUdevice*, int) = nullptr;
  CUresult (*device_name)(char*, int, CUdevice) = nullptr;
  CUresult (*device_uuid)(CUuuid*, CUdevice) = nullptr;  ///< since CUDA 9.2; may be null
  CUresult (*device_pci)(char*, int, CUdevice) = nullptr;
  CUresult (*device_memory)(std::size_t*, CUdevice) = nullptr;
  CUresult (*device_attribute)(int*, CUdevice_attribute, CUdevice) = nullptr;
  CUresult (*can_access_peer)(int*, CUdevice, CUdevice) = nullptr;
  CUresult (*context_retain)(CUcontext*, CUdevice) = nullptr;
  CUresult (*context_release)(CUdevice) = nullptr;
  CUresult (*context_set)(CUcontext) = nullptr;
  CUresult (*enable_peer)(CUcontext, unsigned) = nullptr;
  CUresult (*error_name)(CUresult, const char**) = nullptr;
  CUresult (*memory_info)(std::size_t*, std::size_t*) = nullptr;
  CUresult (*allocate)(CUdeviceptr*, std::size_t) = nullptr;
  CUresult (*release)(CUdeviceptr) = nullptr;
  CUresult (*allocate_host)(void**, std::size_t, unsigned) = nullptr;
  CUresult (*release_host)(void*) = nullptr;
  CUresult (*copy_in)(CUdeviceptr, const void*, std::size_t) = nullptr;
  CUresult (*copy_out)(void*, CUdeviceptr, std::size_t) = nullptr;
  CUresult (*copy_in_async)(CUdeviceptr, const void*, std::size_t, CUstream) = nullptr;
  CUresult (*copy_out_async)(void*, CUdeviceptr, std::size_t, CUstream) = nullptr;
  CUresult (*copy_async)(CUdeviceptr, CUdeviceptr, std::size_t, CUstream) = nullptr;
  CUresult (*copy_peer_async)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, std::size_t,
                              CUstream) = nullptr;
  CUresult (*set_bytes)(CUdeviceptr, unsigned char, std::size_t) = nullptr;
  CUresult (*stream_create)(CUstream*, unsigned) = nullptr;
  CUresult (*stream_destroy)(CUstream) = nullptr;
  CUresult (*stream_wait)(CUstream) = nullptr;
  CUresult (*context_wait)() = nullptr;
  CUresult (*event_create)(CUevent*, unsigned) = nullptr;
  CUresult (*event_destroy)(CUevent) = nullptr;
  CUresult (*event_record)(CUevent, CUstream) = nullptr;
  CUresult (*event_wait)(CUevent) = nullptr;
  CUresult (*event_elapsed)(float*, CUevent, CUevent) = nullptr;
  CUresult (*module_load)(CUmodule*, const void*) = nullptr;
  CUresult (*module_unload)(CUmodule) = nullptr;
  CUresult (*module_function)(CUfunction*, CUmodule, const char*) = nullptr;
  CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     unsigned, CUstream, void**, void**) = nullptr;
};

/// A CUDA call that this experiment cannot do without failed, while the device goes on: not enough
/// memory, an unsupported case. Caught where the experiment is prepared.
class CannotRun : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The driver and one of its devices, with the device's primary context current (libraries built on
/// the runtime use the same one).
class Driver {
 public:
  /// Nothing, with `why` in one line, when there is no driver, no device of that index, or it
  /// cannot be used.
  static std::unique_ptr<Driver> open(const Library& library, int index, std::string& why);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  [[nodiscard]] const DriverApi& api() const { return api_; }
  [[nodiscard]] CUdevice device() const { return device_; }
  [[nodiscard]] CUcontext context() const { return context_; }
  [[nodiscard]] CUstream stream() const { return stream_; }
  [[nodiscard]] int num_devices() const { return num_devices_; }
  /// Zero where the driver does not know the attribute.
  [[nodiscard]] int attribute(CUdevice_attribute attribute) const;
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::string uuid() const;     ///< empty when it cannot be told
  [[nodiscard]] std::string pci_bus() const;  ///< "00000000:3B:00.0"
  [[nodiscard]] Bytes memory() const;
  [[nodiscard]] Bytes free_memory() const;
  [[nodiscard]] std::string cuda_version() const;  ///< newest that the driver serves: "12.2"
  [[nodiscard]] int cuda_major() const;
  /// The same before the driver is started; 13 when it does not tell.
  [[nodiscard]] static int cuda_major(const Library& library);

  /// Throws CannotRun on errors that leave the context usable (out of memory, not supported,
  /// invalid value), DeviceLost on all others.
  void check(CUresult result, const char* what) const;
  /// Waits for all work.
  void wait() const { check(api_.stream_wait(stream_), "waiting for the stream"); }

 private:
  Driver() = default;
  DriverApi api_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  int num_devices_ = 0;
};

/// Memory of the device, freed with the object.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// At least one byte. Throws CannotRun when there is not enough.
  DeviceMemory(const Driver& driver, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept
      : driver_(other.driver_), at_(std::exchange(other.at_, 0)), bytes_(other.bytes_) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  [[nodiscard]] CUdeviceptr at() const { return at_; }
  [[nodiscard]] void* pointer() const { return reinterpret_cast<void*>(at_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  const Driver* driver_ = nullptr;
  CUdeviceptr at_ = 0;
  std::size_t bytes_ = 0;
};

/// Page-locked host memory.
class PinnedMemory {
 public:
  PinnedMemory(const Driver& driver, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  [[nodiscard]] void* at() const { return at_; }

 private:
  const Driver& driver_;
  void* at_ = nullptr;
};

/// A moment in the stream.
class Event {
 public:
  explicit Event(const Driver& driver);
  ~Event();
  Event(Event&& other) noexcept
      : driver_(other.driver_), event_(std::exchange(other.event_, nullptr)) {}
  Event(const Event&) = delete;
  void record();
  void wait() const;
  /// From `start` to this one; both have happened.
  [[nodiscard]] Seconds since(const Event& start) const;

 private:
  const Driver* driver_;
  CUevent event_ = nullptr;
};

/// A loaded module of kernels.
class Module {
 public:
  Module(const Driver& driver, std::string_view image);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  /// Throws CannotRun when there is no such kernel.
  [[nodiscard]] CUfunction function(const char* name) const;

 private:
  const Driver& driver_;
  CUmodule module_ = nullptr;
};

}  // namespace tracecast::calibrate::cuda
