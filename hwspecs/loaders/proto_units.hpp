#pragma once
#include "hwspecs/proto/spec.pb.h"
#include "sim/base/units.hpp"

namespace tracecast {

// Facts of a spec file, whose names end in their unit, as quantities. Private to this box.
inline int to_int(const proto::Count& c) { return static_cast<int>(c.value()); }
inline Hertz from_mhz(const proto::Count& c) { return Hertz(static_cast<double>(c.value()) * 1e6); }
inline Bytes from_kib(const proto::Count& c) {
  return Bytes(static_cast<double>(c.value()) * 1024.0);
}
inline Bytes from_mib(const proto::Count& c) { return 1024.0 * from_kib(c); }
inline Bytes from_gib(const proto::Count& c) { return 1024.0 * from_mib(c); }
inline BytesPerSecond from_gb_per_s(const proto::Number& n) {
  return BytesPerSecond(n.value() * 1e9);
}
inline Seconds from_us(const proto::Number& n) { return Seconds(n.value() * 1e-6); }
inline Watts from_w(const proto::Number& n) { return Watts(n.value()); }

}  // namespace tracecast
