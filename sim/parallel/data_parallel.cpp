#include "sim/parallel/data_parallel.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/network/fold.hpp"
#include "sim/parallel/data_parallel_run.hpp"
#include "sim/parallel/rank_program.hpp"

namespace tracecast {
namespace {

using engine::Picoseconds;

constexpr std::size_t kMostBusiest = 8;

/// A uniform moment of the rank's own within its group's jitter.
Seconds start_of(const Fabric& fabric, Rank rank) {
  const Seconds jitter = fabric.group_of(fabric.node_of(rank)).start_jitter;
  return jitter > Seconds(0) ? jitter * Random(rank.index).uniform() : Seconds();
}

/// Who is simulated: every rank, or one of each class of those provably alike that have the same
/// program.
std::vector<RankStream> simulated_ranks(const DataParallelRequest& request) {
  std::vector<RankStream> streams;
  RankClasses classes;
  if (request.fold) classes = fold(request.fabric, Meeting::InCollectives);
  std::set<std::pair<std::uint32_t, std::uint32_t>> known;
  for (std::uint32_t r = 0; r < request.fabric.num_ranks(); ++r) {
    const std::uint32_t kind = request.kind_of[r];
    if (request.fold && !known.emplace(classes.class_of[r], kind).second) continue;
    streams.push_back({kind, start_of(request.fabric, Rank{r})});
  }
  return streams;
}

/// What collectives take of each kind's SMs.
std::vector<double> shares_of_sms(const DataParallelRequest& request,
                                  std::span<const BucketCommunication> communications) {
  int channels = 0;
  for (const BucketCommunication& communication : communications) {
    for (const CommunicationStage& stage : communication.push) {
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

std::vector<LinkLoad> busiest_links(const Fabric& fabric,
                                    std::span<const BucketCommunication> communications,
                                    Seconds step) {
  std::map<FabricLinkId, double> bytes;
  for (const BucketCommunication& communication : communications) {
    for (const auto* stages : {&communication.fetch, &communication.push}) {
      for (const CommunicationStage& stage : *stages) {
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
                     std::span<const RankSpan> timeline, std::span<const TickSpan> collectives,
                     Picoseconds begin, Seconds step) {
  StepTimeline busy;
  busy.step_time = step;
  for (const RankSpan& span : timeline) {
    if (span.kind != kind) continue;
    const double share = span.index < program.busy.size() ? program.busy[span.index] : 1.0;
    busy.kernels.push_back({span.start, span.start + (span.end - span.start) * share});
  }
  for (const TickSpan& span : collectives) {
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

std::vector<TimeSpan> since(std::span<const TickSpan> spans, Picoseconds begin) {
  std::vector<TimeSpan> result;
  for (const TickSpan& span : spans) {
    result.push_back({(span.start - begin).in_seconds(), (span.end - begin).in_seconds()});
  }
  return result;
}

/// What a rank of a kind works in the last step.
std::vector<WorkSpan> work_of(std::uint32_t kind, const RankProgram& program, const LastStep& last,
                              std::size_t simulated, double straggling) {
  const auto updates = static_cast<std::uint32_t>(program.segments.size());
  const WorkMix& update = program.mixes.back();
  static const WorkMix kWaiting;
  std::vector<WorkSpan> work;
  last.for_each_kernel(
      kind, simulated, [&](const ActionInfo& info, TimeSpan wait, Seconds start, Seconds end) {
        if (wait.end > wait.start) work.push_back({.span = wait, .mix = &kWaiting});
        WorkSpan one{.span = {start, end},
                     .mix = &program.mixes[std::min(info.index, updates)],
                     .straggling = straggling};
        if (info.index == updates)
          one.part = update.total() > Seconds(0) ? (end - start) / update.total() : 0.0;
        work.push_back(one);
      });
  return work;
}

/// What the collectives of a step carry over an edge of their rings, and with how many blocks.
struct CollectiveWork {
  Bytes bytes{};
  int channels = 0;
};
CollectiveWork collective_work(std::span<const BucketCommunication> communications) {
  CollectiveWork work;
  for (const BucketCommunication& communication : communications) {
    for (const auto* stages : {&communication.fetch, &communication.push}) {
      for (const CommunicationStage& stage : *stages) {
        if (!stage.on_sms) continue;
        work.bytes += stage.transfer.bytes;
        work.channels = std::max(work.channels, stage.transfer.channels);
      }
    }
  }
  return work;
}

Seconds length_of(std::span<const TimeSpan> spans) {
  Seconds sum{};
  for (const TimeSpan& span : spans) sum += span.end - span.start;
  return sum;
}

/// Account, exposed communication and power, over all ranks.
void add_accounts(const DataParallelRequest& request, const RankPrograms& ranks,
                  std::span<const RankStream> streams,
                  std::span<const BucketCommunication> communications,
                  std::span<const std::vector<Seconds>> extra, const LastStep& last,
                  double straggling, DataParallelStep& step) {
  const Picoseconds begin = last.begin();
  const std::vector<TimeSpan> communication = since(last.communication(false), begin),
                              collectives = since(last.communication(true), begin),
                              host = since(last.of(Action::HostWork), begin),
                              any_work = since(last.of(Action::Kernel), begin);
  const CollectiveWork carried = collective_work(communications);
  std::vector<PowerRange> boards;
  std::vector<double> counts;
  Seconds exposed{};
  for (std::uint32_t k = 0; k < request.kinds.size(); ++k) {
    const RankKind& kind = request.kinds[k];
    const auto simulated = static_cast<std::size_t>(
        std::count_if(streams.begin(), streams.end(),
                      [&](const RankStream& stream) { return stream.kind == k; }));
    const RankStep rank{.step_time = step.step_time,
                        .work = work_of(k, ranks.programs[k], last, simulated, straggling),
                        .communication = communication,
                        .collectives = collectives,
                        .host = host,
                        .any_work = any_work};
    const Watts draws = request.cost ? collective_power(carried.bytes, length_of(collectives),
                                                        carried.channels, kind.gpu, *request.cost)
                                     : Watts();
    const RankAccount account = account_rank(rank, draws);
    const auto count =
        static_cast<double>(std::count(request.kind_of.begin(), request.kind_of.end(), k));
    const double weight = count / static_cast<double>(request.kind_of.size());
    step.account.add(account.account, weight);
    for (const Seconds time : extra[k]) step.slowed += time * weight;
    exposed += account.exposed * weight;
    boards.push_back(power_in_job(kind.one_gpu.power, kind.one_gpu.timeline.step_time,
                                  Watts(account.active_w.avg) * step.step_time, account.active_w,
                                  step.step_time));
    counts.push_back(count);
  }
  step.power = mean_board(boards, counts);
  step.exposed =
      step.communication_busy > Seconds(0) ? std::min(1.0, exposed / step.communication_busy) : 0.0;
}

}  // namespace

double expected_maximum(std::uint32_t n) {
  if (n <= 1) return 0;
  return normal_quantile((n - 0.375) / (n + 0.25));
}

double straggling_of(const Fabric& fabric, double sample_sd, std::int64_t batch,
                     double kernel_share) {
  const double samples = std::max(static_cast<double>(batch), 1.0);
  const double sd = std::hypot(fabric.specs().rank_variation().rank_sd,
                               kernel_share * sample_sd / std::sqrt(samples));
  return 1 + sd * expected_maximum(fabric.num_ranks());
}

double shared_board_factor(const GpuSpec& gpu, const Fabric& fabric) {
  const bool shares_board = gpu.dies_per_board > 1 && fabric.ranks_of(FabricNodeId{0}) > 1;
  return shares_board ? fabric.specs().rank_variation().shared_board_time_factor : 1;
}

DataParallelStep simulate_data_parallel(const DataParallelRequest& request) {
  TRACECAST_CHECK(!request.kinds.empty() && request.kind_of.size() == request.fabric.num_ranks(),
                  "every rank has a kind");
  TRACECAST_CHECK(request.strategy.replicas != Replicas::Python || request.fabric.num_ranks() == 1,
                  "one process under a lock has a run of its own");
  const double straggling =
      straggling_of(request.fabric, request.sample_sd, request.kinds.front().graph.batch,
                    request.kinds.front().one_gpu.timeline.kernel_share());
  const RankPrograms ranks = make_rank_programs(request, straggling);
  const double wire_share = ranks.wire_share;
  const std::vector<BucketCommunication> communications =
      plan_communication(ranks.buckets, wire_share, request.strategy, request.fabric, request.date);

  const std::vector<CommunicationStage> crossings =
      plan_crossings(request.crossings, request.strategy, request.fabric, request.date);
  std::vector<BucketCommunication> all =
      communications;  // with what crosses in the midst of the step
  for (const CommunicationStage& stage : crossings) {
    all.push_back({.fetch = {}, .push = {stage}, .bytes = stage.transfer.bytes});
  }

  const std::vector<RankStream> streams = simulated_ranks(request);

  // Collectives and kernels slow each other; what overlaps what follows from the schedule.
  const std::vector<double> sm_shares = shares_of_sms(request, all);
  std::vector<std::vector<Seconds>> extra;
  for (const RankProgram& program : ranks.programs) extra.emplace_back(program.segments.size());
  constexpr int kRounds = 3;
  int steps = kFewestSteps;
  for (int round = 0;; ++round) {
    const auto build = [&] {
      return std::make_unique<const RunBuilder>(request, streams, ranks.programs, communications,
                                                crossings, extra, steps);
    };
    auto run = build();
    auto found = std::make_unique<const LastStep>(*run);
    while (!found->is_steady() && steps < kMostSteps) {
      steps *= 2;
      found.reset();
      run = build();
      found = std::make_unique<const LastStep>(*run);
    }
    const LastStep& last = *found;
    if (round + 1 < kRounds) {
      extra = last.overlaps(ranks.programs);
      for (std::size_t k = 0; k < extra.size(); ++k) {
        for (Seconds& time : extra[k]) time = time * sm_shares[k];
      }
      continue;
    }
    DataParallelStep step;
    step.ranks_simulated = static_cast<std::uint32_t>(streams.size());
    step.step_time = last.step_time();
    step.parts = last.critical_path();
    step.parts.stragglers = step.parts.compute * (1 - 1 / straggling);
    step.parts.compute -= step.parts.stragglers;
    for (const TickSpan& span : last.communication(false)) {
      step.communication_busy += (span.end - span.start).in_seconds();
    }
    add_accounts(request, ranks, streams, all, extra, last, straggling, step);
    if (request.input_supply > step.step_time) {
      const Seconds more = request.input_supply - step.step_time;
      step.parts.input = more;
      step.account.input += more;
      step.power = power_with_wait(step.power, step.step_time, more);
      step.step_time = request.input_supply;
    }
    step.num_buckets = communications.size();
    for (const BucketCommunication& communication : communications)
      step.communicated += communication.bytes;
    step.timeline = last.timeline();
    const auto collectives = last.communication(true);
    for (std::uint32_t k = 0; k < request.kinds.size(); ++k) {
      step.utilization.push_back(utilization_of(k, request.kinds[k], ranks.programs[k],
                                                step.timeline, collectives, last.begin(),
                                                step.step_time));
    }
    step.busiest = busiest_links(request.fabric, all, step.step_time);
    return step;
  }
}

void add_input_wait(DataParallelStep& step, Seconds more) {
  if (!(more > Seconds(0))) return;
  const double factor = step.step_time / (step.step_time + more);
  for (Range& range : step.utilization) {
    range = {.min = range.min * factor, .avg = range.avg * factor, .max = range.max * factor};
  }
  for (LinkLoad& load : step.busiest) load.share *= factor;
  step.power = power_with_wait(step.power, step.step_time, more);
  step.account.input += more;
  step.parts.input += more;
  step.step_time += more;
}

}  // namespace tracecast
