#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/parallel/data_parallel.hpp"
#include "sim/parallel/multi_rank_run.hpp"
#include "sim/parallel/rank_program.hpp"

namespace tracecast {

/// Simulated in a row; the last one counts.
inline constexpr int kSteps = 3;

/// A rank in the run, for itself and for those that do the same at the same times.
struct RankStream {
  std::uint32_t kind = 0;
  Seconds start{};  ///< when its first step begins
};

/// Several steps in a row as a program. Kernels: the actor is the kind of rank, the index a
/// segment; all else has the index of its bucket.
class RunBuilder {
 public:
  RunBuilder(const DataParallelRequest& request, std::span<const RankStream> ranks,
             std::span<const RankProgram> programs,
             std::span<const BucketCommunication> communications,
             std::span<const CommunicationStage> crossings,
             std::span<const std::vector<Seconds>> extra)
      : request_(request),
        programs_(programs),
        communications_(communications),
        crossings_(crossings),
        extra_(extra) {
    program_.set_fabric(request.fabric);
    program_.link(staging_link(request.fabric),
                  request.fabric.specs().rank_variation().staged_copies);
    const auto slots = request.fabric.ranks_of(FabricNodeId{0});
    const bool served = request.strategy.communication == Communication::Served;
    const bool copies = served || request.strategy.communication == Communication::Copies ||
                        request.strategy.communication == Communication::Scattered;
    for (std::size_t s = 0; s < kCommunicationStreamCount; ++s) {
      // Each GPU that adds has copy engines of its own, each server its NIC; a communicator has one
      // stream, and a process that serves one thread for its messages and one for its updates.
      const auto stream = static_cast<CommunicationStream>(s);
      const bool on_gpus =
          stream == CommunicationStream::Collective || stream == CommunicationStream::Out;
      const std::uint32_t at_once = served && !on_gpus ? 1U
                                    : stream == CommunicationStream::Network
                                        ? request.fabric.num_nodes()
                                    : copies ? slots
                                             : 1U;
      streams_.push_back(program_.add_pool(std::max(at_once, 1U)));
    }
    for (const RankStream& rank : ranks) add_rank(rank);
    for (int step = 0; step < kSteps; ++step) add_step(step);
  }

  [[nodiscard]] const MultiRankProgram& program() const { return program_; }

 private:
  using Task = MultiRankProgram::Task;
  struct Stream {
    std::uint32_t kind = 0;
    MultiRankProgram::Lane compute{}, update{};
    std::optional<Task> start;  ///< its first step waits for it
    std::vector<Task> updated;  ///< by bucket, of the step before
  };

  void add_rank(const RankStream& rank) {
    Stream stream{.kind = rank.kind,
                  .compute = program_.add_stream(),
                  .update = program_.add_pool(),
                  .start = {},
                  .updated = {}};
    if (rank.start > Seconds(0)) stream.start = program_.add({}, rank.start);
    streams_of_ranks_.push_back(stream);
  }
  Task join() { return program_.add({}); }
  [[nodiscard]] static ActionInfo info(Action action, int step, std::uint32_t index,
                                       std::uint32_t kind = 0) {
    return {
        .action = action, .step = static_cast<std::uint16_t>(step), .actor = kind, .index = index};
  }

  /// The stages of a bucket one after the other; nothing changes when there are none.
  std::optional<Task> add_stages(std::span<const CommunicationStage> stages, std::uint32_t bucket,
                                 std::optional<Task> after, Seconds delay, int step) {
    for (const CommunicationStage& stage : stages) {
      const MultiRankProgram::Lane stream = streams_[static_cast<std::size_t>(stage.stream)];
      Task task{};
      if (stage.stream == CommunicationStream::Host) {
        task = program_.add(info(Action::HostWork, step, bucket), stream, stage.host);
      } else {
        const Action action = stage.on_sms ? Action::Collective : Action::Transfer;
        task =
            program_.add_transfer(info(action, step, bucket), stream, stage.transfer, stage.host);
      }
      if (after) program_.after(*after, task, delay);
      delay = Seconds();
      after = task;
    }
    return after;
  }

