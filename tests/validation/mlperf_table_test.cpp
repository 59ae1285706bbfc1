#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/data.hpp"
#include "tests/support/process.hpp"

namespace tracecast::test {

TEST_SUITE_BEGIN("validation/mlperf_table");

TEST_CASE("throughput of MLPerf training is within 15 % on average, and half of it within 14 %") {
  const auto table = find_data("published/mlperf.csv");
  if (!table) return;
  const ProcessResult result = run_process(
      {TRACECAST_PROGRAM, "validate", table->string(), "--format", "json"}, Seconds(300));
  REQUIRE(result.exit_code == 0);
  std::vector<double> errors;
  const auto document = nlohmann::json::parse(result.out);
  for (const auto& row : document["rows"]) {
    if (row["skipped"].is_null()) errors.push_back(std::abs(row["error"].get<double>()));
  }
  REQUIRE(errors.size() > 440);
  double sum = 0;
  for (const double error : errors) sum += error;
  std::sort(errors.begin(), errors.end());
  CHECK(sum / static_cast<double>(errors.size()) < 0.15);
  CHECK(errors[errors.size() / 2] < 0.14);
}

TEST_SUITE_END();

}  // namespace tracecast::test
