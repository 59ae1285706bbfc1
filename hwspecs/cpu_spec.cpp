#include "hwspecs/cpu_spec.hpp"

namespace tracecast {

std::string_view to_string(VectorIsa isa) {
  switch (isa) {
    case VectorIsa::Sse4:
      return "sse4";
    case VectorIsa::Avx:
      return "avx";
    case VectorIsa::Avx2:
      return "avx2";
    case VectorIsa::Avx512:
      return "avx512";
    case VectorIsa::Vsx:
      return "vsx";
    case VectorIsa::Neon:
      return "neon";
    case VectorIsa::Sve:
      return "sve";
  }
  return "unknown";
}

FlopsPerSecond CpuSpec::peak_fp32() const {
  return FlopsPerSecond(vector_clock.in_si() * cores * fp32_flop_per_cycle);
}

Hertz CpuSpec::single_thread_speed() const { return turbo_clock * single_thread_ipc; }

}  // namespace tracecast