  /// The fetches of all buckets, in the order in which layers need them: a graph's executor begins
  /// with the weights in the order of their making.
  std::vector<std::optional<Task>> add_fetches(int step) {
    std::vector<std::optional<Task>> fetched(communications_.size());
    std::vector<std::uint32_t> order = push_order();
    const std::vector<std::uint32_t>& uses = programs_[0].first_segment;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return uses[a] < uses[b]; });
    for (const std::uint32_t b : order) {
      fetched[b] = add_stages(communications_[b].fetch, b, barrier_, Seconds(), step);
    }
    return fetched;
  }

  /// Of each all-to-all of the step: where ranks that have made theirs meet, and the transfer.
  std::vector<std::pair<Task, Task>> add_crossings(int step) {
    std::vector<std::pair<Task, Task>> crossed;
    for (std::uint32_t c = 0; c < crossings_.size(); ++c) {
      const Task made = join();
      if (barrier_) program_.after(*barrier_, made);
      const CommunicationStage& stage = crossings_[c];
      const auto index = static_cast<std::uint32_t>(communications_.size()) + c;
      const Action action = stage.on_sms ? Action::Collective : Action::Transfer;
      const Task sent = program_.add_transfer(info(action, step, index),
                                              streams_[static_cast<std::size_t>(stage.stream)],
                                              stage.transfer, stage.host);
      program_.after(made, sent);
      crossed.emplace_back(made, sent);
    }
    return crossed;
  }

  void add_step(int step) {
    crossed_ = add_crossings(step);
    const auto fetched = add_fetches(step);
    std::vector<Task> ready;  // joins over ranks, by bucket
    for (std::size_t b = 0; b < communications_.size(); ++b) ready.push_back(join());
    std::vector<Task> last_segments;
    for (const Stream& stream : streams_of_ranks_) {
      last_segments.push_back(add_segments(stream, fetched, ready, step));
    }
    std::vector<std::optional<Task>> pushed(communications_.size());
    const std::vector<std::uint32_t> order = push_order();
    std::optional<Task> backward_end;
    if (!request_.strategy.overlaps_backward) {
      backward_end = join();
      for (const Task task : last_segments) program_.after(task, *backward_end);
    }
    for (const std::uint32_t b : order) {
      const std::optional<Task> from = backward_end ? backward_end : ready[b];
      pushed[b] = add_stages(communications_[b].push, b, from, programs_[0].delay[b], step);
    }
    const Task end = join();
    for (Stream& stream : streams_of_ranks_) stream.updated.assign(communications_.size(), end);
    for (const Task task : last_segments) program_.after(task, end);
    for (const auto& task : pushed) {
      if (task) program_.after(*task, end);
    }
    for (const auto& [made, sent] : crossed_) program_.after(sent, end);
    for (Stream& stream : streams_of_ranks_) add_updates(stream, pushed, order, end, step);
    const bool overlaps = request_.strategy.overlaps_next_forward;
    program_.end_step(overlaps ? last_segments.front() : end);
    barrier_ = overlaps ? std::nullopt : std::optional(end);
  }

  Task add_segments(const Stream& stream, std::span<const std::optional<Task>> fetched,
                    std::span<const Task> ready, int step) {
    const RankProgram& program = programs_[stream.kind];
    Task last{};
    for (std::uint32_t s = 0; s < program.segments.size(); ++s) {
      const Seconds duration = program.segments[s] + extra_[stream.kind][s];
      last = program_.add(info(Action::Kernel, step, s, stream.kind), stream.compute, duration);
      if (s == 0 && barrier_) program_.after(*barrier_, last);
      if (s == 0 && step == 0 && stream.start) program_.after(*stream.start, last);
      for (const std::uint32_t b : program.needs[s]) {
        if (fetched[b]) program_.after(*fetched[b], last);
        if (!barrier_ && !stream.updated.empty()) program_.after(stream.updated[b], last);
      }
      for (const std::uint32_t b : program.completes[s]) program_.after(last, ready[b]);
      for (std::size_t c = 0; c < program.crossings.size(); ++c) {
        if (program.crossings[c].completed_by == s) program_.after(last, crossed_[c].first);
        if (program.crossings[c].needed_by == s) program_.after(crossed_[c].second, last);
      }
    }
    return last;
  }

  void add_updates(Stream& stream, std::span<const std::optional<Task>> pushed,
                   std::span<const std::uint32_t> order, Task end, int step) {
    const RankProgram& program = programs_[stream.kind];
    const auto index = static_cast<std::uint32_t>(program.segments.size());
    const auto add = [&](Seconds duration) {
      const MultiRankProgram::Lane lane =
          request_.strategy.overlaps_next_forward ? stream.update : stream.compute;
      const Task task =
          program_.add(info(Action::Kernel, step, index, stream.kind), lane, duration);
      program_.after(task, end);
      return task;
    };
    if (request_.strategy.updates_as_they_come) {
      for (const std::uint32_t b : order) {
        const Task task = add(program.updates[b]);
        if (pushed[b]) program_.after(*pushed[b], task);
        if (request_.strategy.overlaps_next_forward) stream.updated[b] = task;
      }
    }
    Seconds rest = program.other_updates;
    if (!request_.strategy.updates_as_they_come) {
      for (const Seconds update : program.updates) rest += update;
    }
    if (!(rest > Seconds(0))) return;
    const Task task = add(rest);
    for (const auto& push : pushed) {
      if (push) program_.after(*push, task);
    }
  }

  /// Of readiness on the first kind of rank.
  [[nodiscard]] std::vector<std::uint32_t> push_order() const {
    std::vector<std::uint32_t> order(communications_.size());
    std::iota(order.begin(), order.end(), 0U);
    return order;
  }

  const DataParallelRequest& request_;
  std::span<const RankProgram> programs_;
  std::span<const BucketCommunication> communications_;
  std::span<const CommunicationStage> crossings_;
  std::span<const std::vector<Seconds>> extra_;
  MultiRankProgram program_;
  std::vector<MultiRankProgram::Lane> streams_;
  std::vector<Stream> streams_of_ranks_;
  std::optional<Task> barrier_;
  std::vector<std::pair<Task, Task>> crossed_;
};

