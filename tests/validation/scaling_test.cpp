#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/table/csv_reader.hpp"
#include "calibrate/table/row_fields.hpp"
#include "tests/support/data.hpp"
#include "tests/support/process.hpp"

namespace tracecast::test {
namespace {

constexpr const char* kTensorflowPage = "tensorflow.org performance/benchmarks (May 2017)";

struct Point {
  double gpus = 0, measured = 0, predicted = 0;
};

/// Rows of one source by what stays when the number of GPUs changes.
std::map<std::string, std::vector<Point>> series_of(const std::string& table,
                                                    const std::string& source) {
  const ProcessResult result = run_process(
      {TRACECAST_PROGRAM, "validate", table, "--only", "source=" + source, "--format", "json"},
      Seconds(300));
  REQUIRE(result.exit_code == 0);
  std::map<std::string, double> predicted;
  const auto document = nlohmann::json::parse(result.out);
  for (const auto& row : document["rows"]) {
    if (row["skipped"].is_null()) predicted[row["id"]] = row["predicted"];
  }
  std::map<std::string, std::vector<Point>> series;
  CsvReader reader(table);
  while (reader.next()) {
    const RowFields row(reader);
    const auto known = predicted.find(std::string(row.text("id")));
    if (row.text("source") != source || known == predicted.end()) continue;
    std::string key;
    for (const char* column : {"gpu", "framework_name", "framework_version", "precision", "network",
                               "data", "phase", "batch_per_gpu", "notes"}) {
      key += std::string(row.text(column)) + '|';
    }
    series[key].push_back({row.positive("gpus"), row.positive("samples_per_s"), known->second});
  }
  return series;
}

/// Mean |predicted - measured| efficiency over the smallest number of GPUs, in points.
double scaling_error(const std::map<std::string, std::vector<Point>>& series, int& count) {
  double sum = 0;
  for (const auto& [key, points] : series) {
    Point base = points.front();
    for (const Point& p : points) {
      if (p.gpus < base.gpus) base = p;
    }
    for (const Point& p : points) {
      if (p.gpus <= base.gpus) continue;
      const double ratio = base.gpus / p.gpus;
      sum += std::abs(p.measured / base.measured - p.predicted / base.predicted) * ratio * 100;
      ++count;
    }
  }
  return sum / count;
}

TEST_SUITE_BEGIN("validation/scaling");

TEST_CASE("DGX-1, K80 on Compute Engine and on EC2 of May 2017 scale as TensorFlow's page says") {
  const auto table = find_data("published/core.csv");
  if (!table) return;
  int count = 0;
  const double error = scaling_error(series_of(table->string(), kTensorflowPage), count);
  MESSAGE("efficiency of " << count << " rows: mean error " << error << " points");
  CHECK(count == 76);
  CHECK(error <= 3.0);  // a constant 0.9 scores 5.0
}

TEST_CASE("nn.DataParallel loses as much as measured on three machines") {
  const auto table = find_data("published/core.csv");
  if (!table) return;
  int count = 0;
  const double error =
      scaling_error(series_of(table->string(), "ryujaehun/pytorch-gpu-benchmark"), count);
  MESSAGE("efficiency of " << count << " rows: mean error " << error << " points");
  CHECK(count >= 180);
  CHECK(error <= 8.0);  // full efficiency scores 58, a constant 0.42 about 15
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
