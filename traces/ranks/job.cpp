#include "traces/ranks/job.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "sim/base/error.hpp"

namespace tracecast::traces {
namespace {

constexpr std::uint32_t kNoTask = ReplayCollective::kNoTask;

class RanksBuilder {
 public:
  RanksBuilder(const std::vector<Trace>& traces, const KernelNames& names) : names_(names) {
    for (const Trace& trace : traces) traces_.push_back(&trace);
  }

  /// `ranks`: of each trace, or empty: to be rebuilt here.
  RanksBuild build(const std::vector<ReplayBuild>& ranks) {
    find_collectives();
    const CollectiveMatch match = match_collectives(traces_, collectives_);
    for (std::size_t i = 0; i < traces_.size(); ++i)
      append(*traces_[i], ranks.empty() ? build_replay_program(*traces_[i], names_) : ranks[i]);
    end_of_ranks_ = static_cast<std::uint32_t>(program().tasks.size());
    for (const MatchedCollective& c : match.collectives) join(c);
    add_single_kernels();
    // Redirections of the joins are done before new dependencies come in.
    redirect();
    add_joins();
    add_late_starts(match.clocks);
    if (!match.collectives.empty() || (traces_.size() > 1 && !match.unmatched.empty()))
      build_.waiting = sum_waiting(match);
    if (traces_.size() == 1 && !collectives_.front().empty())
      build_.single = compare_repeats(*traces_.front(), collectives_.front());
    return std::move(build_);
  }

 private:
  struct Place {
    std::uint32_t first_task = 0;
    std::int64_t begin_ns = 0;
    std::vector<std::uint32_t> task_of_kernel;  ///< tasks of the job
    std::vector<bool> is_joined;                ///< by kernel
  };
  [[nodiscard]] ReplayProgram& program() { return build_.job.program; }

  void find_collectives() {
    for (const Trace* trace : traces_) {
      const LaunchIndex launches(*trace);
      const auto infos = classify_kernels(*trace, names_, launches);
      collectives_.push_back(find_collective_kernels(*trace, infos, launches));
    }
  }

  std::uint32_t add_name(const std::string& text) {
    const auto [at, is_new] =
        name_of_.emplace(text, static_cast<std::uint32_t>(program().names.size()));
    if (is_new) program().names.push_back(text);
    return at->second;
  }

  void append(const Trace& trace, const ReplayBuild& rank) {
    ReplayProgram& job = program();
    const auto first_task = static_cast<std::uint32_t>(job.tasks.size());
    const auto first_track = static_cast<std::uint32_t>(job.tracks.size());
    std::vector<std::uint32_t> names;
    for (const std::string& name : rank.program.names) names.push_back(add_name(name));
    ReplayRank place{trace.rank, first_track, 0, static_cast<std::uint32_t>(job.steps.size()), 0};
    for (ReplayTrack track : rank.program.tracks) {
      if (traces_.size() > 1) tell_apart(track, trace.rank);
      job.tracks.push_back(std::move(track));
    }
    const auto first_step = static_cast<std::uint32_t>(job.steps.size());
    for (const std::uint32_t step : rank.program.round.step)
      job.round.step.push_back(step == ReplayRound::kNoStep ? step : step + first_step);
    for (ReplayTask task : rank.program.tasks) {
      task.track += first_track;
      task.name = names[task.name];
      job.tasks.push_back(task);
    }
    const auto append_to = [first_task](std::vector<ReplayDependency>& to,
                                        const std::vector<ReplayDependency>& from) {
      for (const ReplayDependency& d : from)
        to.push_back({d.before + first_task, d.after + first_task, d.lag_ns, d.reason});
    };
    append_to(job.dependencies, rank.program.dependencies);
    append_to(job.round.on_last_round, rank.program.round.on_last_round);
    for (ReplayQueue queue : rank.program.queues) {
      for (ReplayLaunch& launch : queue.launches) {
        launch.room += first_task;
        launch.work += first_task;
      }
      job.queues.push_back(std::move(queue));
    }
    for (const ReplayStep& step : rank.program.steps)
      job.steps.push_back({names[step.name], step.begin + first_task, step.end + first_task});
    place.end_track = static_cast<std::uint32_t>(job.tracks.size());
    place.end_step = static_cast<std::uint32_t>(job.steps.size());
    build_.job.ranks.push_back(place);
    build_.accounts.push_back(rank.account);
    const std::size_t kernels = trace.kernels.size();
    Place at{first_task, rank.begin_ns, std::vector<std::uint32_t>(kernels),
             std::vector<bool>(kernels, false)};
    for (std::uint32_t i = 0; i < rank.records.size(); ++i) {
      if (rank.program.tasks[i].work == ReplayWork::Kernel)
        at.task_of_kernel[rank.records[i]] = first_task + i;
    }
    places_.push_back(std::move(at));
  }

  /// Ranks of different hosts have streams and threads of the same numbers.
  void tell_apart(ReplayTrack& track, std::optional<std::int64_t> rank) const {
    const std::int64_t number = rank.value_or(static_cast<std::int64_t>(build_.job.ranks.size()));
    if (track.is_stream) {
      track.device = number;
    } else {
      track.name += " of rank " + std::to_string(number);
    }
  }

