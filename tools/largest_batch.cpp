#include "tools/largest_batch.hpp"

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

std::int64_t find_largest_batch(const Job& job, const Sources& sources) {
  return find_largest(job.options.batch, kMostBatch, [&](std::int64_t batch) {
    JobOptions options = job.options;
    options.batch = batch;
    try {
      return plan_memory(make_job(options, sources), sources).fits;
    } catch (const InputError&) {
      return false;  // more elements than a tensor may have
    }
  });
}

}  // namespace tracecast
