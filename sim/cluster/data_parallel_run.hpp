#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "sim/cluster/data_parallel.hpp"
#include "sim/cluster/rank_program.hpp"
#include "sim/engine/task_graph.hpp"

namespace tracecast {

/// Simulated in a row; the last one counts.
inline constexpr int kSteps = 3;

/// What a task of the run is.
enum class Part : std::uint8_t { Compute, Exchange, Host, None };

struct TaskInfo {
  Part part = Part::None;
  std::uint32_t kind = 0;   ///< of rank
  std::uint32_t index = 0;  ///< segment or bucket
  int step = 0;
  bool on_sms = false;  ///< a collective's kernels run on the GPUs
};

/// A rank in the run, for itself and for those that do the same at the same times.
struct RankStream {
  std::uint32_t kind = 0;
  Seconds start{};  ///< when its first step begins
};

/// Several steps in a row as tasks of the engine.
class RunBuilder {
 public:
  RunBuilder(const DataParallelRequest& request, std::span<const RankStream> ranks,
             std::span<const RankProgram> programs, std::span<const BucketExchange> exchanges,
             std::span<const std::vector<Seconds>> extra)
      : request_(request), programs_(programs), exchanges_(exchanges), extra_(extra) {
    add_links();
    const auto slots = request.fabric.ranks_of(FabricNodeId{0});
    const bool served = request.strategy.exchange == Exchange::Served;
    const bool copies = served || request.strategy.exchange == Exchange::Copies ||
                        request.strategy.exchange == Exchange::Spread;
    for (std::size_t s = 0; s < kExchangeStreamCount; ++s) {
      // Each GPU that adds has copy engines of its own, each server its NIC; a communicator has one stream, and a
      // process that serves one thread for its messages and one for its updates.
      const auto stream = static_cast<ExchangeStream>(s);
      const bool on_gpus = stream == ExchangeStream::Collective || stream == ExchangeStream::Out;
      const std::uint32_t at_once = served && !on_gpus                  ? 1U
                                    : stream == ExchangeStream::Network ? request.fabric.num_nodes()
                                    : copies                            ? slots
                                                                        : 1U;
      streams_.push_back(
          graph_.add_resource(engine::Discipline::ReadyOrder, std::max(at_once, 1U)));
    }
    for (const RankStream& rank : ranks) add_rank(rank);
    for (int step = 0; step < kSteps; ++step) add_step(step);
  }

  engine::TaskGraph graph_;
  std::vector<TaskInfo> info_;
  std::vector<engine::TaskId> step_ends_;

 private:
  struct Stream {
    std::uint32_t kind = 0;
    engine::ResourceId compute{}, update{};
    std::optional<engine::TaskId> start;  ///< its first step waits for it
  };

  /// The links that exchanges take.
  void add_links() {
    for (const BucketExchange& exchange : exchanges_) {
      for (const auto* stages : {&exchange.fetch, &exchange.push}) {
        for (const ExchangeStage& stage : *stages) {
          for (const FabricUse& use : stage.transfer.uses) links_.push_back(use.link);
        }
      }
    }
    std::sort(links_.begin(), links_.end());
    links_.erase(std::unique(links_.begin(), links_.end()), links_.end());
    const FabricLinkId staging = staging_link(request_.fabric);
    for (const FabricLinkId link : links_) {
      graph_.add_link(link == staging ? rank_variation().staged_copies
                                      : request_.fabric.link(link).bandwidth);
    }
  }
  [[nodiscard]] engine::LinkId link_of(FabricLinkId link) const {
    const auto at = std::lower_bound(links_.begin(), links_.end(), link);
    return engine::LinkId{static_cast<std::uint32_t>(at - links_.begin())};
  }

  void add_rank(const RankStream& rank) {
    Stream stream{.kind = rank.kind,
                  .compute = graph_.add_resource(engine::Discipline::ProgramOrder),
                  .update = graph_.add_resource(engine::Discipline::ReadyOrder),
                  .start = {}};
    if (rank.start > Seconds(0)) {
      stream.start = note(graph_.add_task(engine::to_ticks<engine::Picoseconds>(rank.start)),
                          {.part = Part::None});
    }
    streams_of_ranks_.push_back(stream);
  }

