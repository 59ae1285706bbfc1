#pragma once
#include "hwspecs/software/job_spec.hpp"

namespace tracecast {

/// What a training program does to its weights, and how it uses several GPUs in one process.
struct TrainingHabits {
  bool decays_weights = false;       ///< weight decay, added to the gradients
  bool replicates_features = false;  ///< layers up to the last convolution or pool alone, else all
};
/// The habits that the spec's own file states (its `values`).
[[nodiscard]] TrainingHabits habits_of(const JobSpec& spec);

}  // namespace tracecast
