#include "sim/step/step_account.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "sim/step/power.hpp"
#include "sim/step/prediction.hpp"

namespace tracecast {
namespace {

constexpr auto index_of(cost::Basis basis) { return static_cast<std::size_t>(basis); }

template <std::size_t N>
Seconds sum_of(const std::array<Seconds, N>& times) {
  return std::accumulate(times.begin(), times.end(), Seconds());
}

/// Whether one of the spans holds the moment; asked in the order of time.
class Cursor {
 public:
  explicit Cursor(std::span<const TimeSpan> spans) : spans_(spans) {}
  bool holds(Seconds moment) {
    while (at_ < spans_.size() && spans_[at_].end <= moment) ++at_;
    return at_ < spans_.size() && spans_[at_].start <= moment;
  }

 private:
  std::span<const TimeSpan> spans_;
  std::size_t at_ = 0;
};

/// Walks through the moments of a step between which nothing begins or ends.
class Sweep {
 public:
  Sweep(const RankStep& rank, Watts collective_w)
      : rank_(rank),
        collective_w_(collective_w.in_w()),
        time_of_(rank.work.size()),
        communication_(rank.communication),
        collectives_(rank.collectives),
        host_(rank.host),
        any_work_(rank.any_work) {
    for (std::uint32_t i = 0; i < rank.work.size(); ++i) {
      const auto& [start, end] = rank.work[i].span;
      edges_.push_back({max(start, Seconds()), i, true});
      edges_.push_back({min(end, rank.step_time), i, false});
    }
    std::erase_if(edges_, [&](const Edge& edge) { return is_outside(edge.work); });
    std::stable_sort(edges_.begin(), edges_.end(),
                     [](const Edge& a, const Edge& b) { return a.time < b.time; });
    for (const Edge& edge : edges_) moments_.push_back(edge.time);
    for (const auto spans : {rank.communication, rank.collectives, rank.host, rank.any_work}) {
      for (const TimeSpan& span : spans) {
        for (const Seconds at : {span.start, span.end}) {
          if (at > Seconds(0) && at < rank.step_time) moments_.push_back(at);
        }
      }
    }
    moments_.push_back(Seconds());
    moments_.push_back(rank.step_time);
    std::sort(moments_.begin(), moments_.end());
    moments_.erase(std::unique(moments_.begin(), moments_.end()), moments_.end());
  }

  RankAccount run() {
    std::size_t next = 0;
    for (std::size_t m = 0; m + 1 < moments_.size(); ++m) {
      for (; next < edges_.size() && edges_[next].time <= moments_[m]; ++next) {
        const auto at = std::find(running_.begin(), running_.end(), edges_[next].work);
        if (edges_[next].begins) running_.push_back(edges_[next].work);
        if (!edges_[next].begins && at != running_.end()) running_.erase(at);
      }
      spend(moments_[m], moments_[m + 1]);
    }
    for (std::size_t i = 0; i < time_of_.size(); ++i) give(rank_.work[i], time_of_[i]);
    power_.step_time = rank_.step_time;
    result_.active_w = windows_of(power_, watts_, kPowerWindow);
    return std::move(result_);
  }

 private:
  struct Edge {
    Seconds time;
    std::uint32_t work;
    bool begins;
  };

  [[nodiscard]] bool is_outside(std::uint32_t i) const {
    const auto& [start, end] = rank_.work[i].span;
    return max(start, Seconds()) >= min(end, rank_.step_time);
  }

  void spend(Seconds from, Seconds until) {
    const Seconds time = until - from;
    const bool communications = communication_.holds(from), on_sms = collectives_.holds(from);
    const bool on_host = host_.holds(from), others_work = any_work_.holds(from);
    double watts = on_sms ? collective_w_ : 0.0;
    for (const std::uint32_t i : running_) {
      const auto& [start, end] = rank_.work[i].span;
      time_of_[i] += time / static_cast<double>(running_.size());
      watts += rank_.work[i].mix->active.in_j() * rank_.work[i].part / (end - start).in_s();
    }
    if (running_.empty()) {
      StepAccount& account = result_.account;
      (communications ? account.communication
       : on_host      ? account.host_update
       : others_work  ? account.stragglers
                      : account.communication) += time;
      if (communications) result_.exposed += time;
    }
    power_.kernels.push_back({from, until});
    watts_.push_back(watts);
  }

