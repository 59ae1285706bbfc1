#include "calibrate/fit/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "calibrate/fit/fit_stages.hpp"
#include "calibrate/fit/uncertainty.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

/// A part of the rows that leaves the fit together.
struct Fold {
  std::string id;    ///< as --only names it
  std::string name;  ///< as tables do
  std::function<bool(const Measurement&)> is_fitted;
  std::function<bool(const Measurement&)> is_judged;
};

/// Decades of time: what a fit has not seen in size.
constexpr std::array<std::pair<double, double>, 3> kRanges = {
    {{1e-4, 1e-3}, {1e-3, 1e-2}, {1e-2, 1e3}}};

std::vector<Fold> folds_by_gpu(const MeasurementSet& sample, const CheckOptions& options) {
  std::map<std::string, std::string> chips;  // by GPU
  std::map<std::string, Architecture> generations;
  for (const Measurement& row : sample.rows) {
    chips[row.gpu] = row.spec->chip;
    generations[row.gpu] = row.spec->architecture;
  }
  std::vector<Fold> folds;
  for (const auto& [gpu, chip] : chips) {
    const auto left = [gpu = gpu, chip = chip](const Measurement& row) {
      return row.gpu == gpu || (!chip.empty() && row.spec->chip == chip);
    };
    const auto own = [gpu = gpu](const Measurement& row) { return row.gpu == gpu; };
    if (options.leave_out == LeaveOut::AllButOneGpu) {
      folds.push_back({gpu, "fit on " + gpu + " alone", own,
                       [left](const Measurement& row) { return !left(row); }});
    } else if (options.leave_out == LeaveOut::Generation) {
      const auto generation = generations.at(gpu);
      folds.push_back(
          {gpu, "generation of " + gpu,
           [generation](const Measurement& row) { return row.spec->architecture != generation; },
           own});
    } else if (options.leave_out == LeaveOut::Board) {
      folds.push_back({gpu, "board " + gpu, std::not_fn(own), own});
    } else {
      folds.push_back(
          {gpu, "gpu " + gpu, [left](const Measurement& row) { return !left(row); }, own});
    }
  }
  return folds;
}

std::vector<Fold> folds_of(const MeasurementSet& sample, const CheckOptions& options) {
  std::vector<Fold> folds;
  if (options.leave_out == LeaveOut::Class) {
    std::set<std::string> groups;
    for (const Measurement& row : sample.rows) groups.insert(row.group);
    for (const std::string& group : groups) {
      const auto in = [group](const Measurement& row) { return row.group == group; };
      folds.push_back({group, "class " + group, std::not_fn(in), in});
    }
  } else if (options.leave_out == LeaveOut::Range) {
    for (const auto& range : kRanges) {
      const auto in = [low = range.first, high = range.second](const Measurement& row) {
        return row.time.in_s() >= low && row.time.in_s() < high;
      };
      const std::string id = fmt::format("from {:g} ms", range.first * 1e3);
      folds.push_back({id, "range " + id, std::not_fn(in), in});
    }
  } else {
    folds = folds_by_gpu(sample, options);
  }
  if (options.only.empty()) return folds;
  std::vector<std::string> ids;
  for (const Fold& fold : folds) ids.push_back(fold.id);
  std::vector<Fold> chosen;
  for (const std::string& wanted : options.only) {
    const auto at = std::find(ids.begin(), ids.end(), wanted);
    if (at == ids.end())
      throw InputError("--only", "\"" + wanted + "\"",
                       "one of the tables' own: " + fmt::format("{}", fmt::join(ids, ", ")));
    chosen.push_back(folds[static_cast<std::size_t>(at - ids.begin())]);
  }
  return chosen;
}

using GroupKey = std::tuple<std::string, std::string, std::string, std::string>;

void judge(const Measurement& row, const FitResult& fit,
           std::map<GroupKey, std::vector<JudgedRow>>& judged) {
  constexpr double kZ95 = 1.6448536269514722;
  const auto estimate = estimate_measurement(row, *row.spec, fit.profile, expected_floor(fit, row));
  if (!estimate) return;
  const double ratio = estimate->time / row.time;
  judged[{row.gpu, row.source, row.group, row.split}].push_back(
      {.error = ratio - 1,
       .within_interval = std::abs(std::log(ratio)) <= kZ95 * estimate->log_sd,
       .half_width = std::sinh(kZ95 * estimate->log_sd)});
}

}  // namespace

std::vector<CheckedGroup> check_fit(const MeasurementSet& sample,
                                    std::span<const std::filesystem::path> files,
                                    const MeasurementContext& context, const CostProfile& start,
                                    std::span<const ProfileParameter> prior,
                                    const CheckOptions& options) {
  const std::vector<Fold> folds = folds_of(sample, options);
  std::vector<CheckedGroup> result;
  for (std::size_t i = 0; i < folds.size(); ++i) {
    const Fold& fold = folds[i];
    if (options.progress) options.progress(fold.name, i, folds.size());
    std::vector<const Measurement*> rows;
    for (const Measurement& row : sample.rows) {
      if (fold.is_fitted(row)) rows.push_back(&row);
    }
    FitResult fit;
    if (options.learn_errors) {
      MeasurementSet own;
      for (const Measurement* row : rows) own.rows.push_back(*row);
      fit = fit_with_errors(own, start, prior, options.fit, [](std::string_view) {});
    } else {
      fit = fit_in_stages(rows, start, prior, options.fit);
    }
    fit.profile = with_coverage(std::move(fit.profile), rows);
    if (options.fitted) options.fitted(fold.name, fit);
    std::map<GroupKey, std::vector<JudgedRow>> judged;
    // Judged as they are read: none is kept.
    (void)load_measurements(files, context, start,
                            {.most_rows_per_cell = 1,
                             .most_steps_per_cell = 1,
                             .min_time = options.min_time,
                             .wanted = [&](const Measurement& row) {
                               if (fold.is_judged(row)) judge(row, fit, judged);
                               return false;
                             }});
    for (const auto& [key, errors] : judged) {
      const auto& [gpu, source, group, split] = key;
      result.push_back({fold.name, gpu, source, group, split, summarize(errors)});
    }
  }
  return result;
}

}  // namespace tracecast
