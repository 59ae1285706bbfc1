#include "calibrate/collect/scheduler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "calibrate/device/experiment_kernels.hpp"
#include "sim/base/error.hpp"

namespace tracecast::calibrate {
namespace {

constexpr double kPriorWeight = 3;
constexpr double kFirstCost_s = 0.2;

bool goes_first(const PlannedExperiment& planned) {
  return planned.sustained || class_of(planned.experiment) == ExperimentClass::Launch;
}

/// Farthest-point order: each member is the one whose least distance to those before it is
/// greatest; the first one stays.
std::vector<std::size_t> distribute(const Plan& plan, std::vector<std::size_t> members) {
  std::vector<std::vector<double>> at;
  at.reserve(members.size());
  for (const std::size_t i : members) at.push_back(coordinates_of(plan.experiments[i].experiment));
  std::vector<double> nearest(members.size(), std::numeric_limits<double>::infinity());
  for (std::size_t chosen = 0; chosen + 1 < members.size(); ++chosen) {
    std::size_t farthest = chosen + 1;
    for (std::size_t i = chosen + 1; i < members.size(); ++i) {
      double square = 0;
      for (std::size_t d = 0; d < at[i].size(); ++d) {
        const double difference = at[i][d] - at[chosen][d];
        square += difference * difference;
      }
      nearest[i] = std::min(nearest[i], square);
      if (nearest[i] > nearest[farthest]) farthest = i;
    }
    std::swap(members[chosen + 1], members[farthest]);
    std::swap(at[chosen + 1], at[farthest]);
    std::swap(nearest[chosen + 1], nearest[farthest]);
  }
  return members;
}

/// What a class's measurements stray by from the profile's expectation on a GPU that was not
/// measured.
double prior_sd_of(ExperimentClass experiment_class, const CostProfile& profile) {
  const auto uncertainty = [&](CostForm form) {
    return std::max(profile.error[static_cast<std::size_t>(form)].spec, 0.05);
  };
  switch (experiment_class) {
    case ExperimentClass::Gemm:
    case ExperimentClass::BatchedGemm:
      return uncertainty(CostForm::Gemm);
    case ExperimentClass::Convolution:
      return uncertainty(CostForm::Convolution);
    case ExperimentClass::BatchNorm:
    case ExperimentClass::LayerNorm:
    case ExperimentClass::Softmax:
    case ExperimentClass::Reduction:
      return uncertainty(CostForm::Reduction);
    case ExperimentClass::Recurrent:
      return uncertainty(CostForm::Recurrent);
    default:
      return uncertainty(CostForm::Streaming);
  }
}

}  // namespace

Scheduler::Scheduler(const Plan& plan, const GpuSpec& gpu, const CostProfile& profile)
    : plan_(plan), is_done_(plan.experiments.size(), false) {
  std::array<std::vector<std::size_t>, kExperimentClassCount> members;
  expected_.reserve(plan.experiments.size());
  for (std::size_t i = 0; i < plan.experiments.size(); ++i) {
    const Experiment& experiment = plan.experiments[i].experiment;
    expected_.push_back(expected_time(experiment, gpu, profile));
    members[static_cast<std::size_t>(class_of(experiment))].push_back(i);
  }
  for (std::size_t c = 0; c < kExperimentClassCount; ++c) {
    classes_[c].order = distribute(plan, std::move(members[c]));
    classes_[c].prior_sd = prior_sd_of(static_cast<ExperimentClass>(c), profile);
  }
}

std::optional<std::size_t> Scheduler::next_of(const ClassState& state) const {
  const auto at = std::find_if(state.order.begin(), state.order.end(),
                               [&](std::size_t i) { return !is_done_[i]; });
  return at != state.order.end() ? std::optional(*at) : std::nullopt;
}

double Scheduler::gain(const ClassState& state) {
  const std::vector<double>& r = state.residuals;
  const double n = static_cast<double>(r.size());
  const double mean = r.empty() ? 0 : std::accumulate(r.begin(), r.end(), 0.0) / n;
  double squares = kPriorWeight * state.prior_sd * state.prior_sd;
  for (const double value : r) squares += (value - mean) * (value - mean);
  const double variance = squares / (kPriorWeight + n);
  const double measured = static_cast<double>(state.measured);
  const double cost = state.measured > 0 ? std::max(state.spent_s / measured, 1e-3) : kFirstCost_s;
  return variance / ((measured + 1) * (measured + 2)) / cost;
}

std::optional<std::size_t> Scheduler::next() const {
  for (std::size_t i = 0; i < plan_.experiments.size(); ++i) {
    if (!is_done_[i] && goes_first(plan_.experiments[i])) return i;
  }
  std::optional<std::size_t> best;
  double best_gain = 0;
  for (const ClassState& state : classes_) {
    const auto candidate = next_of(state);
    if (!candidate) continue;
    const double value = gain(state);
    if (!best || value > best_gain) {
      best = candidate;
      best_gain = value;
    }
  }
  return best;
}

void Scheduler::record(std::size_t index, const TimedExperiment& measurement) {
  TRACECAST_CHECK(!is_done_.at(index), "an experiment is done once");
  is_done_[index] = true;
  ++num_done_;
  ClassState& state =
      classes_[static_cast<std::size_t>(class_of(plan_.experiments[index].experiment))];
  ++state.measured;
  state.spent_s += measurement.spent.in_s();
  if (measurement.outcome == TimedOutcome::Accepted && expected_[index] &&
      measurement.time > Seconds(0)) {
    state.residuals.push_back(std::log(measurement.time / *expected_[index]));
  }
}

}  // namespace tracecast::calibrate
