#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "sim/parallel/replicas.hpp"

namespace tracecast {
namespace {

/// Kernels that run one after the other on one GPU, between two collectives.
struct Slice {
  Seconds start{}, end{};
};

/// Of one step, on one GPU: stretches are as many as there are collectives between kernels.
class Slices {
 public:
  void add(const DeviceSpan& span) {
    if (span.work != DeviceWork::Kernel) {
      is_open_ = false;
      return;
    }
    if (!is_open_) all_.push_back({span.start, span.end});
    is_open_ = true;
    all_.back().end = max(all_.back().end, span.end);
  }
  [[nodiscard]] const std::vector<Slice>& all() const { return all_; }

 private:
  std::vector<Slice> all_;
  bool is_open_ = false;
};

constexpr std::size_t kMostBusiest = 8;

/// Kernels of the first GPU, or of one of the others, as nvidia-smi samples them: those of
/// collectives too, that spin.
Range utilization_of(const ReplicatedTimeline& run, bool first, const GpuSpec& gpu) {
  StepTimeline busy;
  busy.step_time = run.step_time * static_cast<double>(run.steps);
  for (const DeviceSpan& span : run.spans) {
    if (span.on_first != first || span.work == DeviceWork::Copy) continue;
    const KernelSpan kernel{max(span.start, Seconds()), min(span.end, busy.step_time)};
    if (kernel.start < kernel.end) busy.kernels.push_back(kernel);
  }
  std::stable_sort(busy.kernels.begin(), busy.kernels.end(),
                   [](const KernelSpan& a, const KernelSpan& b) { return a.start < b.start; });
  return gpu_utilization(busy, gpu);
}

/// What the first GPU, or one of the others, does in all steps of a run.
class DeviceAccount {
 public:
  DeviceAccount(const ReplicatedStep& step, const ReplicatedTimeline& run, bool first)
      : step_(step), run_(run), whole_(run.step_time * static_cast<double>(run.steps)) {
    for (const DeviceSpan& span : run.spans) {
      const bool is_own = span.on_first == first;
      if (span.work == DeviceWork::Kernel) add_kernel(span, is_own);
      const bool spins = span.work == DeviceWork::Broadcast || span.work == DeviceWork::Reduce;
      if (is_own && spins) add_within(collectives_, span);
    }
    merge(collectives_);
    merge(any_work_);
  }

  [[nodiscard]] RankAccount account() const {
    Seconds spinning{};
    for (const TimeSpan& span : collectives_) spinning += span.end - span.start;
    const Watts draws =
        step_.cost == nullptr
            ? Watts()
            : collective_power(run_.collected * static_cast<double>(run_.steps), spinning,
                               run_.channels, step_.fabric.gpu_of(Rank{0}), *step_.cost);
    RankAccount result = account_rank({.step_time = whole_,
                                       .work = work_,
                                       .communication = run_.communication,
                                       .collectives = collectives_,
                                       .host = {},
                                       .any_work = any_work_},
                                      draws);
    // What is left waits for the one thread.
    StepAccount& account = result.account;
    account.work.idle += max(account.communication - result.exposed, Seconds());
    account.communication = result.exposed;
    return result;
  }

 private:
  /// Steps are alike: what runs before this stretch's begin does so again before its end.
  template <class Visit>
  void for_each_within(const DeviceSpan& span, Visit visit) const {
    for (const Seconds shift : {-whole_, Seconds(), whole_}) {
      const TimeSpan moved{span.start + shift, span.end + shift};
      if (moved.end > Seconds() && moved.start < whole_) visit(moved);
    }
  }
  void add_within(std::vector<TimeSpan>& spans, const DeviceSpan& span) const {
    for_each_within(span, [&](const TimeSpan& moved) {
      spans.push_back({max(moved.start, Seconds()), min(moved.end, whole_)});
    });
  }
  void add_kernel(const DeviceSpan& span, bool is_own) {
    add_within(any_work_, span);
    if (!is_own) return;
    const double straggling = span.of_whole ? 1.0 : step_.straggling;
    for_each_within(span, [&](const TimeSpan& moved) {
      work_.push_back({.span = moved, .mix = &mix_of(span), .straggling = straggling});
    });
  }
  const WorkMix& mix_of(const DeviceSpan& span) {
    const auto [at, is_new] = mixes_.try_emplace({span.of_whole, span.kernel});
    if (is_new) {
      const Prediction& one = span.of_whole ? step_.whole : step_.replica;
      const Seconds time = one.program.kernels[span.kernel].duration;
      tracecast::add_kernel(at->second, one, span.kernel, time, time);
    }
    return at->second;
  }
  static void merge(std::vector<TimeSpan>& spans) {
    std::sort(spans.begin(), spans.end(),
              [](const TimeSpan& a, const TimeSpan& b) { return a.start < b.start; });
    std::vector<TimeSpan> merged;
    for (const TimeSpan& span : spans) {
      if (merged.empty() || merged.back().end < span.start) merged.push_back(span);
      merged.back().end = max(merged.back().end, span.end);
    }
    spans = std::move(merged);
  }