/// The last step of a run.
class LastStep {
 public:
  explicit LastStep(const RunBuilder& builder) : program_(builder.program()), run_(program_) {}
  [[nodiscard]] Seconds step_time() const { return run_.time(); }
  [[nodiscard]] engine::Picoseconds begin() const { return run_.begin(); }

  /// When collectives occupy SMs, or anything is communicated.
  [[nodiscard]] std::vector<TickSpan> communication(bool on_sms_only) const {
    return run_.busy([&](const ActionInfo& info) {
      return info.action == Action::Collective || (!on_sms_only && info.action == Action::Transfer);
    });
  }
  /// When any action of this kind goes on.
  [[nodiscard]] std::vector<TickSpan> of(Action action) const {
    return run_.busy([action](const ActionInfo& info) { return info.action == action; });
  }

  /// `visit(info, start, end)` of all kernels of one rank of a kind, the first of `simulated` ones,
  /// in all steps; from the last step's begin.
  template <class Visit>
  void for_each_kernel(std::uint32_t kind, std::size_t simulated, Visit visit) const {
    const std::vector<ActionInfo>& actions = program_.actions();
    const auto each = [&](auto see) {
      for (std::uint32_t t = 0; t < actions.size(); ++t) {
        const ActionInfo& info = actions[t];
        if (info.action == Action::Kernel && info.actor == kind)
          see(MultiRankProgram::Task{t}, info, std::pair(info.step, info.index));
      }
    };
    // Ranks follow each other in the program, and all do the same.
    std::map<std::pair<std::uint16_t, std::uint32_t>, std::size_t> count, taken;
    each([&](MultiRankProgram::Task, const ActionInfo&, auto key) { ++count[key]; });
    const auto since = [&](engine::Picoseconds at) {
      return at.in_seconds() - run_.begin().in_seconds();
    };
    each([&](MultiRankProgram::Task task, const ActionInfo& info, auto key) {
      if (taken[key]++ >= count[key] / simulated) return;
      visit(info, since(run_.start_of(task)), since(run_.end_of(task)));
    });
  }

  /// For each segment of each kind: how long collectives ran meanwhile.
  [[nodiscard]] std::vector<std::vector<Seconds>> overlaps(
      std::span<const RankProgram> programs) const {
    const std::vector<TickSpan> busy = communication(true);
    std::vector<std::vector<Seconds>> sums;
    for (const RankProgram& program : programs) sums.emplace_back(program.segments.size());
    for_each([&](const ActionInfo& info, MultiRankProgram::Task task) {
      if (info.action != Action::Kernel || info.index >= sums[info.actor].size()) return;
      sums[info.actor][info.index] =
          overlap(busy, run_.start_of(task), run_.end_of(task)).in_seconds();
    });
    return sums;
  }

  /// Back along what released what, until the step's begin. A lag is of gradients that wait to be
  /// looked at.
  [[nodiscard]] StepParts critical_path() const {
    engine::Picoseconds compute{}, communication{}, host_update{};
    run_.walk_critical_path([&](const ActionInfo& info, engine::Picoseconds time, bool is_lag) {
      if (is_lag || info.action == Action::Collective || info.action == Action::Transfer) {
        communication += time;
      } else if (info.action == Action::Kernel) {
        compute += time;
      } else if (info.action == Action::HostWork) {
        host_update += time;
      }
    });
    return {.compute = compute.in_seconds(),
            .communication = communication.in_seconds(),
            .host_update = host_update.in_seconds()};
  }

  [[nodiscard]] std::vector<RankSpan> timeline() const {
    std::vector<RankSpan> spans;
    for_each([&](const ActionInfo& info, MultiRankProgram::Task task) {
      const bool is_rank = info.action == Action::Kernel;
      spans.push_back({.kind = is_rank ? std::optional(info.actor) : std::nullopt,
                       .index = info.index,
                       .on_gpus = info.action == Action::Collective,
                       .start = run_.since_begin(run_.start_of(task)),
                       .end = run_.since_begin(run_.end_of(task))});
    });
    std::stable_sort(spans.begin(), spans.end(),
                     [](const RankSpan& a, const RankSpan& b) { return a.start < b.start; });
    return spans;
  }

 private:
  /// All actions of the last step but joins.
  template <class Visit>
  void for_each(Visit visit) const {
    const std::vector<ActionInfo>& actions = program_.actions();
    for (std::uint32_t t = 0; t < actions.size(); ++t) {
      if (actions[t].action == Action::Join || actions[t].step != kSteps - 1) continue;
      visit(actions[t], MultiRankProgram::Task{t});
    }
  }

  const MultiRankProgram& program_;
  MultiRankRun run_;
};

}  // namespace tracecast
