#include "sim/cluster/data_parallel.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/cluster/rank_program.hpp"
#include "sim/engine/task_graph.hpp"

namespace tracecast {
namespace {

using engine::Picoseconds;
using engine::TaskId;

constexpr int kSteps = 3;
constexpr std::size_t kMostBusiest = 8;

enum class Part : std::uint8_t { Compute, Exchange, Host, None };

struct TaskInfo {
  Part part = Part::None;
  std::uint32_t kind = 0;   ///< of rank
  std::uint32_t index = 0;  ///< segment or bucket
  int step = 0;
  bool on_sms = false;  ///< a collective's kernels run on the GPUs
};

/// Several steps in a row as tasks of the engine.
class RunBuilder {
 public:
  RunBuilder(const DataParallelRequest& request, std::span<const RankProgram> programs,
             std::span<const BucketExchange> exchanges, std::span<const std::vector<Seconds>> extra)
      : request_(request), programs_(programs), exchanges_(exchanges), extra_(extra) {
    for (const FabricLink& link : request.fabric.links()) graph_.add_link(link.bandwidth);
    graph_.add_link(rank_variation().staged_copies);
    const auto slots = request.fabric.ranks_of(FabricNodeId{0});
    const bool copies = request.strategy.exchange == Exchange::Copies ||
                        request.strategy.exchange == Exchange::Spread;
    for (std::size_t s = 0; s < kExchangeStreamCount; ++s) {
      // Each GPU that adds has copy engines of its own, each server its NIC; a communicator has one stream.
      const bool network = s == static_cast<std::size_t>(ExchangeStream::Network);
      const std::uint32_t at_once = network ? request.fabric.num_nodes() : copies ? slots : 1U;
      streams_.push_back(
          graph_.add_resource(engine::Discipline::ReadyOrder, std::max(at_once, 1U)));
    }
    add_ranks();
    for (int step = 0; step < kSteps; ++step) add_step(step);
  }

  engine::TaskGraph graph_;
  std::vector<TaskInfo> info_;
  std::vector<TaskId> step_ends_;

 private:
  struct Stream {
    std::uint32_t kind = 0;
    engine::ResourceId compute{}, update{};
  };

  void add_ranks() {
    const auto add = [&](std::uint32_t kind) {
      streams_of_ranks_.push_back({kind, graph_.add_resource(engine::Discipline::ProgramOrder),
                                   graph_.add_resource(engine::Discipline::ReadyOrder)});
    };
    if (request_.fold) {
      for (std::uint32_t k = 0; k < programs_.size(); ++k) add(k);
    } else {
      for (const std::uint32_t kind : request_.kind_of) add(kind);
    }
  }

  TaskId note(TaskId task, TaskInfo info) {
    info_.push_back(info);
    return task;
  }
  TaskId join(int step) {
    return note(graph_.add_task(Picoseconds()), {.part = Part::None, .step = step});
  }

  /// The stages of a bucket one after the other; nothing changes when there are none.
  std::optional<TaskId> add_stages(std::span<const ExchangeStage> stages, std::uint32_t bucket,
                                   std::optional<TaskId> after, Seconds delay, int step) {
    for (const ExchangeStage& stage : stages) {
      const engine::ResourceId stream = streams_[static_cast<std::size_t>(stage.stream)];
      TaskId task{};
      if (stage.stream == ExchangeStream::Host) {
        task = note(graph_.add_task(stream, engine::to_ticks<Picoseconds>(stage.host)),
                    {.part = Part::Host, .index = bucket, .step = step});
      } else {
        uses_.clear();
        for (const FabricUse& use : stage.transfer.uses) {
          uses_.push_back({engine::LinkId{use.link.index}, use.weight});
        }
        task =
            note(graph_.add_transfer(stream, uses_, stage.transfer.bytes,
                                     stage.transfer.latency + stage.host, stage.transfer.rate_cap),
                 {.part = Part::Exchange, .index = bucket, .step = step, .on_sms = stage.on_sms});
      }
      if (after) graph_.add_dependency(*after, task, engine::to_ticks<Picoseconds>(delay));
      delay = Seconds();
      after = task;
    }
    return after;
  }

