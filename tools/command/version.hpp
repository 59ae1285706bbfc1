#pragma once

namespace tracecast {
/// From CMakeLists.txt, the one place that states it.
inline constexpr const char kVersion[] = TRACECAST_VERSION;
/// The form of our JSON documents; grows when a key changes its meaning or goes.
inline constexpr int kSchema = 2;
}  // namespace tracecast
