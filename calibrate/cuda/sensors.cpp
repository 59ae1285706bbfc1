#include "calibrate/cuda/sensors.hpp"

#include <array>
#include <utility>

namespace tracecast::calibrate::cuda {
namespace {

// nvml.h: nvmlReturn_t, nvmlClockType_t, nvmlTemperatureSensors_t, nvmlEnableState_t.
using Status = int;
constexpr Status kSuccess = 0;
constexpr int kClockSm = 1, kClockMemory = 2;
constexpr int kTemperatureGpu = 0;
constexpr int kFeatureEnabled = 1;

// nvml.h: nvmlClocksThrottleReason* (nvmlClocksEventReason* since CUDA 12.2, same bits).
constexpr unsigned long long kSwPowerCap = 0x4, kHwSlowdown = 0x8, kSwThermal = 0x20,
                             kHwThermal = 0x40, kHwPowerBrake = 0x80;

ThrottleReasons reasons_of(unsigned long long bits) {
  ThrottleReasons reasons;
  reasons.power_cap = (bits & kSwPowerCap) != 0;
  reasons.thermal = (bits & (kSwThermal | kHwThermal)) != 0;
  reasons.power_brake = (bits & kHwPowerBrake) != 0;
  // Set along with the finer reasons where there are any (from Pascal on); alone on older boards.
  reasons.other_slowdown = (bits & kHwSlowdown) != 0 && !reasons.thermal && !reasons.power_brake;
  return reasons;
}

}  // namespace

struct Sensors::Api {
  Status (*init)() = nullptr;
  Status (*shutdown)() = nullptr;
  Status (*device_by_bus)(const char*, void**) = nullptr;
  Status (*driver_version)(char*, unsigned) = nullptr;
  Status (*clock)(void*, int, unsigned*) = nullptr;
  Status (*max_clock)(void*, int, unsigned*) = nullptr;
  Status (*application_clock)(void*, int, unsigned*) = nullptr;
  Status (*default_application_clock)(void*, int, unsigned*) = nullptr;
  Status (*temperature)(void*, int, unsigned*) = nullptr;
  Status (*power)(void*, unsigned*) = nullptr;
  Status (*power_limit)(void*, unsigned*) = nullptr;
  Status (*ecc)(void*, int*, int*) = nullptr;
  Status (*reasons)(void*, unsigned long long*) = nullptr;
};

std::unique_ptr<Sensors> Sensors::open(Library library, const std::string& pci_bus,
                                       std::string& why) {
  auto api = std::make_unique<Api>();
  Symbols symbols(library);
  symbols.need(api->init, {"nvmlInit_v2"});
  symbols.need(api->shutdown, {"nvmlShutdown"});
  symbols.need(api->device_by_bus, {"nvmlDeviceGetHandleByPciBusId_v2"});
  symbols.need(api->clock, {"nvmlDeviceGetClockInfo"});
  symbols.want(api->driver_version, {"nvmlSystemGetDriverVersion"});
  symbols.want(api->max_clock, {"nvmlDeviceGetMaxClockInfo"});
  symbols.want(api->application_clock, {"nvmlDeviceGetApplicationsClock"});
  symbols.want(api->default_application_clock, {"nvmlDeviceGetDefaultApplicationsClock"});
  symbols.want(api->temperature, {"nvmlDeviceGetTemperature"});
  symbols.want(api->power, {"nvmlDeviceGetPowerUsage"});
  symbols.want(api->power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  symbols.want(api->ecc, {"nvmlDeviceGetEccMode"});
  symbols.want(api->reasons, {"nvmlDeviceGetCurrentClocksThrottleReasons",
                              "nvmlDeviceGetCurrentClocksEventReasons"});
  if (!symbols.missing().empty()) {
    why = "NVML lacks " + symbols.missing();
    return nullptr;
  }
  if (api->init() != kSuccess) {
    why = "NVML does not start: no clocks, throttling cannot be seen";
    return nullptr;
  }
  void* device = nullptr;
  if (api->device_by_bus(pci_bus.c_str(), &device) != kSuccess) {
    api->shutdown();
    why = "NVML does not know the GPU at " + pci_bus + ": no clocks, throttling cannot be seen";
    return nullptr;
  }
  return std::unique_ptr<Sensors>(new Sensors(std::move(library), std::move(api), device));
}

Sensors::Sensors(Library library, std::unique_ptr<Api> api, void* device)
    : library_(std::move(library)), api_(std::move(api)), device_(device) {}
Sensors::~Sensors() { api_->shutdown(); }

SensorSample Sensors::sample() const {
  SensorSample sample;
  unsigned value = 0;
  if (api_->clock(device_, kClockSm, &value) == kSuccess) sample.sm_clock = Hertz(value * 1e6);
  if (api_->clock(device_, kClockMemory, &value) == kSuccess) {
    sample.memory_clock = Hertz(value * 1e6);
  }
  if (api_->temperature != nullptr &&
      api_->temperature(device_, kTemperatureGpu, &value) == kSuccess) {
    sample.temperature_c = value;
  }
  if (api_->power != nullptr && api_->power(device_, &value) == kSuccess) {
    sample.power = Watts(value * 1e-3);
  }
  unsigned long long bits = 0;
  if (api_->reasons != nullptr && api_->reasons(device_, &bits) == kSuccess) {
    sample.throttle = reasons_of(bits);
  }
  return sample;
}

std::string Sensors::driver_version() const {
  std::array<char, 96> text{};
  if (api_->driver_version == nullptr ||
      api_->driver_version(text.data(), static_cast<unsigned>(text.size()) - 1) != kSuccess)
    return "";
  return text.data();
}

Watts Sensors::power_limit() const {
  unsigned milliwatts = 0;
  if (api_->power_limit == nullptr || api_->power_limit(device_, &milliwatts) != kSuccess)
    return Watts(0);
  return Watts(milliwatts * 1e-3);
}

bool Sensors::ecc() const {
  int current = 0, pending = 0;
  return api_->ecc != nullptr && api_->ecc(device_, &current, &pending) == kSuccess &&
         current == kFeatureEnabled;
}

Hertz Sensors::pinned_clock() const {
  unsigned application = 0, standard = 0;
  if (api_->application_clock == nullptr || api_->default_application_clock == nullptr ||
      api_->application_clock(device_, kClockSm, &application) != kSuccess ||
      api_->default_application_clock(device_, kClockSm, &standard) != kSuccess)
    return Hertz(0);
  // The default is the driver's own choice; another one was set by the user.
  return application != standard ? Hertz(application * 1e6) : Hertz(0);
}

}  // namespace tracecast::calibrate::cuda
