#include "sim/parallel/transformer/pipeline.hpp"

#include <algorithm>

#include "sim/base/error.hpp"
#include "sim/parallel/multi_rank_run.hpp"

namespace tracecast {
namespace {

using Task = MultiRankProgram::Task;

struct StagePass {
  bool is_forward = true;
  std::int64_t chunk = 0, micro_batch = 0;
};

/// The k-th pass of a chunk in rounds of `stages` micro-batches.
StagePass interleaved_pass(const PipelineProblem& p, std::int64_t k, bool is_forward) {
  const std::int64_t round = static_cast<std::int64_t>(p.stages) * p.chunks;
  const std::int64_t chunk = (k % round) / p.stages;
  return {.is_forward = is_forward,
          .chunk = is_forward ? chunk : p.chunks - 1 - chunk,
          .micro_batch = k / round * p.stages + k % p.stages};
}

std::int64_t warm_up(const PipelineProblem& p, int stage, std::int64_t total) {
  const std::int64_t behind = p.stages - 1 - stage;
  switch (p.schedule) {
    case PipelineSchedule::GPipe:
      return total;
    case PipelineSchedule::OneForwardOneBackward:
      return std::min(total, behind);
    case PipelineSchedule::Interleaved:
      if (p.micro_batches == p.stages) return total;
      return std::min(total, 2 * behind + static_cast<std::int64_t>(p.chunks - 1) * p.stages);
  }
  return total;
}

/// Passes of one stage in order. Source: Megatron-LM, core/pipeline_parallel/schedules.py.
std::vector<StagePass> order_of(const PipelineProblem& p, int stage) {
  const std::int64_t total = p.micro_batches * p.chunks;
  const std::int64_t first = warm_up(p, stage, total);
  std::vector<StagePass> order;
  order.reserve(static_cast<std::size_t>(2 * total));
  std::int64_t forward = 0, backward = 0;
  while (forward < first) order.push_back(interleaved_pass(p, forward++, true));
  while (forward < total) {
    order.push_back(interleaved_pass(p, forward++, true));
    order.push_back(interleaved_pass(p, backward++, false));
  }
  while (backward < total) order.push_back(interleaved_pass(p, backward++, false));
  return order;
}

class PipelineBuilder {
 public:
  explicit PipelineBuilder(const PipelineProblem& problem)
      : p_(problem), parts_(static_cast<std::size_t>(p_.stages * p_.chunks)) {}

  PipelineRun run() {
    PipelineRun result;
    result.done.resize(static_cast<std::size_t>(p_.stages));
    result.busy.resize(static_cast<std::size_t>(p_.stages));
    for (int copy = 0; copy < p_.copies; ++copy) add_copy();
    const MultiRankRun run(program_);
    for (std::size_t i = 0; i < last_.size(); ++i) {
      Seconds& done = result.done[i % result.done.size()];
      done = max(done, run.end_of(last_[i]).in_seconds());
    }
    result.makespan = run.time();
    for (std::size_t s = 0; s < result.busy.size(); ++s) {
      result.busy[s] = run.busy_of(streams_[s]);
    }
    return result;
  }

 private:
  [[nodiscard]] std::size_t part(int stage, std::int64_t chunk) const {
    return static_cast<std::size_t>(stage * p_.chunks + chunk);
  }
  [[nodiscard]] std::size_t index(int stage, const StagePass& pass) const {
    return (part(stage, pass.chunk) * static_cast<std::size_t>(p_.micro_batches) +
            static_cast<std::size_t>(pass.micro_batch)) *
               2 +
           (pass.is_forward ? 0 : 1);
  }

  void add_copy() {
    std::vector<Task> tasks(parts_ * static_cast<std::size_t>(p_.micro_batches) * 2);
    for (int stage = 0; stage < p_.stages; ++stage) {
      streams_.push_back(program_.add_stream());
      const std::vector<StagePass> order = order_of(p_, stage);
      for (const StagePass& pass : order) {
        const Seconds time = (pass.is_forward ? p_.forward : p_.backward)[part(stage, pass.chunk)];
        tasks[index(stage, pass)] =
            program_.add({.action = Action::Kernel, .actor = static_cast<std::uint32_t>(stage)},
                         streams_.back(), time);
      }
      last_.push_back(tasks[index(stage, order.back())]);
    }
    const Seconds send = max(p_.send, Seconds());
    for (int stage = 0; stage < p_.stages; ++stage) {
      for (std::int64_t chunk = 0; chunk < p_.chunks; ++chunk) {
        for (std::int64_t m = 0; m < p_.micro_batches; ++m)
          connect(tasks, stage, {true, chunk, m}, send);
      }
    }
  }

  /// To what reads the result of a forward pass, and back along the same way.
  void connect(const std::vector<Task>& tasks, int stage, StagePass forward, Seconds send) {
    StagePass backward = forward, next = forward, next_backward = forward;
    backward.is_forward = next_backward.is_forward = false;
    const bool is_last_stage = stage + 1 == p_.stages;
    const int to = is_last_stage ? 0 : stage + 1;
    if (is_last_stage) {
      if (forward.chunk + 1 == p_.chunks) {
        program_.after(tasks[index(stage, forward)], tasks[index(stage, backward)]);
        return;
      }
      ++next.chunk;
      ++next_backward.chunk;
    }
    const Seconds lag = to == stage ? Seconds() : send;
    program_.after(tasks[index(stage, forward)], tasks[index(to, next)], lag);
    program_.after(tasks[index(to, next_backward)], tasks[index(stage, backward)], lag);
  }

  const PipelineProblem& p_;
  std::size_t parts_;
  MultiRankProgram program_;
  std::vector<MultiRankProgram::Lane> streams_;  ///< per copy and stage
  std::vector<Task> last_;                       ///< likewise
};

}  // namespace

PipelineRun run_pipeline(const PipelineProblem& problem) {
  TRACECAST_CHECK(problem.schedule != PipelineSchedule::Interleaved ||
                      problem.micro_batches % problem.stages == 0,
                  "interleaved schedules run whole rounds");
  return PipelineBuilder(problem).run();
}

std::int64_t most_in_flight(PipelineSchedule schedule, std::int64_t stages, std::int64_t chunks,
                            std::int64_t micro_batches) {
  switch (schedule) {
    case PipelineSchedule::GPipe:
      return micro_batches;
    case PipelineSchedule::OneForwardOneBackward:
      return std::min(micro_batches, stages);
    case PipelineSchedule::Interleaved:
      if (micro_batches == stages) return micro_batches * chunks;
      return std::min(micro_batches * chunks, 2 * (stages - 1) + (chunks - 1) * stages + 1);
  }
  return micro_batches;
}

}  // namespace tracecast
