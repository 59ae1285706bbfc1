#include "sim/job/fitting_changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/step/memory/fit.hpp"

namespace tracecast {
namespace {

constexpr std::size_t kMostChanges = 3;

/// A job and how it is shared, as one change leaves them.
struct Asked {
  Job job;
  Place place;
  Parallelism parallelism;
};

class ChangeSearch {
 public:
  ChangeSearch(const Predictor& predictor, Asked asked, const Forecast& forecast)
      : predictor_(predictor), asked_(std::move(asked)), forecast_(forecast) {}

  std::vector<FittingChange> find() && {
    recompute();
    if (std::holds_alternative<Sharded>(asked_.parallelism)) {
      share_more();
    } else {
      accumulate();
    }
    change_results();
    double_gpus();
    std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) {
      if (a.changes_results != b.changes_results) return b.changes_results;
      return a.throughput > b.throughput;
    });
    if (found_.size() > kMostChanges) found_.resize(kMostChanges);
    return std::move(found_);
  }

 private:
  using Change = std::function<void(Asked& asked)>;

  /// Keeps the change where the job then fits.
  bool attempt(std::string flags, const Change& change, bool changes_results = false) {
    Asked changed = asked_;
    change(changed);
    if (auto* sharded = std::get_if<Sharded>(&changed.parallelism)) {
      sharded->finds_largest_batch = false;
    }
    try {
      const Forecast other = predictor_.predict(changed.job, changed.place, changed.parallelism);
      if (other.memory.fit_probability < kLikelyFits) return false;
      found_.push_back({.flags = std::move(flags),
                        .needed = other.memory.needed,
                        .probability = other.memory.fit_probability,
                        .throughput = other.throughput_samples_per_s.value /
                                      forecast_.throughput_samples_per_s.value,
                        .changes_results = changes_results});
      return true;
    } catch (const InputError&) {
      return false;  // the job does not go with that flag
    }
  }

  void recompute() {
    for (const char* word : {"selective", "full"}) {
      if (asked_.job.recompute == word || asked_.job.recompute == "full") continue;
      if (attempt(fmt::format("--recompute {}", word), [&](Asked& a) { a.job.recompute = word; })) {
        return;
      }
    }
  }

  /// As few micro-batches as fit.
  void accumulate() {
    const std::int64_t batch = forecast_.batch_per_gpu;
    for (std::int64_t count = 2; count <= batch; count *= 2) {
      if (batch % count != 0) return;
      const std::int64_t each = batch / count, times = asked_.job.accumulate * count;
      if (attempt(fmt::format("--batch {} --accumulate {}", each, times), [&](Asked& a) {
            a.job.batch = each;
            a.job.accumulate = times;
          })) {
        return;
      }
    }
  }

  /// Of sharded transformers.
  void share_more() {
    const auto& asked = std::get<Sharded>(asked_.parallelism);
    const auto* step = std::get_if<ShardedStep>(forecast_.details.get());
    if (step == nullptr) return;
    const ParallelPlan& plan = step->plan;
    for (std::int64_t micro = plan.micro_batch / 2; micro >= 1; micro /= 2) {
      if (plan.micro_batch % micro != 0) break;
      if (attempt(fmt::format("--micro-batch {}", micro), [&](Asked& a) {
            auto& options = std::get<Sharded>(a.parallelism).plan;
            options.micro_batch = micro;
            options.global_batch = plan.global_batch;
            options.micro_batches.reset();
            a.job.accumulate = 1;
            if (a.job.batch != kUsualBatch) a.job.batch = kUsualBatch;
          })) {
        break;
      }
    }
    for (int stage = asked.plan.zero + 1; stage <= 3; ++stage) {
      if (attempt(fmt::format("--zero {}", stage),
                  [&](Asked& a) { std::get<Sharded>(a.parallelism).plan.zero = stage; })) {
        break;
      }
    }
    for (std::int64_t tensor = plan.tensor * 2; tensor <= 8; tensor *= 2) {
      if (attempt(fmt::format("--tp {}", tensor), [&](Asked& a) {
            auto& options = std::get<Sharded>(a.parallelism).plan;
            options.tensor = tensor;
            options.data.reset();
            options.global_batch = plan.global_batch;
            options.micro_batches.reset();
            a.job.accumulate = 1;
          })) {
        break;
      }
    }
  }

  void change_results() {
    const Job& job = asked_.job;
    if (job.precision.empty() || job.precision == "fp32") {
      attempt(
          "--precision amp", [](Asked& a) { a.job.precision = "amp"; }, true);
    }
    if (forecast_.optimizer == "adam" || forecast_.optimizer == "adamw") {
      attempt(
          "--optimizer adam8bit", [](Asked& a) { a.job.optimizer = "adam8bit"; }, true);
    }
    // Networks that Adam trains are mostly transformers; others refuse adapters of attention.
    const bool may_adapt = forecast_.throughput_tokens_per_s || forecast_.optimizer == "adamw";
    constexpr std::int64_t kUsualRank = 16;
    if (job.lora_rank == 0 && may_adapt) {
      if (attempt(
              fmt::format("--lora {}", kUsualRank), [](Asked& a) { a.job.lora_rank = kUsualRank; },
              true)) {
        return;
      }
    }
    if (job.base_precision.empty() && (job.lora_rank > 0 || may_adapt)) {
      const std::int64_t rank = job.lora_rank > 0 ? job.lora_rank : kUsualRank;
      attempt(
          fmt::format("--lora {} --base-precision nf4", rank),
          [&](Asked& a) {
            a.job.lora_rank = rank;
            a.job.base_precision = "nf4";
          },
          true);
    }
  }

  void double_gpus() {
    if (!std::holds_alternative<Sharded>(asked_.parallelism)) return;
    const std::int64_t gpus = forecast_.gpus * 2;
    attempt(fmt::format("--gpus {}{}", gpus,
                        forecast_.nodes > 1 ? fmt::format(" --nodes {}", 2 * forecast_.nodes) : ""),
            [&](Asked& a) {
              a.place.gpus = gpus;
              if (forecast_.nodes > 1) a.place.nodes = 2 * forecast_.nodes;
              auto& options = std::get<Sharded>(a.parallelism).plan;
              options.data.reset();
              if (options.global_batch) options.global_batch = *options.global_batch * 2;
            });
  }

  const Predictor& predictor_;
  Asked asked_;
  const Forecast& forecast_;
  std::vector<FittingChange> found_;
};

}  // namespace

std::vector<FittingChange> find_fitting_changes(const Predictor& predictor, const Job& job,
                                                const Place& place, const Parallelism& parallelism,
                                                const Forecast& forecast) {
  if (forecast.memory.fit_probability >= kLikelyFits || forecast.phase != "train") return {};
  if (forecast.gpu.empty() || std::holds_alternative<ParameterServers>(parallelism)) return {};
  return ChangeSearch(predictor, {job, place, parallelism}, forecast).find();
}

}  // namespace tracecast
