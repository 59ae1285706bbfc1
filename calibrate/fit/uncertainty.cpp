#include "calibrate/fit/uncertainty.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "calibrate/fit/fit_stages.hpp"
#include "calibrate/fit/uncertainty_likelihood.hpp"

namespace tracecast {
namespace {

/// 80 % of a normal distribution lie within this many standard deviations.
constexpr double kShare = 0.8, kZ90 = 1.2815515655446004;
/// A board's common error is reported from its rows' when a cell has as many.
constexpr std::size_t kFewestOfCell = 10;
/// Of engines' calls, a fold keeps about as many rows.
constexpr std::size_t kRowsOfFold = 4000;

using Cell = std::tuple<std::string, std::string, std::string, std::string>;

struct Judged {
  double error = 0;       ///< ln(measured / predicted)
  double body_share = 0;  ///< of an engine's call, what is its main kernel
  cost::CallUncertainty uncertainty = {};
  Cell cell;
  std::optional<CostForm> form;
  std::vector<double>
      parts;  ///< of the variance: one per square of a spread, then what no spread decides
};

constexpr std::array<const char*, 17> kCauses = {"error.under_occupied",
                                                 "error.library_rules",
                                                 "error.low_precision_arithmetic",
                                                 "error.low_precision_stream",
                                                 "error.power_limit",
                                                 "error.beyond",
                                                 "error.tensor_gemm_warp",
                                                 "error.tensor_gemm_beyond",
                                                 "error.tensor_gemm_format.library",
                                                 "error.tensor_gemm_format.trtllm",
                                                 "error.tensor_gemm_format.sglang",
                                                 "error.tensor_gemm_format.vllm",
                                                 "error.tensor_gemm_family.scaled",
                                                 "error.tensor_gemm_family.blocks",
                                                 "error.tensor_gemm_family.fours",
                                                 "error.tensor_gemm_family.int8",
                                                 "error.tensor_gemm_family.weights"};
/// From here on of GEMMs on tensor cores alone, before of other forms alone.
constexpr std::size_t kGemmCauses = 6;
constexpr std::size_t kGemmWarp = 6;
/// From here on: GEMMs in other formats, by whose kernels run, then by what the format asks of
/// them.
constexpr std::size_t kGemmFormat = 8;
constexpr std::size_t kGemmFamily = kGemmFormat + 1 + kGemmEngineCount;

std::string base_name(CostForm form, std::string_view basis) {
  return "error." + std::string(to_string(form)) + "." + std::string(basis);
}

/// The profile with every spread at 0 that a fit decides.
CostProfile without_uncertainties(CostProfile profile) {
  for (ErrorSd& uncertainty : profile.error) uncertainty = {};
  const double board = profile.error_causes.board;
  profile.error_causes = {.board = board};
  return profile;
}

/// Prices a row under spreads of 1, one at a time: its variance is linear in their squares.
class Judge {
 public:
  explicit Judge(const CostProfile& profile) : none_(without_uncertainties(profile)), base_(none_) {
    for (ErrorSd& uncertainty : base_.error)
      uncertainty = {.measured = 1, .transferred = 1, .spec = 1};
    for (const char* cause : kCauses) {
      causes_.push_back(with_parameter(none_, cause, 1));
    }
  }

  [[nodiscard]] std::optional<Judged> judge(const Measurement& row,
                                            std::optional<Seconds> floor) const {
    // Whole steps have no form, and take long to price.
    if (std::holds_alternative<FrameworkStep>(row.work)) return std::nullopt;
    const auto estimate = estimate_measurement(row, *row.spec, none_, floor);
    if (!estimate || !estimate->form) return std::nullopt;
    const auto variance = [&](const CostProfile& profile) {
      const double sd = estimate_measurement(row, *row.spec, profile, floor)->log_sd;
      return sd * sd;
    };
    const double rest = estimate->log_sd * estimate->log_sd;
    Judged judged{.error = std::log(row.time / estimate->time),
                  .body_share = estimate->body_share,
                  .uncertainty = estimate->uncertainty,
                  .cell = {row.gpu, row.source, row.group, row.split},
                  .form = estimate->form,
                  .parts = {}};
    const bool is_gemm = *estimate->form >= CostForm::TensorGemm;
    for (std::size_t c = 0; c < causes_.size(); ++c) {
      const bool may_matter = (c >= kGemmCauses) == is_gemm;
      judged.parts.push_back(may_matter ? std::max(variance(causes_[c]) - rest, 0.0) : 0);
    }
    judged.parts.push_back(std::max(variance(base_) - rest, 0.0));
    judged.parts.push_back(rest);
    return judged;
  }

