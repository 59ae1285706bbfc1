#include "sim/plan/layout_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "sim/base/error.hpp"

namespace tracecast::plan {
namespace {

constexpr std::int64_t kMostMicroBatch = 16;
/// Ranks that share experts: none, a box of eight, or a large part of a rack of NVLink.
const std::vector<std::int64_t> kExpertRanks{1, 8, 32};
const char* const kRecompute[] = {"none", "selective", "full"};

/// Parallel layouts that differ in micro-batch and recomputation alone: the unit of work of a
/// thread.
struct Family {
  PlanOptions plan;
  std::vector<std::int64_t> micro_batches;
  std::vector<std::string> recompute;
};

std::int64_t gpus_of(const Job& job, const Place& place, const Sharded& base,
                     const Predictor& predictor) {
  if (place.gpus) return *place.gpus;
  return predictor.predict(job, place, base).gpus;
}

std::vector<std::int64_t> powers(std::int64_t most) {
  std::vector<std::int64_t> list;
  for (std::int64_t p = 1; p <= most; p *= 2) list.push_back(p);
  return list;
}

std::vector<std::int64_t> given_or(const std::optional<std::int64_t>& given,
                                   std::vector<std::int64_t> otherwise) {
  return given ? std::vector{*given} : std::move(otherwise);
}

class Searcher {
 public:
  Searcher(const Predictor& predictor, const Job& job, const Place& place, const Sharded& base,
           bool exhaustive)
      : predictor_(predictor), job_(job), place_(place), base_(base), exhaustive_(exhaustive) {}

  std::vector<Family> families() {
    const std::int64_t gpus = gpus_of(job_, place_, base_, predictor_);
    const std::int64_t batch = *base_.plan.global_batch;
    std::vector<Family> all;
    for (const std::int64_t tensor :
         given_or(base_.plan.tensor, powers(std::min<std::int64_t>(8, gpus)))) {
      for (const std::int64_t pipeline : given_or(base_.plan.pipeline, stages(gpus / tensor))) {
        if (tensor * pipeline > gpus || gpus % (tensor * pipeline) != 0) continue;
        const std::int64_t data = gpus / (tensor * pipeline);
        if (batch % data != 0 || (base_.plan.data && *base_.plan.data != data)) continue;
        for (const std::int64_t expert : given_or(base_.plan.expert, kExpertRanks))
          add_families(tensor, pipeline, data, expert, batch / data, all);
      }
    }
    return all;
  }

  void run(const Family& family, std::vector<ParallelLayout>& found, std::size_t& predicted,
           std::size_t& left_out) const {
    bool is_full = false;  // not even the least of memory fits: larger micro-batches do not, either
    for (const std::int64_t micro_batch : family.micro_batches) {
      bool fits = false, counts_up = false;
      for (const std::string& recompute : family.recompute) {
        if (!exhaustive_ && (fits || is_full)) {
          ++left_out;
          continue;
        }
        const auto parallel_layout = predict(family.plan, micro_batch, recompute);
        if (!parallel_layout) break;
        counts_up = true;
        ++predicted;
        fits = parallel_layout->fits;
        found.push_back(*parallel_layout);
      }
      is_full = is_full || (counts_up && !fits);
    }
  }

 private:
  /// Powers of two and the divisors of nothing else: what counts up is seen by asking.
  std::vector<std::int64_t> stages(std::int64_t most) const {
    std::vector<std::int64_t> list;
    for (std::int64_t p = 1; p <= std::min<std::int64_t>(most, 128); ++p)
      if (most % p == 0) list.push_back(p);
    return list;
  }

  void add_families(std::int64_t tensor, std::int64_t pipeline, std::int64_t data,
                    std::int64_t expert, std::int64_t per_rank, std::vector<Family>& all) const {
    std::vector<std::int64_t> micro_batches;
    for (const std::int64_t m : given_or(base_.plan.micro_batch, powers(kMostMicroBatch)))
      if (per_rank % m == 0) micro_batches.push_back(m);
    std::vector<std::string> schedules{"1f1b"};
    if (pipeline > 1)
      for (const int chunks : {2, 4}) schedules.push_back(fmt::format("interleaved:{}", chunks));
    for (const int zero : {0, 1, 2, 3}) {
      if ((zero > 0 && data == 1) || (zero >= 2 && pipeline > 1)) continue;
      if (base_.plan.zero > 0 && zero != base_.plan.zero) continue;
      for (const std::string& schedule : schedules) {
        Family family{base_.plan, micro_batches, {std::begin(kRecompute), std::end(kRecompute)}};
        if (job_.recompute != "none") family.recompute = {job_.recompute};
        family.plan.tensor = tensor;
        family.plan.pipeline = pipeline;
        family.plan.data = data;
        family.plan.expert = expert;
        family.plan.zero = zero;
        family.plan.schedule = schedule;
        family.plan.sequence_parallel = tensor > 1;
        all.push_back(std::move(family));
      }
    }
  }

