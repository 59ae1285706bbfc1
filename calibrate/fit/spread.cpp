#include "calibrate/fit/spread.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tracecast {
namespace {

/// 80 % of a normal distribution lie within this many standard deviations. Tails beyond are other mistakes (a kernel not
/// foreseen), too few to widen every interval for.
constexpr double kShare = 0.8, kZ90 = 1.2815515655446004;
/// Rows whose own uncertainty under a power limit is more than this say nothing about a form.
constexpr double kMostLimited = 0.05;

/// |ln(predicted / measured)| per form.
class Errors {
 public:
  void add(CostForm form, double error) {
    errors_[static_cast<std::size_t>(form)].push_back(error);
  }
  /// The value that 80 % of the rows do not exceed, in standard deviations; nothing without rows.
  [[nodiscard]] std::optional<double> spread(CostForm form) const {
    std::vector<double> errors = errors_[static_cast<std::size_t>(form)];
    if (errors.empty()) return std::nullopt;
    const auto at = errors.begin() +
                    static_cast<std::ptrdiff_t>(kShare * static_cast<double>(errors.size() - 1));
    std::nth_element(errors.begin(), at, errors.end());
    return *at / kZ90;
  }

 private:
  std::array<std::vector<double>, kCostFormCount> errors_;
};

/// Whether the row tells about its form alone: not about a power limit, nor about 16-bit data in kernels for 32-bit arithmetic.
bool tells(const Measurement& row, const CostProfile& profile, CostForm form) {
  if (form != CostForm::TensorCore && (row.group.find(" fp16") != std::string::npos ||
                                       row.group.find(" int8") != std::string::npos))
    return false;
  CostProfile sure = profile;
  for (ErrorSpread& spread : sure.error) spread = {0, 0, 0};
  const auto estimate = estimate_measurement(row, *row.spec, sure, Seconds(0));
  return estimate && estimate->log_sd < kMostLimited;
}

void judge(const FitResult& fit, const Measurement& row, Errors& errors) {
  const auto estimate = estimate_measurement(row, *row.spec, fit.profile, expected_floor(fit, row));
  if (estimate && estimate->form && tells(row, fit.profile, *estimate->form))
    errors.add(*estimate->form, std::abs(std::log(estimate->time / row.time)));
}

void judge_seen(const FitResult& fit, const Measurement& row, Errors& errors) {
  CostProfile profile = fit.profile;
  profile.measured_gpu = row.gpu;
  if (const auto board = fit.boards.find(row.gpu); board != fit.boards.end())
    profile.board = board->second;
  const auto floor = fit.floors.find({row.source, row.gpu, row.group});
  const auto estimate =
      estimate_measurement(row, *row.spec, profile,
                           floor == fit.floors.end() ? std::nullopt : std::optional(floor->second));
  if (estimate && estimate->form && tells(row, fit.profile, *estimate->form))
    errors.add(*estimate->form, std::abs(std::log(estimate->time / row.time)));
}

/// Marks the generations whose rows took part in the fit of each form.
void set_coverage(FitResult& fit, const MeasurementSet& sample) {
  fit.profile.fitted = {};
  for (const Measurement& row : sample.rows) {
    const auto estimate = estimate_measurement(row, *row.spec, fit.profile);
    if (estimate && estimate->form) {
      fit.profile.fitted[static_cast<std::size_t>(*estimate->form)]
                        [static_cast<std::size_t>(row.spec->architecture)] = true;
    }
  }
}

void set_error(CostProfile& profile, CostForm form, std::string_view basis, double value) {
  const std::string name = "error." + std::string(to_string(form)) + "." + std::string(basis);
  const auto [low, high] = parameter_bounds(name);
  set_parameter(profile, name, std::clamp(value, low, high));
  for (ProfileParameter& p : profile.parameters) {
    if (p.name == name) p.data_set = "left_out";
  }
}

}  // namespace

void estimate_spread(FitResult& fit, const MeasurementSet& sample, const CostProfile& start,
                     std::span<const ProfileParameter> prior, const FitOptions& options,
                     const std::function<void(std::string_view left_out)>& progress) {
  set_coverage(fit, sample);
  Errors measured, transferred, spec;
  for (const Measurement& row : sample.rows) judge_seen(fit, row, measured);

  FitOptions quick = options;
  quick.most_iterations = std::max(2, options.most_iterations / 2);
  quick.progress = nullptr;
  std::map<std::string, Architecture> chips;
  std::set<Architecture> generations;
  for (const Measurement& row : sample.rows) {
    chips[row.spec->chip] = row.spec->architecture;
    generations.insert(row.spec->architecture);
  }
  const auto refit = [&](auto&& is_out, Errors& errors) {
    std::vector<const Measurement*> rows;
    for (std::size_t i = 0; i < sample.rows.size(); ++i) {
      if (i % 4 == 0 && !is_out(sample.rows[i])) rows.push_back(&sample.rows[i]);
    }
    if (rows.empty()) return;
    const FitResult without = fit_profile(rows, start, prior, quick);
    for (const Measurement& row : sample.rows) {
      if (is_out(row)) judge(without, row, errors);
    }
  };
  for (const auto& [chip, architecture] : chips) {
    const bool has_sibling = std::any_of(chips.begin(), chips.end(), [&](const auto& other) {
      return other.second == architecture && other.first != chip;
    });
    if (!has_sibling) continue;
    progress(chip);
    refit([&](const Measurement& row) { return row.spec->chip == chip; }, transferred);
  }
  for (const Architecture generation : generations) {
    progress(to_string(generation));
    refit([&](const Measurement& row) { return row.spec->architecture == generation; }, spec);
  }

  for (std::size_t i = 0; i < kCostFormCount; ++i) {
    const auto form = static_cast<CostForm>(i);
    double surest = 0;
    for (const auto& [basis, errors] :
         {std::pair<std::string_view, const Errors*>{"measured", &measured},
          {"transferred", &transferred},
          {"spec", &spec}}) {
      if (const auto spread = errors->spread(form)) {
        surest = std::max(surest, *spread);
        set_error(fit.profile, form, basis, surest);
      }
    }
  }
}

}  // namespace tracecast
