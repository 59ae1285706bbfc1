#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "sim/plan/progress.hpp"

namespace tracecast::plan {

/// Which GPU type a job takes among those where it fits.
enum class TypeChoice {
  First,    ///< in the fleet's order: blind to speed
  Fastest,  ///< where it runs fastest; equals in the fleet's order
};

/// GPUs that a policy grants a job.
struct Grant {
  TypeId type;
  int gpus = 1;
};

/// A policy that says which job comes first. Jobs are given GPUs in that order, as long as they
/// fit.
class Ranking {
 public:
  virtual ~Ranking() = default;

  /// A running job may lose its GPUs to one ahead of it. Otherwise it keeps them to its end.
  [[nodiscard]] virtual bool preempts() const { return true; }
  /// A job that does not fit holds up those behind it; otherwise it is passed over.
  [[nodiscard]] virtual bool blocks() const { return false; }
  [[nodiscard]] virtual TypeChoice type_choice() const { return TypeChoice::Fastest; }
  /// Free GPUs of a type that a job must not have although they are free.
  [[nodiscard]] virtual bool refuses(const Progress&, JobId, TypeId) const { return false; }

  /// Free GPUs of a type ask for a job (`choose`), instead of jobs for GPUs. Only without
  /// preemption.
  [[nodiscard]] virtual bool chooses_by_type() const { return false; }
  /// The place in `waiting` of the job that a free GPU of the type takes next; nothing: it stays
  /// idle.
  [[nodiscard]] virtual std::optional<std::size_t> choose(const Progress&,
                                                          const std::vector<JobId>& /*waiting*/,
                                                          TypeId) const {
    return std::nullopt;
  }

  /// It decides the number of GPUs of elastic gangs, too, and the type: `granted` speaks. Only with
  /// preemption.
  [[nodiscard]] virtual bool resizes() const { return false; }
  /// What order() granted a job, one of its sizes; nothing: it waits. All grants together are no
  /// more than the fleet has.
  [[nodiscard]] virtual std::optional<Grant> granted(JobId) const { return std::nullopt; }

  virtual void arrived(const Progress&, JobId) {}
  virtual void ended(const Progress&, JobId) {}
  /// Puts `jobs` in order, the first to be served first. They come as the call before left them,
  /// new ones behind, so that a stable sort keeps the order of equals. With preempts(): all that
  /// are not done, else those that wait.
  virtual void order(const Progress& progress, std::vector<JobId>& jobs) = 0;
  /// Who runs has been decided.
  virtual void decided(const Progress&) {}
  /// When the order changes by itself if nothing happens before.
  [[nodiscard]] virtual std::optional<Time> next_change(const Progress&) const {
    return std::nullopt;
  }
};

/// A time (or GPU time) as a key: in whole ticks of the job engine's clock, so that jobs whose
/// times are equal but for the rounding of floating point are equal.
[[nodiscard]] double key_of(Seconds time);

/// Sorts by `keys[job.index]`, least first. Jobs with equal keys keep the order in which they come,
/// which is that of their arrival, of one moment that of the file, until a key sets them apart.
/// Quick when little has moved since the last time.
void sort_by(const std::vector<double>& keys, std::vector<JobId>& jobs);

}  // namespace tracecast::plan
