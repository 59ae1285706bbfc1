#include "sim/job/other_sizes.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/job/layer_table.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kRound = 8;
constexpr double kRounding = 1e-3;  ///< a step that is shorter by less takes as long
constexpr double kFallen = 0.85;
constexpr std::size_t kMostLayers = 3;

/// The least power of two up to 8, or multiple of 8, above `size`.
std::int64_t round_above(std::int64_t size) {
  std::int64_t round = 1;
  while (round <= size && round < kRound) round *= 2;
  return round > size ? round : (size / kRound + 1) * kRound;
}
/// The greatest below it; 0: none.
std::int64_t round_below(std::int64_t size) {
  if (size > kRound) return (size - 1) / kRound * kRound;
  std::int64_t round = 1;
  while (round * 2 < size) round *= 2;
  return round < size ? round : 0;
}

/// What runs on one GPU; null: not told layer by layer.
std::pair<const ResolvedJob*, const Prediction*> on_one_gpu(const Forecast& forecast) {
  if (const auto* one = std::get_if<OneGpuDetails>(forecast.details.get()))
    return {&one->job, &one->prediction};
  if (const auto* many = std::get_if<ManyGpusDetails>(forecast.details.get()))
    return {&many->job, &many->prediction.one_gpu};
  if (const auto* servers = std::get_if<ServerDetails>(forecast.details.get()))
    return {&servers->job, &servers->prediction.one_gpu};
  return {nullptr, nullptr};
}

struct Loss {
  Seconds time;
  ChangedLayer layer;
};

std::vector<ChangedLayer> greatest(std::vector<Loss> losses) {
  std::stable_sort(losses.begin(), losses.end(),
                   [](const Loss& a, const Loss& b) { return a.time > b.time; });
  if (losses.size() > kMostLayers) losses.resize(kMostLayers);
  std::vector<ChangedLayer> layers;
  for (Loss& loss : losses) layers.push_back(std::move(loss.layer));
  return layers;
}

bool is_kernel_class(std::string_view name) {
  for (std::size_t i = 0; i < kKernelClassCount; ++i) {
    if (name == to_string(static_cast<KernelClass>(i))) return true;
  }
  return false;
}

/// Of a sharded transformer, whose layers are alike: its kernels by class, in the whole step.
std::vector<ChangedLayer> changed_classes(const ShardedStep& step, const ShardedStep& other,
                                          double allowed) {
  std::vector<Loss> losses;
  for (const TimeShare& here : step.prediction.by_class) {
    if (!is_kernel_class(here.name)) continue;
    for (const TimeShare& there : other.prediction.by_class) {
      const Seconds loss = here.time - there.time * allowed;
      if (here.name != there.name || !(loss > Seconds(0))) continue;
      losses.push_back({loss,
                        {.name = "all layers",
                         .kind = std::string(here.name),
                         .pass = "step",
                         .algorithm = "-",
                         .other_algorithm = "-",
                         .time = here.time,
                         .other_time = there.time}});
    }
  }
  return greatest(std::move(losses));
}

/// Layers that take longer than `allowed` times what they take in `other`, or more kernels,
/// greatest loss first.
std::vector<ChangedLayer> changed_layers(const Forecast& forecast, const Forecast& other,
                                         double allowed) {
  if (const auto* step = std::get_if<ShardedStep>(forecast.details.get()))
    return changed_classes(*step, std::get<ShardedStep>(*other.details), allowed);
  const auto [job, here] = on_one_gpu(forecast);
  const auto [other_job, there] = on_one_gpu(other);
  std::map<std::pair<std::string, std::string_view>, LayerRow> rows;
  for (LayerRow& row : layer_table(*other_job, *there))
    rows.emplace(std::pair(row.name, row.pass), std::move(row));
  std::vector<Loss> losses;
  for (const LayerRow& row : layer_table(*job, *here)) {
    const auto at = rows.find(std::pair(row.name, row.pass));
    if (at == rows.end()) continue;
    const LayerRow& was = at->second;
    const Seconds loss = row.time - was.time * allowed;
    if (!(loss > Seconds(0)) && row.num_kernels <= was.num_kernels) continue;
    losses.push_back({loss,
                      {.name = row.name,
                       .kind = std::string(row.kind),
                       .pass = std::string(row.pass),
                       .algorithm = row.algorithm,
                       .other_algorithm = was.algorithm,
                       .kernels = row.num_kernels,
                       .other_kernels = was.num_kernels,
                       .time = row.time,
                       .other_time = was.time}});
  }
  return greatest(std::move(losses));
}

