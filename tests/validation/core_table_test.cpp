#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/data.hpp"
#include "tests/support/process.hpp"

namespace tracecast::test {
namespace {

TEST_SUITE_BEGIN("validation/core_table");

// The bound is the aim of the first step (one GPU, synthetic data, TensorFlow and PyTorch), over
// the GPUs whose specs it asks for. Nothing is fitted to these rows.
TEST_CASE("whole networks on one GPU are predicted within the bound") {
  const auto table = find_data("published/core.csv");
  if (!table) return;
  std::vector<std::string> command = {TRACECAST_PROGRAM, "validate", table->string(),
                                      "--only",          "gpus=1",   "--only",
                                      "data=synthetic",  "--format", "json"};
  for (const char* gpu :
       {"k40m", "k80", "p100", "p100_pcie_12gb", "p100_pcie_16gb", "p100_sxm2_16gb", "v100",
        "v100_pcie_16gb", "v100_sxm2_16gb", "t4", "a100_pcie_40gb", "gtx1080ti"}) {
    command.insert(command.end(), {"--only", std::string("gpu=") + gpu});
  }
  const ProcessResult result = run_process(command, Seconds(120));
  REQUIRE(result.exit_code == 0);
  const auto document = nlohmann::json::parse(result.out);
  const auto& total = document["total"];
  MESSAGE("rows " << total["n"] << ", mean " << total["mape"] << ", median " << total["median_ape"]
                  << ", bias " << total["bias"]);
  CHECK(total["n"].get<int>() >= 60);
  CHECK(total["mape"].get<double>() <= 0.35);
  CHECK(total["median_ape"].get<double>() <= 0.22);
  for (const auto& row : document["rows"]) {
    if (!row["skipped"].is_null()) CHECK_FALSE(row["skipped"].get<std::string>().empty());
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
