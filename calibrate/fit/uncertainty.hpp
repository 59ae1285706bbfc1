#pragma once
#include <functional>
#include <span>
#include <string_view>

#include "calibrate/fit/fit_profile.hpp"
#include "calibrate/table/measurement_set.hpp"

namespace tracecast {

/// Sets the `error` parameters of the fit's profile to what the fit is wrong by. Their formula
/// stands in sim/cost/spread.hpp; uncertainty_likelihood.hpp finds the most likely values:
///   transferred: rows of a GPU that was left out, with all boards of its chip, of a generation
///   that was not; where a
///                generation has one chip, rows of each board of it
///   spec: the same where the whole generation was left out
///   measured: rows of the fit with their GPU's own factors
///   under-occupied, library_rules, narrow_*, power_limit, beyond, tensor_gemm_warp,
///   tensor_gemm_beyond: all rows left out, together with the two above tensor_gemm_format.*,
///   tensor_gemm_family.*: rows left out of GEMMs below 16 bits, by whose kernels run and what the
///   format asks of them, on
///                top of the 16-bit GEMMs' error
/// Of GEMMs on tensor cores and calls, errors of a generation left out are those of a fit with one
/// generation fewer than the fit itself has, of the n that have such rows: times sqrt((1 + 1/n) /
/// (1 + 1/(n-1))).
///   board: cells' medians, 80 % of which lie within 1.28 of it; cells are as in the fit, and weigh
///   as there engines' calls: the spread of what surrounds the main kernel, of that kernel, and
///   factors by whose kernels run, on narrow and on rare
///                calls (cost::CallUncertainty), of generations left out
/// Where no row tells, the value stays as it was; no basis is surer than the one before it. Each
/// fold is a refit with a quarter of the rows and half the iterations; of calls with some 4,000
/// rows or all of them. Also sets which generations a form was fitted on.
void estimate_uncertainty(FitResult& fit, const MeasurementSet& sample, const CostProfile& start,
                          std::span<const ProfileParameter> prior, const FitOptions& options,
                          const std::function<void(std::string_view left_out)>& progress);

/// fit_in_stages() with estimate_uncertainty() after each stage.
[[nodiscard]] FitResult fit_with_errors(
    const MeasurementSet& sample, const CostProfile& start, std::span<const ProfileParameter> prior,
    const FitOptions& options, const std::function<void(std::string_view left_out)>& progress);

}  // namespace tracecast
