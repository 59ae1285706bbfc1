#include "sim/parallel/rank_program.hpp"

#include <algorithm>
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

/// When the rank's kernels run once its host has others to serve.
StepTimeline timeline_of(const RankKind& rank, const DataParallelRequest& request) {
  const StepTimeline& alone = rank.one_gpu.timeline;
  if (!request.host || !(alone.step_time > Seconds(0))) return alone;
  const std::uint32_t in_host = request.fabric.ranks_of_host(FabricNodeId{0});
  const double runnable = std::max(1.0, in_host * (alone.host_busy / alone.step_time));
  const double speed = request.host->speed(runnable);
  if (speed >= 1) return alone;
  StepTimeline shared = simulate(on_shared_cores(rank.one_gpu.program, speed));
  // The micro-batches before the last one take as much longer as it does.
  const Seconds last = alone.kernels.empty() ? alone.step_time : alone.kernels.back().end;
  if (alone.step_time > last) shared.step_time *= alone.step_time / last;
  return shared;
}

/// From the end of the kernel before (or the step's begin) to the end of each kernel, and its busy
/// part.
struct KernelTimes {
  std::vector<Seconds> ends, whole, busy;
  Seconds lead{};  ///< of the first one's whole time: micro-batches before the last
};

KernelTimes times_of(const StepTimeline& timeline, double factor) {
  KernelTimes times;
  // Micro-batches before the last one belong to the step's begin.
  const Seconds lead = timeline.kernels.empty()
                           ? timeline.step_time
                           : max(Seconds(), timeline.step_time - timeline.kernels.back().end);
  times.lead = lead * factor;
  Seconds end{}, before = -lead;
  for (const KernelSpan& span : timeline.kernels) {
    const Seconds whole = (span.end - before) * factor;
    end += whole;
    times.ends.push_back(end);
    times.whole.push_back(whole);
    times.busy.push_back((span.end - span.start) * factor);
    before = span.end;
  }
  return times;
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
                 const KernelTimes& times)
      : request_(request), rank_(rank), schedule_(schedule), buckets_(buckets), times_(times) {}

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
    for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
      Seconds busy{};
      for (std::uint32_t k = cuts[s]; k < cuts[s + 1]; ++k) {
        program_.segments[s] += times_.whole[k];
        busy += times_.busy[k];
        add_kernel(program_.mixes[s], rank_.one_gpu, k, times_.busy[k], times_.whole[k]);
      }
      if (cuts[s] == 0 && cuts[s + 1] > 0) add_earlier(program_.mixes[s]);
      program_.busy[s] = program_.segments[s] > Seconds(0) ? busy / program_.segments[s] : 0.0;
    }
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

  /// Micro-batches before the last one, which the first kernel's time has as waiting.
  void add_earlier(WorkMix& mix) const {
    WorkMix early = earlier_micro_batches(rank_.one_gpu);
    if (!(early.total() > Seconds(0))) return;
    early.slice(times_.lead / early.total());
    mix.idle = max(mix.idle - times_.lead, Seconds());
    mix += early;
  }

  /// Of the update's kernels that this rank runs.
  [[nodiscard]] double share_of_updates() const {
    if (!request_.strategy.divides_updates) return 1;
    return 1 / static_cast<double>(std::max(request_.fabric.ranks_of(FabricNodeId{0}), 1U));
  }

  void add_updates() {
    const double share = share_of_updates();
    WorkMix& mix = program_.mixes.back();
    for (std::uint32_t k = schedule_.updates_begin; k < times_.whole.size(); ++k) {
      add_kernel(mix, rank_.one_gpu, k, times_.busy[k] * share, times_.whole[k] * share);
    }
    std::vector<char> taken(times_.whole.size());
    for (std::uint32_t b = 0; b < buckets_.size(); ++b) {
      for (const std::uint32_t g : buckets_[b].gradients) {
        for (const std::uint32_t k : schedule_.gradients[g].updates) {
          program_.updates[b] += times_.whole[k] * share;
          taken[k] = 1;
        }
      }
    }
    for (std::uint32_t k = schedule_.updates_begin; k < times_.whole.size(); ++k) {
      if (!taken[k]) program_.other_updates += times_.whole[k] * share;
    }
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
    const KernelTimes times =
        times_of(timeline_of(rank, request), straggling * board * rank.compute_time_factor);
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
    result.programs.push_back(ProgramBuilder(request, rank, schedule, buckets, times).build());
  }
  return result;
}

}  // namespace tracecast
