#include "calibrate/table/measurement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/cost/sustained_clock.hpp"
#include "sim/step/interval.hpp"
#include "sim/step/prediction.hpp"

namespace tracecast {
namespace {

Seconds host_time(const IsolatedOp& op, Seconds kernels, double launches,
                  std::optional<Seconds> session_floor) {
  const Seconds floor = session_floor.value_or(expected_host_floor(op));
  switch (op.timing) {
    case Timing::FrameworkOp:
      return max(floor - op.after_launch, floor - kernels);
    case Timing::LibraryCall:
      return max(floor, op.launch * launches - kernels);
    case Timing::FrameworkLoop:
      return max(floor - kernels, Seconds(0));
    case Timing::Loop:
      return max(op.launch * launches - kernels, Seconds(0));
    case Timing::KernelOnly:
      break;
  }
  return Seconds(0);
}

std::optional<MeasurementEstimate> estimate_isolated(const IsolatedOp& work, const GpuSpec& gpu,
                                                     const CostProfile& profile,
                                                     std::optional<Seconds> floor) {
  MeasurementEstimate result;
  Seconds longest{-1.0};
  double launches = 0;
  std::vector<ErrorShare> errors;
  for (const LoweredOp& op : work.step.ops) {
    const cost::PricedCandidate choice = cost::choose(op, gpu, profile);
    for (std::size_t k = 0; k < choice.estimates.size(); ++k) {
      cost::KernelEstimate estimate = choice.estimates[k];
      const Kernel& kernel = choice.candidate->kernels[k];
      // An op of an idle host leaves the board pauses; loops and steps do not.
      if (work.timing == Timing::FrameworkOp) {
        estimate.duration = cost::burst_duration(estimate, profile);
      }
      result.kernels += estimate.duration;
      launches += static_cast<double>(kernel.launches) + kernel.more_launches;
      errors.push_back({.kernel_class = kernel.kernel_class,
                        .time = estimate.duration,
                        .log_sd = estimate.log_sd,
                        .shared_log_sd = estimate.shared_log_sd});
      if (estimate.duration > longest) {
        longest = estimate.duration;
        result.basis = cost::to_string(estimate.basis);
        result.form = cost::form_of(choice.candidate->kernels[k]);
      }
    }
  }
  if (launches == 0) return std::nullopt;
  const Seconds host = host_time(work, result.kernels, launches, floor);
  result.time = result.kernels + host;
  result.log_sd = step_log_sd(errors, result.time, host, work.host_log_sd, 0.0);
  return result;
}

std::optional<MeasurementEstimate> estimate_step(const FrameworkStep& work, const GpuSpec& gpu,
                                                 const CostProfile& profile) {
  constexpr double kZ95 =
      1.6448536269514722;  // 90 % lie between -kZ95 and +kZ95 standard deviations
  const Prediction prediction = predict_step(
      {.graph = work.graph, .gpu = gpu, .cost = profile, .framework = *work.framework});
  const Interval& time = prediction.step_time_s;
  return MeasurementEstimate{
      .time = Seconds(time.value),
      .kernels = prediction.timeline.kernel_busy,
      .log_sd = std::log(time.high / time.value) / kZ95,
      .basis = prediction.by_basis.empty() ? "unknown" : prediction.by_basis.front().name,
      .form = std::nullopt};
}

std::optional<MeasurementEstimate> estimate_call(const GemmCall& call, const GpuSpec& gpu,
                                                 const CostProfile& profile) {
  if (call.gemms.empty()) return std::nullopt;
  const cost::Basis basis = cost::gemm_basis(gpu, profile);
  MeasurementEstimate result;
  std::vector<Seconds> times;
  for (const cost::TensorGemm& gemm : call.gemms) {
    const cost::GemmEstimate estimate =
        cost::TensorGemmMachine(gpu, gemm.format, profile).estimate(gemm);
    const Seconds gap = call.in_graph   ? Seconds(profile.tensor_gemm.graph_gap_us * 1e-6)
                        : call.is_alone ? profile.tensor_gemm.event_gap * call.gap
                                        : call.gap;
    times.push_back(call.is_power ? Seconds(estimate.power.in_w())
                                  : max(estimate.duration + gap, call.floor));
    result.log_sd = std::max(result.log_sd, call.is_power ? profile.power.log_sd
                                                          : cost::gemm_log_sd(gemm, gpu, profile));
  }
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  result.time = (times[(n - 1) / 2] + times[n / 2]) * 0.5;
  result.kernels = result.time;
  result.basis = cost::to_string(basis);
  result.form = CostForm::TensorGemm;
  return result;
}

std::optional<MeasurementEstimate> estimate_engine(const EngineCall& call, const GpuSpec& gpu,
                                                   const CostProfile& profile) {
  MeasurementEstimate result;
  std::vector<Seconds> times;
  for (const Work& work : call.calls) {
    const auto price = cost::price_call(work, gpu, profile);
    if (!price) return std::nullopt;
    times.push_back(price->estimate.duration);
    result.log_sd = std::max(result.log_sd, price->log_sd);
    result.basis = cost::to_string(price->basis);
    result.form = price->form;
    result.body_share = price->estimate.body_share;
    result.uncertainty = price->uncertainty;
  }
  if (times.empty()) return std::nullopt;
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  result.time = (times[(n - 1) / 2] + times[n / 2]) * 0.5;
  result.kernels = result.time;
  return result;
}

}  // namespace

Seconds expected_host_floor(const IsolatedOp& op) {
  return op.timing == Timing::LibraryCall ? op.launch : op.host_floor;
}

std::optional<MeasurementEstimate> estimate_measurement(const Measurement& measurement,
                                                        const GpuSpec& gpu,
                                                        const CostProfile& profile,
                                                        std::optional<Seconds> host_floor) {
  if (const auto* op = std::get_if<IsolatedOp>(&measurement.work)) {
    return estimate_isolated(*op, gpu, profile, host_floor);
  }
  if (const auto* call = std::get_if<GemmCall>(&measurement.work)) {
    return estimate_call(*call, gpu, profile);
  }
  if (const auto* call = std::get_if<EngineCall>(&measurement.work)) {
    return estimate_engine(*call, gpu, profile);
  }
  return estimate_step(std::get<FrameworkStep>(measurement.work), gpu, profile);
}

std::string_view origin(const Measurement& measurement) {
  return measurement.source.empty() ? measurement.group : measurement.source;
}

bool is_fitted(const Measurement& measurement, const CostProfile& profile) {
  const std::string_view from = origin(measurement);
  return std::any_of(profile.data_sets.begin(), profile.data_sets.end(),
                     [&](const ProfileDataSet& set) {
                       if (set.key != from) return false;
                       // "123 rows fitted, of a, b"
                       for (std::size_t at = set.rows.find(measurement.gpu);
                            at != std::string::npos; at = set.rows.find(measurement.gpu, at + 1)) {
                         const std::size_t end = at + measurement.gpu.size();
                         const bool begins = at > 0 && set.rows[at - 1] == ' ';
                         if (begins && (end == set.rows.size() || set.rows[end] == ','))
                           return true;
                       }
                       return false;
                     });
}

std::unique_ptr<MeasurementReader> find_measurement_reader(const CsvReader& reader,
                                                           const MeasurementContext& context) {
  if (reader.find_column("sparsity")) return nullptr;  // sparse GEMMs have no cost model
  for (const auto& tables : {kernel_measurement_tables(), session_measurement_tables(),
                             gemm_measurement_tables(), engine_measurement_tables()}) {
    for (const MeasurementTable& table : tables) {
      const bool matches =
          std::all_of(table.required.begin(), table.required.end(),
                      [&](std::string_view name) { return reader.find_column(name).has_value(); });
      if (matches) return table.make(context);
    }
  }
  return nullptr;
}

struct SpecsAtClock::Known {
  const GpuCatalog& gpus;
  std::map<std::string, std::optional<GpuSpec>, std::less<>> specs;
};

SpecsAtClock::SpecsAtClock(const GpuCatalog& gpus)
    : known_(std::make_unique<Known>(Known{gpus, {}})) {}
SpecsAtClock::~SpecsAtClock() = default;

const GpuSpec* SpecsAtClock::find(std::string_view name, std::optional<double> clock_mhz,
                                  bool ecc_on) {
  const std::string key = fmt::format("{}@{}{}", name, clock_mhz.value_or(0), ecc_on);
  auto known = known_->specs.find(key);
  if (known == known_->specs.end()) {
    std::optional<GpuSpec> spec;
    try {
      spec = known_->gpus.find(name);
      if (clock_mhz) spec = cost::pinned_at(*spec, Hertz(*clock_mhz * 1e6));
      if (spec->ecc_bandwidth_fraction < 1) spec->ecc_default_on |= ecc_on;
    } catch (const InputError&) {
      spec.reset();
    }
    known = known_->specs.emplace(key, std::move(spec)).first;
  }
  return known->second ? &*known->second : nullptr;
}

}  // namespace tracecast
