#include "sim/job/largest_batch.hpp"

#include <algorithm>

#include "sim/base/error.hpp"

namespace tracecast {

std::int64_t find_largest(std::int64_t start, std::int64_t most,
                          const std::function<bool(std::int64_t)>& fits) {
  std::int64_t good = 0, bad = most + 1;
  std::int64_t next = std::clamp<std::int64_t>(start, 1, most);
  while (bad - good > 1) {
    (fits(next) ? good : bad) = next;
    if (bad > most) {
      next = std::min(good * 2, most);
    } else if (good == 0) {
      next = bad / 2;
    } else {
      next = good + (bad - good) / 2;
    }
  }
  return good;
}

std::int64_t find_largest_batch(const ResolvedJob& job, const Hardware& hardware) {
  return find_largest(job.options.batch, kMostBatch, [&](std::int64_t batch) {
    PlacedJob options = job.options;
    options.batch = batch;
    try {
      return fits_in_memory(make_job(options, hardware), hardware);
    } catch (const InputError&) {
      return false;  // more elements than a tensor may have
    }
  });
}

MemoryAdvice advise_on_batch(const ResolvedJob& job, const Hardware& hardware) {
  return {.largest_batch = find_largest_batch(job, hardware), .recomputed = {}, .accumulated = {}};
}

MemoryAdvice advise_on_memory(const ResolvedJob& job, const Hardware& hardware) {
  MemoryAdvice advice = advise_on_batch(job, hardware);
  const PlacedJob& o = job.options;
  const bool has_backward = job.phase == Phase::Train || job.phase == Phase::ForwardBackward;
  if (has_backward && o.recompute != to_string(Recompute::Full)) {
    PlacedJob options = o;
    options.recompute = to_string(Recompute::Full);
    advice.recomputed = predict(make_job(options, hardware), hardware);
  }
  const std::int64_t largest = *advice.largest_batch;
  if (job.phase == Phase::Train && o.accumulate == 1 && largest > 0 && largest < o.batch) {
    const std::int64_t count = (o.batch + largest - 1) / largest;
    advice.accumulated = {.batch = (o.batch + count - 1) / count, .count = count};
  }
  return advice;
}

}  // namespace tracecast
