#include "sim/replay/replay_rounds.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast {
namespace {

using engine::Picoseconds;

constexpr std::uint32_t kNoStep = ReplayRound::kNoStep;
constexpr int kFewestRounds = 3, kMostRounds = 24;
/// Of later rounds: bounds memory to about a gigabyte.
constexpr std::size_t kMostTasks = 3'000'000;
constexpr double kSteady = 1e-3;

/// Which tasks a round repeats, and where they stand in a program of several rounds.
class Members {
 public:
  explicit Members(const ReplayProgram& program)
      : first_copy_(program.tasks.size()), place_(program.tasks.size(), kNoStep) {
    for (std::uint32_t i = 0; i < program.round.step.size(); ++i) {
      if (program.round.step[i] == kNoStep) continue;
      place_[i] = static_cast<std::uint32_t>(tasks_.size());
      tasks_.push_back(i);
    }
  }
  [[nodiscard]] const std::vector<std::uint32_t>& tasks() const { return tasks_; }
  [[nodiscard]] bool has(std::uint32_t task) const { return place_[task] != kNoStep; }
  /// A member in a round; round 0 is the recorded one.
  [[nodiscard]] std::uint32_t at(std::uint32_t task, int round) const {
    if (round == 0) return task;
    const std::size_t before = tasks_.size() * static_cast<std::size_t>(round - 1);
    return static_cast<std::uint32_t>(first_copy_ + before + place_[task]);
  }

