#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/gpu_spec.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// How processes without MPS take turns on a GPU.
struct GpuSharing {
  std::string before_date;   ///< of older drivers: "2020-01"; empty: today's
  Seconds time_slice{};      ///< one with work keeps the GPU for so long while another waits
  Seconds context_switch{};  ///< what a change of process costs
  Seconds idle_hold{};       ///< one without work keeps the rest of its slice for so long at most
  std::vector<SpecSource> sources;
  std::vector<SpecValue> values;
};

/// Reads text format (hwspecs/proto/gpu_sharing.proto); `where` names it in errors. Throws
/// InputError.
[[nodiscard]] std::vector<GpuSharing> parse_gpu_sharing(std::string_view text,
                                                        std::string_view where);

}  // namespace tracecast
