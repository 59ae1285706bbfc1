#include "sim/cluster/transformer/sharded_run.hpp"

#include <algorithm>
#include <optional>

#include "sim/engine/task_graph.hpp"

namespace tracecast {
namespace {

using engine::Picoseconds;
using engine::TaskId;

class ShardedBuilder {
 public:
  ShardedBuilder(const ShardedProblem& problem, double stretch) : p_(problem), stretch_(stretch) {
    compute_ = graph_.add_resource(engine::Discipline::ProgramOrder);
    exchange_ = graph_.add_resource(engine::Discipline::ProgramOrder);
  }

  ShardedRun run() {
    for (std::int64_t m = 0; m < p_.micro_batches; ++m) {
      forward();
      backward();
    }
    const engine::Schedule schedule = graph_.run();
    return {.makespan = schedule.makespan.in_seconds(),
            .compute = schedule.busy[compute_.index].in_seconds(),
            .exchange = schedule.busy[exchange_.index].in_seconds()};
  }

 private:
  TaskId kernels(Seconds time) {
    const TaskId task = graph_.add_task(compute_, engine::to_ticks<Picoseconds>(time * stretch_));
    done_.push_back(task);
    return task;
  }
  /// Waits until the pass so many passes back has let go of its unit.
  TaskId gather(Seconds time, std::size_t passes_back) {
    const TaskId task = graph_.add_task(exchange_, engine::to_ticks<Picoseconds>(time));
    if (done_.size() >= passes_back) graph_.add_dependency(done_[done_.size() - passes_back], task);
    return task;
  }
  /// The gather of a unit stands before the pass that comes so many passes before its own.
  [[nodiscard]] std::size_t ahead() const { return static_cast<std::size_t>(p_.gathered_ahead); }

  void forward() {
    TaskId next = gather(p_.units.front().gather, 1);
    for (std::size_t i = 0; i < p_.units.size(); ++i) {
      const TaskId now = next;
      if (i + 1 < p_.units.size()) next = gather(p_.units[i + 1].gather, ahead());
      graph_.add_dependency(now, kernels(p_.units[i].forward));
    }
  }

  void backward() {
    // The last unit is still there from the forward pass, so that the one before it may come while that runs.
    std::optional<TaskId> next;
    bool is_first = true;
    for (std::size_t i = p_.units.size(); i-- > 0;) {
      const std::optional<TaskId> now = next;
      if (i > 0) {
        const Seconds time = p_.keeps_gathered ? Seconds() : p_.units[i - 1].gather;
        next = gather(time, ahead() + (is_first ? 1 : 0));
      }
      is_first = false;
      const TaskId done = kernels(p_.units[i].backward);
      if (now) graph_.add_dependency(*now, done);
      const TaskId scatter =
          graph_.add_task(exchange_, engine::to_ticks<Picoseconds>(p_.units[i].scatter));
      graph_.add_dependency(done, scatter);
    }
  }

  const ShardedProblem& p_;
  double stretch_;
  engine::TaskGraph graph_;
  engine::ResourceId compute_{}, exchange_{};
  std::vector<TaskId> done_;
};

}  // namespace

ShardedRun run_sharded(const ShardedProblem& problem) {
  ShardedRun run = ShardedBuilder(problem, 1).run();
  if (problem.slow_down <= 1 || !(run.makespan > Seconds())) return run;
  const double overlapped = std::min(1.0, run.exchange / run.makespan);
  return ShardedBuilder(problem, 1 + (problem.slow_down - 1) * overlapped).run();
}

}  // namespace tracecast
