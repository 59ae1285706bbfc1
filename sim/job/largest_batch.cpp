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

namespace {

std::int64_t find_largest_batch(const ResolvedJob& job, const Hardware& hardware,
                                std::int64_t start, std::int64_t most,
                                double least_probability = kLikelyFits) {
  return find_largest(start, most, [&](std::int64_t batch) {
    PlacedJob options = job.options;
    options.batch = batch;
    try {
      const ResolvedJob tried = make_job(options, hardware);
      if (least_probability <= kLikelyFits) return fits_in_memory(tried, hardware);
      return plan_memory(tried, hardware).fit().probability >= least_probability;
    } catch (const InputError&) {
      return false;  // more elements than a tensor may have
    }
  });
}

}  // namespace

std::int64_t find_largest_batch(const ResolvedJob& job, const Hardware& hardware) {
  return find_largest_batch(job, hardware, job.options.batch, kMostBatch);
}

std::int64_t find_sure_batch(const ResolvedJob& job, const Hardware& hardware,
                             std::int64_t largest) {
  if (largest == 0) return 0;
  const double share = share_to_plan_with(kSurelyFits, job.framework.memory.log_sd);
  const auto start = static_cast<std::int64_t>(static_cast<double>(largest) * share);
  // The least device is known to 0.5 %, an eighth of the spread of 4 %.
  constexpr double kMargin = 0.0125;
  return find_largest_batch(job, hardware, std::max<std::int64_t>(start, 1), largest,
                            kSurelyFits + kMargin);
}

MemoryAdvice advise_on_batch(const ResolvedJob& job, const Hardware& hardware) {
  MemoryAdvice advice;
  advice.largest_batch = find_largest_batch(job, hardware);
  advice.sure_batch = find_sure_batch(job, hardware, *advice.largest_batch);
  return advice;
}

MemoryAdvice advise_on_memory(const ResolvedJob& job, const Prediction& prediction,
                              const Hardware& hardware) {
  MemoryAdvice advice;
  const MemoryByClass& held = prediction.memory.by_class;
  if (held.weights + held.optimizer + held.context > prediction.memory.capacity) {
    advice.largest_batch = 0;
    advice.is_hopeless = true;
    return advice;
  }
  const PlacedJob& o = job.options;
  // The batch asked for does not fit: only smaller ones are tried.
  advice.largest_batch =
      o.batch > 1 ? find_largest_batch(job, hardware, o.batch / 2, o.batch - 1) : 0;
  advice.sure_batch = find_sure_batch(job, hardware, *advice.largest_batch);
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
