#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sim/plan/progress.hpp"

namespace tracecast::plan {

/// Two jobs that share their GPUs for a part of the time.
struct PairShare {
  std::uint32_t a = 0, b = 0;   ///< places in the list of jobs, a < b
  std::vector<double> of_type;  ///< fraction of the time on GPUs of each type
};

/// A job on another number of GPUs than its file states.
struct SizedShare {
  std::uint32_t job = 0;        ///< place in the list of jobs
  int gpus = 1;                 ///< a size of the job
  std::vector<double> of_type;  ///< fraction of the time on GPUs of each type
};

/// How a policy divides time: what fraction of it each job should have GPUs of each type.
struct Shares {
  std::size_t types = 0;
  std::vector<double> alone;  ///< jobs x types, job by job, in [0, 1]
  std::vector<SizedShare> sized;
  std::vector<PairShare> pairs;

  Shares(std::size_t jobs, std::size_t num_types) : types(num_types), alone(jobs * num_types) {}
  [[nodiscard]] double& at(std::size_t job, TypeId type) { return alone[job * types + type.index]; }
  [[nodiscard]] double at(std::size_t job, TypeId type) const {
    return alone[job * types + type.index];
  }
};

/// A policy that divides time. Rounds then see to it that everybody gets what it should
/// (round_run.hpp).
class Sharing {
 public:
  virtual ~Sharing() = default;
  /// The fleet's types are alike to it.
  [[nodiscard]] virtual bool is_blind() const { return false; }
  /// Who has no share does not run, even on GPUs that are free.
  [[nodiscard]] virtual bool idles() const { return false; }
  /// Its shares hold for one round, whatever the rules say of how often it is asked.
  [[nodiscard]] virtual bool is_asked_every_round() const { return false; }
  /// Fractions for `jobs`, all that are not done, in the order of arrival.
  [[nodiscard]] virtual Shares divide(const Progress& progress, std::span<const JobId> jobs) = 0;
};

}  // namespace tracecast::plan
