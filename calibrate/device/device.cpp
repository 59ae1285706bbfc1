#include "calibrate/device/device.hpp"

#include <fmt/format.h>

namespace tracecast::calibrate {

std::string DeviceIdentity::fingerprint() const {
  std::string text = fmt::format("{}, driver {}", name, driver.empty() ? "unknown" : driver);
  for (const auto& [what, version] :
       {std::pair("CUDA", &cuda), std::pair("cuDNN", &cudnn), std::pair("cuBLAS", &cublas)}) {
    if (!version->empty()) text += fmt::format(", {} {}", what, *version);
  }
  if (pinned_clock > Hertz(0)) text += fmt::format(", held at {:.0f} MHz", pinned_clock.in_mhz());
  if (!serial.empty()) text += ", " + serial;
  return text;
}

std::string ThrottleReasons::text() const {
  std::string result;
  const auto add = [&](bool is_set, const char* name) {
    if (!is_set) return;
    if (!result.empty()) result += '+';
    result += name;
  };
  add(power_cap, "power_cap");
  add(thermal, "thermal");
  add(power_brake, "power_brake");
  add(other_slowdown, "slowdown");
  return result.empty() ? "none" : result;
}

std::string_view to_string(TimingMethod method) {
  switch (method) {
    case TimingMethod::Kernels:
      return "cupti";
    case TimingMethod::Events:
      return "evlib";
    case TimingMethod::Host:
      return "host";
  }
  return "";
}

}  // namespace tracecast::calibrate
