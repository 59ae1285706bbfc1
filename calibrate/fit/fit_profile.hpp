#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/table/measurement.hpp"
#include "hwspecs/cost_profile.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// How a profile is fitted. The defaults are what the shipped profile was made with.
struct FitOptions {
  double robust_scale = 0.15;  ///< of ln(predicted / measured): beyond it a row counts ever less
  /// What the rows of one cell (GPU, source, group, split) count for together: they share kernels
  /// and a session, so thousands of them are not thousands of facts.
  double rows_per_cell = 25;
  double arithmetic_log_sd = 0.10;  ///< of one GPU's sustained arithmetic about what its spec says
  double bandwidth_log_sd = 0.06;   ///< the same of its memory
  double generation_log_sd =
      0.20;                   ///< of what the generations' values of a parameter have in common
  double floor_log_sd = 0.5;  ///< of a session's host floor about the framework's
  int most_iterations = 15;
  unsigned num_threads = 0;  ///< 0: as many as the machine has, at most 8
  /// Told before each evaluation of the derivatives: iteration, sum of squares. May throw to stop
  /// the fit.
  std::function<void(int iteration, double cost)> progress;
};

/// One session's host time of one class of ops: (source, GPU, group).
struct SessionKey {
  std::string source, gpu, group;
  friend auto operator<=>(const SessionKey&, const SessionKey&) = default;
};

/// What a fit found of one parameter.
struct FittedParameter {
  std::string name;
  double value = 0;
  double log_sd = 0;  ///< standard deviation of ln(value): data and prior together
  double prior_value = 0;
  double prior_log_sd = 0;
  std::string main_source;  ///< of the rows that say most about it; empty: none says anything
};

enum class FitTermination { Converged, TooManyIterations };

struct FitResult {
  CostProfile profile;  ///< `start` with the fitted values; board factors of no GPU
  std::vector<FittedParameter> parameters;
  std::map<std::string, BoardFactors> boards;  ///< by GPU id: what its spec does not explain
  std::map<SessionKey, Seconds> floors;
  FitTermination termination = FitTermination::Converged;
  int iterations = 0;
  std::size_t num_rows = 0;
};

/// Fits the profile's parameters to measurements.
///   minimise  sum over rows w soft((ln predicted - ln measured) / robust_scale)
///           + sum over unknowns ((ln x - ln prior) / prior log_sd)^2
/// soft(u) = ln(1 + u^2), Cauchy's loss: rows that no parameter explains hardly pull; w = min(1,
/// rows_per_cell / rows of the cell). Unknowns, all as logarithms:
///   - each parameter of `prior` with log_sd > 0, its prior being value and log_sd there;
///   - parameters by generation ("gemm.step_cycles.volta"): one shift common to all
///   (generation_log_sd) and one per generation
///     with rows (the parameter's log_sd), so that a generation without rows gets what the others
///     have in common;
///   - factors on an engine's kernels by generation of the instruction ("factor_of.vllm.*.half")
///   likewise: an engine's authors write
///     the next generation's kernel from the last one's;
///   - per GPU, a factor on its sustained arithmetic and one on its memory bandwidth. They keep one
///   board's cooling, limit
///     and firmware out of the shared parameters, and are not part of the result's profile: a GPU
///     is predicted from its spec;
///   - per session, the host floor of rows timed with it.
/// Solver: Levenberg-Marquardt (Eigen). Deterministic whatever the number of threads.
/// Form: mixed model in the sense of random effects per GPU;
/// `prior` names parameters that may move; all others keep their value in `start`. Rows without
/// kernels count for nothing.
[[nodiscard]] FitResult fit_profile(std::span<const Measurement* const> rows,
                                    const CostProfile& start,
                                    std::span<const ProfileParameter> prior,
                                    const FitOptions& options);

/// The host floor to expect in a session that was not in the fit: the geometric mean of the same
/// source's sessions of that group, else of all sessions of that group.  Nothing when there is
/// none.
[[nodiscard]] std::optional<Seconds> expected_floor(const FitResult& fit, const Measurement& row);

}  // namespace tracecast
