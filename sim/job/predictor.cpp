#include "sim/job/predictor.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "hwspecs/default_host.hpp"
#include "hwspecs/library.hpp"
#include "models/lowering/lower.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/graph_store.hpp"
#include "sim/job/job_key.hpp"
#include "sim/job/shortage.hpp"

namespace tracecast {
namespace {

constexpr std::string_view kServedStrategy = "parameter_server";
constexpr std::size_t kMostCells = 1'000'000;  ///< remembered; then all are forgotten

bool is_cpu(const Place& place) { return to_lower(place.gpu).starts_with("cpu:"); }

Cell cell_of(const Forecast& f) {
  constexpr double kHalf = 0.5;
  Seconds guessed{};
  for (const StepPart& part : f.by_basis) {
    if (part.name == kGuessedBasis) guessed += part.time;
  }
  return {.samples_per_s = f.throughput_samples_per_s,
          .step_time_s = f.step_time_s,
          .memory_needed = f.memory.needed,
          .memory_capacity = f.memory.capacity,
          .fits = f.memory.fits,
          .fit_probability = f.memory.fit_probability,
          .power = f.power ? std::optional(f.power->boards_total) : std::nullopt,
          .is_guessed = guessed.in_s() >= kHalf * f.step_time_s.value,
          .refused = {}};
}

/// What cannot be reported CPUs.
void refuse_on_cpu(const Place& place, const Parallelism& parallelism) {
  if (!asks_for_many(place, parallelism)) return;
  throw InputError(place.cluster.empty() ? (place.gpus ? "--gpus" : "--nodes") : "--cluster",
                   "--gpu " + place.gpu, "one machine without a GPU: no flag");
}

void warn_of_guesses(const Prediction& prediction, ResolvedJob& job) {
  if (prediction.num_guessed_kernels == 0) return;
  job.warnings.push_back(std::to_string(prediction.num_guessed_kernels) +
                         " kernels belong to operators without a cost model and are bounded by "
                         "the bytes they touch (" +
                         three_digits(prediction.guessed_time.in_ms()) + " ms of the step)");
}

/// Where another host than the usual one of such GPUs holds the step back: which, and how fast it
/// is.
void tell_of_host(const Prediction& prediction, const Hardware& hardware, ResolvedJob& job) {
  constexpr double kWorthTelling = 0.1;
  if (job.cpu || !job.host) return;
  const double share = prediction.timeline.critical_host / prediction.timeline.step_time;
  const CpuSpec& usual =
      hardware.cpus().find(hardware.specs().default_host(job.gpu.release_year).cpu);
  if (!(share >= kWorthTelling) || job.host->id == usual.id) return;
  job.assumptions.push_back(fmt::format(
      "waiting for the host takes {:.0f} % of the step: one thread of {} dispatches, {} times as "
      "fast as {} of usual hosts of such GPUs",
      100 * share, job.host->name,
      three_digits(job.host->single_thread_speed() / usual.single_thread_speed()), usual.name));
}

/// Casts of lowering (models/lowering/layers.hpp), and what dynamic loss scaling runs before the
/// updates.
bool is_of_autocast(const Kernel& kernel) {
  constexpr std::string_view kNames[] = {"weight_cast", "cast",        "unscale_check",
                                         "unscale",     "is_finite",   "reduce_all",
                                         "all_finite",  "update_scale"};
  return std::find(std::begin(kNames), std::end(kNames), kernel.name) != std::end(kNames);
}

/// Autocast is paid for: casts and loss scaling, by the host and by the GPU. Told where they may be
/// why mixed precision is no faster than fp32.
void tell_of_autocast(const Prediction& prediction, ResolvedJob& job) {
  constexpr double kWorthTelling = 0.05;
  if (job.precision != PrecisionMode::Amp) return;
  Seconds host{}, gpu{};
  const LoweredStep& lowered = *prediction.priced.lowered;
  for (std::size_t i = 0; i < lowered.ops.size(); ++i) {
    const cost::PricedCandidate& choice = prediction.priced.choices[i];
    const std::vector<Kernel>& kernels = choice.candidate->kernels;
    host += cast_time(job.step->op(lowered.ops[i].op), kernels, job.framework);
    if (lowered.ops[i].host_waits && !kernels.empty() && is_of_autocast(kernels.front()))
      host += job.framework.host.dispatch_per_optimizer_op + job.framework.host.synchronization;
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      if (!is_of_autocast(kernels[k])) continue;
      gpu += choice.estimates[k].duration;
      host += job.framework.host.launch_per_kernel * static_cast<double>(kernels[k].launches);
    }
  }
  const Seconds step = prediction.timeline.step_time;
  const bool host_limits = prediction.bottleneck == Bottleneck::Launch;
  if ((host_limits ? max(host, gpu) : gpu) < step * kWorthTelling) return;
  job.assumptions.push_back(fmt::format(
      "amp: casts and loss scaling take the host {} ms and the GPU {} ms of a step of {} ms{}",
      three_digits(host.in_ms()), three_digits(gpu.in_ms()), three_digits(step.in_ms()),
      host_limits ? ", which the host paces" : ""));
}

Forecast predict_one(ResolvedJob job, const Hardware& hardware) {
  Prediction prediction = predict(job, hardware);
  warn_of_power_limit(prediction.power, job.gpu.id, job);
  warn_of_shortage(job, prediction, hardware, job);
  warn_of_guesses(prediction, job);
  tell_of_host(prediction, hardware, job);
  tell_of_autocast(prediction, job);
  return make_forecast(OneGpuDetails{std::move(job), std::move(prediction)});
}

}  // namespace

