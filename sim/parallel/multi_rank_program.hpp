#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/engine/task_graph.hpp"
#include "sim/network/collective.hpp"
#include "sim/network/fabric.hpp"

namespace tracecast {

/// What a part of a program does.
enum class Action : std::uint8_t {
  Join,        ///< nothing: where others meet
  Op,          ///< a host thread thinks: an op's dispatch, the begin of a step
  Launch,      ///< a host thread issues a kernel
  Kernel,      ///< on a GPU
  Copy,        ///< by a copy engine, within one host
  Collective,  ///< by kernels of a collective, which keep SMs of all its GPUs busy
  Transfer,    ///< between hosts or GPUs, by nobody's SMs
  HostWork,    ///< additions and updates by a CPU
  Input,       ///< a batch is read, prepared, handed over
  Wait,        ///< a host thread waits for a GPU
};
inline constexpr std::size_t kActionCount = 10;

/// Of a task: whose it is and what of theirs; generators say what they mean by actor and index.
struct ActionInfo {
  Action action = Action::Join;
  std::uint8_t tag = 0;  ///< the generator's own
  std::uint16_t step = 0;
  std::uint32_t actor = 0;  ///< rank, kind of ranks, worker
  std::uint32_t index = 0;  ///< kernel, segment, bucket, variable
};

/// What the ranks of a job do in some steps, in lanes (host threads, streams, copy engines, pools
/// of threads) and over links: actions, what each waits for, and where steps end. Who writes one is
/// a generator (data_parallel_run, replicas, server_run, replay, transformer/pipeline,
/// transformer/sharded_run); MultiRankRun is the one runner of all of them.
class MultiRankProgram {
 public:
  using Task = engine::TaskId;
  using Lane = engine::ResourceId;

  void reserve(std::size_t num_tasks, std::size_t num_dependencies) {
    graph_.reserve(num_tasks, num_dependencies);
    info_.reserve(num_tasks);
  }
  /// A stream or a host thread: one at a time, in the order of the program.
  Lane add_stream() { return graph_.add_resource(engine::Discipline::ProgramOrder); }
  /// Takes what is ready first, so many at a time.
  Lane add_pool(std::uint32_t capacity = 1) {
    return graph_.add_resource(engine::Discipline::ReadyOrder, capacity);
  }

  Task add(const ActionInfo& info, Lane lane, Seconds duration) {
    info_.push_back(info);
    return graph_.add_task(lane, engine::to_ticks<engine::Picoseconds>(duration));
  }
  /// As recorded, to the tick.
  Task add(const ActionInfo& info, engine::Picoseconds duration) {
    info_.push_back(info);
    return graph_.add_task(duration);
  }
  /// A delay, or a join, on no lane.
  Task add(const ActionInfo& info, Seconds duration = {}) {
    info_.push_back(info);
    return graph_.add_task(engine::to_ticks<engine::Picoseconds>(duration));
  }
  /// Data over links as one fluid; `host` before it, on the same lane.
  Task add_transfer(const ActionInfo& info, std::optional<Lane> lane, const CollectivePlan& plan,
                    Seconds host = {});
  Task add_transfer(const ActionInfo& info, std::optional<Lane> lane,
                    std::span<const engine::LinkUse> uses, Bytes bytes, Seconds latency,
                    std::optional<BytesPerSecond> rate_cap = std::nullopt) {
    info_.push_back(info);
    return graph_.add_transfer(lane, uses, bytes, latency, rate_cap);
  }
  void after(Task before, Task task) { graph_.add_dependency(before, task); }
  void after(Task before, Task task, Seconds lag) {
    graph_.add_dependency(before, task, engine::to_ticks<engine::Picoseconds>(lag));
  }
  void after(Task before, Task task, engine::Picoseconds lag) {
    graph_.add_dependency(before, task, lag);
  }
  void end_step(Task task) { step_ends_.push_back(task); }

  /// The engine's link for one of a fabric; made at its first use, or here with a bandwidth of its
  /// own.
  engine::LinkId link(FabricLinkId id, BytesPerSecond bandwidth);
  /// Whose links plans name: their bandwidths are taken from here.
  void set_fabric(const Fabric& fabric) { fabric_ = &fabric; }

  [[nodiscard]] const engine::TaskGraph& graph() const { return graph_; }
  [[nodiscard]] const std::vector<ActionInfo>& actions() const { return info_; }  ///< by task
  [[nodiscard]] const std::vector<Task>& step_ends() const { return step_ends_; }

 private:
  static constexpr std::uint32_t kNoLink = UINT32_MAX;
  engine::TaskGraph graph_;
  std::vector<ActionInfo> info_;
  std::vector<Task> step_ends_;
  const Fabric* fabric_ = nullptr;
  std::vector<std::uint32_t> links_;  ///< by link of the fabric
  std::vector<engine::LinkUse> uses_;
};

}  // namespace tracecast
