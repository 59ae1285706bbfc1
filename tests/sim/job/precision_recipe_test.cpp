#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/job/predictor.hpp"

namespace tracecast {
namespace {

const Predictor& recipe_predictor() {
  static const Predictor one(Hardware::embedded());
  return one;
}

double step_of(const std::string& gpu, const std::string& precision, std::int64_t lora = 0) {
  Job job{.network = "llama3_70b", .precision = precision};
  job.seq_len = 4096;
  job.lora_rank = lora;
  Place place{.gpu = gpu};
  Sharded sharded;
  sharded.plan.tensor = 1;
  sharded.plan.pipeline = 1;
  return recipe_predictor().predict(job, place, sharded).step_time_s.value;
}

std::vector<std::string> blackwells() {
  std::vector<std::string> ids;
  for (const GpuSpec& gpu : recipe_predictor().hardware().gpus().all()) {
    if (gpu.architecture == Architecture::Blackwell) ids.push_back(gpu.id);
  }
  return ids;
}

TEST_SUITE_BEGIN("job/precision_recipe");

TEST_CASE("fewer bits train a large dense model faster, by less than the peaks allow") {
  const std::vector<std::string> gpus = blackwells();
  REQUIRE(gpus.size() > 5);
  for (const std::string& id : gpus) {
    CAPTURE(id);
    const GpuSpec& gpu = recipe_predictor().hardware().gpus().find(id);
    const auto peak = [&](Precision precision) {
      return gpu.find_peak(precision, MathUnit::TensorCore).value().in_si();
    };
    const double bf16 = step_of(id, "bf16"), fp8 = step_of(id, "fp8"), fp4 = step_of(id, "nvfp4");
    CHECK(fp4 < fp8);
    CHECK(fp8 < bf16);
    CHECK(bf16 / fp8 < peak(Precision::Fp8) / peak(Precision::Bf16));
    CHECK(fp8 / fp4 < peak(Precision::Fp4) / peak(Precision::Fp8));
    // What is computed before the cast costs time, and scales are read and written.
    CHECK(step_of(id, "fp8_current") > fp8);
    CHECK(step_of(id, "mxfp8") > fp8);
    CHECK(step_of(id, "mxfp8") < bf16);
  }
}

TEST_CASE("a GPU without the format says what runs in its place") {
  Job job{.network = "llama3_8b", .precision = "nvfp4"};
  Sharded sharded;
  sharded.plan.tensor = 1;
  const Forecast hopper = recipe_predictor().predict(job, {.gpu = "h100", .gpus = 8}, sharded);
  REQUIRE_FALSE(hopper.warnings.empty());
  CHECK(hopper.warnings.front().find("FP4 needs Blackwell") != std::string::npos);
  CHECK(hopper.precision == "fp8");
  const Forecast ampere = recipe_predictor().predict(job, {.gpu = "a100", .gpus = 8}, sharded);
  CHECK(ampere.precision == "bf16");
  job.precision = "fp6";
  CHECK_THROWS_AS((void)recipe_predictor().predict(job, {.gpu = "h100", .gpus = 8}, sharded),
                  InputError);
}

TEST_CASE("one GPU trains in a recipe, too") {
  Job job{.network = "llama3_1b", .batch = 4, .software = {.framework = "megatron"}};
  job.seq_len = 4096;
  const auto time = [&](const char* precision) {
    job.precision = precision;
    return recipe_predictor().predict(job, {.gpu = "b200"}).step_time_s.value;
  };
  CHECK(time("fp8") < time("bf16"));
  CHECK(time("mxfp8") > time("fp8"));
}

TEST_CASE("weights that are not trained lie in the format of the GEMMs") {
  const auto weights = [&](const char* precision) {
    Job job{.network = "llama2_70b", .precision = precision};
    job.lora_rank = 16;
    Sharded sharded;
    sharded.plan.tensor = 1;
    const Forecast f = recipe_predictor().predict(job, {.gpu = "b200", .gpus = 8}, sharded);
    return std::get<ShardedStep>(*f.details).prediction.memory.weights.in_gib();
  };
  const double sixteen = weights("bf16"), eight = weights("fp8"), four = weights("nvfp4");
  CHECK(eight == doctest::Approx(sixteen / 2).epsilon(0.05));
  CHECK(four == doctest::Approx(sixteen * (0.5 + 1.0 / 16) / 2).epsilon(0.08));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
