#include "sim/parallel/rank_program.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace tracecast {
namespace {

/// The program on a host whose dispatch threads get `speed` of a core each.
StepProgram on_shared_cores(StepProgram program, double speed) {
  program.step_overhead /= speed;
  program.launch /= speed;
  for (ProgramOp& op : program.ops) op.dispatch /= speed;
  for (ProgramKernel& kernel : program.kernels) kernel.more_launch /= speed;
  return program;
}

/// A rank's host, and when its kernels run alone, once the host has others to serve.
struct RankHost {
  StepProgram program;
  StepTimeline timeline;
};
RankHost host_of(const RankKind& rank, const DataParallelRequest& request) {
  const StepTimeline& alone = rank.one_gpu.timeline;
  if (!request.host || !(alone.step_time > Seconds(0))) return {rank.one_gpu.program, alone};
  const std::uint32_t in_host = request.fabric.ranks_of_host(FabricNodeId{0});
  const double runnable = std::max(1.0, in_host * (alone.host_busy / alone.step_time));
  const double speed = request.host->speed(runnable);
  if (speed >= 1) return {rank.one_gpu.program, alone};
  RankHost shared{.program = on_shared_cores(rank.one_gpu.program, speed), .timeline = {}};
  shared.timeline = simulate(shared.program);
  // The micro-batches before the last one take as much longer as it does.
  const Seconds last = alone.kernels.empty() ? alone.step_time : alone.kernels.back().end;
  if (alone.step_time > last) {
    shared.timeline.step_time *= alone.step_time / last;
    shared.timeline.kernel_busy = alone.kernel_busy;
    shared.timeline.host_busy = alone.host_busy / speed;
  }
  return shared;
}

/// Of every kernel: when it ends in a step alone, how long it runs, and the host's work that issues
/// it.
struct KernelTimes {
  std::vector<Seconds> ends, busy, issue;
  std::vector<char> waits;  ///< the host waits for all kernels before it
  Seconds begin{};          ///< the host's work before the first one
  Seconds copy{};           ///< of the input, before the first one
  /// Of micro-batches before the last one: all, the kernels, the host.
  Seconds early{}, early_kernels{}, early_issue{};
};

KernelTimes times_of(const RankHost& host, double factor) {
  const auto& [program, timeline] = host;
  KernelTimes times;
  Seconds busy{}, issued = program.step_overhead;
  for (const KernelSpan& span : timeline.kernels) {
    times.ends.push_back(span.end * factor);
    times.busy.push_back((span.end - span.start) * factor);
    busy += span.end - span.start;
  }
  times.issue.resize(timeline.kernels.size());
  times.waits.resize(timeline.kernels.size());
  for (const ProgramOp& op : program.ops) {
    for (std::uint32_t k = op.first_kernel; k < op.first_kernel + op.num_kernels; ++k) {
      Seconds work = program.launch + program.kernels[k].more_launch;
      if (k == op.first_kernel) work += op.dispatch;
      issued += work;
      times.issue[k] = work * factor;
    }
    if (op.num_kernels > 0) times.waits[op.first_kernel] = op.waits_for_gpu ? 1 : 0;
  }
  times.begin = program.step_overhead * factor;
  times.copy = program.input_copy * factor;
  const Seconds early = timeline.kernels.empty()
                            ? timeline.step_time
                            : max(Seconds(), timeline.step_time - timeline.kernels.back().end);
  for (Seconds& end : times.ends) end += early * factor;
  times.early = early * factor;
  if (early > Seconds(0)) {
    times.early_kernels = min(early, max(timeline.kernel_busy - busy, Seconds())) * factor;
    times.early_issue = min(early, max(timeline.host_busy - issued, Seconds())) * factor;
  }
  return times;
}

/// When a stream and its host are done with some kernels, as the greatest of what counts from the
/// stream's begin and what counts from the host's.
class Issued {
 public:
  /// The step's begin: micro-batches before the last one, the host's own work, the input's copy.
  void begin(const StepProgram& program, const KernelTimes& times) {
    for (State& s : {std::ref(from_stream_), std::ref(from_host_)}) {
      const Seconds stream = s.stream, host = s.host;
      const bool waits = program.synchronizes && times.early > Seconds(0);
      if (times.early > Seconds(0)) {
        s.stream = max(stream + (waits ? times.early : times.early_kernels), host + times.early);
        s.host = waits ? s.stream : host + times.early_issue;
      }
      s.host += times.begin;
      if (!(times.copy > Seconds(0))) continue;
      const Seconds copied =
          (program.copy_waits_for_kernels ? max(s.host, s.stream) : s.host) + times.copy;
      if (program.copy_blocks_host) s.host = max(s.host, copied);
      s.stream = max(s.stream, copied);
    }
  }
  void add(Seconds issue, bool waits, Seconds kernel) {
    for (State& s : {std::ref(from_stream_), std::ref(from_host_)}) {
      if (waits) s.host = max(s.host, s.stream);
      s.host += issue;
      s.stream = max(s.stream, s.host) + kernel;
    }
  }
  /// From the moment on when the stream is there: kernels, and what they wait for within.
  [[nodiscard]] Seconds kernels() const { return from_stream_.stream; }
  [[nodiscard]] HostTimes host() const {
    HostTimes times{.lead = max(from_host_.stream - from_stream_.stream, Seconds()),
                    .issue = from_host_.host,
                    .wait = {}};
    if (from_stream_.host >= Seconds(0)) times.wait = from_stream_.host;
    return times;
  }