  const ReplicatedStep& step_;
  const ReplicatedTimeline& run_;
  Seconds whole_;
  std::map<std::pair<bool, std::uint32_t>, WorkMix> mixes_;  ///< of kernels
  std::vector<WorkSpan> work_;
  std::vector<TimeSpan> collectives_, any_work_;
};

/// Account, exposed communication and power of the mean GPU.
void add_accounts(const ReplicatedStep& step, const ReplicatedTimeline& run,
                  DataParallelStep& result) {
  const double steps = run.steps;
  const std::array counts{1.0, run.gpus - 1.0};  // the first, and those alike
  PowerRange alone = step.replica.power;
  if (step.power_limit > Watts(0)) alone.limit = step.power_limit;
  std::vector<PowerRange> boards;
  Seconds exposed{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const RankAccount one = DeviceAccount(step, run, i == 0).account();
    const double weight = counts[i] / run.gpus / steps;
    result.account.add(one.account, weight);
    exposed += one.exposed * weight;
    const Watts active(one.active_w.avg);
    boards.push_back(power_in_job(alone, step.replica.timeline.step_time, active * run.step_time,
                                  one.active_w, run.step_time));
  }
  result.power = mean_board(boards, counts);
  // The loader holds back no more than GPUs wait.
  StepAccount& account = result.account;
  account.input = min(account.work.idle, run.parts.input);
  account.work.idle -= account.input;
  result.exposed =
      run.communication_busy > Seconds(0) ? std::min(1.0, exposed / run.communication_busy) : 0.0;
}

}  // namespace

bool are_alike(const DeviceTime& a, const DeviceTime& b) {
  return a.work == b.work && a.kernel_class == b.kernel_class && a.algorithm == b.algorithm &&
         a.op == b.op && a.pass == b.pass && a.is_gemms == b.is_gemms;
}

std::vector<DeviceTime> sum_device_times(const ReplicatedStep& step,
                                         const ReplicatedTimeline& timeline) {
  std::vector<DeviceTime> sums;
  for (const DeviceSpan& span : timeline.spans) {
    DeviceTime kind{.work = span.work};
    const Kernel* kernel = nullptr;
    if (span.work == DeviceWork::Kernel) {
      const Prediction& one = span.of_whole ? step.whole : step.replica;
      const ProgramKernel& issued = one.program.kernels[span.kernel];
      kernel = &one.priced.choices[issued.op].candidate->kernels[issued.kernel];
      const Op& op = step.graph.op(one.priced.lowered->ops[issued.op].op);
      kind.kernel_class = kernel->kernel_class;
      kind.algorithm = kernel->algorithm;
      kind.op = op.kind;
      kind.pass = op.pass;
      kind.is_gemms = kernel->name == "gemms";
    }
    auto known = std::find_if(sums.begin(), sums.end(),
                              [&](const DeviceTime& other) { return are_alike(other, kind); });
    if (known == sums.end()) known = sums.insert(sums.end(), kind);
    const double devices = devices_of(span, timeline);
    known->time += (span.end - span.start) * devices;
    if (kernel != nullptr) known->flops += kernel->flops * devices;
    known->calls += static_cast<std::size_t>(devices);
  }
  for (DeviceTime& sum : sums) {
    sum.time = sum.time / timeline.steps;
    sum.flops = sum.flops / timeline.steps;
    sum.calls /= static_cast<std::size_t>(timeline.steps);
  }
  std::stable_sort(sums.begin(), sums.end(),
                   [](const DeviceTime& a, const DeviceTime& b) { return b.time < a.time; });
  return sums;
}

DataParallelStep step_of(const ReplicatedStep& step, const ReplicatedTimeline& run) {
  DataParallelStep result;
  result.step_time = run.step_time;
  result.parts = run.parts;
  result.communication_busy = run.communication_busy;
  add_accounts(step, run, result);
  result.communicated = run.communicated;
  result.num_buckets = run.num_buckets;
  result.ranks_simulated = run.simulated;
  const GpuSpec& gpu = step.fabric.gpu_of(Rank{0});
  const Range first = utilization_of(run, true, gpu), others = utilization_of(run, false, gpu);
  const double count = run.gpus;
  result.utilization.push_back({.min = std::min(first.min, others.min),
                                .avg = (first.avg + others.avg * (count - 1)) / count,
                                .max = std::max(first.max, others.max)});
  result.busiest = run.links;
  if (result.busiest.size() > kMostBusiest) result.busiest.resize(kMostBusiest);

  // Of the last step of those reported together.
  const Seconds begin = run.step_time * static_cast<double>(run.steps - 1);
  Slices slices;
  std::uint32_t communications = 0;
  const std::size_t in_step = run.spans.size() / static_cast<std::size_t>(run.steps);
  for (std::size_t i = run.spans.size() - in_step; i < run.spans.size(); ++i) {
    const DeviceSpan& span = run.spans[i];
    if (!span.on_first) continue;
    slices.add(span);
    if (span.work != DeviceWork::Broadcast && span.work != DeviceWork::Reduce) continue;
    result.timeline.push_back({.kind = std::nullopt,
                               .index = communications++,
                               .on_gpus = true,
                               .start = max(Seconds(), span.start - begin),
                               .end = max(Seconds(), span.end - begin)});
  }
  std::uint32_t index = 0;
  for (const Slice& slice : slices.all()) {
    result.timeline.push_back({.kind = 0,
                               .index = index++,
                               .start = max(Seconds(), slice.start - begin),
                               .end = max(Seconds(), slice.end - begin)});
  }
  std::stable_sort(result.timeline.begin(), result.timeline.end(),
                   [](const RankSpan& a, const RankSpan& b) { return a.start < b.start; });
  return result;
}

DataParallelStep accumulate_steps(const DataParallelStep& early, double times,
                                  DataParallelStep last) {
  const Seconds before = early.step_time * times;
  const Seconds whole = before + last.step_time;
  const double share = before / whole;
  const auto mean = [&](double of_early, double of_last) {
    return of_early * share + of_last * (1 - share);
  };
  last.parts.compute += early.parts.compute * times;
  last.parts.communication += early.parts.communication * times;
  last.parts.host_update += early.parts.host_update * times;
  last.parts.stragglers += early.parts.stragglers * times;
  last.parts.input += early.parts.input * times;
  last.account.add(early.account, times);
  last.power = mean_board(std::array{early.power, last.power}, std::array{share, 1 - share});
  const Seconds exposed =
      last.communication_busy * last.exposed + early.communication_busy * (early.exposed * times);
  last.communication_busy += early.communication_busy * times;
  last.exposed =
      last.communication_busy > Seconds(0) ? std::min(1.0, exposed / last.communication_busy) : 0.0;
  last.communicated += early.communicated * times;
  last.num_buckets += early.num_buckets * static_cast<std::size_t>(times);
  for (std::size_t k = 0; k < last.utilization.size(); ++k) {
    const Range &a = early.utilization[k], &b = last.utilization[k];
    last.utilization[k] = {
        .min = std::min(a.min, b.min), .avg = mean(a.avg, b.avg), .max = std::max(a.max, b.max)};
  }
  for (LinkLoad& load : last.busiest) {
    const auto same = std::find_if(early.busiest.begin(), early.busiest.end(),
                                   [&](const LinkLoad& other) { return other.link == load.link; });
    load.share = mean(same == early.busiest.end() ? 0.0 : same->share, load.share);
  }
  // What runs when, of as many micro-batches as a reader follows; the others before them look like
  // these.
  constexpr double kMostShown = 16;
  const double shown = std::min(times, kMostShown);
  std::vector<RankSpan> timeline;
  for (double i = times - shown; i < times; i += 1) {
    for (RankSpan span : early.timeline) {
      span.start += early.step_time * i;
      span.end += early.step_time * i;
      timeline.push_back(span);
    }
  }
  for (RankSpan span : last.timeline) {
    span.start += before;
    span.end += before;
    timeline.push_back(span);
  }
  last.timeline = std::move(timeline);
  last.step_time = whole;
  return last;
}

}  // namespace tracecast
