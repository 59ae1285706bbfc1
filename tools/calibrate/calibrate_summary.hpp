#pragma once
#include <string>

#include "calibrate/collect/collector.hpp"
#include "calibrate/collect/journal.hpp"
#include "calibrate/collect/plan.hpp"
#include "calibrate/device/device.hpp"
#include "hwspecs/gpu_spec.hpp"

namespace tracecast {

/// Parts of what `calibrate` answers, lines of at most 80 columns, values from column 15 on.

/// Which GPU, with which software, and what the device had to say.
[[nodiscard]] std::string device_text(const calibrate::DeviceIdentity& device, const GpuSpec& gpu);
/// What was measured, repeated, rejected, unsupported.
[[nodiscard]] std::string counts_text(const calibrate::CollectCounts& counts);
/// The figures that a person knows a card by: sustained arithmetic by format with clock and power,
/// memory, copies, launches. Those that were measured.
[[nodiscard]] std::string rates_text(const calibrate::Plan& plan,
                                     const calibrate::Journal& journal);

}  // namespace tracecast