  engine::TaskId note(engine::TaskId task, TaskInfo info) {
    info_.push_back(info);
    return task;
  }
  engine::TaskId join(int step) {
    return note(graph_.add_task(engine::Picoseconds()), {.part = Part::None, .step = step});
  }

  /// The stages of a bucket one after the other; nothing changes when there are none.
  std::optional<engine::TaskId> add_stages(std::span<const ExchangeStage> stages,
                                           std::uint32_t bucket,
                                           std::optional<engine::TaskId> after, Seconds delay,
                                           int step) {
    for (const ExchangeStage& stage : stages) {
      const engine::ResourceId stream = streams_[static_cast<std::size_t>(stage.stream)];
      engine::TaskId task{};
      if (stage.stream == ExchangeStream::Host) {
        task = note(graph_.add_task(stream, engine::to_ticks<engine::Picoseconds>(stage.host)),
                    {.part = Part::Host, .index = bucket, .step = step});
      } else {
        uses_.clear();
        for (const FabricUse& use : stage.transfer.uses) {
          uses_.push_back({link_of(use.link), use.weight});
        }
        task =
            note(graph_.add_transfer(stream, uses_, stage.transfer.bytes,
                                     stage.transfer.latency + stage.host, stage.transfer.rate_cap),
                 {.part = Part::Exchange, .index = bucket, .step = step, .on_sms = stage.on_sms});
      }
      if (after) graph_.add_dependency(*after, task, engine::to_ticks<engine::Picoseconds>(delay));
      delay = Seconds();
      after = task;
    }
    return after;
  }