 private:
  struct State {
    Seconds stream, host;
  };
  static constexpr Seconds kNever = Seconds(-1e30);
  State from_stream_{.stream = {}, .host = kNever}, from_host_{.stream = kNever, .host = {}};
};

/// RankProgram::queued_behind: `ends` counts kernels up to the end of each segment and, last, of
/// the updates.
std::vector<std::int64_t> queued_behind(std::span<const std::int64_t> ends, std::int64_t queue) {
  std::vector<std::int64_t> behind;
  const std::int64_t in_step = ends.back(), count = static_cast<std::int64_t>(ends.size());
  std::int64_t first = 0;
  for (const std::int64_t end : ends) {
    std::int64_t ended = first - queue + 1, step = 0;
    for (; ended <= 0 && in_step > 0; ended += in_step) ++step;
    const auto at = std::upper_bound(ends.begin(), ends.end(), ended);
    behind.push_back(at - ends.begin() - 1 - step * count);
    first = end;
  }
  return behind;
}

/// Where segments begin: sorted kernel indices, 0 first, `end` last.
std::vector<std::uint32_t> cuts_of(std::span<const GradientBucket> buckets, std::uint32_t end,
                                   bool cuts_forward, std::span<const Crossing> crossings) {
  std::set<std::uint32_t> cuts{0, end};
  for (const Crossing& crossing : crossings) {
    if (crossing.ready_after) cuts.insert(std::min(*crossing.ready_after + 1, end));
    if (crossing.first_use) cuts.insert(std::min(*crossing.first_use, end));
  }
  for (const GradientBucket& bucket : buckets) {
    cuts.insert(std::min(bucket.ready_after + 1, end));
    if (cuts_forward) cuts.insert(std::min(bucket.first_use, end));
  }
  return {cuts.begin(), cuts.end()};
}

class ProgramBuilder {
 public:
  ProgramBuilder(const DataParallelRequest& request, const RankKind& rank,
                 const GradientSchedule& schedule, std::span<const GradientBucket> buckets,
                 const StepProgram& host, const KernelTimes& times)
      : request_(request),
        rank_(rank),
        schedule_(schedule),
        buckets_(buckets),
        host_(host),
        times_(times) {}

  RankProgram build() {
    const StrategyProfile& strategy = request_.strategy;
    const bool cuts_forward = strategy.communication == Communication::OnHost ||
                              strategy.communication == Communication::Scattered ||
                              strategy.overlaps_next_forward;
    add_segments(cuts_of(buckets_, schedule_.updates_begin, cuts_forward, rank_.crossings));
    program_.updates.resize(buckets_.size());
    for (const GradientBucket& bucket : buckets_) program_.delay.push_back(bucket.delay);
    // Variables on the host are updated there; with one GPU as well, whose step has the update on
    // the GPU: it stays.
    add_updates();
    add_packing();
    return std::move(program_);
  }

