#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words{TRACECAST_PROGRAM, "predict"};
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}
ProcessResult predict(const std::string& text) { return run_process(words_of(text)); }
Json report(const std::string& text) {
  const ProcessResult result = predict(text + " --format json");
  REQUIRE(result.exit_code <= 1);
  return Json::parse(result.out);
}
double probability(const Json& document) { return document["memory"]["fit_probability"]; }

TEST_SUITE_BEGIN("tools/memory_fit");

// Public reports: stanford_alpaca issues 280 (four A100 of 40 GB run out, with offload too) and 39
// (eight of 80 GB run).
const std::string kAlpaca =
    "llama_7b --zero 3 --precision amp --seq-len 512 --software fsdp --attention unfused --gpus ";

TEST_CASE("full fine-tuning of LLaMA-7B: four A100 of 40 GB likely not, eight of 80 GB do") {
  const std::string four = kAlpaca + "4 --gpu a100_sxm4_40gb --micro-batch 3 --global-batch 12";
  const Json small = report(four);
  CHECK(probability(small) < 0.5);
  CHECK(small["memory"]["fits"] == false);
  CHECK(predict(four).exit_code == 1);
  const std::string eight = kAlpaca + "8 --gpu a100_sxm4_80gb --micro-batch 4 --global-batch 32";
  CHECK(probability(report(eight)) >= 0.95);
  CHECK(predict(eight).exit_code == 0);
}

TEST_CASE("what would make it fit is predicted, three changes at most, and does") {
  const Json small = report(kAlpaca + "4 --gpu a100_sxm4_40gb --micro-batch 3 --global-batch 12");
  const Json& changes = small["would_fit"];
  REQUIRE(!changes.empty());
  CHECK(changes.size() <= 3);
  for (const Json& change : changes) {
    CAPTURE(change.dump());
    CHECK(change["fit_probability"].get<double>() >= 0.5);
    CHECK(change["throughput_ratio"].get<double>() > 0);
  }
  // One GPU: the flags are asked again, and the figures are the same.
  const std::string job = "resnet50 --gpu rtx3090 --batch 1024 --precision amp";
  const Json large = report(job);
  REQUIRE(probability(large) < 0.5);
  REQUIRE(!large["would_fit"].empty());
  const Json& first = large["would_fit"][0];
  std::string changed =
      "resnet50 --gpu rtx3090 --precision amp " + first["flags"].get<std::string>();
  if (changed.find("--batch") == std::string::npos) changed += " --batch 1024";
  const Json again = report(changed);
  CHECK(again["memory"]["fit_probability"] == first["fit_probability"]);
  CHECK(again["memory"]["needed_bytes"] == first["needed_bytes"]);
  CHECK(report("resnet50 --gpu v100 --batch 8")["would_fit"].empty());
}

TEST_CASE("programs that share a transformer hold what is theirs") {
  std::map<double, std::string> seen;
  for (const char* software :
       {"megatron", "megatron_deepspeed", "fsdp", "torchtitan", "torchtune", "deepspeed"}) {
    const Json document = report(
        std::string("llama2_7b --gpu a100_sxm4_80gb --gpus 8 --zero 3 --micro-batch 2 --seq-len "
                    "2048 --precision bf16 --software ") +
        software);
    const double total = document["memory"]["total_bytes"];
    CHECK_MESSAGE(!seen.contains(total), software << " as " << seen[total]);
    seen[total] = software;
  }
}

TEST_CASE("the verdict stands first, and --strict wants 95 %") {
  const auto job = [](int batch) {
    return "resnet50 --gpu rtx3090 --precision amp --framework pytorch --framework-version 1.12 "
           "--channels-last --batch " +
           std::to_string(batch);
  };
  const Json largest = report(job(64) + " --largest-batch")["memory"];
  const int likely = largest["largest_batch"], sure = largest["largest_batch_at_95_percent"];
  CHECK(sure < likely);
  CHECK(sure > likely / 2);
  CHECK(probability(report(job(sure))) >= 0.95);
  CHECK(probability(report(job(sure + likely / 50))) < 0.95);
  CHECK(probability(report(job(likely))) >= 0.5);
  CHECK(probability(report(job(likely + 1))) < 0.5);
  CHECK(predict(job(likely)).out.starts_with("Memory          fits with "));
  CHECK(predict(job(sure)).out.starts_with("Memory          fits: "));
  CHECK(predict(job(likely)).exit_code == 0);
  CHECK(predict(job(likely) + " --strict").exit_code == 1);
  CHECK(predict(job(likely + 1)).exit_code == 1);
  CHECK(predict(job(2 * likely)).out.starts_with("Memory          DOES NOT FIT: "));
}

TEST_CASE("fine-tuning on packed weights takes their bytes and pays for unpacking") {
  const std::string job =
      "llama2_7b --gpu a100_sxm4_40gb --batch 1 --seq-len 512 --precision bf16 --lora 8";
  const Json whole = report(job), packed = report(job + " --base-precision nf4");
  const auto weights = [](const Json& document) {
    return document["memory"]["by_class_bytes"]["weights"].get<double>();
  };
  // 6.476e9 weights of the layers at 0.5625 bytes in place of 2.
  CHECK(weights(whole) - weights(packed) == doctest::Approx(6.476e9 * 1.4375).epsilon(0.01));
  CHECK(packed["step_time_s"]["value"].get<double>() > whole["step_time_s"]["value"].get<double>());
  CHECK(predict("llama2_7b --gpu a100 --base-precision nf4").exit_code == 2);
  CHECK(predict("llama2_7b --gpu a100 --lora 8 --base-precision nf5").exit_code == 2);
}

TEST_CASE("detectors hold what their losses and their matching do") {
  // mmdetection 2.11, README of its configs: largest max_memory_allocated on V100, GiB.
  const std::map<std::string, double> measured = {{"faster_rcnn_r50_fpn", 4.0},
                                                  {"faster_rcnn_r101_fpn", 6.0},
                                                  {"mask_rcnn_r50_fpn", 4.4},
                                                  {"cascade_rcnn_r50_fpn", 4.4},
                                                  {"mask_rcnn_x101_64x4d_fpn", 10.7}};
  for (const auto& [network, gib] : measured) {
    CAPTURE(network);
    const Json document = report(
        network +
        " --gpu v100_sxm2_32gb --batch 2 --precision fp32 --framework pytorch --framework-version "
        "1.6");
    const double ours = document["memory"]["peak_allocated_bytes"].get<double>() / (1 << 30);
    CHECK(std::abs(ours / gib - 1) < 0.08);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
