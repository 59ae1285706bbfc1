#pragma once
#include <optional>
#include <vector>

#include "sim/plan/ranking.hpp"

namespace tracecast::plan {

/// A policy that gives elastic gangs GPUs in two passes. First every job, in an order of the
/// policy's, has its least size on the type where that is fastest and free; who does not fit waits.
/// Then, one after the other, the job that the policy wants most to grow has its next size that is
/// faster, as long as its type has the GPUs free. It keeps its type. A gang that is not elastic has
/// one size.
class Resizing : public Ranking {
 public:
  bool resizes() const final { return true; }
  std::optional<Grant> granted(JobId job) const final { return grants_[job.index]; }
  void order(const Progress& progress, std::vector<JobId>& jobs) final;

 protected:
  /// Puts jobs in the order of the first pass. They come in the order of their arrival.
  virtual void first_pass(const Progress& progress, std::vector<JobId>& jobs) const = 0;
  /// How much a job that holds a grant should have `more` GPUs instead; nothing: never. The largest
  /// grows first, of equals the first to come.
  [[nodiscard]] virtual std::optional<double> urgency(const Progress& progress, JobId job,
                                                      const Grant& grant, int more) const = 0;

 private:
  [[nodiscard]] static std::optional<Grant> least(const Progress& progress, JobId job,
                                                  const std::vector<int>& free);
  [[nodiscard]] static std::optional<int> next_size(const Progress& progress, JobId job,
                                                    const Grant& grant);
  void grow(const Progress& progress, const std::vector<JobId>& jobs, std::vector<int>& free);

  std::vector<std::optional<Grant>> grants_;  ///< by job
};

}  // namespace tracecast::plan