  std::optional<ParallelLayout> predict(PlanOptions plan, std::int64_t micro_batch,
                                        const std::string& recompute) const {
    Job job = job_;
    job.recompute = recompute;
    Sharded sharded = base_;
    plan.micro_batch = micro_batch;
    sharded.plan = plan;
    try {
      return parallel_layout_of(predictor_.predict(job, place_, sharded), plan, recompute);
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

  static ParallelLayout parallel_layout_of(const Forecast& forecast, const PlanOptions& plan,
                                           const std::string& recompute) {
    ParallelLayout d;
    d.tensor = *plan.tensor;
    d.pipeline = *plan.pipeline;
    d.data = *plan.data;
    d.expert = *plan.expert;
    d.zero = plan.zero;
    d.micro_batch = *plan.micro_batch;
    d.recompute = recompute;
    d.schedule = plan.schedule;
    d.samples_per_s = forecast.throughput_samples_per_s;
    d.step_time_s = forecast.step_time_s;
    d.memory = forecast.memory.needed;
    d.capacity = forecast.memory.capacity;
    d.fits = forecast.memory.fits;
    for (const StepPart& part : forecast.by_cause) {
      const double share = part.time.in_s() / forecast.step_time_s.value;
      if (part.name == "compute" || share <= d.bottleneck_share) continue;
      d.bottleneck = part.name;
      d.bottleneck_share = share;
    }
    return d;
  }

  const Predictor& predictor_;
  const Job& job_;
  const Place& place_;
  const Sharded& base_;
  bool exhaustive_;
};

void rank(LayoutSearch& search) {
  std::stable_sort(search.parallel_layouts.begin(), search.parallel_layouts.end(),
                   [](const ParallelLayout& a, const ParallelLayout& b) {
                     if (a.fits != b.fits) return a.fits;
                     return a.samples_per_s.value > b.samples_per_s.value;
                   });
  std::optional<Bytes> least;
  for (std::size_t d = 0; d < search.parallel_layouts.size(); ++d) {
    const ParallelLayout& parallel_layout = search.parallel_layouts[d];
    if (!parallel_layout.fits || (least && parallel_layout.memory >= *least)) continue;
    least = parallel_layout.memory;
    search.front.push_back(d);
  }
}

}  // namespace

LayoutSearch search_layouts(const Predictor& predictor, const Job& job, const Place& place,
                            const Sharded& base, bool exhaustive, unsigned threads) {
  if (!base.plan.global_batch)
    throw InputError("--search", "no --global-batch", "the sequences of a step, all GPUs");
  Searcher searcher(predictor, job, place, base, exhaustive);
  const std::vector<Family> families = searcher.families();
  struct Part {
    std::vector<ParallelLayout> parallel_layouts;
    std::size_t predicted = 0, left_out = 0;
  };
  std::vector<Part> parts(families.size());
  std::atomic<std::size_t> next = 0;
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::exception_ptr> failed(threads);
  const auto work = [&](unsigned worker) {
    try {
      for (std::size_t f = next++; f < families.size(); f = next++)
        searcher.run(families[f], parts[f].parallel_layouts, parts[f].predicted, parts[f].left_out);
    } catch (...) {
      failed[worker] = std::current_exception();
    }
  };
  std::vector<std::thread> workers;
  for (unsigned t = 1; t < threads; ++t) workers.emplace_back(work, t);
  work(0);
  for (std::thread& worker : workers) worker.join();
  for (const std::exception_ptr& error : failed)
    if (error) std::rethrow_exception(error);
  LayoutSearch search;
  for (Part& part : parts) {
    search.predicted += part.predicted;
    search.left_out += part.left_out;
    for (ParallelLayout& parallel_layout : part.parallel_layouts)
      search.parallel_layouts.push_back(std::move(parallel_layout));
  }
  if (search.parallel_layouts.empty()) {
    // Ask once more, so that the reason is the predictor's own word.
    (void)predictor.predict(job, place, base);
    throw InputError("--search", "no parallel layout that counts up",
                     "another --global-batch or --gpus");
  }
  rank(search);
  return search;
}

}  // namespace tracecast::plan