  /// The fetches of all buckets, in the order in which layers need them: a graph's executor begins with the weights in
  /// the order of their making.
  std::vector<std::optional<TaskId>> add_fetches(int step) {
    std::vector<std::optional<TaskId>> fetched(exchanges_.size());
    std::vector<std::uint32_t> order = push_order();
    const std::vector<std::uint32_t>& uses = programs_[0].first_segment;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return uses[a] < uses[b]; });
    std::optional<TaskId> last;
    for (const std::uint32_t b : order) {
      fetched[b] = add_stages(exchanges_[b].fetch, b, barrier_, Seconds(), step);
      if (fetched[b]) last = fetched[b];
    }
    if (request_.strategy.exchange == Exchange::FirstGpu && last) {
      const TaskId all = join(step);  // copies of modules are made of whole models
      for (const auto& task : fetched) {
        if (task) graph_.add_dependency(*task, all);
      }
      std::fill(fetched.begin(), fetched.end(), all);
    }
    return fetched;
  }

  void add_step(int step) {
    const auto fetched = add_fetches(step);
    std::vector<TaskId> ready;  // joins over ranks, by bucket
    for (std::size_t b = 0; b < exchanges_.size(); ++b) ready.push_back(join(step));
    std::vector<TaskId> last_segments;
    for (const Stream& stream : streams_of_ranks_) {
      last_segments.push_back(add_segments(stream, fetched, ready, step));
    }
    std::vector<std::optional<TaskId>> pushed(exchanges_.size());
    const std::vector<std::uint32_t> order = push_order();
    std::optional<TaskId> backward_end;
    if (!request_.strategy.overlaps_backward) {
      backward_end = join(step);
      for (const TaskId task : last_segments) graph_.add_dependency(task, *backward_end);
    }
    for (const std::uint32_t b : order) {
      const std::optional<TaskId> from = backward_end ? backward_end : ready[b];
      pushed[b] = add_stages(exchanges_[b].push, b, from, programs_[0].delay[b], step);
    }
    const TaskId end = join(step);
    updated_.assign(exchanges_.size(), end);
    for (const TaskId task : last_segments) graph_.add_dependency(task, end);
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

  TaskId add_segments(const Stream& stream, std::span<const std::optional<TaskId>> fetched,
                      std::span<const TaskId> ready, int step) {
    const RankProgram& program = programs_[stream.kind];
    const std::vector<TaskId> before = updated_;
    TaskId last{};
    for (std::uint32_t s = 0; s < program.segments.size(); ++s) {
      const Seconds duration = program.segments[s] + extra_[stream.kind][s];
      last = note(graph_.add_task(stream.compute, engine::to_ticks<Picoseconds>(duration)),
                  {.part = Part::Compute, .kind = stream.kind, .index = s, .step = step});
      if (s == 0 && barrier_) graph_.add_dependency(*barrier_, last);
      for (const std::uint32_t b : program.needs[s]) {
        if (fetched[b]) graph_.add_dependency(*fetched[b], last);
        if (!barrier_ && !before.empty()) graph_.add_dependency(before[b], last);
      }
      for (const std::uint32_t b : program.completes[s]) graph_.add_dependency(last, ready[b]);
    }
    return last;
  }

  void add_updates(const Stream& stream, std::span<const std::optional<TaskId>> pushed,
                   std::span<const std::uint32_t> order, TaskId end, int step) {
    const RankProgram& program = programs_[stream.kind];
    const auto index = static_cast<std::uint32_t>(program.segments.size());
    const auto add = [&](Seconds duration) {
      const engine::ResourceId resource =
          request_.strategy.overlaps_next_forward ? stream.update : stream.compute;
      const TaskId task =
          note(graph_.add_task(resource, engine::to_ticks<Picoseconds>(duration)),
               {.part = Part::Compute, .kind = stream.kind, .index = index, .step = step});
      graph_.add_dependency(task, end);
      return task;
    };
    if (request_.strategy.updates_as_they_come) {
      for (const std::uint32_t b : order) {
        const TaskId task = add(program.updates[b]);
        if (pushed[b]) graph_.add_dependency(*pushed[b], task);
        if (request_.strategy.overlaps_next_forward) updated_[b] = task;
      }
    }
    Seconds rest = program.other_updates;
    if (!request_.strategy.updates_as_they_come) {
      for (const Seconds update : program.updates) rest += update;
    }
    if (!(rest > Seconds(0))) return;
    const TaskId task = add(rest);
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
  std::vector<engine::ResourceId> streams_;
  std::vector<Stream> streams_of_ranks_;
  std::vector<engine::LinkUse> uses_;
  std::optional<TaskId> barrier_;
  std::vector<TaskId> updated_;  ///< by bucket, of the step before
};

struct Interval2 {
  Picoseconds start, end;
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
  [[nodiscard]] std::vector<Interval2> exchange(bool on_sms_only) const {
    std::vector<Interval2> spans;
    for (std::uint32_t t = 0; t < run_.info_.size(); ++t) {
      const TaskInfo& info = run_.info_[t];
      if (info.part != Part::Exchange || (on_sms_only && !info.on_sms)) continue;
      if (schedule_.end[t] <= begin_ || schedule_.start[t] >= end_) continue;
      spans.push_back({std::max(schedule_.start[t], begin_), std::min(schedule_.end[t], end_)});
    }
    std::sort(spans.begin(), spans.end(),
              [](const Interval2& a, const Interval2& b) { return a.start < b.start; });
    std::vector<Interval2> merged;
    for (const Interval2& span : spans) {
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
    const std::vector<Interval2> busy = exchange(true);
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
          [](const Interval2& span, Picoseconds start) { return span.end <= start; });
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
    Picoseconds on_path[4] = {};
    std::optional<TaskId> task = run_.step_ends_[kSteps - 1];
    Picoseconds until = end_;
    while (task && until > begin_) {
      const Picoseconds from = std::max(schedule_.start[task->index], begin_);
      const Part part = run_.info_[task->index].part;
      on_path[static_cast<std::size_t>(part)] += until - from;
      until = from;
      const auto release = schedule_.find_release(*task);
      task = release ? std::optional(release->task) : std::nullopt;
      // A lag between two tasks: gradients that wait to be looked at.
      if (task && schedule_.end[task->index] < until) {
        const Picoseconds lag_from = std::max(schedule_.end[task->index], begin_);
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
                       .start = since_begin(schedule_.start[t]),
                       .end = since_begin(schedule_.end[t])});
    }
    std::stable_sort(spans.begin(), spans.end(),
                     [](const RankSpan& a, const RankSpan& b) { return a.start < b.start; });
    return spans;
  }

 private:
  [[nodiscard]] Seconds since_begin(Picoseconds at) const {
    return (std::max(at, begin_) - begin_).in_seconds();
  }
  const RunBuilder& run_;
  const engine::Schedule& schedule_;
  Picoseconds begin_, end_;
};

/// What collectives take of each kind's SMs.
std::vector<double> shares_of_sms(const DataParallelRequest& request,
                                  std::span<const BucketExchange> exchanges) {
  int channels = 0;
  for (const BucketExchange& exchange : exchanges) {
    for (const ExchangeStage& stage : exchange.push) {
      if (stage.on_sms) channels = std::max(channels, stage.transfer.channels);
    }
  }
  std::vector<double> shares;
  for (const RankKind& kind : request.kinds) {
    constexpr double kMost = 0.5;
    shares.push_back(std::min(kMost, static_cast<double>(channels) / kind.gpu.sm_count));
  }
  return shares;
}

std::vector<LinkLoad> busiest_links(const Fabric& fabric, std::span<const BucketExchange> exchanges,
                                    Seconds step) {
  std::map<FabricLinkId, double> bytes;
  for (const BucketExchange& exchange : exchanges) {
    for (const auto* stages : {&exchange.fetch, &exchange.push}) {
      for (const ExchangeStage& stage : *stages) {
        for (const FabricUse& use : stage.transfer.uses) {
          if (use.link == staging_link(fabric)) continue;
          bytes[use.link] += stage.transfer.bytes.in_bytes() * use.weight;
        }
      }
    }
  }
  std::vector<LinkLoad> loads;
  for (const auto& [link, sum] : bytes) {
    loads.push_back({link, sum / (fabric.link(link).bandwidth.in_si() * step.in_s())});
  }
  std::stable_sort(loads.begin(), loads.end(),
                   [](const LinkLoad& a, const LinkLoad& b) { return a.share > b.share; });
  if (loads.size() > kMostBusiest) loads.resize(kMostBusiest);
  return loads;
}

/// Share of kernels as nvidia-smi samples them: the rank's own, and those of collectives.
Range utilization_of(std::uint32_t kind, const RankKind& rank, const RankProgram& program,
                     std::span<const RankSpan> timeline, std::span<const Interval2> collectives,
                     Picoseconds begin, Seconds step) {
  StepTimeline busy;
  busy.step_time = step;
  for (const RankSpan& span : timeline) {
    if (span.kind != kind) continue;
    const double share = span.index < program.busy.size() ? program.busy[span.index] : 1.0;
    busy.kernels.push_back({span.start, span.start + (span.end - span.start) * share});
  }
  for (const Interval2& span : collectives) {
    busy.kernels.push_back({(span.start - begin).in_seconds(), (span.end - begin).in_seconds()});
  }
  std::sort(busy.kernels.begin(), busy.kernels.end(),
            [](const KernelSpan& a, const KernelSpan& b) { return a.start < b.start; });
  return gpu_utilization(busy, rank.gpu);
}

/// Quantile of the standard normal by bisection of erfc.
double normal_quantile(double p) {
  double low = -10, high = 10;
  for (int i = 0; i < 80; ++i) {
    const double x = (low + high) / 2;
    (0.5 * std::erfc(-x / std::sqrt(2.0)) < p ? low : high) = x;
  }
  return high;
}

}  // namespace

