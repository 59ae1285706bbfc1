#pragma once
#include <optional>

#include "calibrate/table/measurement.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// What a reader could have worked out without a simulator: times of a row's arithmetic and
/// compulsory bytes.
struct RowRoofline {
  Seconds plain{};  ///< greater of operations / peak and bytes / bandwidth
  Seconds
      three_constants{};  ///< of operations / (0.75 peak) and bytes / (0.8 bandwidth), 3 us more
};

/// The rooflines of a measured kernel, call or layer: operands and results each once, at the peak
/// of its format or the next wider one that the GPU has; of several ways to do an op the cheapest.
/// Nothing for whole steps, power and calls without work.
[[nodiscard]] std::optional<RowRoofline> roofline_of(const Measurement& measurement);

}  // namespace tracecast