  /// The fetches of all buckets, in the order in which layers need them: a graph's executor begins with the weights in
  /// the order of their making.
  std::vector<std::optional<engine::TaskId>> add_fetches(int step) {
    std::vector<std::optional<engine::TaskId>> fetched(exchanges_.size());
    std::vector<std::uint32_t> order = push_order();
    const std::vector<std::uint32_t>& uses = programs_[0].first_segment;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return uses[a] < uses[b]; });
    for (const std::uint32_t b : order) {
      fetched[b] = add_stages(exchanges_[b].fetch, b, barrier_, Seconds(), step);
    }
    return fetched;
  }

  void add_step(int step) {
    const auto fetched = add_fetches(step);
    std::vector<engine::TaskId> ready;  // joins over ranks, by bucket
    for (std::size_t b = 0; b < exchanges_.size(); ++b) ready.push_back(join(step));
    std::vector<engine::TaskId> last_segments;
    for (const Stream& stream : streams_of_ranks_) {
      last_segments.push_back(add_segments(stream, fetched, ready, step));
    }
    std::vector<std::optional<engine::TaskId>> pushed(exchanges_.size());
    const std::vector<std::uint32_t> order = push_order();
    std::optional<engine::TaskId> backward_end;
    if (!request_.strategy.overlaps_backward) {
      backward_end = join(step);
      for (const engine::TaskId task : last_segments) graph_.add_dependency(task, *backward_end);
    }
    for (const std::uint32_t b : order) {
      const std::optional<engine::TaskId> from = backward_end ? backward_end : ready[b];
      pushed[b] = add_stages(exchanges_[b].push, b, from, programs_[0].delay[b], step);
    }
    const engine::TaskId end = join(step);
    updated_.assign(exchanges_.size(), end);
    for (const engine::TaskId task : last_segments) graph_.add_dependency(task, end);
    for (const auto& task : pushed) {
      if (task) graph_.add_dependency(*task, end);
    }
    for (const Stream& stream : streams_of_ranks_) add_updates(stream, pushed, order, end, step);
    step_ends_.push_back(end);
    barrier_ = end;
    if (request_.strategy.overlaps_next_forward) {
      barrier_.reset();
      step_ends_.back() = last_segments.front();
    }
  }

  engine::TaskId add_segments(const Stream& stream,
                              std::span<const std::optional<engine::TaskId>> fetched,
                              std::span<const engine::TaskId> ready, int step) {
    const RankProgram& program = programs_[stream.kind];
    const std::vector<engine::TaskId> before = updated_;
    engine::TaskId last{};
    for (std::uint32_t s = 0; s < program.segments.size(); ++s) {
      const Seconds duration = program.segments[s] + extra_[stream.kind][s];
      last = note(graph_.add_task(stream.compute, engine::to_ticks<engine::Picoseconds>(duration)),
                  {.part = Part::Compute, .kind = stream.kind, .index = s, .step = step});
      if (s == 0 && barrier_) graph_.add_dependency(*barrier_, last);
      if (s == 0 && step == 0 && stream.start) graph_.add_dependency(*stream.start, last);
      for (const std::uint32_t b : program.needs[s]) {
        if (fetched[b]) graph_.add_dependency(*fetched[b], last);
        if (!barrier_ && !before.empty()) graph_.add_dependency(before[b], last);
      }
      for (const std::uint32_t b : program.completes[s]) graph_.add_dependency(last, ready[b]);
    }
    return last;
  }

  void add_updates(const Stream& stream, std::span<const std::optional<engine::TaskId>> pushed,
                   std::span<const std::uint32_t> order, engine::TaskId end, int step) {
    const RankProgram& program = programs_[stream.kind];
    const auto index = static_cast<std::uint32_t>(program.segments.size());
    const auto add = [&](Seconds duration) {
      const engine::ResourceId resource =
          request_.strategy.overlaps_next_forward ? stream.update : stream.compute;
      const engine::TaskId task =
          note(graph_.add_task(resource, engine::to_ticks<engine::Picoseconds>(duration)),
               {.part = Part::Compute, .kind = stream.kind, .index = index, .step = step});
      graph_.add_dependency(task, end);
      return task;
    };
    if (request_.strategy.updates_as_they_come) {
      for (const std::uint32_t b : order) {
        const engine::TaskId task = add(program.updates[b]);
        if (pushed[b]) graph_.add_dependency(*pushed[b], task);
        if (request_.strategy.overlaps_next_forward) updated_[b] = task;
      }
    }
    Seconds rest = program.other_updates;
    if (!request_.strategy.updates_as_they_come) {
      for (const Seconds update : program.updates) rest += update;
    }
    if (!(rest > Seconds(0))) return;
    const engine::TaskId task = add(rest);
    for (const auto& push : pushed) {
      if (push) graph_.add_dependency(*push, task);
    }
  }

  /// Of readiness on the first kind of rank.
  [[nodiscard]] std::vector<std::uint32_t> push_order() const {
    std::vector<std::uint32_t> order(exchanges_.size());
    std::iota(order.begin(), order.end(), 0U);
    return order;
  }

  const DataParallelRequest& request_;
  std::span<const RankProgram> programs_;
  std::span<const BucketExchange> exchanges_;
  std::span<const std::vector<Seconds>> extra_;
  std::vector<FabricLinkId> links_;  ///< by link of the engine
  std::vector<engine::ResourceId> streams_;
  std::vector<Stream> streams_of_ranks_;
  std::vector<engine::LinkUse> uses_;
  std::optional<engine::TaskId> barrier_;
  std::vector<engine::TaskId> updated_;  ///< by bucket, of the step before
};

/// Of the engine's clock.
struct Span {
  engine::Picoseconds start, end;
};

/// The tasks of the last step, read from a schedule.
class LastStep {
 public:
  LastStep(const RunBuilder& run, const engine::Schedule& schedule)
      : run_(run), schedule_(schedule) {
    begin_ = schedule.end[run.step_ends_[kSteps - 2].index];
    end_ = schedule.end[run.step_ends_[kSteps - 1].index];
  }
  [[nodiscard]] Seconds step_time() const { return (end_ - begin_).in_seconds(); }