  /// Arrivals of the parts; their kernels take the moving time.
  void join(const MatchedCollective& c) {
    ReplayCollective collective{c.kind, c.bytes, c.ranks, {}, c.is_complete};
    for (const CollectivePart& part : c.parts) {
      Place& place = places_[part.trace];
      place.is_joined[part.kernel] = true;
      const std::uint32_t kernel = place.task_of_kernel[part.kernel];
      ReplayTask arrival = program().tasks[kernel];
      program().tasks[kernel].duration_ns = c.moving_ns;
      arrival.work = ReplayWork::Arrival;
      arrival.duration_ns = 0;
      program().round.step.push_back(program().round.step[kernel]);
      collective.parts.push_back({static_cast<std::uint32_t>(program().tasks.size()), kernel});
      program().tasks.push_back(arrival);
    }
    build_.job.collectives.push_back(std::move(collective));
  }

  void add_single_kernels() {
    for (std::size_t trace = 0; trace < traces_.size(); ++trace) {
      for (const CollectiveKernel& kernel : collectives_[trace]) {
        if (places_[trace].is_joined[kernel.kernel]) continue;
        build_.job.collectives.push_back({kernel.kind,
                                          kernel.bytes,
                                          kernel.group_size,
                                          {{kNoTask, places_[trace].task_of_kernel[kernel.kernel]}},
                                          false});
      }
    }
  }

  /// What the kernel of a joined collective waited for, its arrival waits for.
  void redirect() {
    std::map<std::uint32_t, std::uint32_t> arrival_of;
    for (const ReplayCollective& c : build_.job.collectives) {
      for (const ReplayCollective::Part& part : c.parts) {
        if (part.arrival != kNoTask) arrival_of[part.kernel] = part.arrival;
      }
    }
    if (arrival_of.empty()) return;
    for (auto* list : {&program().dependencies, &program().round.on_last_round}) {
      for (ReplayDependency& d : *list) {
        const auto at = arrival_of.find(d.after);
        if (at != arrival_of.end()) d.after = at->second;
      }
    }
  }

  /// Every kernel of a collective waits for every arrival, by way of one task that waits for all of
  /// them.
  void add_joins() {
    ReplayProgram& job = program();
    for (const ReplayCollective& c : build_.job.collectives) {
      if (c.parts.front().arrival == kNoTask) continue;
      const auto all = static_cast<std::uint32_t>(job.tasks.size());
      job.tasks.push_back(job.tasks[c.parts.front().arrival]);
      job.round.step.push_back(step_of_all(c));
      for (const ReplayCollective::Part& part : c.parts) {
        job.dependencies.push_back({part.arrival, all, 0, ReplayReason::Collective});
        job.dependencies.push_back({all, part.kernel, 0, ReplayReason::Collective});
      }
    }
  }

  /// A collective is done again when all ranks do it again.
  [[nodiscard]] std::uint32_t step_of_all(const ReplayCollective& c) {
    const std::vector<std::uint32_t>& step = program().round.step;
    for (const ReplayCollective::Part& part : c.parts) {
      if (step[part.arrival] == ReplayRound::kNoStep) return ReplayRound::kNoStep;
    }
    return step[c.parts.front().arrival];
  }

  void add_late_starts(const std::vector<RankClock>& clocks) {
    std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
    const auto begin_of = [&](std::size_t r) { return places_[r].begin_ns + clocks[r].offset_ns; };
    for (std::size_t r = 0; r < clocks.size(); ++r) {
      if (clocks[r].is_set) first_ns = std::min(first_ns, begin_of(r));
    }
    std::vector<bool> waits(program().tasks.size(), false);
    for (const ReplayDependency& d : program().dependencies) waits[d.after] = true;
    for (std::size_t r = 0; r < clocks.size(); ++r) {
      const std::uint32_t end = r + 1 < places_.size() ? places_[r + 1].first_task : end_of_ranks_;
      if (!clocks[r].is_set || begin_of(r) == first_ns || places_[r].first_task == end) continue;
      const auto late = static_cast<std::uint32_t>(program().tasks.size());
      program().tasks.push_back({ReplayWork::HostWork, KernelClass::Other,
                                 program().tasks[places_[r].first_task].track, 0,
                                 begin_of(r) - first_ns, 0});
      program().round.step.push_back(ReplayRound::kNoStep);
      for (std::uint32_t task = places_[r].first_task; task < end; ++task) {
        if (!waits[task]) program().dependencies.push_back({late, task, 0, ReplayReason::Program});
      }
    }
  }
  const KernelNames& names_;
  std::vector<const Trace*> traces_;
  std::vector<std::vector<CollectiveKernel>> collectives_;
  std::vector<Place> places_;
  std::uint32_t end_of_ranks_ = 0;  ///< tasks that the ranks brought with them
  std::map<std::string, std::uint32_t> name_of_{{"", 0}};
  RanksBuild build_;
};

}  // namespace

RanksBuild build_ranks_program(const std::vector<Trace>& traces, const KernelNames& names) {
  return RanksBuilder(traces, names).build({});
}
RanksBuild build_ranks_program(const std::vector<Trace>& traces, const KernelNames& names,
                               const std::vector<ReplayBuild>& ranks) {
  TRACECAST_CHECK(ranks.size() == traces.size(), "every trace has its program");
  return RanksBuilder(traces, names).build(ranks);
}

}  // namespace tracecast::traces
