#pragma once
#include <string>
#include <string_view>

#include "hwspecs/library.hpp"

namespace tracecast {

/// The 2 of "2x", from 0.001 to 1000; `path` is what `--set` gives it to. Throws InputError.
[[nodiscard]] double parse_factor(std::string_view path, std::string_view value);

/// "gpu.memory_bandwidth", "link.latency" and so on: a path whose value is a factor, "2x".
[[nodiscard]] bool is_hardware_factor(std::string_view path);

/// What if all hardware of a kind were so many times as fast:
///   gpu.memory_bandwidth   of device memory, at the same power: energy per byte falls as the rate
///   rises (in the cost profile) gpu.compute            all peak rates, at the same power: energy
///   per operation falls as the rate rises link.bandwidth, nvlink.bandwidth, pcie.bandwidth (with
///   links between sockets), network.bandwidth link.latency           more is slower
/// `value` is a factor as parse_factor reads it. Throws InputError.
[[nodiscard]] SpecLibrary with_hardware_factor(const SpecLibrary& specs, const std::string& path,
                                               const std::string& value);
/// What the same setting changes of a cost profile.
[[nodiscard]] CostProfile with_hardware_factor(CostProfile cost, const std::string& path,
                                               const std::string& value);

}  // namespace tracecast