  /// Of a stretch's `time`, so much as the mean rank takes.
  void give(const WorkSpan& work, Seconds time) {
    const WorkMix& mix = *work.mix;
    const Seconds whole = mix.total();
    StepAccount& account = result_.account;
    if (!(whole > Seconds(0))) {
      account.work.idle += time;
      return;
    }
    const Seconds own = time / work.straggling;
    account.stragglers += time - own;
    WorkMix share = mix;
    share.active = {};
    account.work += share.slice(own / whole);
  }

  const RankStep& rank_;
  double collective_w_;
  std::vector<Edge> edges_;
  std::vector<Seconds> moments_, time_of_;
  std::vector<std::uint32_t> running_;
  Cursor communication_, collectives_, host_, any_work_;
  StepTimeline power_;
  std::vector<double> watts_;
  RankAccount result_;
};

}  // namespace

void WorkMix::add(KernelClass kernel_class, cost::Basis basis, Seconds time, Joules energy) {
  by_class[static_cast<std::size_t>(kernel_class)] += time;
  by_basis[index_of(basis)] += time;
  active += energy;
}

WorkMix& WorkMix::operator+=(const WorkMix& other) {
  for (std::size_t c = 0; c < by_class.size(); ++c) by_class[c] += other.by_class[c];
  for (std::size_t b = 0; b < by_basis.size(); ++b) by_basis[b] += other.by_basis[b];
  idle += other.idle;
  active += other.active;
  return *this;
}

WorkMix& WorkMix::slice(double factor) {
  for (Seconds& time : by_class) time *= factor;
  for (Seconds& time : by_basis) time *= factor;
  idle *= factor;
  return *this;
}

Seconds WorkMix::kernels() const { return sum_of(by_class); }

void add_kernel(WorkMix& mix, const Prediction& one_gpu, std::uint32_t k, Seconds busy,
                Seconds whole) {
  const ProgramKernel& issued = one_gpu.program.kernels[k];
  const cost::PricedCandidate& choice = one_gpu.priced.choices[issued.op];
  const KernelSpan& alone = one_gpu.timeline.kernels[k];
  const double watts = k < one_gpu.kernel_w.size() ? one_gpu.kernel_w[k] : 0.0;
  mix.add(choice.candidate->kernels[issued.kernel].kernel_class,
          choice.estimates[issued.kernel].basis, busy, Watts(watts) * (alone.end - alone.start));
  mix.idle += max(whole - busy, Seconds());
}

WorkMix earlier_micro_batches(const Prediction& one_gpu) {
  const StepTimeline& timeline = one_gpu.timeline;
  if (timeline.kernels.empty()) return {};
  WorkMix last, early;
  Seconds before{};
  for (std::uint32_t k = 0; k < timeline.kernels.size(); ++k) {
    const auto& [start, end] = timeline.kernels[k];
    add_kernel(last, one_gpu, k, end - start, end - before);
    before = end;
  }
  const Seconds lead = timeline.step_time - before;
  if (!(lead > Seconds(0))) return {};
  const auto rest = [](Seconds all, Seconds of_last) { return max(all - of_last, Seconds()); };
  for (const TimeShare& share : one_gpu.by_class) {
    for (std::size_t c = 0; c < kKernelClassCount; ++c) {
      if (to_string(static_cast<KernelClass>(c)) != share.name) continue;
      early.by_class[c] = rest(share.time, last.by_class[c]);
    }
  }
  // Shares by basis count waiting as transferred.
  const Seconds kernels = early.kernels();
  early.idle = rest(lead, kernels);
  last.by_basis[index_of(cost::Basis::Transferred)] += last.idle + early.idle;
  for (const TimeShare& share : one_gpu.by_basis) {
    for (std::size_t b = 0; b < kBasisCount; ++b) {
      if (cost::to_string(static_cast<cost::Basis>(b)) != share.name) continue;
      early.by_basis[b] = rest(share.time, last.by_basis[b]);
    }
  }
  const Seconds reported = sum_of(early.by_basis);
  for (Seconds& time : early.by_basis) time *= reported > Seconds(0) ? kernels / reported : 0.0;
  const Joules all = (one_gpu.power.avg - one_gpu.power.active_idle) * timeline.step_time;
  early.active = max(all - last.active, Joules());
  return early;
}

Seconds StepAccount::total() const {
  return work.total() + communication + host_update + stragglers + input + servers;
}

void StepAccount::add(const StepAccount& other, double weight) {
  WorkMix mix = other.work;
  mix.active *= weight;
  work += mix.slice(weight);
  communication += other.communication * weight;
  host_update += other.host_update * weight;
  stragglers += other.stragglers * weight;
  input += other.input * weight;
  guessed += other.guessed * weight;
  servers += other.servers * weight;
}

std::vector<TimeShare> StepAccount::by_class() const {
  std::vector<TimeShare> shares;
  for (std::size_t c = 0; c < kKernelClassCount; ++c) {
    shares.push_back({to_string(static_cast<KernelClass>(c)), work.by_class[c]});
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const TimeShare& a, const TimeShare& b) { return b.time < a.time; });
  shares.push_back({"idle", work.idle});
  shares.push_back({"communication, not hidden", communication});
  shares.push_back({"additions on the CPU", host_update});
  shares.push_back({"parameter servers, not hidden", servers});
  shares.push_back({"waiting for the slowest GPU", stragglers});
  shares.push_back({"waiting for input", input});
  std::erase_if(shares, [](const TimeShare& share) { return !(share.time > Seconds(0)); });
  return shares;
}

