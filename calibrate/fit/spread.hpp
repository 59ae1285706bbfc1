#pragma once
#include <functional>
#include <span>
#include <string_view>

#include "calibrate/fit/fit_profile.hpp"
#include "calibrate/table/measurement_set.hpp"

namespace tracecast {

/// Sets `error.*` of the fit's profile to what the fit is wrong by, one number per form and basis:
///   measured: rows of the fit with their GPU's own factors
///   transferred: rows of a GPU (with all boards of its chip) that was left out, of a generation that was not
///   spec: the same where the whole generation was left out
/// Each is the 80 % quantile of |ln(predicted / measured)| over 1.28, every row of the sample weighing the same; rows under a power
/// limit (error.power_limit) and 16-bit data outside tensor cores do not count; where no row tells, the value stays as it was, and no basis is surer than the one before it. Refits once per chip and once per generation
/// with a quarter of the rows and half the iterations. Also sets which generations a form was fitted on.
void estimate_spread(FitResult& fit, const MeasurementSet& sample, const CostProfile& start,
                     std::span<const ProfileParameter> prior, const FitOptions& options,
                     const std::function<void(std::string_view left_out)>& progress);

}  // namespace tracecast
