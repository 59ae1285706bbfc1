#include <algorithm>
#include <cmath>
#include <cstdint>

#include "sim/base/error.hpp"
#include "sim/plan/policy/policies.hpp"

namespace tracecast::plan {
namespace {

/// Least attained service in discrete queues (Gu et al., "Tiresias", NSDI 2019, section 3.2): a job
/// falls one queue when its GPU seconds reach the queue's limit; higher queues first; within a
/// queue those that run before those that wait, each in the order in which they got there. A job
/// that crosses two limits falls one queue per decision.
class LeastAttainedService final : public Ranking {
 public:
  explicit LeastAttainedService(const std::vector<double>& limits_gpu_s)
      : limits_(limits_gpu_s), queues_(limits_gpu_s.size() + 1) {}

  void arrived(const Progress& progress, JobId job) override {
    queue_of_.resize(progress.mix().jobs.size());
    queue_of_[job.index] = 0;
    queues_[0].push_back(job);
    alive_.push_back(job);
  }
  void ended(const Progress&, JobId job) override {
    std::erase(queues_[queue_of_[job.index]], job);
    std::erase(alive_, job);
  }
  void order(const Progress& progress, std::vector<JobId>& jobs) override {
    for (const JobId job : alive_) demote(progress, job);
    jobs.clear();
    for (const std::vector<JobId>& queue : queues_)
      jobs.insert(jobs.end(), queue.begin(), queue.end());
  }
  void decided(const Progress& progress) override {
    for (std::vector<JobId>& queue : queues_) {
      std::stable_partition(queue.begin(), queue.end(),
                            [&](JobId job) { return progress.runs(job); });
    }
  }
  std::optional<Time> next_change(const Progress& progress) const override {
    std::optional<Time> next;
    for (const JobId job : alive_) {
      const std::size_t queue = queue_of_[job.index];
      if (queue == limits_.size() || !progress.runs(job)) continue;
      // Whole seconds of service, as Tiresias' public simulator has it.
      const Time falls(
          static_cast<std::int64_t>(std::ceil(limits_[queue] / progress.mix().gpus_of(job))) *
          Time::kPerSecond);
      const Time then = progress.now() + (falls - progress.served(job));
      // One that has crossed two limits falls at the next decision.
      if (then > progress.now() && (!next || then < *next)) next = then;
    }
    return next;
  }

 private:
  void demote(const Progress& progress, JobId job) {
    std::size_t& queue = queue_of_[job.index];
    if (queue == limits_.size() || !progress.runs(job)) return;
    const double gpu_s = progress.served(job).in_seconds().in_s() * progress.mix().gpus_of(job);
    if (gpu_s < limits_[queue]) return;
    std::erase(queues_[queue], job);
    queues_[++queue].push_back(job);
  }

  std::vector<double> limits_;
  std::vector<std::vector<JobId>> queues_;
  std::vector<std::size_t> queue_of_;
  std::vector<JobId> alive_;  ///< in the order of arrival
};

}  // namespace

std::unique_ptr<Ranking> make_las(const PolicyOptions& options) {
  return std::make_unique<LeastAttainedService>(options.queue_limits_gpu_s);
}

}  // namespace tracecast::plan
