#include "sim/cluster/data_parallel.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/cluster/data_parallel_run.hpp"
#include "sim/cluster/fold.hpp"
#include "sim/cluster/rank_program.hpp"

namespace tracecast {
namespace {

using engine::Picoseconds;

constexpr std::size_t kMostBusiest = 8;

/// A uniform moment of the rank's own within its group's jitter.
Seconds start_of(const Fabric& fabric, Rank rank) {
  const Seconds jitter = fabric.group_of(fabric.node_of(rank)).start_jitter;
  return jitter > Seconds(0) ? jitter * Random(rank.index).uniform() : Seconds();
}

/// Who is simulated: every rank, or one of each class of those provably alike that have the same program.
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

}  // namespace

double expected_maximum(std::uint32_t n) {
  if (n <= 1) return 0;
  return normal_quantile((n - 0.375) / (n + 0.25));
}

double straggling_of(const Fabric& fabric, double sample_sd, std::int64_t batch) {
  const double samples = std::max(static_cast<double>(batch), 1.0);
  const double sd =
      std::hypot(fabric.specs().rank_variation().rank_sd, sample_sd / std::sqrt(samples));
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
      straggling_of(request.fabric, request.sample_sd, request.kinds.front().graph.batch);
  const RankPrograms ranks = make_rank_programs(request, straggling);
  const double wire_share = ranks.wire_share;
  const std::vector<BucketExchange> exchanges =
      plan_exchange(ranks.buckets, wire_share, request.strategy, request.fabric, request.date);

  const std::vector<RankStream> streams = simulated_ranks(request);

  // Collectives and kernels slow each other; what overlaps what follows from the schedule.
  const std::vector<double> sm_shares = shares_of_sms(request, exchanges);
  std::vector<std::vector<Seconds>> extra;
  for (const RankProgram& program : ranks.programs) extra.emplace_back(program.segments.size());
  constexpr int kRounds = 3;
  for (int round = 0;; ++round) {
    const RunBuilder run(request, streams, ranks.programs, exchanges, extra);
    const LastStep last(run);
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
    for (const TickSpan& span : last.exchange(false)) {
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
    for (std::uint32_t k = 0; k < request.kinds.size(); ++k) {
      step.utilization.push_back(utilization_of(k, request.kinds[k], ranks.programs[k],
                                                step.timeline, collectives, last.begin(),
                                                step.step_time));
    }
    step.busiest = busiest_links(request.fabric, exchanges, step.step_time);
    return step;
  }
}

}  // namespace tracecast
