#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/job/predictor.hpp"
#include "sim/plan/purchase/error_model.hpp"
#include "sim/plan/purchase/job_list.hpp"
#include "sim/plan/purchase/purchase.hpp"

namespace tracecast::plan {

/// A job at a place, to be predicted.
struct CellQuestion {
  Job job;
  Place place;
  std::optional<ServingDemand> serving{};
  std::optional<std::int64_t> global_batch{};
};
/// Answers in the order of the questions: Predictor::throughput, remembered or not.
using CellSource = std::function<std::vector<Cell>(const std::vector<CellQuestion>&)>;

/// A job on a gang of one kind of GPU.
struct MatrixCell {
  std::size_t job = 0;
  std::string gpu, machine;
  int gang = 1, nodes = 1;
  Interval predicted;      ///< samples/s of the gang, as predicted; of one that serves: requests/s
                           ///< within its limits
  Interval samples_per_s;  ///< the same, corrected by what was measured
  /// "predicted", "guessed" where half or more of the step rests on guesses, "measured", or
  /// "corrected" by runs elsewhere.
  std::string basis;
  Bytes needed{}, capacity{};
  bool fits = true;
  double fit_probability = 1;  ///< that it fits
  std::optional<Watts> power;  ///< of all boards
  std::string refused;         ///< why there is no answer
  bool only_known = false;     ///< asked for a measurement or hours_on; no offer has it
};

/// Jobs at all places that offers give them.
struct PlanMatrix {
  std::vector<MatrixCell> cells;
  ErrorField field;                                   ///< of the cells, in their order
  std::vector<std::optional<std::size_t>> reference;  ///< by job: the cell that hours_on names
  std::vector<double> samples;                        ///< by job, of each
  [[nodiscard]] const MatrixCell* find(std::size_t job, std::string_view gpu,
                                       std::string_view machine, int gang) const;
};

/// Every job on every gang that some offer allows it. Throws InputError: hours_on on a GPU where
/// the job cannot be predicted.
[[nodiscard]] PlanMatrix make_matrix(const std::vector<PlanJob>& jobs,
                                     const std::vector<Offer>& offers, const CellSource& source,
                                     const ErrorShares& shares);

/// The jobs' ways to run, with `cell_of_mode` naming the cell behind each. What does not fit or
/// cannot be predicted is none.
[[nodiscard]] PurchaseProblem make_problem(const std::vector<PlanJob>& jobs,
                                           const Catalogue& catalogue, const PlanMatrix& matrix,
                                           const GpuCatalog& gpus,
                                           std::vector<std::size_t>& cell_of_mode);

}  // namespace tracecast::plan