 private:
  void add_segments(const std::vector<std::uint32_t>& cuts) {
    const std::size_t count = std::max<std::size_t>(cuts.size(), 2) - 1;
    program_.segments.resize(count);
    program_.busy.resize(count);
    program_.mixes.resize(count + 1);
    program_.needs.resize(count);
    program_.completes.resize(count);
    program_.hosts.resize(count);
    program_.synchronizes = host_.synchronizes;
    std::vector<std::int64_t> ends;
    for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
      Seconds busy{};
      Issued issued;
      if (s == 0) issued.begin(host_, times_);
      for (std::uint32_t k = cuts[s]; k < cuts[s + 1]; ++k) {
        issued.add(times_.issue[k], times_.waits[k] != 0, times_.busy[k]);
        busy += times_.busy[k];
        add_kernel(program_.mixes[s], rank_.one_gpu, k, times_.busy[k], times_.busy[k]);
      }
      program_.segments[s] = issued.kernels();
      program_.hosts[s] = issued.host();
      program_.mixes[s].idle = max(program_.segments[s] - busy, Seconds());
      if (s == 0) add_earlier(program_.mixes[s]);
      program_.busy[s] = program_.segments[s] > Seconds(0) ? busy / program_.segments[s] : 0.0;
      ends.push_back(cuts[s + 1]);
    }
    ends.resize(count, cuts.back());
    ends.push_back(static_cast<std::int64_t>(times_.busy.size()));
    program_.queued_behind = queued_behind(ends, host_.launch_queue);
    const auto segment_of = [&](std::uint32_t kernel) {
      const auto after = std::upper_bound(cuts.begin(), cuts.end(), kernel);
      const auto at = static_cast<std::size_t>(after - cuts.begin());
      return std::min(at == 0 ? 0 : at - 1, count - 1);
    };
    for (std::uint32_t b = 0; b < buckets_.size(); ++b) {
      const std::size_t first = segment_of(buckets_[b].first_use);
      program_.first_segment.push_back(static_cast<std::uint32_t>(first));
      program_.needs[first].push_back(b);
      program_.completes[segment_of(buckets_[b].ready_after)].push_back(b);
    }
    for (const Crossing& crossing : rank_.crossings) {
      SegmentCrossing cut{.completed_by = {}, .needed_by = static_cast<std::uint32_t>(count)};
      if (crossing.ready_after) {
        cut.completed_by = static_cast<std::uint32_t>(segment_of(*crossing.ready_after));
      }
      if (crossing.first_use && *crossing.first_use < cuts.back()) {
        cut.needed_by = static_cast<std::uint32_t>(segment_of(*crossing.first_use));
      }
      program_.crossings.push_back(cut);
    }
  }

  /// Micro-batches before the last one, which the first segment has as waiting.
  void add_earlier(WorkMix& mix) const {
    WorkMix early = earlier_micro_batches(rank_.one_gpu);
    if (!(early.kernels() > Seconds(0))) return;
    const Seconds idle = early.idle * (times_.early / early.total());
    early.slice(times_.early_kernels / early.kernels());
    early.idle = min(idle, max(mix.idle - times_.early_kernels, Seconds()));
    mix.idle = max(mix.idle - times_.early_kernels - early.idle, Seconds());
    mix += early;
  }

  /// Of the update's kernels that this rank runs.
  [[nodiscard]] double share_of_updates() const {
    if (!request_.strategy.divides_updates) return 1;
    return 1 / static_cast<double>(std::max(request_.fabric.ranks_of(FabricNodeId{0}), 1U));
  }

  void add_updates() {
    const double share = share_of_updates();
    const auto num_kernels = static_cast<std::uint32_t>(times_.busy.size());
    const auto issue = [&](Issued& issued, std::uint32_t k) {
      issued.add(times_.issue[k] * share, times_.waits[k] != 0, times_.busy[k] * share);
    };
    WorkMix& mix = program_.mixes.back();
    Issued all, others;
    Seconds busy{};
    for (std::uint32_t k = schedule_.updates_begin; k < num_kernels; ++k) {
      busy += times_.busy[k] * share;
      add_kernel(mix, rank_.one_gpu, k, times_.busy[k] * share, times_.busy[k] * share);
      issue(all, k);
    }
    mix.idle = max(all.kernels() - busy, Seconds());
    program_.all_updates = all.kernels();
    program_.all_updates_host = all.host();
    std::vector<char> taken(num_kernels);
    program_.update_hosts.resize(buckets_.size());
    for (std::uint32_t b = 0; b < buckets_.size(); ++b) {
      Issued own;
      for (const std::uint32_t g : buckets_[b].gradients) {
        for (const std::uint32_t k : schedule_.gradients[g].updates) {
          issue(own, k);
          taken[k] = 1;
        }
      }
      program_.updates[b] = own.kernels();
      program_.update_hosts[b] = own.host();
    }
    for (std::uint32_t k = schedule_.updates_begin; k < num_kernels; ++k) {
      if (!taken[k]) issue(others, k);
    }
    program_.other_updates = others.kernels();
    program_.other_updates_host = others.host();
  }

