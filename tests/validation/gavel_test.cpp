#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/table/csv_reader.hpp"
#include "tests/support/data.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace {

struct Row {
  double measured = 0, predicted = 0;
};

/// Rows of a table of data/jobs, by `key`; skipped rows are missing.
template <class Key>
std::map<std::string, std::vector<Row>> rows_of(const std::string& file, std::size_t kind,
                                                Key&& key) {
  const Hardware hardware = load_hardware({});
  CsvReader reader(file);
  const auto predictor = gavel_tables().at(kind).make(reader, hardware);
  std::map<std::string, std::vector<Row>> rows;
  while (reader.next()) {
    const RowResult report = predictor->predict(reader);
    if (report.skipped.empty()) {
      rows[key(RowFields(reader))].push_back({report.measured, report.predicted.value});
    }
  }
  return rows;
}

/// Ranks from 1, ties at their mean.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<double> result;
  for (const double v : values) {
    const auto below = std::count_if(values.begin(), values.end(), [&](double w) { return w < v; });
    const auto same = std::count(values.begin(), values.end(), v);
    result.push_back(static_cast<double>(below) + (static_cast<double>(same) + 1) / 2);
  }
  return result;
}

/// Spearman's: the correlation of the ranks.
double rank_correlation(const std::vector<Row>& rows) {
  std::vector<double> measured, predicted;
  for (const Row& row : rows) {
    measured.push_back(row.measured);
    predicted.push_back(row.predicted);
  }
  const std::vector<double> x = ranks(measured), y = ranks(predicted);
  const double mean = (static_cast<double>(rows.size()) + 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xy / std::sqrt(xx * yy);
}

TEST_SUITE_BEGIN("validation/gavel");

// Bound: 0.9 on average over the jobs, all their rows together: sets, GPUs, counts, placements and
// batches.
TEST_CASE("training programs rank GPUs and counts as measured") {
  const auto table = test::find_data("jobs/gavel_throughputs.csv");
  if (!table) return;
  const auto rows = rows_of(table->string(), 0,
                            [](const RowFields& row) { return std::string(row.text("job")); });
  CHECK(rows.size() == 7);
  double sum = 0;
  for (const auto& [job, all] : rows) {
    const double correlation = rank_correlation(all);
    MESSAGE(job << ": " << all.size() << " rows, " << correlation);
    sum += correlation;
  }
  CHECK(sum / static_cast<double>(rows.size()) >= 0.9);
}

// Bound: the goal, a quarter below the best constant of each set and GPU, over all rows;
// sim/sharing/notes say how far each set is.
TEST_CASE("pairs on a GPU are predicted better than by the best constant of their set and GPU") {
  const auto table = test::find_data("jobs/gavel_colocation.csv");
  if (!table) return;
  const auto rows = rows_of(table->string(), 1, [](const RowFields& row) {
    return std::string(row.text("set")) + ' ' + std::string(row.text("gpu"));
  });
  double ours = 0, constants = 0;
  for (const auto& [key, all] : rows) {
    std::vector<double> sums;
    for (const Row& row : all) sums.push_back(row.measured);
    std::nth_element(sums.begin(), sums.begin() + static_cast<long>(sums.size() / 2), sums.end());
    const double median = sums[sums.size() / 2];
    double error = 0, of_constant = 0;
    for (const Row& row : all) {
      error += std::abs(row.predicted - row.measured);
      of_constant += std::abs(median - row.measured);
    }
    const auto n = static_cast<double>(all.size());
    MESSAGE(key << ": " << all.size() << " rows, " << error / n << ", constant "
                << of_constant / n);
    ours += error;
    constants += of_constant;
  }
  CHECK(ours / constants <= 0.75);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
