#include "tools/plan/predicted_rates.hpp"

#include <array>

#include "hwspecs/software/job_spec.hpp"

namespace tracecast {

std::optional<double> PredictedRates::find(const RateTables::Program& program,
                                           const std::string& gpu) {
  const auto key = std::pair(program, gpu);
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  Job job;
  job.network = hardware_.specs().find_job_spec_or_null(program.model) == nullptr
                    ? program.model
                    : std::string(kJobPrefix) + program.model;
  if (program.batch > 0) job.batch = program.batch;
  Place place;
  place.gpu = gpu;
  if (program.gpus > 1) place.gpus = program.gpus;
  const Matrix matrix = predictor_.throughput(std::array{job}, std::array{place});
  const Cell& cell = matrix.at(0, 0);
  std::optional<double> rate;
  if (cell.refused.empty())
    rate = cell.fits ? cell.samples_per_s.value / static_cast<double>(job.batch) : 0.0;
  return known_.emplace(key, rate).first->second;
}

}  // namespace tracecast
