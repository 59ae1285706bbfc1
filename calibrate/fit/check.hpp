#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/fit/fit_profile.hpp"
#include "calibrate/table/error_statistics.hpp"
#include "calibrate/table/measurement_set.hpp"

namespace tracecast {

/// What stays out of a fit and is then predicted.
enum class LeaveOut { Gpu, Board, Generation, Class, Range, AllButOneGpu };

/// Errors of one class of rows of one GPU (or of one range), predicted by a fit without them.
struct CheckedGroup {
  std::string
      left_out;  ///< "gpu v100_pcie_32gb", "class softmax", "range 1 to 10 ms", "fit on k80 alone"
  std::string gpu, source, group, split;
  ErrorStatistics errors;
};

struct CheckOptions {
  LeaveOut leave_out = LeaveOut::Gpu;
  std::vector<std::string>
      only;                  ///< GPU ids or classes to leave out in turn; empty: each that has rows
  Seconds min_time{100e-6};  ///< rows judged
  FitOptions fit;
  bool learn_errors =
      false;  ///< expected errors from the rows that stayed, too; else as in `start`
  std::function<void(std::string_view left_out, std::size_t done, std::size_t total)> progress;
  /// Told what each fit found, so that it can be judged on other things than kernels.
  std::function<void(std::string_view left_out, const FitResult&)> fitted;
};

/// Refits with one part left out at a time and judges the fit on that part. A GPU leaves together
/// with all boards of its chip, a board alone, a generation with all its boards (named by one of
/// them). `sample`: rows to fit. `files`: judged are all their rows above `min_time`, sampled or
/// not. A session's host floor is that of the other GPUs' sessions of the same source
/// (expected_floor).
[[nodiscard]] std::vector<CheckedGroup> check_fit(const MeasurementSet& sample,
                                                  std::span<const std::filesystem::path> files,
                                                  const MeasurementContext& context,
                                                  const CostProfile& start,
                                                  std::span<const ProfileParameter> prior,
                                                  const CheckOptions& options);

}  // namespace tracecast