 private:
  CostProfile none_, base_;
  std::vector<CostProfile> causes_;
};

/// What GPUs share: of the medians of cells whose error has no further cause, 80 % lie within 1.28
/// of it.
std::optional<double> board_uncertainty(const std::vector<Judged>& rows) {
  std::map<Cell, std::vector<double>> cells;
  for (const Judged& row : rows) {
    const bool has_cause = std::any_of(row.parts.begin(), row.parts.begin() + kCauses.size(),
                                       [](double part) { return part > 0.01; });
    if (!has_cause) cells[row.cell].push_back(row.error);
  }
  std::vector<double> medians;
  for (auto& [cell, errors] : cells) {
    if (errors.size() < kFewestOfCell) continue;
    const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
    std::nth_element(errors.begin(), middle, errors.end());
    medians.push_back(std::abs(*middle));
  }
  if (medians.empty()) return std::nullopt;
  const auto at = medians.begin() +
                  static_cast<std::ptrdiff_t>(kShare * static_cast<double>(medians.size() - 1));
  std::nth_element(medians.begin(), at, medians.end());
  return *at / kZ90;
}

/// Spreads that rows speak of: the causes first, then each form's.
struct Fitted {
  std::array<std::optional<double>, kCauses.size()> causes;
  std::array<std::optional<double>, kCostFormCount> base;
};

/// `known`: causes that are not fitted again.
Fitted fit_uncertainties(const std::vector<Judged>& rows, const std::optional<Fitted>& known,
                         double rows_per_cell) {
  constexpr double kCausePrior = 0.3, kBasePrior = 0.15;
  const std::size_t num_causes = known ? 0 : kCauses.size();
  UncertaintyProblem problem;
  problem.priors.assign(num_causes, kCausePrior);
  problem.priors.resize(num_causes + kCostFormCount, kBasePrior);
  std::map<Cell, std::size_t> counts;
  for (const Judged& row : rows) ++counts[row.cell];
  std::vector<bool> seen(problem.priors.size());
  for (const Judged& row : rows) {
    UncertaintyRow r;
    r.error = row.error;
    r.weight = std::min(1.0, rows_per_cell / static_cast<double>(counts[row.cell]));
    r.constant = row.parts.back();
    for (std::size_t c = 0; c < kCauses.size(); ++c) {
      if (!(row.parts[c] > 0)) continue;
      if (known) {
        const double uncertainty = known->causes[c].value_or(0);
        r.constant += row.parts[c] * uncertainty * uncertainty;
      } else {
        r.parts.emplace_back(c, row.parts[c]);
      }
    }
    r.parts.emplace_back(num_causes + static_cast<std::size_t>(*row.form),
                         row.parts[kCauses.size()]);
    for (const auto& [unknown, part] : r.parts) seen[unknown] = true;
    problem.rows.push_back(std::move(r));
  }
  const std::vector<double> uncertainties = fit_uncertainty_problem(problem);
  Fitted fitted;
  if (known) fitted.causes = known->causes;
  for (std::size_t c = 0; c < num_causes; ++c) {
    if (seen[c]) fitted.causes[c] = uncertainties[c];
  }
  for (std::size_t f = 0; f < kCostFormCount; ++f) {
    if (seen[num_causes + f]) fitted.base[f] = uncertainties[num_causes + f];
  }
  return fitted;
}

/// Whether what a row multiplies is in another format than 16 bits.
bool is_low_precision(const Judged& row) {
  return std::any_of(row.parts.begin() + kGemmFormat, row.parts.begin() + kCauses.size(),
                     [](double part) { return part > 0; });
}

/// Rows that tell what a form itself is wrong by: of GEMMs those on tensor cores with asynchronous
/// copies, where there are any; what older ones add is a cause, and most boards that have siblings
/// are theirs.
std::vector<Judged> telling(const std::vector<Judged>& rows) {
  std::vector<Judged> reported;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(reported),
               [](const Judged& row) { return !(row.parts[kGemmWarp] > 0); });
  return reported.empty() ? rows : reported;
}

/// What GEMMs of other formats add to the error of 16-bit ones, which the stage before found; one
/// for the library and each engine, and one for each family of formats, nothing where no row tells.
std::array<std::optional<double>, kCauses.size() - kGemmFormat> format_uncertainties(
    const std::vector<Judged>& transferred, const std::vector<Judged>& spec,
    const CostProfile& profile) {
  constexpr std::size_t kCount = kCauses.size() - kGemmFormat;
  const ErrorSd& base = profile.error[static_cast<std::size_t>(CostForm::TensorGemm)];
  UncertaintyProblem problem;
  problem.priors.assign(kGemmFamily - kGemmFormat, 0.2);
  problem.priors.resize(kCount, 0.1);
  std::array<std::optional<double>, kCount> uncertainties;
  for (const auto& [rows, sd] :
       {std::pair{&transferred, base.transferred}, std::pair{&spec, base.spec}}) {
    for (const Judged& row : *rows) {
      UncertaintyRow r{row.error, 1, row.parts.back() + row.parts[kCauses.size()] * sd * sd, {}};
      for (std::size_t c = 0; c < kGemmFormat; ++c) {
        const double known = get_parameter(profile, kCauses[c]);
        r.constant += row.parts[c] * known * known;
      }
      for (std::size_t f = 0; f < kCount; ++f) {
        if (!(row.parts[kGemmFormat + f] > 0)) continue;
        r.parts.emplace_back(f, row.parts[kGemmFormat + f]);
        uncertainties[f] = 0;
      }
      problem.rows.push_back(std::move(r));
    }
  }
  const std::vector<double> found = fit_uncertainty_problem(problem);
  for (std::size_t f = 0; f < kCount; ++f) {
    if (uncertainties[f]) uncertainties[f] = found[f];
  }
  return uncertainties;
}

/// Expected errors of forms from attention on.
bool is_of_calls(std::string_view name) {
  for (std::size_t f = static_cast<std::size_t>(CostForm::TensorGemm) + 1; f < kCostFormCount;
       ++f) {
    if (name.starts_with("error." + std::string(to_string(static_cast<CostForm>(f))) + "."))
      return true;
  }
  return false;
}

void set_error(FitResult& fit, const std::string& name, double value) {
  const auto [low, high] = parameter_bounds(name);
  CostProfile& profile = fit.profile;
  profile = with_parameter(std::move(profile), name, std::clamp(value, low, high));
  for (ProfileParameter& p : profile.parameters) {
    if (p.name == name)
      p.data_set = name.starts_with("error.tensor_gemm") ? "left_out_gemms"
                   : is_of_calls(name)                   ? "left_out_calls"
                                                         : "left_out";
  }
}

/// Unknowns of calls' spreads: of what surrounds the main kernel, of that, then factors by engine,
/// on narrow calls, on rare ones, on windows and by the share of a call that its roofs explain.
enum CallUnknown : std::size_t {
  Around,
  Body,
  Engine,
  LowPrecision = Engine + kGemmEngineCount,
  Rare,
  Window,
  Roof
};
constexpr std::size_t kCallUnknowns = Roof + 1;

/// None of latent attention: few rows, and on each board another kernel of an engine.
std::vector<std::pair<std::size_t, double>> call_factors(CostForm form,
                                                         const cost::CallUncertainty& uncertainty) {
  std::vector<std::pair<std::size_t, double>> factors;
  if (form == CostForm::LatentPrefill || form == CostForm::LatentDecode) return factors;
  if (uncertainty.engine)
    factors.emplace_back(Engine + static_cast<std::size_t>(*uncertainty.engine), 1);
  if (uncertainty.is_low_precision) factors.emplace_back(LowPrecision, 1);
  if (uncertainty.is_rare) factors.emplace_back(Rare, 1);
  if (uncertainty.has_window) factors.emplace_back(Window, 1);
  factors.emplace_back(Roof, uncertainty.roof_share);
  return factors;
}

/// Expected errors of an engine's calls: of rows left out, the spreads of what surrounds the main
/// kernel and of the kernel, and by what these differ; of rows fitted, the same at another size.
void set_call_errors(FitResult& fit, const std::vector<Judged>& left_out,
                     const std::vector<Judged>& measured, double rows_per_cell) {
  constexpr double kPrior = 0.25;
  const CostForm form = *left_out.front().form;
  const auto fitted = [&](const std::vector<Judged>& rows, const std::vector<double>& known) {
    UncertaintyProblem problem;
    problem.priors = {kPrior};
    if (known.empty()) {
      problem.priors.push_back(kPrior);
      problem.priors.resize(kCallUnknowns, 1);
    }
    std::map<Cell, std::size_t> counts;
    for (const Judged& row : rows) ++counts[row.cell];
    for (const Judged& row : rows) {
      const double share2 = row.body_share * row.body_share;
      UncertaintyRow r{
          .error = row.error,
          .weight = std::min(1.0, rows_per_cell / static_cast<double>(counts[row.cell])),
          .constant = 0,
          .parts = {},
          .factors = {}};
      if (known.empty()) {
        r.parts = {{Around, 1}, {Body, share2}};
        r.factors = call_factors(form, row.uncertainty);
      } else {
        double part = 1 + known[Body] * known[Body] / (known[Around] * known[Around]) * share2;
        for (const auto& [factor, power] : call_factors(form, row.uncertainty))
          part *= std::pow(known[factor], 2 * power);
        r.parts = {{Around, part}};
      }
      problem.rows.push_back(std::move(r));
    }
    return fit_uncertainty_problem(problem);
  };
  const std::vector<double> spec = fitted(left_out, {});
  set_error(fit, base_name(form, "spec"), spec[Around]);
  // Where each generation has one board, no row tells what another board of it is worth: as if its
  // generation were unknown.
  set_error(fit, base_name(form, "transferred"), spec[Around]);
  set_error(fit, base_name(form, "body"), spec[Body] / spec[Around]);
  for (std::size_t e = 0; e < kGemmEngineCount; ++e)
    set_error(fit, base_name(form, to_string(static_cast<GemmEngine>(e))), spec[Engine + e]);
  set_error(fit, base_name(form, "low_precision"), spec[LowPrecision]);
  set_error(fit, base_name(form, "rare"), spec[Rare]);
  set_error(fit, base_name(form, "window"), spec[Window]);
  set_error(fit, base_name(form, "roof"), spec[Roof]);
  const double known = fitted(measured, spec).front();
  set_error(fit, base_name(form, "measured"), std::min(known, spec[Around]));
}

/// What leaves a fit together, and whether its generation leaves with it.
struct Fold {
  std::string name;
  bool is_generation = false;
  std::function<bool(const Measurement&)> is_out;
};

/// Every generation; every chip that has a sibling of its generation; every board of the others,
/// where there are several.
std::vector<Fold> folds_of(const MeasurementSet& sample) {
  std::map<std::string, Architecture> chips;
  std::map<std::string, std::set<std::string>> boards;  // by chip
  std::map<Architecture, int> num_chips;
  for (const Measurement& row : sample.rows) {
    if (chips.emplace(row.spec->chip, row.spec->architecture).second) {
      ++num_chips[row.spec->architecture];
    }
    boards[row.spec->chip].insert(row.gpu);
  }
  std::vector<Fold> folds;
  for (const auto& [chip, architecture] : chips) {
    if (num_chips[architecture] > 1) {
      folds.push_back(
          {chip, false, [chip = chip](const Measurement& row) { return row.spec->chip == chip; }});
    } else if (boards[chip].size() > 1) {
      for (const std::string& board : boards[chip]) {
        folds.push_back(
            {board, false, [board](const Measurement& row) { return row.gpu == board; }});
      }
    }
  }
  for (const auto& [architecture, n] : num_chips) {
    folds.push_back({std::string(to_string(architecture)), true,
                     [architecture = architecture](const Measurement& row) {
                       return row.spec->architecture == architecture;
                     }});
  }
  return folds;
}

std::vector<Judged> judge_seen(const FitResult& fit, const MeasurementSet& sample) {
  std::map<std::string, Judge> judges;  // by GPU
  std::vector<Judged> judged;
  for (const Measurement& row : sample.rows) {
    auto judge = judges.find(row.gpu);
    if (judge == judges.end()) {
      CostProfile profile = fit.profile;
      profile.measured_gpu = row.gpu;
      if (const auto board = fit.boards.find(row.gpu); board != fit.boards.end())
        profile.board = board->second;
      judge = judges.emplace(row.gpu, Judge(profile)).first;
    }
    const auto floor = fit.floors.find({row.source, row.gpu, row.group});
    if (auto one = judge->second.judge(
            row, floor == fit.floors.end() ? std::nullopt : std::optional(floor->second))) {
      judged.push_back(std::move(*one));
    }
  }
  return judged;
}

}  // namespace

