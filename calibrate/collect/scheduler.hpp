#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "calibrate/collect/measure.hpp"
#include "calibrate/collect/plan.hpp"
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"

namespace tracecast::calibrate {

/// Decides which experiment of a plan comes next, so that a calibration cut short has spent its
/// time where the fit is least certain.
///   1. Sustained experiments and launches first, in plan order: every other figure leans on them.
///   2. Then the class c for which one more measurement takes the most variance off the class's
///   mean error, per second:
///        gain = s^2 / ((n + 1) (n + 2)) / cost
///      n = measured so far; s^2 = (k s0^2 + sum (r - mean r)^2) / (k + n) with r = ln(measured /
///      expected under the profile so far), s0 = what the profile says of its error on a GPU that
///      was not measured, k = 3 measurements' worth of it; cost = mean device time of the class's
///      experiments so far, 0.2 s before the first.
///   3. Within a class, the experiment farthest from all before it (coordinates_of), the first of
///   the plan first.
/// What comes next depends on the set of what is done alone, so a resumed calibration goes on as it
/// would have.
class Scheduler {
 public:
  /// `plan` must outlive the scheduler.
  Scheduler(const Plan& plan, const GpuSpec& gpu, const CostProfile& profile);

  /// Index in the plan; nothing when all is done.
  [[nodiscard]] std::optional<std::size_t> next() const;
  /// Each index at most once.
  void record(std::size_t index, const TimedExperiment& measurement);
  [[nodiscard]] std::size_t done() const { return num_done_; }

 private:
  struct ClassState {
    std::vector<std::size_t> order;  ///< of the plan's experiments, farthest first
    std::vector<double> residuals;
    double prior_sd = 0.3;
    double spent_s = 0;
    std::size_t measured = 0;
  };
  [[nodiscard]] std::optional<std::size_t> next_of(const ClassState& state) const;
  [[nodiscard]] static double gain(const ClassState& state);

  const Plan& plan_;
  std::vector<std::optional<Seconds>> expected_;
  std::vector<bool> is_done_;
  std::size_t num_done_ = 0;
  std::array<ClassState, kExperimentClassCount> classes_;
};

}  // namespace tracecast::calibrate
