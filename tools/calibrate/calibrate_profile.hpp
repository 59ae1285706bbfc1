#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/device/device.hpp"
#include "hwspecs/cost_profile.hpp"
#include "sim/job/resolved_job.hpp"

namespace tracecast {

/// A calibration's measurements, and of what.
struct MeasuredTables {
  std::vector<std::filesystem::path> files;
  std::string gpu;                   ///< id of its spec
  calibrate::DeviceIdentity device;  ///< whose driver and libraries they were measured with
  std::string date;                  ///< when they were begun
};

/// A profile fitted to one GPU's measurements.
struct LocalProfile {
  CostProfile profile;  ///< measured_gpu and board set
  std::size_t rows = 0;
  /// Mean and median of |predicted / measured - 1| over the fitted rows, before and after.
  double mean_before = 0, median_before = 0, mean_after = 0, median_after = 0;
};

/// Fits the cost profile to the tables of one GPU, from the profile in `hardware` on. Its
/// parameters are believed as that profile states them, but no surer than half the width of what is
/// believed before any measurement (hwspecs/cost/prior.textproto): so what other GPUs have taught
/// stays where this one says nothing. What this board does beyond its spec goes into `board`, which
/// holds for this GPU alone; the shared parameters carry over to others. The data set names device,
/// driver, libraries and clocks and the tables with their hashes. Nothing where fewer than 20 rows
/// of a cost model were measured. Throws InputError when a table cannot be read.
[[nodiscard]] std::optional<LocalProfile> fit_local_profile(const MeasuredTables& tables,
                                                            const Hardware& hardware);

}  // namespace tracecast
