#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "tests/support/process.hpp"

/// One process on several GPUs (nn.DataParallel): one model answers whoever asks.
namespace tracecast::test {
namespace {

using Json = nlohmann::json;

std::string one_of(Random& random, const std::vector<std::string>& words) {
  return words[random.below(words.size())];
}

/// A job on two to eight GPUs: loaders, micro-batches.
std::vector<std::string> random_job(Random& random) {
  std::vector<std::string> words{
      TRACECAST_PROGRAM,
      "predict",
      one_of(random, {"alexnet", "resnet18", "resnet50", "vgg16", "mobilenet_v2"}),
      "--strategy",
      "dataparallel",
      "--format",
      "json"};
  const auto add = [&](const char* flag, const std::string& value) {
    words.insert(words.end(), {flag, value});
  };
  add("--gpu", one_of(random, {"p40", "k80", "v100_sxm2_16gb", "a100_sxm4_40gb"}));
  add("--gpus", one_of(random, {"2", "3", "4", "8"}));
  add("--batch", one_of(random, {"1", "4", "16"}));
  add("--framework", one_of(random, {"pytorch", "pytorch", "mxnet"}));
  add("--data", one_of(random, {"synthetic", "synthetic", "memory", "imagenet"}));
  if (random.below(3) == 0) add("--accumulate", one_of(random, {"2", "7"}));
  return words;
}

TEST_SUITE_BEGIN("tools/one_process");

TEST_CASE("with and without --explain a random nn.DataParallel job has one step time") {
  Random random(19);
  for (int i = 0; i < 40; ++i) {
    std::vector<std::string> words = random_job(random);
    std::string line;
    for (std::size_t w = 1; w < words.size(); ++w) line += words[w] + ' ';
    CAPTURE(line);
    const ProcessResult plain = run_process(words, Seconds(60));
    words.emplace_back("--explain");
    const ProcessResult explained = run_process(words, Seconds(60));
    REQUIRE(plain.exit_code <= 1);  // 1: does not fit
    REQUIRE(explained.exit_code == plain.exit_code);
    const Json a = Json::parse(plain.out), b = Json::parse(explained.out);
    for (const char* key : {"step_time_s", "throughput_samples_per_s", "gpu_utilization"}) {
      CHECK(a[key] == b[key]);
    }
    CHECK(a["scaling"] == b["scaling"]);
    REQUIRE(b.contains("host_calls"));
    double parts = 0, device = 0;
    for (const Json& part : a["scaling"]["parts"]) parts += part["time_s"].get<double>();
    CHECK(parts == doctest::Approx(a["step_time_s"]["value"].get<double>()).epsilon(1e-6));
    for (const Json& part : b["device_time"]) device += part["time_s"].get<double>();
    // No GPU works longer than the step, copies by its engines aside.
    CHECK(device <= 2 * parts * a["gpus"].get<double>());
  }
}

TEST_CASE("one process drives the GPUs of one node") {
  const ProcessResult result =
      run_process({TRACECAST_PROGRAM, "predict", "alexnet", "--gpu", "v100_sxm2_16gb", "--nodes",
                   "2", "--gpus", "16", "--strategy", "dataparallel"},
                  Seconds(60));
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK(result.err.find("one node") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