 private:
  std::size_t first_copy_;
  std::vector<std::uint32_t> tasks_, place_;
};

/// Launches of later rounds wait for those of rounds before.
void extend_queue(const ReplayQueue& queue, const Members& members, int rounds,
                  ReplayProgram& repeated) {
  std::vector<ReplayLaunch> again;
  std::size_t recorded = 0;  // launches up to the last one of the recorded round
  for (std::size_t i = 0; i < queue.launches.size(); ++i) {
    if (!members.has(queue.launches[i].room)) continue;
    again.push_back(queue.launches[i]);
    recorded = i + 1;
  }
  std::vector<std::uint32_t> works;
  for (std::size_t i = 0; i < recorded; ++i) works.push_back(queue.launches[i].work);
  for (int round = 1; round < rounds; ++round) {
    for (const ReplayLaunch& launch : again) {
      if (works.size() >= queue.depth) {
        repeated.dependencies.push_back({works[works.size() - queue.depth],
                                         members.at(launch.room, round), launch.lag_ns,
                                         ReplayReason::Queue});
      }
      works.push_back(members.at(launch.work, round));
    }
  }
}

Picoseconds median(std::vector<Picoseconds> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Reads the rounds of a run.
class Reader {
 public:
  Reader(const RanksProgram& job, const ReplayProgram& repeated, const Members& members, int rounds,
         engine::Schedule schedule)
      : program_(job.program),
        repeated_(repeated),
        members_(members),
        schedule_(std::move(schedule)) {
    // A collective's kernel is there from the arrival of its own rank on.
    for (const ReplayCollective& collective : job.collectives) {
      for (const ReplayCollective::Part& part : collective.parts) {
        if (part.arrival == ReplayCollective::kNoTask) continue;
        for (int round = 0; round < (members.has(part.kernel) ? rounds : 1); ++round)
          schedule_.start[members.at(part.kernel, round)] =
              schedule_.end[members.at(part.arrival, round)];
      }
    }
    const ReplayProgram& program = job.program;
    on_gpu_.resize(program.steps.size());
    for (const std::uint32_t task : members.tasks()) {
      if (is_on_gpu(program.tasks[task].work)) on_gpu_[program.round.step[task]].push_back(task);
    }
  }

  /// When the last GPU work of each of a rank's steps ends, after the begin of the first one: round
  /// by round. Empty when there is a step without.
  [[nodiscard]] std::vector<Picoseconds> ends_on_gpu(const ReplayRank& rank, int rounds) const {
    std::vector<Picoseconds> ends{begin_of(rank)};
    for (int round = 0; round < rounds; ++round) {
      for (std::uint32_t s = rank.first_step; s < rank.end_step; ++s) {
        if (on_gpu_[s].empty()) return {};
        Picoseconds end = ends.back();
        for (const std::uint32_t work : on_gpu_[s])
          end = std::max(end, schedule_.end[members_.at(work, round)]);
        ends.push_back(end);
      }
    }
    return ends;
  }

  /// The same of their marks.
  [[nodiscard]] std::vector<Picoseconds> ends_on_host(const ReplayRank& rank, int rounds) const {
    std::vector<Picoseconds> ends{begin_of(rank)};
    for (int round = 0; round < rounds; ++round) {
      for (std::uint32_t s = rank.first_step; s < rank.end_step; ++s)
        ends.push_back(schedule_.end[members_.at(program_.steps[s].end, round)]);
    }
    return ends;
  }

  /// A rank's steps of a round from mark to mark.
  [[nodiscard]] std::vector<Picoseconds> marked(const ReplayRank& rank, int round) const {
    std::vector<Picoseconds> steps;
    for (std::uint32_t s = rank.first_step; s < rank.end_step; ++s) {
      const ReplayStep& step = program_.steps[s];
      steps.push_back(schedule_.end[members_.at(step.end, round)] -
                      schedule_.end[members_.at(step.begin, round)]);
    }
    return steps;
  }

  /// At least one kernel of the rank running between two moments.
  [[nodiscard]] Picoseconds busy(const ReplayRank& rank, Picoseconds from, Picoseconds to) const {
    engine::Schedule cut;
    cut.start = schedule_.start;
    cut.end = schedule_.end;
    for (Picoseconds& start : cut.start) start = std::clamp(start, from, to);
    for (Picoseconds& end : cut.end) end = std::clamp(end, from, to);
    return kernel_busy(repeated_, cut, rank.first_track, rank.end_track);
  }

 private:
  [[nodiscard]] Picoseconds begin_of(const ReplayRank& rank) const {
    return schedule_.end[program_.steps[rank.first_step].begin];
  }

  const ReplayProgram& program_;
  const ReplayProgram& repeated_;
  const Members& members_;
  engine::Schedule schedule_;
  std::vector<std::vector<std::uint32_t>> on_gpu_;  ///< by step
};

bool can_repeat(const RanksProgram& job) {
  if (job.program.steps.empty() || job.program.round.step.empty()) return false;
  const auto count = [](const ReplayRank& rank) { return rank.end_step - rank.first_step; };
  return std::all_of(job.ranks.begin(), job.ranks.end(), [&](const ReplayRank& rank) {
    return count(rank) > 0 && count(rank) == count(job.ranks.front());
  });
}

bool are_alike(Picoseconds a, Picoseconds b) {
  const double difference = static_cast<double>((a - b).count());
  return std::abs(difference) <= kSteady * static_cast<double>(std::max(a, b).count());
}

/// How long the last round takes, or the one `back` rounds before it. `ends`: of steps, and the
/// begin of the first.
Picoseconds round_time(const std::vector<Picoseconds>& ends, std::size_t steps,
                       std::size_t back = 0) {
  const std::size_t last = ends.size() - 1 - back * steps;
  return ends[last] - ends[last - steps];
}

SteadyRun run_rounds(const RanksProgram& job, const Members& members, int rounds,
                     const ReplayOptions& options) {
  const ReplayProgram repeated = repeat_steps(job.program, rounds);
  const Reader reader(job, repeated, members, rounds, replay(repeated, options).schedule);
  SteadyRun result;
  result.rounds = rounds;
  for (const ReplayRank& rank : job.ranks) {
    const std::size_t count = rank.end_step - rank.first_step;
    const std::vector<Picoseconds> on_host = reader.ends_on_host(rank, rounds);
    const std::vector<Picoseconds> on_gpu = reader.ends_on_gpu(rank, rounds);
    const bool by_gpu =
        !on_gpu.empty() && !are_alike(round_time(on_gpu, count), round_time(on_host, count));
    const std::vector<Picoseconds>& efficiency = on_gpu.empty() ? on_host : on_gpu;
    SteadySteps steady;
    if (!by_gpu) steady.steps = reader.marked(rank, rounds - 1);
    for (std::size_t i = on_gpu.size() - count; by_gpu && i < on_gpu.size(); ++i)
      steady.steps.push_back(on_gpu[i] - on_gpu[i - 1]);
    const Picoseconds end = efficiency.back();
    steady.kernel_busy = reader.busy(rank, end - round_time(efficiency, count), end);
    result.ranks.push_back(std::move(steady));
    result.is_steady &=
        rounds > 1 && are_alike(round_time(efficiency, count), round_time(efficiency, count, 1));
  }
  return result;
}

}  // namespace

Picoseconds SteadySteps::step() const {
  if (steps.empty()) return {};
  const auto count = static_cast<std::int64_t>(steps.size());
  return std::max(median(steps), Picoseconds((kernel_busy.count() + count - 1) / count));
}

ReplayProgram repeat_steps(const ReplayProgram& program, int rounds) {
  const Members members(program);
  ReplayProgram repeated = program;
  for (int round = 1; round < rounds; ++round) {
    for (const std::uint32_t task : members.tasks()) repeated.tasks.push_back(program.tasks[task]);
    for (const ReplayDependency& d : program.dependencies) {
      if (d.reason == ReplayReason::Queue || !members.has(d.before) || !members.has(d.after))
        continue;
      repeated.dependencies.push_back(
          {members.at(d.before, round), members.at(d.after, round), d.lag_ns, d.reason});
    }
    for (const ReplayDependency& d : program.round.on_last_round) {
      repeated.dependencies.push_back(
          {members.at(d.before, round - 1), members.at(d.after, round), d.lag_ns, d.reason});
    }
  }
  for (const ReplayQueue& queue : program.queues) extend_queue(queue, members, rounds, repeated);
  return repeated;
}

std::optional<SteadyRun> run_until_steady(const RanksProgram& job, const ReplayOptions& options) {
  if (!can_repeat(job)) return std::nullopt;
  const Members members(job.program);
  const std::size_t most = std::max<std::size_t>(kMostTasks / members.tasks().size(), 1);
  const auto most_rounds = static_cast<int>(std::min<std::size_t>(most, kMostRounds));
  for (int rounds = std::min(kFewestRounds, most_rounds);;
       rounds = std::min(2 * rounds, most_rounds)) {
    SteadyRun run = run_rounds(job, members, rounds, options);
    if (run.is_steady || rounds == most_rounds) return run;
  }
}

std::optional<SteadyRun> run_until_steady(const ReplayProgram& program,
                                          const ReplayOptions& options) {
  RanksProgram job{program, {}, {}};
  const auto steps = static_cast<std::uint32_t>(program.steps.size());
  job.ranks.push_back({{}, 0, static_cast<std::uint32_t>(program.tracks.size()), 0, steps});
  return run_until_steady(job, options);
}

}  // namespace tracecast
