#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "sim/job/predictor.hpp"
#include "tools/plan/schedule_rates.hpp"

namespace tracecast {

/// Steps per second of programs as `Predictor::throughput` has them: a model is a network of the
/// zoo, or a training program ("resnet50_imagenet"). Remembers what it was asked.
class PredictedRates {
 public:
  explicit PredictedRates(Hardware hardware)
      : hardware_(std::move(hardware)), predictor_(hardware_) {}
  /// Of the whole gang, summed over its processes, as measured tables have it; 0: does not fit the
  /// GPU; nothing: cannot be predicted. Throws InputError where it cannot because of the data that
  /// the program loads, or with it.
  [[nodiscard]] std::optional<double> find(const RateTables::Program& program,
                                           const std::string& gpu);

 private:
  Hardware hardware_;
  Predictor predictor_;
  std::map<std::pair<RateTables::Program, std::string>, std::optional<double>> known_;
};

}  // namespace tracecast