struct Predictor::Memory {
  std::shared_ptr<GraphStore> graphs = std::make_shared<GraphStore>();
  std::mutex mutex;
  std::map<std::string, Cell> cells;  ///< of one hardware
};

bool asks_for_many(const Place& place, const Parallelism& parallelism) {
  return !place.cluster.empty() || place.gpus.value_or(1) != 1 || place.nodes.value_or(1) != 1 ||
         std::holds_alternative<ParameterServers>(parallelism);
}

ReportKind kind_of_report(const Place& place, const Parallelism& parallelism, std::int64_t nodes,
                          const SpecLibrary& specs) {
  if (std::holds_alternative<Sharded>(parallelism)) return ReportKind::Sharded;
  if (is_cpu(place)) return ReportKind::Cpu;
  if (!asks_for_many(place, parallelism)) return ReportKind::OneGpu;
  if (std::holds_alternative<ParameterServers>(parallelism)) return ReportKind::ParameterServers;
  const auto* replicas = std::get_if<DataParallel>(&parallelism);
  const bool served = replicas != nullptr && !replicas->strategy.empty() && nodes > 1 &&
                      specs.find_strategy(replicas->strategy).id == kServedStrategy;
  return served ? ReportKind::ParameterServers : ReportKind::ManyGpus;
}

Predictor::Predictor(Hardware hardware)
    : Predictor(std::move(hardware), std::make_shared<Memory>()) {}

Predictor::Predictor(Hardware hardware, std::shared_ptr<Memory> memory)
    : hardware_(std::move(hardware)), memory_(std::move(memory)) {}

Predictor Predictor::for_hardware(Hardware hardware) const {
  auto memory = std::make_shared<Memory>();
  memory->graphs = memory_->graphs;
  return Predictor(std::move(hardware), std::move(memory));
}

ResolvedJob Predictor::resolve(const Job& job, const Place& place) const {
  return make_job(PlacedJob{job, place}, hardware_, *memory_->graphs);
}

void Predictor::check(const Job& job) const { check_words(job, hardware_, *memory_->graphs); }

