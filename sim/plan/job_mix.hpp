#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/base/units.hpp"
#include "sim/engine/time.hpp"

namespace tracecast::plan {

/// The job engine's clock.
using Time = engine::Microseconds;

/// Index into JobMix::jobs, JobMix::kinds and Fleet::types.
using JobId = Id<struct JobTag>;
using KindId = Id<struct KindTag>;
using TypeId = Id<struct TypeTag>;

/// A number of GPUs that a gang may have.
struct GangSize {
  int gpus = 1;
  std::vector<double> rates;  ///< as JobKind::rates, in steps of as many samples
  Seconds start_cost{};       ///< as JobKind::start_cost
  std::vector<double> scattered_rates{};
};

/// What jobs that are alike have in common: the same program on the same number of GPUs.
struct JobKind {
  std::string model;  ///< empty where the file names none
  std::int64_t batch = 0;
  int gpus = 1;  ///< a gang: all of them at once
  /// Steps per second of the whole gang on each GPU type of the fleet; 0: cannot run there. Where a
  /// file states durations a step is a second of them.
  std::vector<double> rates;
  /// The same in more machines than the gang needs, as measured; 0: not known. Empty: nowhere
  /// known.
  std::vector<double> scattered_rates;
  Seconds start_cost{};  ///< of a start or restart, where the rules charge for it
  /// Of an elastic gang: every number of GPUs that it may have, rising, `gpus` among them; empty:
  /// `gpus` and no other.
  std::vector<GangSize> sizes;
  Seconds
      resize_cost{};  ///< least cost of the start after a change of size, whatever the rules charge

  [[nodiscard]] bool is_elastic() const { return !sizes.empty(); }
  /// The size of so many GPUs; null where the kind is not elastic. Needs one of its sizes.
  [[nodiscard]] const GangSize* size_of(int num_gpus) const {
    for (const GangSize& size : sizes) {
      if (size.gpus == num_gpus) return &size;
    }
    return nullptr;
  }
  /// Steps per second on so many GPUs, one of its sizes.
  [[nodiscard]] double rate(int num_gpus, TypeId type) const {
    const GangSize* size = size_of(num_gpus);
    return size == nullptr ? rates[type.index] : size->rates[type.index];
  }
  [[nodiscard]] double scattered_rate(int num_gpus, TypeId type) const {
    const GangSize* size = size_of(num_gpus);
    const std::vector<double>& known = size == nullptr ? scattered_rates : size->scattered_rates;
    return known.empty() ? 0 : known[type.index];
  }
};

/// How fast two kinds run that share the same GPUs.
struct SharedRate {
  KindId a, b;
  TypeId type;
  double rate_a = 0, rate_b = 0;  ///< steps per second of each while both run
};

/// A stretch of a job at one batch size. Jobs whose batch changes have several; their pace shows
/// only when it is theirs.
struct JobPhase {
  double steps = 0;   ///< > 0
  double epochs = 0;  ///< > 0
  /// How many of its own steps the job counts where QueuedJob::steps counts one. What a policy's
  /// solver is given is in those.
  double counted = 1;
};

/// One job of a cluster's trace.
struct QueuedJob {
  std::string name;  ///< as the file has it
  KindId kind;
  Time submit{};
  double steps = 0;  ///< > 0
  std::vector<JobPhase>
      phases;  ///< in turn; none: one pace throughout. Their steps are all of `steps`
  std::optional<Time> deadline;
  double weight = 1;  ///< priority in fair shares
};

/// A trace: jobs in the order of arrival.
struct JobMix {
  std::vector<JobKind> kinds;
  std::vector<QueuedJob> jobs;
  std::vector<SharedRate> shared;  ///< what is known of pairs, each unordered pair once per type

  [[nodiscard]] const JobKind& kind_of(JobId job) const {
    return kinds[jobs[job.index].kind.index];
  }
  /// As the file states it; an elastic gang may have other numbers (Progress::gpus_of).
  [[nodiscard]] int gpus_of(JobId job) const { return kind_of(job).gpus; }
  [[nodiscard]] bool has_elastic() const {
    return std::any_of(kinds.begin(), kinds.end(),
                       [](const JobKind& kind) { return kind.is_elastic(); });
  }
  /// The rate where the job runs fastest, with the GPUs that the file states.
  [[nodiscard]] double best_rate(JobId job) const {
    double best = 0;
    for (const double rate : kind_of(job).rates) best = rate > best ? rate : best;
    return best;
  }
};

}  // namespace tracecast::plan
