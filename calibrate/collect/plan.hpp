#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/device/device.hpp"

namespace tracecast::calibrate {

enum class PlanSize {
  Quick,  ///< about one minute: sustained rates, bandwidth, floors, a few convolutions
  Full,   ///< about 15 minutes: every class over its range of shapes
};
[[nodiscard]] std::string_view to_string(PlanSize size);

struct PlannedExperiment {
  Experiment experiment{};
  bool sustained =
      false;  ///< measured after load long enough for power limits to show, and before it
  Algorithm heuristic = Algorithm::None;  ///< of a convolution: what the library would have picked
};
/// What a calibration measures; the order says nothing (collect/scheduler.hpp orders).
struct Plan {
  PlanSize size = PlanSize::Full;
  std::vector<PlannedExperiment> experiments;  ///< all different
  std::string hash;                            ///< of size and experiments, 16 hexadecimal digits
};

/// The plan for a device: number formats that its generation has, convolution algorithms that its
/// library offers, shapes that fit into a quarter of its memory. Shapes are spread evenly over the
/// logarithms of their sizes by Halton's sequence (J. H. Halton, Numer. Math. 2, 1960), each size
/// rounded: three in four to a multiple of 8 as networks have them, one in four not. One repetition
/// is bounded: 4e11 operations in fp32 (a tenth of a second at 4 TFLOP/s), 2e12 in other formats,
/// and 1 GB. Same device, same plan.
[[nodiscard]] Plan make_plan(Device& device, PlanSize size);

}  // namespace tracecast::calibrate
