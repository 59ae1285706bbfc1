#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "sim/job/resolved_job.hpp"

namespace tracecast {

/// The greatest batch in 1 to `most` for which `fits` holds, by doubling and bisection from
/// `start`; 0: none. Takes it that what does not fit at one batch fits at no larger one.
[[nodiscard]] std::int64_t find_largest(std::int64_t start, std::int64_t most,
                                        const std::function<bool(std::int64_t)>& fits);

/// The greatest batch at which the job fits into the device's memory; 0: not even one sample does.
/// The plan is made anew at every batch tried, with the algorithms that the library would choose
/// there: 5 to 25 ms.
[[nodiscard]] std::int64_t find_largest_batch(const ResolvedJob& job, const Hardware& hardware);

/// The greatest batch, at most `largest`, that fits with a probability of 95 %.
[[nodiscard]] std::int64_t find_sure_batch(const ResolvedJob& job, const Hardware& hardware,
                                           std::int64_t largest);

/// Batches of `batch` samples, `count` of them per update.
struct MicroBatches {
  std::int64_t batch = 0, count = 0;
};

/// What a person can do about memory.
struct MemoryAdvice {
  std::optional<std::int64_t> largest_batch;  ///< with 50 %; nothing: not asked for
  std::optional<std::int64_t> sure_batch;     ///< with 95 %
  bool is_hopeless = false;  ///< what no batch and no recomputation changes exceeds the device
  std::optional<Prediction> recomputed;  ///< the same job with full recomputation
  std::optional<MicroBatches>
      accumulated;  ///< about as many samples per update, each batch fitting
};
/// The largest batch alone.
[[nodiscard]] MemoryAdvice advise_on_batch(const ResolvedJob& job, const Hardware& hardware);
/// All advice for a job that does not fit, as far as the phase allows; `prediction` is that of the
/// job. Where weights, optimizer and context alone exceed the device, that is the advice: nothing
/// is searched or predicted again.
[[nodiscard]] MemoryAdvice advise_on_memory(const ResolvedJob& job, const Prediction& prediction,
                                            const Hardware& hardware);

}  // namespace tracecast
