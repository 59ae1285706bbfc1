#include "sim/parallel/transformer/sharded_run.hpp"

#include <algorithm>
#include <optional>

#include "sim/parallel/multi_rank_run.hpp"

namespace tracecast {
namespace {

using Task = MultiRankProgram::Task;

class ShardedBuilder {
 public:
  ShardedBuilder(const ShardedProblem& problem, double slice) : p_(problem), slice_(slice) {
    compute_ = program_.add_stream();
    communication_ = program_.add_stream();
  }

  ShardedRun run() {
    for (std::int64_t m = 0; m < p_.micro_batches; ++m) {
      forward();
      backward();
    }
    const MultiRankRun run(program_);
    return {.makespan = run.time(),
            .compute = run.busy_of(compute_),
            .communication = run.busy_of(communication_)};
  }

 private:
  Task kernels(Seconds time) {
    const Task task = program_.add({.action = Action::Kernel}, compute_, time * slice_);
    done_.push_back(task);
    return task;
  }
  /// Waits until the pass so many passes back has let go of its unit.
  Task gather(Seconds time, std::size_t passes_back) {
    const Task task = program_.add({.action = Action::Collective}, communication_, time);
    if (done_.size() >= passes_back) program_.after(done_[done_.size() - passes_back], task);
    return task;
  }
  /// The gather of a unit stands before the pass that comes so many passes before its own.
  [[nodiscard]] std::size_t ahead() const { return static_cast<std::size_t>(p_.gathered_ahead); }

  void forward() {
    Task next = gather(p_.units.front().gather, 1);
    for (std::size_t i = 0; i < p_.units.size(); ++i) {
      const Task now = next;
      if (i + 1 < p_.units.size()) next = gather(p_.units[i + 1].gather, ahead());
      program_.after(now, kernels(p_.units[i].forward));
    }
  }

  void backward() {
    // The last unit is still there from the forward pass, so that the one before it may come while
    // that runs.
    std::optional<Task> next;
    bool is_first = true;
    for (std::size_t i = p_.units.size(); i-- > 0;) {
      const std::optional<Task> now = next;
      if (i > 0) {
        const Seconds time = p_.keeps_gathered ? Seconds() : p_.units[i - 1].gather;
        next = gather(time, ahead() + (is_first ? 1 : 0));
      }
      is_first = false;
      const Task done = kernels(p_.units[i].backward);
      if (now) program_.after(*now, done);
      const Task scatter =
          program_.add({.action = Action::Collective}, communication_, p_.units[i].scatter);
      program_.after(done, scatter);
    }
  }

  const ShardedProblem& p_;
  double slice_;
  MultiRankProgram program_;
  MultiRankProgram::Lane compute_{}, communication_{};
  std::vector<Task> done_;
};

}  // namespace

ShardedRun run_sharded(const ShardedProblem& problem) {
  ShardedRun run = ShardedBuilder(problem, 1).run();
  if (problem.slow_down <= 1 || !(run.makespan > Seconds())) return run;
  const double overlapped = std::min(1.0, run.communication / run.makespan);
  return ShardedBuilder(problem, 1 + (problem.slow_down - 1) * overlapped).run();
}

}  // namespace tracecast