  /// Half of the copies before the communication, half after it.
  void add_packing() {
    const double copies = request_.strategy.packing_copies / 2;
    if (copies <= 0 || request_.fabric.num_ranks() < 2) return;
    for (std::uint32_t b = 0; b < buckets_.size(); ++b) {
      Seconds time{};
      Bytes all{};
      for (const std::uint32_t g : buckets_[b].gradients) {
        all += schedule_.gradients[g].bytes;
        time += bucket_copy_time(schedule_.gradients[g].bytes, rank_.gpu) * copies;
      }
      if (request_.strategy.divides_updates) time = bucket_copy_time(all, rank_.gpu) * copies;
      program_.updates[b] += time;
      program_.all_updates += time;
      program_.mixes.back().add(KernelClass::Copy, cost::Basis::Spec, time);
      for (std::size_t s = 0; s < program_.completes.size(); ++s) {
        const auto& done = program_.completes[s];
        if (std::find(done.begin(), done.end(), b) == done.end()) continue;
        program_.segments[s] += time;
        program_.mixes[s].add(KernelClass::Copy, cost::Basis::Spec, time);
      }
    }
  }

  const DataParallelRequest& request_;
  const RankKind& rank_;
  const GradientSchedule& schedule_;
  std::span<const GradientBucket> buckets_;
  const StepProgram& host_;
  const KernelTimes& times_;
  RankProgram program_;
};

/// Of a table that every rank has, each row's gradient travels once, however often the batch looks
/// it up.
void count_rows_once(const RankKind& rank, GradientSchedule& schedule) {
  for (Gradient& gradient : schedule.gradients) {
    const double elements =
        static_cast<double>(element_count(rank.graph.tensor(gradient.weight).shape));
    gradient.bytes = min(gradient.bytes, rank.element_bytes[gradient.weight.index] * elements);
  }
}

/// Weights that are copied though nothing trains them: one bucket without a gradient.
GradientBucket weights_of(const RankKind& rank) {
  GradientBucket bucket{.gradients = {}, .weights_only = true};
  for (std::size_t t = 0; t < rank.element_bytes.size(); ++t) {
    const Tensor& tensor = rank.graph.tensors()[t];
    if (tensor.role != TensorRole::Weight) continue;
    bucket.bytes += rank.element_bytes[t] * static_cast<double>(element_count(tensor.shape));
  }
  return bucket;
}

/// The buckets of the first kind, with the kernels that another kind has for the same weights.
std::vector<GradientBucket> same_buckets(std::span<const GradientBucket> buckets,
                                         const GradientSchedule& first,
                                         GradientSchedule& schedule) {
  std::map<TensorId, std::uint32_t> by_weight;
  for (std::uint32_t g = 0; g < schedule.gradients.size(); ++g) {
    by_weight[schedule.gradients[g].weight] = g;
  }
  std::vector<GradientBucket> same(buckets.begin(), buckets.end());
  for (GradientBucket& bucket : same) {
    if (bucket.weights_only) continue;
    bucket.ready_after = 0;
    bucket.first_use = UINT32_MAX;
    for (std::uint32_t& g : bucket.gradients) {
      g = by_weight.at(first.gradients[g].weight);
      bucket.ready_after = std::max(bucket.ready_after, schedule.gradients[g].ready_after);
      bucket.first_use = std::min(bucket.first_use, schedule.gradients[g].first_use);
    }
  }
  return same;
}

}  // namespace

Seconds bucket_copy_time(Bytes bytes, const GpuSpec& gpu) {
  return 2.5_us + bytes * 2.0 / (gpu.dram_bandwidth * 0.8);
}

RankPrograms make_rank_programs(const DataParallelRequest& request, double straggling) {
  RankPrograms result;
  GradientSchedule first;
  for (const RankKind& rank : request.kinds) {
    const double board = shared_board_factor(rank.gpu, request.fabric);
    const RankHost host = host_of(rank, request);
    const KernelTimes times = times_of(host, straggling * board * rank.compute_time_factor);
    GradientSchedule schedule =
        find_gradients(rank.graph, rank.one_gpu.priced, rank.one_gpu.program, rank.element_bytes);
    if (request.strategy.tables) count_rows_once(rank, schedule);
    const bool is_first = result.programs.empty();
    if (is_first) {
      result.buckets = make_buckets(schedule, request.strategy, times.ends);
      if (schedule.gradients.empty() && request.strategy.communication == Communication::FirstGpu) {
        result.buckets.push_back(weights_of(rank));
      }
      first = schedule;
      if (request.strategy.gradient_element > Bytes(0) && !schedule.gradients.empty()) {
        const Gradient& g = schedule.gradients.front();
        const double elements =
            static_cast<double>(element_count(rank.graph.tensor(g.weight).shape));
        result.wire_share = request.strategy.gradient_element * elements / g.bytes;
      }
    }
    const std::vector<GradientBucket> buckets =
        is_first ? result.buckets : same_buckets(result.buckets, first, schedule);
    result.programs.push_back(
        ProgramBuilder(request, rank, schedule, buckets, host.program, times).build());
  }
  return result;
}

}  // namespace tracecast
