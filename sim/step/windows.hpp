#pragma once
#include <span>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/step/step_program.hpp"

namespace tracecast {

/// Least, mean and greatest value over sampling windows.
struct Range {
  double min = 0, avg = 0, max = 0;
};

/// Means over windows that follow each other from the step's begin on, the step repeated without
/// end.
struct Windows {
  std::vector<double> means;
  double avg = 0;  ///< over the step

  [[nodiscard]] Range range() const;  ///< `avg` counts as a window
};

/// Windows of a quantity that is inside[k] while the timeline's kernel k runs and zero between
/// kernels: 64 windows, or as many as the step is long, up to 16384.
[[nodiscard]] Windows windows_of(const StepTimeline& timeline, std::span<const double> inside,
                                 Seconds width);

}  // namespace tracecast
