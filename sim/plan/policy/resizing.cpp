#include "sim/plan/policy/resizing.hpp"

#include <algorithm>
#include <queue>

namespace tracecast::plan {

void Resizing::order(const Progress& progress, std::vector<JobId>& jobs) {
  grants_.assign(progress.mix().jobs.size(), std::nullopt);
  std::sort(jobs.begin(), jobs.end());
  std::vector<JobId> turn = jobs;
  first_pass(progress, turn);
  std::vector<int> free;
  for (const GpuType& type : progress.fleet().types) free.push_back(type.gpus);
  for (const JobId job : turn) {
    grants_[job.index] = least(progress, job, free);
    if (const auto& grant = grants_[job.index]) free[grant->type.index] -= grant->gpus;
  }
  grow(progress, jobs, free);
  // Large gangs are placed first: small ones fit what is left.
  std::stable_sort(jobs.begin(), jobs.end(), [&](JobId a, JobId b) {
    const auto &one = grants_[a.index], &two = grants_[b.index];
    return (one ? one->gpus : 0) > (two ? two->gpus : 0);
  });
}

std::optional<Grant> Resizing::least(const Progress& progress, JobId job,
                                     const std::vector<int>& free) {
  const JobKind& kind = progress.mix().kind_of(job);
  std::optional<Grant> best;
  double fastest = 0;
  const auto consider = [&](int gpus) {
    for (std::uint32_t t = 0; t < free.size(); ++t) {
      const double rate = progress.rate(job, {t}, gpus);
      if (free[t] < gpus || rate <= fastest) continue;
      fastest = rate;
      best = Grant{{t}, gpus};
    }
  };
  if (!kind.is_elastic()) consider(kind.gpus);
  for (std::size_t s = 0; s < kind.sizes.size() && !best; ++s) consider(kind.sizes[s].gpus);
  return best;
}

std::optional<int> Resizing::next_size(const Progress& progress, JobId job, const Grant& grant) {
  const double now = progress.rate(job, grant.type, grant.gpus);
  for (const GangSize& size : progress.mix().kind_of(job).sizes) {
    if (size.gpus > grant.gpus && progress.rate(job, grant.type, size.gpus) > now) return size.gpus;
  }
  return std::nullopt;
}

void Resizing::grow(const Progress& progress, const std::vector<JobId>& jobs,
                    std::vector<int>& free) {
  struct Wish {
    double urgency;
    JobId job;
    int gpus;
    bool operator<(const Wish& other) const {
      return urgency != other.urgency ? urgency < other.urgency : job > other.job;
    }
  };
  std::priority_queue<Wish> wishes;
  const auto wish = [&](JobId job) {
    const Grant& grant = *grants_[job.index];
    const std::optional<int> more = next_size(progress, job, grant);
    if (!more) return;
    if (const auto urgency = this->urgency(progress, job, grant, *more))
      wishes.push({*urgency, job, *more});
  };
  for (const JobId job : jobs) {
    if (grants_[job.index]) wish(job);
  }
  while (!wishes.empty()) {
    const Wish next = wishes.top();
    wishes.pop();
    Grant& grant = *grants_[next.job.index];
    const int more = next.gpus - grant.gpus;
    if (free[grant.type.index] < more) continue;  // and never again: free GPUs only get fewer
    free[grant.type.index] -= more;
    grant.gpus = next.gpus;
    wish(next.job);
  }
}

}  // namespace tracecast::plan
