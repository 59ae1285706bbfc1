#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sim/job/predictor.hpp"

namespace tracecast {

/// A layer whose kernels do worse than at another size.
struct ChangedLayer {
  std::string name, kind, pass;
  std::string algorithm, other_algorithm;  ///< "-": there is no choice
  std::size_t kernels = 0, other_kernels = 0;
  Seconds time{}, other_time{};
};

/// A size near a job's own at which libraries run kernels that do better.
struct OtherSize {
  enum class What { Batch, Length };
  What what = What::Batch;  ///< samples of a pass on each GPU, or tokens of a sequence
  std::int64_t size = 0;
  double step_time_s = 0, samples_per_s = 0;
  std::vector<ChangedLayer> layers;  ///< by what is lost in them, greatest first; three at most
};

/// Steps do not grow evenly: libraries have other kernels for rows that are no multiple of eight,
/// for a tile more, or where no scratch is left. Reported are, as far as they fit into memory and
/// some layer's kernels are the cause,
///   the next power of two up to 8, then the next multiple of 8, of batch and length, and one more
///   of each: where the step takes less time; the round batch before, and half the batch: where at
///   least 1 / 0.85 times as many samples are computed a second.
/// Kernels are those of one GPU, layer by layer; of sharded transformers, whose layers are alike,
/// by class over the step. Predicts the job at up to six other sizes.
[[nodiscard]] std::vector<OtherSize> find_better_sizes(const Predictor& predictor, const Job& job,
                                                       const Place& place,
                                                       const Parallelism& parallelism,
                                                       const Forecast& forecast);

}  // namespace tracecast
