#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/task_graph.hpp"
#include "sim/step/step_program.hpp"

namespace tracecast {

enum class TaskKind : std::uint8_t { Host, Kernel, Copy, Input };
inline constexpr std::size_t kTaskKindCount = 4;

/// Several steps in a row as tasks of the engine.
struct StepRun {
  engine::TaskGraph graph;
  std::vector<TaskKind> kinds;           ///< by task
  std::vector<std::uint32_t> resources;  ///< by task: index, or kNoResource
  std::vector<engine::TaskId> kernels;   ///< of all steps
  std::vector<engine::TaskId> launches;  ///< of the kernels: the host's work for each
  std::vector<engine::TaskId> begins;    ///< the host's overhead, by step
  std::vector<engine::TaskId>
      last_of_step;  ///< last kernel of each step, or its overhead when it has none

  static constexpr std::uint32_t kNoResource = UINT32_MAX;
  static constexpr std::uint32_t kHost = 0, kCopyEngine = 1,
                                 kStream = 2;  ///< resources; input has the others

  engine::TaskId add(TaskKind kind, engine::ResourceId resource, engine::Picoseconds duration) {
    kinds.push_back(kind);
    resources.push_back(resource.index);
    return graph.add_task(resource, duration);
  }
  /// A delay or, of zero duration, a join.
  engine::TaskId add(TaskKind kind, engine::Picoseconds duration) {
    kinds.push_back(kind);
    resources.push_back(kNoResource);
    return graph.add_task(duration);
  }
};

/// `num_steps` steps in a row, on a host thread, a copy engine and a stream.
[[nodiscard]] StepRun build_step_run(const StepProgram& program, int num_steps);

/// Writes down the stages of an input pipeline, step after step.
class InputTasks {
 public:
  InputTasks(const InputStages& stages, StepRun& run);

  /// Tasks after which the batch of the next step lies ready in host memory. Nothing when the
  /// dispatch thread prepares it.
  std::optional<engine::TaskId> add_ready();
  /// Work of the dispatch thread before the step; zero when workers do it.
  [[nodiscard]] engine::Picoseconds dispatch_work() const;
  /// What the copy of the step to the GPU waits for, the copy itself being the caller's. `begin`:
  /// the host's first task of the step.
  void release_copy(engine::TaskId copy, engine::TaskId begin);
  /// The task after which the batch can be used, given its copy (or `begin` without one).
  engine::TaskId add_decode(engine::TaskId copied);

 private:
  engine::TaskId add_worker_task(std::optional<engine::TaskId> after);

  const InputStages& stages_;
  StepRun& run_;
  std::vector<engine::ResourceId> workers_;
  std::optional<engine::ResourceId> disk_, pin_thread_, decoder_;
  engine::Picoseconds task_, read_, pin_, decode_;
  std::size_t next_task_ = 0, step_ = 0;
  std::optional<engine::TaskId> ready_;
  std::vector<engine::TaskId> taken_;  ///< by step: the batch has left host memory
};

}  // namespace tracecast