/// Passes of `size` sequences instead of `batch`, as many of them in a step.
void resize(std::int64_t batch, std::int64_t size, Job& job, Parallelism& parallelism) {
  auto* parallel_layout = std::get_if<Sharded>(&parallelism);
  if (parallel_layout != nullptr && parallel_layout->plan.micro_batch) {
    parallel_layout->plan.micro_batch = size;
  } else {
    job.batch = size;
  }
  if (parallel_layout != nullptr && parallel_layout->plan.global_batch)
    parallel_layout->plan.global_batch = *parallel_layout->plan.global_batch / batch * size;
}

class Search {
 public:
  Search(const Predictor& predictor, const Job& job, const Place& place,
         const Parallelism& parallelism, const Forecast& forecast)
      : predictor_(predictor),
        job_(job),
        place_(place),
        parallelism_(parallelism),
        forecast_(forecast) {}

  /// Reported where the other step is shorter.
  void above(OtherSize::What what, std::int64_t size) {
    if (is_known(what, size)) return;
    const auto other = predict(what, size);
    if (!other) return;
    if (other->step_time_s.value < forecast_.step_time_s.value * (1 - kRounding))
      add(what, size, *other, 1);
  }
  /// Reported where the other throughput is greater; layers may take as much longer as the batch is
  /// larger.
  void below(std::int64_t size) {
    if (size < 1 || is_known(OtherSize::What::Batch, size)) return;
    const auto other = predict(OtherSize::What::Batch, size);
    if (!other) return;
    const double growth = static_cast<double>(forecast_.batch_per_gpu) / static_cast<double>(size);
    if (forecast_.throughput_samples_per_s.value < other->throughput_samples_per_s.value * kFallen)
      add(OtherSize::What::Batch, size, *other, growth);
  }
  [[nodiscard]] std::vector<OtherSize> take() { return std::move(found_); }

 private:
  [[nodiscard]] bool is_known(OtherSize::What what, std::int64_t size) const {
    return std::any_of(found_.begin(), found_.end(), [&](const OtherSize& other) {
      return other.what == what && other.size == size;
    });
  }
  [[nodiscard]] std::optional<Forecast> predict(OtherSize::What what, std::int64_t size) const {
    Job job = job_;
    Parallelism parallelism = parallelism_;
    if (auto* parallel_layout = std::get_if<Sharded>(&parallelism))
      parallel_layout->finds_largest_batch = false;
    if (what == OtherSize::What::Batch) {
      resize(forecast_.batch_per_gpu, size, job, parallelism);
    } else {
      job.seq_len = size;
    }
    try {
      Forecast other = predictor_.predict(job, place_, parallelism);
      if (other.fits() || !forecast_.fits()) return other;
    } catch (const InputError&) {
      // More positions than the network has, or more samples than may be asked for.
    }
    return std::nullopt;
  }
  void add(OtherSize::What what, std::int64_t size, const Forecast& other, double allowed) {
    OtherSize found{.what = what,
                    .size = size,
                    .step_time_s = other.step_time_s.value,
                    .samples_per_s = other.throughput_samples_per_s.value,
                    .layers = changed_layers(forecast_, other, allowed)};
    if (!found.layers.empty()) found_.push_back(std::move(found));
  }

  const Predictor& predictor_;
  const Job& job_;
  const Place& place_;
  const Parallelism& parallelism_;
  const Forecast& forecast_;
  std::vector<OtherSize> found_;
};

}  // namespace

std::vector<OtherSize> find_better_sizes(const Predictor& predictor, const Job& job,
                                         const Place& place, const Parallelism& parallelism,
                                         const Forecast& forecast) {
  const auto* sharded = std::get_if<ShardedStep>(forecast.details.get());
  const std::int64_t batch = forecast.batch_per_gpu;
  const std::optional<std::int64_t> length =
      sharded != nullptr ? std::optional(sharded->plan.tokens) : job.seq_len;
  Search search(predictor, job, place, parallelism, forecast);
  search.above(OtherSize::What::Batch, round_above(batch));
  search.above(OtherSize::What::Batch, batch + 1);
  if (length) search.above(OtherSize::What::Length, round_above(*length));
  if (length) search.above(OtherSize::What::Length, *length + 1);
  search.below(round_below(batch));
  search.below(batch / 2);
  return search.take();
}

}  // namespace tracecast
