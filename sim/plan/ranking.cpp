#include "sim/plan/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tracecast::plan {

double key_of(Seconds time) {
  // As far as doubles hold whole numbers, hundreds of years.
  return std::round(time.in_s() * static_cast<double>(Time::kPerSecond));
}

void sort_by(const std::vector<double>& keys, std::vector<JobId>& jobs) {
  const auto less = [&](JobId a, JobId b) { return keys[a.index] < keys[b.index]; };
  std::size_t moves = 0;
  const std::size_t most = 16 * jobs.size() + 64;
  for (std::size_t i = 1; i < jobs.size(); ++i) {
    const JobId job = jobs[i];
    // A binary search for the place and one move of the rest: an arrival among thousands costs
    // little.
    if (!less(job, jobs[i - 1])) continue;
    const auto place =
        std::upper_bound(jobs.begin(), jobs.begin() + static_cast<std::ptrdiff_t>(i), job, less);
    moves += static_cast<std::size_t>(jobs.begin() + static_cast<std::ptrdiff_t>(i) - place);
    std::copy_backward(place, jobs.begin() + static_cast<std::ptrdiff_t>(i),
                       jobs.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    *place = job;
    if (moves > most) {
      std::stable_sort(jobs.begin(), jobs.end(), less);
      return;
    }
  }
}

}  // namespace tracecast::plan
