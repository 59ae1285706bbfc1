#include "tools/plan/predicted_rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "hwspecs/software/job_spec.hpp"
#include "sim/base/error.hpp"
#include "sim/job/network_file.hpp"

namespace tracecast {
namespace {

/// Flags that one GPU has no use for: a file states them for all of its jobs.
bool is_of_several(std::string_view flag) {
  constexpr std::array kOfSeveral{"nic", "no-p2p", "strategy"};
  return std::find(kOfSeveral.begin(), kOfSeveral.end(), flag) != kOfSeveral.end();
}

}  // namespace

std::optional<double> PredictedRates::find(const RateTables::Program& program,
                                           const std::string& gpu) {
  const auto key = std::pair(program, gpu);
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  const std::string network = hardware_.specs().find_job_spec_or_null(program.model) == nullptr
                                  ? program.model
                                  : std::string(kJobPrefix) + program.model;
  std::int64_t batch = program.batch > 0 ? program.batch : usual_batch(network);
  if (program.global_batch > 0) {
    // Every GPU has as many samples.
    if (program.global_batch % program.gpus != 0) return std::nullopt;
    batch = program.global_batch / program.gpus;
  }
  std::vector<std::string> words{"--gpu=" + gpu, fmt::format("--batch={}", batch)};
  if (program.gpus > 1) words.push_back(fmt::format("--gpus={}", program.gpus));
  for (const auto& [flag, value] : program.flags) {
    if (program.gpus == 1 && is_of_several(flag)) continue;
    words.push_back(value.empty() ? "--" + flag : fmt::format("--{}={}", flag, value));
  }
  words.insert(words.end(), {"--", network});
  const auto samples_of_step =
      static_cast<double>(program.global_batch > 0 ? program.global_batch : batch);
  std::optional<double> rate;
  try {
    const PredictQuestion asked = flags_.read(words, hardware_);
    const Forecast forecast = predictor_.predict(asked.job, asked.job, asked.parallelism);
    rate = forecast.fits() ? forecast.throughput_samples_per_s.value / samples_of_step : 0.0;
  } catch (const InputError&) {
    // Flags that the network has no use for, or that nobody knows, say so.
    if (!program.flags.empty()) throw;
  }
  return known_.emplace(key, rate).first->second;
}

}  // namespace tracecast
