#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/configs.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

Json result_of(Words words) {
  words.insert(words.end(), {"--format", "json"});
  const ProcessResult result = tracecast(words);
  CAPTURE(line_of(words));
  CAPTURE(result.err);
  REQUIRE((result.exit_code == 0 || result.exit_code == 1));  // 1: it does not fit
  return Json::parse(result.out);
}

TEST_SUITE_BEGIN("tools/config");

TEST_CASE("a config.json of each kind predicts, training and inference, on H100 and B200") {
  for (const char* name : {"llama3_8b", "gpt_oss_20b", "glm_5", "qwen3.5_397b_a17b",
                           "nemotron_h_8b", "bloom_176b", "llama4_scout", "minimax_m2.5"}) {
    double training[2] = {}, inference[2] = {};
    int i = 0;
    for (const char* gpu : {"h100", "b200"}) {
      const Words words{"predict", config_path(name), "--gpu", gpu,      "--batch",
                        "8",       "--seq-len",       "512",   "--phase"};
      Words train = words, infer = words;
      train.emplace_back("train");
      infer.emplace_back("infer");
      training[i] = result_of(train)["step_time_s"]["value"];
      inference[i] = result_of(infer)["step_time_s"]["value"];
      CHECK(training[i] > inference[i]);
      ++i;
    }
    CHECK(training[1] < training[0]);
    CHECK(inference[1] < inference[0]);
  }
}

TEST_CASE("a file says what the zoo says") {
  const Words flags{"--gpu", "h100", "--seq-len", "256", "--phase", "infer"};
  Words file{"predict", config_path("llama3_8b")}, zoo{"predict", "llama3_8b"};
  file.insert(file.end(), flags.begin(), flags.end());
  zoo.insert(zoo.end(), flags.begin(), flags.end());
  const Json one = result_of(file), other = result_of(zoo);
  CHECK(one["step_time_s"] == other["step_time_s"]);
  CHECK(one["parameters"] == other["parameters"]);
}

TEST_CASE("a network of models/zoo/config is asked by id, by repository or by its file alike") {
  struct Row {
    const char *id, *repository;
    bool serves;
  };
  const Row rows[] = {{"qwen3_8b", "Qwen/Qwen3-8B", true},
                      {"gemma3_12b", "google/gemma-3-12b-it", true},
                      {"falcon_7b", "tiiuae/falcon-7b-instruct", true},
                      {"whisper_small", "openai/whisper-small", false},
                      {"sdxl_unet", "stabilityai/stable-diffusion-xl-base-1.0", false},
                      {"dinov2_base", "facebook/dinov2-base", false}};
  for (const Row& row : rows) {
    CAPTURE(row.id);
    const auto step = [](std::string network, const char* phase) {
      Json report = result_of(
          {"predict", std::move(network), "--gpu", "h200", "--batch", "2", "--phase", phase});
      report.erase("inputs");  // a file has a hash of its bytes
      return report;
    };
    for (const char* phase : {"infer", "train"}) {
      const Json by_id = step(row.id, phase);
      CHECK(by_id["network"] == row.id);
      CHECK(by_id == step(row.repository, phase));
      CHECK(by_id == step(encoder_config_path(row.id), phase));
    }
    const Words load{"--gpu", "h200", "--input", "64", "--output", "8", "--concurrency", "2"};
    Words by_id{"serve", row.id}, by_repository{"serve", row.repository};
    by_id.insert(by_id.end(), load.begin(), load.end());
    by_repository.insert(by_repository.end(), load.begin(), load.end());
    if (row.serves) {
      CHECK(result_of(by_id)["tpot_ms"] == result_of(by_repository)["tpot_ms"]);
    } else {
      CHECK(tracecast(by_id).exit_code == 2);
    }
  }
}

TEST_CASE("a file's network is divided among GPUs as one of the zoo") {
  const Words flags{"--gpu", "h100", "--gpus", "8", "--tp", "4"};
  Words file{"predict", config_path("llama3_8b"), "--seq-len", "8192"}, zoo{"predict", "llama3_8b"};
  file.insert(file.end(), flags.begin(), flags.end());
  zoo.insert(zoo.end(), flags.begin(), flags.end());
  CHECK(result_of(file)["throughput_tokens_per_s"] == result_of(zoo)["throughput_tokens_per_s"]);
  Words hybrid{"predict", config_path("qwen3.5_397b_a17b")};
  hybrid.insert(hybrid.end(), flags.begin(), flags.end());
  const ProcessResult refused = tracecast(hybrid);
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("a gated delta net") != std::string::npos);
}

TEST_CASE("latent attention is divided among GPUs, and the step counts what a token takes") {
  const Words flags{"--gpu",     "gb200", "--gpus",      "256",  "--pp",           "4",
                    "--ep",      "64",    "--precision", "bf16", "--global-batch", "256",
                    "--seq-len", "4096"};
  Words file{"predict", config_path("deepseek_v3")}, zoo{"predict", "deepseek_v3"};
  file.insert(file.end(), flags.begin(), flags.end());
  zoo.insert(zoo.end(), flags.begin(), flags.end());
  const Json one = result_of(file);
  CHECK(one["throughput_tokens_per_s"] == result_of(zoo)["throughput_tokens_per_s"]);
  // 37e9 of the parameters take part in a token's GEMMs: six operations each, and attention's.
  const double flops = one["model_tflop_per_s_per_gpu"].get<double>() * 1e12 * 256 /
                       one["throughput_tokens_per_s"]["value"].get<double>();
  CHECK(flops > 6 * 36e9);
  CHECK(flops < 6 * 50e9);
}

TEST_CASE("a broken or contradictory file is one line and exit code 2") {
  const TemporaryFolder folder;
  Json config = Json::parse(config_text("llama3_8b"));
  config["num_key_value_heads"] = 5;
  for (const std::string& text : {config.dump(), std::string("{"), std::string("[]"),
                                  std::string("{\"model_type\": \"\"}")}) {
    const std::string path = (folder.path() / "config.json").string();
    write_file(path, text);
    const ProcessResult result = tracecast({"predict", path, "--gpu", "h100"});
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
  CHECK(tracecast({"predict", "missing.json", "--gpu", "h100"}).exit_code == 2);
  CHECK(tracecast({"predict", config_path("llama3_8b"), "--gpu", "h100", "--image-size", "224"})
            .exit_code == 2);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
