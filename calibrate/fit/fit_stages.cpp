#include "calibrate/fit/fit_stages.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>
#include <variant>

#include "sim/cost/uncertainty.hpp"

namespace tracecast {

bool is_gemm(const Measurement& measurement, const CostProfile& profile) {
  if (std::holds_alternative<GemmCall>(measurement.work)) return true;
  if (std::holds_alternative<FrameworkStep>(measurement.work)) return false;
  const auto estimate = estimate_measurement(measurement, *measurement.spec, profile);
  return estimate && estimate->form == CostForm::TensorGemm;
}

bool is_tensor_gemm_parameter(std::string_view name) { return name.starts_with("tensor_gemm."); }

namespace {

/// GEMMs of other formats than 16 bits, and the parameters that tell them from those.
bool is_low_precision(const Measurement& row) {
  const auto* call = std::get_if<GemmCall>(&row.work);
  return call && call->gemms.front().format != GemmFormat::Half;
}
bool is_low_precision_parameter(std::string_view name) {
  return name.starts_with("tensor_gemm.format.") || name.starts_with("tensor_gemm.engine.");
}

constexpr std::array<std::pair<CostForm, std::string_view>, 6> kFamilies = {
    {{CostForm::Decode, "attention.decode."},
     {CostForm::Prefill, "attention.prefill."},
     {CostForm::LatentPrefill, "latent.prefill."},
     {CostForm::LatentDecode, "latent.decode."},
     {CostForm::Experts, "experts."},
     {CostForm::Quantization, "quantization."}}};

bool is_call_parameter(std::string_view name) {
  return std::any_of(kFamilies.begin(), kFamilies.end(),
                     [&](const auto& family) { return name.starts_with(family.second); });
}

/// A stage of each family that has rows.
std::vector<FitStage> call_stages(std::span<const Measurement* const> rows,
                                  std::span<const ProfileParameter> prior,
                                  const FitOptions& options) {
  std::vector<FitStage> stages;
  for (const auto& [form, prefix] : kFamilies) {
    FitStage stage{{}, {}, options};
    for (const Measurement* row : rows) {
      if (call_family(*row) == prefix) stage.rows.push_back(row);
    }
    if (stage.rows.empty()) continue;
    for (const ProfileParameter& p : prior) {
      if (p.name.starts_with(prefix)) stage.prior.push_back(p);
    }
    stages.push_back(std::move(stage));
  }
  return stages;
}

}  // namespace

std::string_view call_family(const Measurement& measurement) {
  const auto* call = std::get_if<EngineCall>(&measurement.work);
  if (!call || call->calls.empty()) return "";
  Kernel kernel;
  kernel.work = call->calls.front();
  const CostForm form = cost::form_of(kernel);
  for (const auto& [of, prefix] : kFamilies) {
    if (of == form) return prefix;
  }
  return "";
}

std::vector<FitStage> stages_of(std::span<const Measurement* const> rows, const CostProfile& start,
                                std::span<const ProfileParameter> prior,
                                const FitOptions& options) {
  constexpr double kBoardLogSd = 0.03;
  FitStage gemms{{}, {}, options}, others{{}, {}, options};
  gemms.options.arithmetic_log_sd = gemms.options.bandwidth_log_sd = kBoardLogSd;
  gemms.options.most_iterations = 2 * options.most_iterations;
  FitStage low_precision = gemms;
  for (const Measurement* row : rows) {
    if (!call_family(*row).empty()) continue;
    (!is_gemm(*row, start)    ? others
     : is_low_precision(*row) ? low_precision
                              : gemms)
        .rows.push_back(row);
  }
  for (const ProfileParameter& p : prior) {
    if (is_call_parameter(p.name)) continue;
    (!is_tensor_gemm_parameter(p.name)    ? others
     : is_low_precision_parameter(p.name) ? low_precision
                                          : gemms)
        .prior.push_back(p);
  }
  std::vector<FitStage> calls = call_stages(rows, prior, gemms.options);
  std::vector<FitStage> stages;
  const auto add = [&](FitStage& stage) {
    if (!stage.rows.empty()) stages.push_back(std::move(stage));
  };
  add(gemms), add(low_precision);
  for (FitStage& family : calls) add(family);
  add(others);
  return stages;
}

void append_stage(FitResult& all, FitResult&& stage) {
  all.profile = std::move(stage.profile);
  std::move(stage.parameters.begin(), stage.parameters.end(), std::back_inserter(all.parameters));
  // A GPU in both: the later stage's, which has lanes and memory of all kinds of kernels.
  for (auto& [gpu, board] : stage.boards) all.boards[gpu] = board;
  for (auto& [key, floor] : stage.floors) all.floors[key] = floor;
  if (stage.termination == FitTermination::TooManyIterations) all.termination = stage.termination;
  all.iterations += stage.iterations;
  all.num_rows += stage.num_rows;
}

FitResult fit_in_stages(std::span<const Measurement* const> rows, const CostProfile& start,
                        std::span<const ProfileParameter> prior, const FitOptions& options) {
  FitResult all;
  all.profile = start;
  for (const FitStage& stage : stages_of(rows, start, prior, options)) {
    append_stage(all, fit_profile(stage.rows, all.profile, stage.prior, stage.options));
  }
  return all;
}

namespace {

/// Takes in a board of a form's rows.
void upcast(FormReach& reach, CostForm form, const GpuSpec& gpu) {
  reach.tflop_per_s = std::max(reach.tflop_per_s, cost::peak_of_form(form, gpu).in_tflop_per_s());
  reach.gb_per_s = std::max(reach.gb_per_s, gpu.dram_bandwidth.in_si() * 1e-9);
}

}  // namespace

CostProfile with_coverage(CostProfile profile, std::span<const Measurement* const> rows) {
  std::array<std::array<bool, ByArchitecture::kCount>, kCostFormCount> fitted{};
  std::array<bool, kCostFormCount> seen{};
  std::array<FormReach, kCostFormCount> reach{};
  std::set<std::string> gpus;
  std::array<std::set<std::string>, kCostFormCount> call_gpus;
  for (const Measurement* row : rows) {
    if (std::holds_alternative<FrameworkStep>(row->work)) continue;
    const auto estimate = estimate_measurement(*row, *row->spec, profile);
    if (!estimate || !estimate->form) continue;
    const auto form = static_cast<std::size_t>(*estimate->form);
    seen[form] = true;
    upcast(reach[form], *estimate->form, *row->spec);
    fitted[form][static_cast<std::size_t>(row->spec->architecture)] = true;
    if (*estimate->form == CostForm::TensorGemm) gpus.insert(row->gpu);
    if (*estimate->form > CostForm::TensorGemm) call_gpus[form].insert(row->gpu);
  }
  for (std::size_t form = 0; form < kCostFormCount; ++form) {
    if (seen[form]) profile.fitted[form] = fitted[form], profile.reach[form] = reach[form];
    if (!call_gpus[form].empty())
      profile.fitted_gpus[form].assign(call_gpus[form].begin(), call_gpus[form].end());
  }
  if (!gpus.empty()) profile.fitted_gemm_gpus.assign(gpus.begin(), gpus.end());
  return profile;
}

}  // namespace tracecast