Forecast Predictor::predict(const Job& job, const Place& place,
                            const Parallelism& parallelism) const {
  if (const auto* parallel_layout = std::get_if<Sharded>(&parallelism)) {
    return make_forecast(predict_sharded(job, place, *parallel_layout, hardware_));
  }
  if (is_cpu(place)) refuse_on_cpu(place, parallelism);
  if (!asks_for_many(place, parallelism)) return predict_one(resolve(job, place), hardware_);

  Cluster cluster = make_cluster(place, place.gpu, hardware_);
  const std::int64_t nodes = cluster.fabric.num_nodes();
  const bool served =
      kind_of_report(place, parallelism, nodes, hardware_.specs()) == ReportKind::ParameterServers;
  PlacedJob placed{job, place};
  if (served && placed.software.framework.empty()) placed.software.framework = "tensorflow";
  if (placed.gpu.empty()) placed.gpu = cluster.fabric.gpu_of(Rank{0}).id;
  ResolvedJob resolved = make_job(placed, hardware_, *memory_->graphs);
  if (cluster.file) resolved.inputs.push_back(*cluster.file);
  for (std::string& line : cluster.assumptions) resolved.assumptions.push_back(std::move(line));
  if (served) {
    const auto* asked = std::get_if<ParameterServers>(&parallelism);
    const ParameterServers servers = asked != nullptr ? *asked : ParameterServers{};
    for (std::string& line : usual_of(servers, resolved)) {
      resolved.assumptions.push_back(std::move(line));
    }
    ServerPrediction prediction =
        predict_with_servers(resolved, hardware_, std::move(cluster.fabric), servers);
    warn_of_power_limit(prediction.one_gpu.power, resolved.gpu.id, resolved);
    warn_of_shortage(resolved, prediction.one_gpu, hardware_, resolved);
    tell_of_host(prediction.one_gpu, hardware_, resolved);
    return make_forecast(ServerDetails{std::move(resolved), std::move(prediction)});
  }
  const auto* replicas = std::get_if<DataParallel>(&parallelism);
  ManyGpus prediction = predict_many(resolved, hardware_, std::move(cluster.fabric),
                                     replicas != nullptr ? *replicas : DataParallel{});
  tell_of_host(prediction.one_gpu, hardware_, resolved);
  return make_forecast(ManyGpusDetails{std::move(resolved), std::move(prediction)});
}

Matrix Predictor::throughput(std::span<const Job> jobs, std::span<const Place> places) const {
  Matrix matrix{.jobs = jobs.size(), .places = places.size(), .cells = {}};
  matrix.cells.reserve(jobs.size() * places.size());
  std::vector<std::string> place_keys;
  for (const Place& place : places) place_keys.push_back(KeyText().add(place).text());
  for (const Job& job : jobs) {
    const std::string job_key = KeyText().add(job).text();
    for (std::size_t p = 0; p < places.size(); ++p) {
      // What files hold may change.
      const bool is_fixed = !is_network_path(job.network) && places[p].cluster.empty();
      const std::string key = job_key + place_keys[p];
      if (is_fixed) {
        const std::lock_guard lock(memory_->mutex);
        if (const auto known = memory_->cells.find(key); known != memory_->cells.end()) {
          matrix.cells.push_back(known->second);
          continue;
        }
      }
      Cell cell;
      try {
        cell = cell_of(predict(job, places[p]));
      } catch (const InputError& error) {
        cell.fits = false;
        cell.refused = error.what();
      }
      if (is_fixed) {
        const std::lock_guard lock(memory_->mutex);
        if (memory_->cells.size() >= kMostCells) memory_->cells.clear();
        memory_->cells.emplace(key, cell);
      }
      matrix.cells.push_back(std::move(cell));
    }
  }
  return matrix;
}

MemoryAdvice Predictor::advise_on_batch(const Forecast& forecast) const {
  return std::visit(
      [&](const auto& details) -> MemoryAdvice {
        if constexpr (requires { details.job; }) {
          return tracecast::advise_on_batch(details.job, hardware_);
        } else {
          return {};
        }
      },
      *forecast.details);
}

MemoryAdvice Predictor::advise_on_memory(const Forecast& forecast) const {
  const auto* one = std::get_if<OneGpuDetails>(forecast.details.get());
  return one != nullptr ? tracecast::advise_on_memory(one->job, one->prediction, hardware_)
                        : MemoryAdvice{};
}

}  // namespace tracecast
