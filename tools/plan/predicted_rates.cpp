#include "tools/plan/predicted_rates.hpp"

#include <array>

#include "hwspecs/software/job_spec.hpp"
#include "sim/job/network_file.hpp"

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
  job.batch = program.batch > 0 ? program.batch : usual_batch(job.network);
  if (program.global_batch > 0) {
    // Every GPU has as many samples.
    if (program.global_batch % program.gpus != 0) return std::nullopt;
    job.batch = program.global_batch / program.gpus;
  }
  if (!program.data.empty()) job.data = program.data;
  Place place;
  place.gpu = gpu;
  if (program.gpus > 1) place.gpus = program.gpus;
  const Matrix matrix = predictor_.throughput(std::array{job}, std::array{place});
  const Cell& cell = matrix.at(0, 0);
  const auto samples_of_step =
      static_cast<double>(program.global_batch > 0 ? program.global_batch : job.batch);
  // Data that the network does not read, or that nobody knows: throws what says so.
  if (!cell.refused.empty() && !program.data.empty()) (void)predictor_.predict(job, place);
  std::optional<double> rate;
  if (cell.refused.empty()) rate = cell.fits ? cell.samples_per_s.value / samples_of_step : 0.0;
  return known_.emplace(key, rate).first->second;
}

}  // namespace tracecast
