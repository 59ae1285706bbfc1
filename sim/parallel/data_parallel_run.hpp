#pragma once
#include <algorithm>
#include <cmath>
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

/// Simulated in a row, the last one of which counts: so many, and more until two are alike, since a
/// host gets ahead of its GPU only by what it gains in every step.
inline constexpr int kFewestSteps = 3, kMostSteps = 24;

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
             std::span<const std::vector<Seconds>> extra, int steps)
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
    for (int step = 0; step < steps; ++step) add_step(step);
  }

  [[nodiscard]] const MultiRankProgram& program() const { return program_; }

 private:
  using Task = MultiRankProgram::Task;
  struct Stream {
    std::uint32_t kind = 0;
    MultiRankProgram::Lane compute{}, update{};
    std::optional<Task> start;  ///< its first step waits for it
    std::vector<Task> updated;  ///< by bucket, of the step before
    std::optional<Task> host;   ///< has issued what came before
    std::vector<Task> parts;    ///< segments and updates so far, in their order
  };

  void add_rank(const RankStream& rank) {
    Stream stream{.kind = rank.kind,
                  .compute = program_.add_stream(),
                  .update = program_.add_pool(),
                  .start = {},
                  .updated = {},
                  .host = {},
                  .parts = {}};
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
    for (Stream& stream : streams_of_ranks_) {
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

  /// Kernels that the stream runs and its host issues (HostTimes), the next part of the stream's
  /// program. What they wait for besides is to be added to what comes first.
  struct Part {
    Task ready, kernels;
  };
  Part add_part(Stream& stream, MultiRankProgram::Lane lane, Task issuing, const HostTimes& host,
                const ActionInfo& info, Seconds duration) {
    const Part part{join(), program_.add(info, lane, duration)};
    program_.after(part.ready, part.kernels);
    program_.after(issuing, part.kernels, host.lead);
    const Task issued = join();
    program_.after(issuing, issued, host.issue);
    if (host.wait) program_.after(part.ready, issued, *host.wait);
    stream.host = issued;
    return part;
  }
  /// Where the stream's host is when it may issue part `index` of a step.
  Task add_host(const Stream& stream, int step, std::size_t index) {
    const RankProgram& program = programs_[stream.kind];
    const Task issuing = join();
    if (stream.host) program_.after(*stream.host, issuing);
    const auto parts = static_cast<std::int64_t>(program.queued_behind.size());
    const std::int64_t behind = step * parts + program.queued_behind[index];
    if (behind >= 0) program_.after(stream.parts[static_cast<std::size_t>(behind)], issuing);
    return issuing;
  }

  Task add_segments(Stream& stream, std::span<const std::optional<Task>> fetched,
                    std::span<const Task> ready, int step) {
    const RankProgram& program = programs_[stream.kind];
    Task last{};
    for (std::uint32_t s = 0; s < program.segments.size(); ++s) {
      const Task issuing = add_host(stream, step, s);
      if (s == 0 && program.synchronizes) {
        if (barrier_) program_.after(*barrier_, issuing);
        if (!stream.parts.empty()) program_.after(stream.parts.back(), issuing);
      }
      const Part part = add_part(stream, stream.compute, issuing, program.hosts[s],
                                 info(Action::Kernel, step, s, stream.kind),
                                 program.segments[s] + extra_[stream.kind][s]);
      last = part.kernels;
      if (!stream.parts.empty()) program_.after(stream.parts.back(), part.ready);
      if (s == 0 && barrier_) program_.after(*barrier_, part.ready);
      if (s == 0 && step == 0 && stream.start) {
        program_.after(*stream.start, part.ready);
        program_.after(*stream.start, issuing);
      }
      for (const std::uint32_t b : program.needs[s]) {
        if (fetched[b]) program_.after(*fetched[b], part.ready);
        if (!barrier_ && !stream.updated.empty()) program_.after(stream.updated[b], part.ready);
      }
      for (const std::uint32_t b : program.completes[s]) program_.after(last, ready[b]);
      for (std::size_t c = 0; c < program.crossings.size(); ++c) {
        if (program.crossings[c].completed_by == s) program_.after(last, crossed_[c].first);
        if (program.crossings[c].needed_by == s) program_.after(crossed_[c].second, part.ready);
      }
      stream.parts.push_back(last);
    }
    return last;
  }

  void add_updates(Stream& stream, std::span<const std::optional<Task>> pushed,
                   std::span<const std::uint32_t> order, Task end, int step) {
    const RankProgram& program = programs_[stream.kind];
    const auto index = static_cast<std::uint32_t>(program.segments.size());
    const bool overlaps = request_.strategy.overlaps_next_forward;
    const Task begun = add_host(stream, step, index);
    std::optional<Task> last;
    stream.host = begun;
    const auto add = [&](Seconds duration, const HostTimes& host,
                         std::span<const std::optional<Task>> sums) {
      const Part part = add_part(stream, overlaps ? stream.update : stream.compute, *stream.host,
                                 host, info(Action::Kernel, step, index, stream.kind), duration);
      program_.after(part.kernels, end);
      for (const auto& sum : sums) {
        if (sum) program_.after(*sum, part.ready);
      }
      if (!overlaps) program_.after(last.value_or(stream.parts.back()), part.ready);
      last = part.kernels;
      return part;
    };
    const bool one_by_one = request_.strategy.updates_as_they_come;
    if (one_by_one) {
      for (const std::uint32_t b : order) {
        const Part part = add(program.updates[b], program.update_hosts[b], pushed.subspan(b, 1));
        if (overlaps) stream.updated[b] = part.kernels;
      }
    }
    const Seconds rest = one_by_one ? program.other_updates : program.all_updates;
    if (rest > Seconds(0)) {
      (void)add(rest, one_by_one ? program.other_updates_host : program.all_updates_host, pushed);
    }
    // Updates of their own stream hold back nothing that the host issues.
    stream.parts.push_back(last && !overlaps ? *last : stream.parts.back());
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
  /// Whether it takes as long as the one before.
  [[nodiscard]] bool is_steady() const {
    constexpr double kSteady = 1e-3;
    const std::vector<MultiRankProgram::Task>& ends = program_.step_ends();
    if (ends.size() < 3) return false;
    const engine::Picoseconds before = run_.begin() - run_.end_of(ends[ends.size() - 3]);
    return std::abs((run_.time() - before.in_seconds()).in_s()) <= kSteady * run_.time().in_s();
  }

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

  /// `visit(info, wait, start, end)` of all kernels of one rank of a kind, the first of `simulated`
  /// ones, in all steps; from the last step's begin. `wait`: for the rank's host alone.
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
      // Where all else meets that they wait for comes right before them.
      const MultiRankProgram::Task all_but_host{task.index - 1};
      const TimeSpan wait{since(run_.end_of(all_but_host)), since(run_.ready_of(task))};
      visit(info, wait, since(run_.start_of(task)), since(run_.end_of(task)));
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

  /// Back along what released what, until the step's begin. A lag before kernels, or before a point
  /// of the host's, is of the host, any other of gradients that wait to be looked at.
  [[nodiscard]] StepParts critical_path() const {
    engine::Picoseconds compute{}, communication{}, host_update{};
    run_.walk_critical_path([&](const ActionInfo& info, engine::Picoseconds time, bool is_lag) {
      if (info.action == Action::Kernel || (is_lag && info.action == Action::Join)) {
        compute += time;
      } else if (is_lag || info.action == Action::Collective || info.action == Action::Transfer) {
        communication += time;
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
    const std::size_t num_steps = program_.step_ends().size();
    for (std::uint32_t t = 0; t < actions.size(); ++t) {
      if (actions[t].action == Action::Join || actions[t].step + 1U != num_steps) continue;
      visit(actions[t], MultiRankProgram::Task{t});
    }
  }

  const MultiRankProgram& program_;
  MultiRankRun run_;
};

}  // namespace tracecast
