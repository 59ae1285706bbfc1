#pragma once
#include <string>
#include <vector>

#include "sim/job/predictor.hpp"

namespace tracecast {

/// A change of a job that makes it fit, as flags of `predict`.
struct FittingChange {
  std::string flags;             ///< "--recompute full"
  Bytes needed{};                ///< of the fullest rank then
  double probability = 1;        ///< that it fits
  double throughput = 1;         ///< over that of the job as it was asked for, if that fitted
  bool changes_results = false;  ///< what is trained, or how precisely
};

/// What makes a job fit that likely does not, at most three, the cheapest in speed first:
/// activations computed again, smaller batches that share an update, states divided over the ranks
/// (ZeRO), tensor parallelism or pipeline stages, mixed precision, an optimizer with states of 8
/// bits, adapters in place of all weights, on packed ones too, twice the GPUs. Each is predicted;
/// what leaves what is computed alone goes before what does not. Nothing where the job is no
/// training or fits.
[[nodiscard]] std::vector<FittingChange> find_fitting_changes(const Predictor& predictor,
                                                              const Job& job, const Place& place,
                                                              const Parallelism& parallelism,
                                                              const Forecast& forecast);

}  // namespace tracecast
