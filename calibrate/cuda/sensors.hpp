#pragma once
#include <memory>
#include <string>

#include "calibrate/cuda/library.hpp"
#include "calibrate/device/device.hpp"

namespace tracecast::calibrate::cuda {

/// NVML: clocks, temperature, power and throttle reasons of one device. Our own declarations: its
/// header comes with no CUDA package here, and what we use has not changed since CUDA 9.
class Sensors {
 public:
  /// The device at a PCI bus id as the driver gives it. Nothing, with `why`, when NVML is missing
  /// or refuses.
  static std::unique_ptr<Sensors> open(Library library, const std::string& pci_bus,
                                       std::string& why);
  ~Sensors();
  Sensors(const Sensors&) = delete;
  Sensors& operator=(const Sensors&) = delete;

  [[nodiscard]] SensorSample sample() const;
  [[nodiscard]] std::string driver_version() const;
  [[nodiscard]] Watts power_limit() const;  ///< enforced now; zero when unknown
  [[nodiscard]] bool ecc() const;
  /// Where the user holds the SM clock: an application clock set below the highest one with
  /// auto-boost off; zero: free.
  [[nodiscard]] Hertz pinned_clock() const;

 private:
  struct Api;
  Sensors(Library library, std::unique_ptr<Api> api, void* device);
  Library library_;
  std::unique_ptr<Api> api_;
  void* device_;
};

}  // namespace tracecast::calibrate::cuda