double expected_maximum(std::uint32_t n) {
  if (n <= 1) return 0;
  return normal_quantile((n - 0.375) / (n + 0.25));
}

DataParallelStep simulate_data_parallel(const DataParallelRequest& request) {
  TRACECAST_CHECK(!request.kinds.empty() && request.kind_of.size() == request.fabric.num_ranks(),
                  "every rank has a kind");
  const double samples = static_cast<double>(request.kinds.front().graph.batch);
  const double sd =
      std::hypot(rank_variation().rank_sd, request.sample_sd / std::sqrt(std::max(samples, 1.0)));
  const double straggling = 1 + sd * expected_maximum(request.fabric.num_ranks());
  const RankPrograms ranks = make_rank_programs(request, straggling);
  const double wire_share = ranks.wire_share;
  const std::vector<BucketExchange> exchanges =
      plan_exchange(ranks.buckets, wire_share, request.strategy, request.fabric, request.date);

  // Collectives and kernels slow each other; what overlaps what follows from the schedule.
  const std::vector<double> sm_shares = shares_of_sms(request, exchanges);
  std::vector<std::vector<Seconds>> extra;
  for (const RankProgram& program : ranks.programs) extra.emplace_back(program.segments.size());
  constexpr int kRounds = 3;
  for (int round = 0;; ++round) {
    const RunBuilder run(request, ranks.programs, exchanges, extra);
    const engine::Schedule schedule = run.graph_.run();
    const LastStep last(run, schedule);
    if (round + 1 < kRounds) {
      extra = last.overlaps(ranks.programs);
      for (std::size_t k = 0; k < extra.size(); ++k) {
        for (Seconds& time : extra[k]) time = time * sm_shares[k];
      }
      continue;
    }
    DataParallelStep step;
    step.step_time = last.step_time();
    step.parts = last.critical_path();
    step.parts.stragglers = step.parts.compute * (1 - 1 / straggling);
    step.parts.compute -= step.parts.stragglers;
    for (const Interval2& span : last.exchange(false)) {
      step.exchange_busy += (span.end - span.start).in_seconds();
    }
    if (step.exchange_busy > Seconds(0)) {
      step.exposed = std::min(1.0, step.parts.communication / step.exchange_busy);
    }
    if (request.input_supply > step.step_time) {
      step.parts.input = request.input_supply - step.step_time;
      step.step_time = request.input_supply;
    }
    step.num_buckets = exchanges.size();
    for (const BucketExchange& exchange : exchanges) step.exchanged += exchange.bytes;
    step.timeline = last.timeline();
    const auto collectives = last.exchange(true);
    const Picoseconds begin = schedule.end[run.step_ends_[kSteps - 2].index];
    for (std::uint32_t k = 0; k < request.kinds.size(); ++k) {
      step.utilization.push_back(utilization_of(k, request.kinds[k], ranks.programs[k],
                                                step.timeline, collectives, begin, step.step_time));
    }
    step.busiest = busiest_links(request.fabric, exchanges, step.step_time);
    return step;
  }
}

}  // namespace tracecast