void estimate_uncertainty(FitResult& fit, const MeasurementSet& sample, const CostProfile& start,
                          std::span<const ProfileParameter> prior, const FitOptions& options,
                          const std::function<void(std::string_view left_out)>& progress) {
  std::vector<const Measurement*> all;
  for (const Measurement& row : sample.rows) all.push_back(&row);
  fit.profile = with_coverage(std::move(fit.profile), all);
  FitOptions quick = options;
  // Of calls with few rows, folds keep more of them: few, and few steps, err by more than the fit
  // does.
  const bool are_calls = !sample.rows.empty() && !call_family(sample.rows.front()).empty();
  const std::size_t step =
      are_calls ? std::clamp<std::size_t>(sample.rows.size() / kRowsOfFold, 1, 4) : 4;
  if (step == 4) quick.most_iterations = std::max(2, options.most_iterations / 2);
  quick.progress = nullptr;

  // Generations that have rows of a source and group.
  std::map<std::pair<std::string, std::string>, std::set<Architecture>> generations;
  for (const Measurement& row : sample.rows)
    generations[{row.source, row.group}].insert(row.spec->architecture);
  std::vector<Judged> transferred, spec;
  for (const Fold& fold : folds_of(sample)) {
    progress(fold.name);
    std::vector<const Measurement*> rows;
    for (std::size_t i = 0; i < sample.rows.size(); ++i) {
      if (i % step == 0 && !fold.is_out(sample.rows[i])) rows.push_back(&sample.rows[i]);
    }
    if (rows.empty()) continue;
    const FitResult without = fit_profile(rows, start, prior, quick);
    const Judge judge(with_coverage(without.profile, rows));
    for (const Measurement& row : sample.rows) {
      if (!fold.is_out(row)) continue;
      if (auto one = judge.judge(row, expected_floor(without, row))) {
        if (fold.is_generation && *one->form >= CostForm::TensorGemm)
          one->error *= for_one_more_group(generations[{row.source, row.group}].size());
        (fold.is_generation ? spec : transferred).push_back(std::move(*one));
      }
    }
  }
  std::vector<Judged> left_out = transferred;
  left_out.insert(left_out.end(), spec.begin(), spec.end());
  if (left_out.empty()) return;
  if (left_out.front().form > CostForm::TensorGemm) {
    set_call_errors(fit, left_out, judge_seen(fit, sample), options.rows_per_cell);
    return;
  }
  const bool are_low_precision = std::all_of(
      left_out.begin(), left_out.end(),
      [](const Judged& row) { return row.form == CostForm::TensorGemm && is_low_precision(row); });
  if (are_low_precision) {
    const auto uncertainties = format_uncertainties(transferred, spec, fit.profile);
    for (std::size_t f = 0; f < uncertainties.size(); ++f) {
      if (uncertainties[f]) set_error(fit, kCauses[kGemmFormat + f], *uncertainties[f]);
    }
    return;
  }
  // Of kernels of all kinds: GEMMs on tensor cores, fitted by themselves, leave it alone.
  const bool are_gemms = std::all_of(left_out.begin(), left_out.end(), [](const Judged& row) {
    return row.form >= CostForm::TensorGemm;
  });
  const auto board = board_uncertainty(left_out);
  if (board && !are_gemms) set_error(fit, "error.board", *board);
  const Fitted causes = fit_uncertainties(left_out, std::nullopt, options.rows_per_cell);
  for (std::size_t c = 0; c < kCauses.size(); ++c) {
    if (causes.causes[c]) set_error(fit, kCauses[c], *causes.causes[c]);
  }
  std::array<double, kCostFormCount> surest{};
  const std::vector<Judged> measured = judge_seen(fit, sample);
  for (const auto& [basis, rows] :
       {std::pair<std::string_view, const std::vector<Judged>*>{"measured", &measured},
        {"transferred", &transferred},
        {"spec", &spec}}) {
    if (rows->empty()) continue;
    const Fitted fitted = fit_uncertainties(telling(*rows), causes, options.rows_per_cell);
    for (std::size_t f = 0; f < kCostFormCount; ++f) {
      if (!fitted.base[f]) continue;
      surest[f] = std::max(surest[f], *fitted.base[f]);
      set_error(fit, base_name(static_cast<CostForm>(f), basis), surest[f]);
    }
  }
}

FitResult fit_with_errors(const MeasurementSet& sample, const CostProfile& start,
                          std::span<const ProfileParameter> prior, const FitOptions& options,
                          const std::function<void(std::string_view left_out)>& progress) {
  std::vector<const Measurement*> rows;
  for (const Measurement& row : sample.rows) rows.push_back(&row);
  FitResult all;
  all.profile = start;
  for (const FitStage& stage : stages_of(rows, start, prior, options)) {
    const CostProfile before = all.profile;
    FitResult part = fit_profile(stage.rows, before, stage.prior, stage.options);
    MeasurementSet own;
    for (const Measurement* row : stage.rows) own.rows.push_back(*row);
    estimate_uncertainty(part, own, before, stage.prior, stage.options, progress);
    append_stage(all, std::move(part));
  }
  return all;
}

}  // namespace tracecast
