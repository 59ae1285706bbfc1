#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/file.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using namespace tracecast;
using namespace tracecast::test;

TEST_CASE(
    "validate says which rows their boards cannot have measured, and judges them like others") {
  const TemporaryFolder folder;
  const std::string table = folder.path() / "core.csv";
  // ResNet-50 takes 4.1 G multiply-adds forward, 24.5 GFLOP in a training step. T4: 8.1 TFLOP/s of
  // fp32, 16 GB, 320 GB/s.
  write_file(table,
             "id,gpu,gpus,framework,precision,network,phase,batch_per_gpu,samples_per_s\n"
             "likely,t4,1,pytorch,fp32,resnet50,train,32,90\n"
             "above peak,t4,1,pytorch,fp32,resnet50,train,32,2000\n"
             "kernels one by one,t4,1,pytorch,fp32,resnet50,infer,32,1050\n"
             "too large,t4,1,pytorch,fp32,resnet50,train,400,90\n");
  const ProcessResult json =
      run_process({TRACECAST_PROGRAM, "validate", table, "--format", "json"});
  REQUIRE(json.exit_code == 0);
  const auto doc = nlohmann::json::parse(json.out);
  REQUIRE(doc["rows"].size() == 4);
  const auto reason = [&doc](std::size_t row) {
    return doc["rows"][row].value("out_of_reach", std::string());
  };
  CHECK(reason(0).empty());
  CHECK(reason(1).find("peak arithmetic") != std::string::npos);
  CHECK(reason(2).find("one by one") != std::string::npos);
  CHECK(reason(3).find("memory") != std::string::npos);
  CHECK(doc["total"]["n"] == 4);
  REQUIRE(doc["total"]["out_of_reach"].size() == 3);
  for (const auto& part : doc["total"]["out_of_reach"]) CHECK(part["n"] == 1);
  const ProcessResult text = run_process({TRACECAST_PROGRAM, "validate", table});
  CHECK(text.out.find("4 rows judged") != std::string::npos);
  CHECK(text.out.find("Out of the board's reach") != std::string::npos);
  const ProcessResult clean =
      run_process({TRACECAST_PROGRAM, "validate", table, "--only", "id=likely"});
  CHECK(clean.out.find("reach") == std::string::npos);
}

}  // namespace