std::vector<TimeShare> StepAccount::by_basis() const {
  std::vector<TimeShare> shares;
  for (std::size_t b = 0; b < kBasisCount; ++b) {
    Seconds time = work.by_basis[b];
    if (b == index_of(cost::Basis::Transferred)) time += total() - work.kernels();
    if (time > Seconds(0)) shares.push_back({cost::to_string(static_cast<cost::Basis>(b)), time});
  }
  move_to_guessed(shares, guessed);
  return shares;
}

RankAccount account_rank(const RankStep& rank, Watts collective_w) {
  return Sweep(rank, collective_w).run();
}

Watts collective_power(Bytes edge_bytes, Seconds busy, int channels, const GpuSpec& gpu,
                       const CostProfile& profile) {
  if (!(busy > Seconds(0)) || channels <= 0) return {};
  Kernel kernel;
  kernel.kernel_class = KernelClass::Collective;
  kernel.read = kernel.written = edge_bytes;
  const double share = std::min(1.0, static_cast<double>(channels) / gpu.sm_count);
  return active_power(power_causes(kernel, busy, share, gpu, profile), gpu, profile);
}

PowerRange power_in_job(const PowerRange& alone, Seconds step_alone, Joules active,
                        const Windows& active_w, Seconds step) {
  PowerRange power = alone;
  if (!(step > Seconds(0))) return power;
  const Watts active_idle = alone.active_idle;
  const Joules own = (alone.avg - active_idle) * step_alone;
  const double done = own > Joules(0) ? std::min(1.0, active / own) : 1.0;
  const Joules wanted =
      (alone.demand - active_idle) * step_alone * done + max(active - own, Joules());
  power.demand = active_idle + wanted / step;
  const Watts most = alone.holds_limit ? max(alone.limit, active_idle) : Watts(1e9);
  power.avg = min(active_idle + active / step, most);
  const Range windows = active_w.range();
  const double scale = active > Joules(0) ? (power.avg - active_idle) / (active / step) : 0.0;
  power.min = min(power.avg, active_idle + Watts(scale * windows.min));
  power.max = max(power.avg, min(active_idle + Watts(scale * windows.max), most));
  power.throttles = power.throttles && power.demand >= power.limit;
  return power;
}

PowerRange mean_board(std::span<const PowerRange> boards, std::span<const double> weights) {
  if (boards.empty()) return {};
  PowerRange mean = boards.front();
  mean.idle = mean.active_idle = mean.avg = mean.limit = mean.demand = Watts();
  mean.clock = Hertz();
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < boards.size(); ++i) {
    const PowerRange& board = boards[i];
    const double weight = weights[i] / sum;
    mean.idle += board.idle * weight;
    mean.active_idle += board.active_idle * weight;
    mean.avg += board.avg * weight;
    mean.limit += board.limit * weight;
    mean.demand += board.demand * weight;
    mean.clock += board.clock * weight;
    mean.min = min(mean.min, board.min);
    mean.max = max(mean.max, board.max);
    mean.lowest_clock = min(mean.lowest_clock, board.lowest_clock);
    mean.throttles |= board.throttles;
    mean.holds_limit &= board.holds_limit;
    mean.is_guess |= board.is_guess;
  }
  return mean;
}

PowerRange power_with_wait(PowerRange power, Seconds step, Seconds more) {
  const double share = step / (step + more);
  const auto less = [&](Watts watts) {
    return power.active_idle + (watts - power.active_idle) * share;
  };
  power.avg = less(power.avg);
  power.demand = less(power.demand);
  power.min = less(power.min);
  // A window sees what it is wide enough for.
  if (step + more < kPowerWindow) power.max = less(power.max);
  power.max = max(power.max, power.avg);
  power.throttles = power.throttles && power.demand >= power.limit;
  return power;
}

}  // namespace tracecast
