#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "sim/job/predictor.hpp"
#include "tools/plan/schedule_rates.hpp"
#include "tools/predict/predict_options.hpp"

namespace tracecast {

/// Steps per second of programs as `predict` has them with the same flags: a model is a network of
/// the zoo, or a training program ("resnet50_imagenet"). Remembers what it was asked.
class PredictedRates {
 public:
  explicit PredictedRates(Hardware hardware)
      : hardware_(std::move(hardware)), predictor_(hardware_) {}
  /// Of the whole gang, summed over its processes, as measured tables have it; 0: does not fit the
  /// GPU; nothing: cannot be predicted. Throws InputError where it cannot with the flags that the
  /// program has.
  [[nodiscard]] std::optional<double> find(const RateTables::Program& program,
                                           const std::string& gpu);

 private:
  Hardware hardware_;
  Predictor predictor_;
  PredictFlags flags_;
  std::map<std::pair<RateTables::Program, std::string>, std::optional<double>> known_;
};

}  // namespace tracecast
