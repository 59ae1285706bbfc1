#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/parallel/multi_rank_program.hpp"

namespace tracecast {

/// Of the engine's clock.
struct TickSpan {
  engine::Picoseconds start, end;
};
/// In the order of their starts, those that touch made one.
void merge(std::vector<TickSpan>& spans);

/// A program that has run, and one stretch of it: the last of its steps, or several of them.
class MultiRankRun {
 public:
  using Task = MultiRankProgram::Task;

  /// Runs every action as soon as what it waits for, its lane and the links allow. `steps`: the
  /// last so many are looked at; with no step before them everything from time zero on.
  explicit MultiRankRun(const MultiRankProgram& program, std::size_t steps = 1);

  [[nodiscard]] engine::Picoseconds begin() const { return begin_; }
  [[nodiscard]] engine::Picoseconds end() const { return end_; }
  [[nodiscard]] Seconds time() const { return (end_ - begin_).in_seconds(); }
  [[nodiscard]] const engine::Schedule& schedule() const { return schedule_; }
  [[nodiscard]] engine::Schedule take_schedule() && { return std::move(schedule_); }
  /// How long the lane's actions take together, of all steps.
  [[nodiscard]] Seconds busy_of(MultiRankProgram::Lane lane) const {
    return schedule_.busy[lane.index].in_seconds();
  }
  [[nodiscard]] engine::Picoseconds start_of(Task task) const {
    return schedule_.start[task.index];
  }
  /// All that it waits for is done, lags passed.
  [[nodiscard]] engine::Picoseconds ready_of(Task task) const {
    return schedule_.ready[task.index];
  }
  [[nodiscard]] engine::Picoseconds end_of(Task task) const { return schedule_.end[task.index]; }
  /// From the stretch's begin; what began before it counts from there.
  [[nodiscard]] Seconds since_begin(engine::Picoseconds at) const {
    return (std::max(at, begin_) - begin_).in_seconds();
  }

  /// When at least one action that `is_one(info)` runs, within the stretch.
  template <class IsOne>
  [[nodiscard]] std::vector<TickSpan> busy(IsOne is_one) const {
    std::vector<TickSpan> spans;
    const std::vector<ActionInfo>& actions = program_.actions();
    for (std::uint32_t t = 0; t < actions.size(); ++t) {
      if (!is_one(actions[t])) continue;
      if (schedule_.end[t] <= begin_ || schedule_.start[t] >= end_) continue;
      spans.push_back({std::max(schedule_.start[t], begin_), std::min(schedule_.end[t], end_)});
    }
    merge(spans);
    return spans;
  }

  /// Back along what released what, from the stretch's end to its begin: `visit(info, time)` of
  /// every action on the way, and of lags between them with the info of what waited (`is_lag`).
  template <class Visit>
  void walk_critical_path(Visit visit) const {
    const std::vector<ActionInfo>& actions = program_.actions();
    std::optional<Task> task = last_;
    engine::Picoseconds until = end_;
    while (task && until > begin_) {
      const ActionInfo& info = actions[task->index];
      const engine::Picoseconds from = std::max(schedule_.start[task->index], begin_);
      visit(info, until - from, false);
      until = from;
      const auto release = schedule_.find_release(*task);
      task = release ? std::optional(release->task) : std::nullopt;
      if (task && schedule_.end[task->index] < until) {
        const engine::Picoseconds lag_from = std::max(schedule_.end[task->index], begin_);
        visit(info, until - lag_from, true);
        until = lag_from;
      }
    }
  }

 private:
  const MultiRankProgram& program_;
  engine::Schedule schedule_;
  std::optional<Task> last_;  ///< action that ends the stretch
  engine::Picoseconds begin_{}, end_{};
};

/// How much of [start, end) lies in `spans`, which are merged.
[[nodiscard]] engine::Picoseconds overlap(const std::vector<TickSpan>& spans,
                                          engine::Picoseconds start, engine::Picoseconds end);

}  // namespace tracecast