  /// In the order of their starts, not overlapping: when collectives occupy SMs, or anything is exchanged.
  [[nodiscard]] std::vector<Span> exchange(bool on_sms_only) const {
    std::vector<Span> spans;
    for (std::uint32_t t = 0; t < run_.info_.size(); ++t) {
      const TaskInfo& info = run_.info_[t];
      if (info.part != Part::Exchange || (on_sms_only && !info.on_sms)) continue;
      if (schedule_.end[t] <= begin_ || schedule_.start[t] >= end_) continue;
      spans.push_back({std::max(schedule_.start[t], begin_), std::min(schedule_.end[t], end_)});
    }
    std::sort(spans.begin(), spans.end(),
              [](const Span& a, const Span& b) { return a.start < b.start; });
    std::vector<Span> merged;
    for (const Span& span : spans) {
      if (!merged.empty() && span.start <= merged.back().end) {
        merged.back().end = std::max(merged.back().end, span.end);
      } else {
        merged.push_back(span);
      }
    }
    return merged;
  }

  /// For each segment of each kind: how long collectives ran meanwhile.
  [[nodiscard]] std::vector<std::vector<Seconds>> overlaps(
      std::span<const RankProgram> programs) const {
    const std::vector<Span> busy = exchange(true);
    std::vector<std::vector<Seconds>> overlap(programs.size());
    for (std::size_t k = 0; k < programs.size(); ++k)
      overlap[k].resize(programs[k].segments.size());
    for (std::uint32_t t = 0; t < run_.info_.size(); ++t) {
      const TaskInfo& info = run_.info_[t];
      if (info.part != Part::Compute || info.step != kSteps - 1) continue;
      if (info.index >= overlap[info.kind].size()) continue;
      Seconds sum{};
      auto at = std::lower_bound(
          busy.begin(), busy.end(), schedule_.start[t],
          [](const Span& span, engine::Picoseconds start) { return span.end <= start; });
      for (; at != busy.end() && at->start < schedule_.end[t]; ++at) {
        sum += (std::min(at->end, schedule_.end[t]) - std::max(at->start, schedule_.start[t]))
                   .in_seconds();
      }
      overlap[info.kind][info.index] = sum;
    }
    return overlap;
  }

  /// Back along what released what, until the step's begin.
  [[nodiscard]] StepParts critical_path() const {
    engine::Picoseconds on_path[4] = {};
    std::optional<engine::TaskId> task = run_.step_ends_[kSteps - 1];
    engine::Picoseconds until = end_;
    while (task && until > begin_) {
      const engine::Picoseconds from = std::max(schedule_.start[task->index], begin_);
      const Part part = run_.info_[task->index].part;
      on_path[static_cast<std::size_t>(part)] += until - from;
      until = from;
      const auto release = schedule_.find_release(*task);
      task = release ? std::optional(release->task) : std::nullopt;
      // A lag between two tasks: gradients that wait to be looked at.
      if (task && schedule_.end[task->index] < until) {
        const engine::Picoseconds lag_from = std::max(schedule_.end[task->index], begin_);
        on_path[static_cast<std::size_t>(Part::Exchange)] += until - lag_from;
        until = lag_from;
      }
    }
    return {.compute = on_path[static_cast<std::size_t>(Part::Compute)].in_seconds(),
            .communication = on_path[static_cast<std::size_t>(Part::Exchange)].in_seconds(),
            .host_update = on_path[static_cast<std::size_t>(Part::Host)].in_seconds()};
  }

  [[nodiscard]] std::vector<RankSpan> timeline() const {
    std::vector<RankSpan> spans;
    for (std::uint32_t t = 0; t < run_.info_.size(); ++t) {
      const TaskInfo& info = run_.info_[t];
      if (info.step != kSteps - 1 || info.part == Part::None) continue;
      const bool is_rank = info.part == Part::Compute;
      spans.push_back({.kind = is_rank ? std::optional(info.kind) : std::nullopt,
                       .index = info.index,
                       .on_gpus = info.on_sms,
                       .start = since_begin(schedule_.start[t]),
                       .end = since_begin(schedule_.end[t])});
    }
    std::stable_sort(spans.begin(), spans.end(),
                     [](const RankSpan& a, const RankSpan& b) { return a.start < b.start; });
    return spans;
  }

 private:
  [[nodiscard]] Seconds since_begin(engine::Picoseconds at) const {
    return (std::max(at, begin_) - begin_).in_seconds();
  }
  const RunBuilder& run_;
  const engine::Schedule& schedule_;
  engine::Picoseconds begin_, end_;
};

}  // namespace tracecast
