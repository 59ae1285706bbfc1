#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/configs.hpp"
#include "tests/support/onnx_bytes.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"

// What a framework makes of the code that a network is written in: its version, its compiler, its
// exporter.
namespace tracecast::test {
namespace {

using Json = nlohmann::json;

Json report(Words words) {
  words.insert(words.begin(), "predict");
  words.insert(words.end(), {"--format", "json"});
  const ProcessResult result = tracecast(words);
  CAPTURE(line_of(words));
  CAPTURE(result.err);
  REQUIRE((result.exit_code == 0 || result.exit_code == 1));  // 1: it does not fit
  return Json::parse(result.out);
}
double step(const Words& words, const Words& more = {}) {
  Words all = words;
  all.insert(all.end(), more.begin(), more.end());
  return report(all)["step_time_s"]["value"];
}

TEST_SUITE_BEGIN("tools/network_code");

TEST_CASE("the version decides whether GPT-2 attends in one kernel, and a flag goes before it") {
  const Words job{"gpt2", "--gpu", "h100_sxm5_80gb", "--batch", "8", "--precision", "amp"};
  const double now = step(job), fused = step(job, {"--attention", "fused"}),
               composed = step(job, {"--attention", "composed"});
  CHECK(now == fused);
  CHECK(composed > 1.15 * fused);
  CHECK(step(job, {"--attention", "auto"}) == now);
  CHECK(step(job, {"--attention", "unfused"}) == composed);  // as sharded transformers call it
  const auto version = [&](const char* number) { return Words{"--framework-version", number}; };
  const auto ratio = [&](const char* number) {
    Words both = version(number);
    both.insert(both.end(), {"--attention", "composed"});
    return step(job, version(number)) / step(job, both);
  };
  CHECK(ratio("2.1") == 1);
  CHECK(ratio("2.3") == 1);
  CHECK(ratio("2.4") < 0.9);
  CHECK(ratio("2.9") < 0.9);
}

TEST_CASE("a choice of attention is refused where there is none to make, and misspelt") {
  for (const char* network : {"resnet50", "bert_base"}) {
    const ProcessResult result =
        tracecast({"predict", network, "--gpu", "v100", "--attention", "composed"});
    CHECK(result.exit_code == 2);
    CHECK(result.err.find("--attention: found composed with") != std::string::npos);
  }
  const ProcessResult result =
      tracecast({"predict", "gpt2", "--gpu", "v100", "--attention", "fuse"});
  CHECK(result.exit_code == 2);
  CHECK(result.err.find("fused") != std::string::npos);
}

TEST_CASE("a config.json of GPT-2 is the zoo's GPT-2") {
  const Words flags{"--gpu", "a100",    "--batch", "4",           "--seq-len",
                    "512",   "--phase", "infer",   "--precision", "bf16"};
  const auto both = [&](const char* attention) {
    Words file{config_path("gpt2"), "--attention", attention},
        zoo{"gpt2", "--attention", attention};
    file.insert(file.end(), flags.begin(), flags.end());
    zoo.insert(zoo.end(), flags.begin(), flags.end());
    return std::pair(report(file), report(zoo));
  };
  const auto seconds = [](const Json& of) { return of["step_time_s"]["value"].get<double>(); };
  const auto [one, other] = both("fused");
  CHECK(one["parameters"] == other["parameters"]);
  CHECK(one["forward_macs_per_sample"] == other["forward_macs_per_sample"]);
  CHECK(seconds(one) == doctest::Approx(seconds(other)).epsilon(0.03));
  // Step by step a file's decoder has its softmax in 32 bits, the zoo's GPT-2 has not.
  const auto [one_by_steps, other_by_steps] = both("composed");
  CHECK(one_by_steps["forward_macs_per_sample"] == other_by_steps["forward_macs_per_sample"]);
  CHECK(seconds(one_by_steps) >= seconds(other_by_steps));
  CHECK(seconds(other_by_steps) > 1.1 * seconds(other));
  const ProcessResult served = tracecast({"serve", config_path("gpt2"), "--gpu", "a100", "--batch",
                                          "8", "--input", "128", "--output", "32"});
  CHECK(served.exit_code == 0);
}

TEST_CASE(
    "torch.compile lays the images of convolutions channels last by its own rule and version") {
  const auto same = [](const Words& job, const Words& other) {
    return step(job) == step(job, other);
  };
  const Words resnet{"resnet50",       "--gpu", "rtx4090", "--phase", "infer",
                     "--precision",    "amp",   "--batch", "256",     "--framework",
                     "pytorch_compile"};
  CHECK(same(resnet, {"--channels-last"}));
  CHECK(step(resnet, {"--no-channels-last"}) > 1.1 * step(resnet));
  Words before = resnet;
  before.insert(before.end(), {"--framework-version", "2.0"});
  CHECK(same(before, {"--no-channels-last"}));
  Words eager = resnet;
  eager.back() = "pytorch";
  CHECK(same(eager, {"--no-channels-last"}));
  // Groups of several channels keep it from doing so in training.
  CHECK(same({"resnext50_32x4d", "--gpu", "rtx4090", "--precision", "amp", "--batch", "64",
              "--framework", "pytorch_compile"},
             {"--no-channels-last"}));
  CHECK(same({"gpt2", "--gpu", "rtx4090", "--precision", "amp", "--batch", "2", "--framework",
              "pytorch_compile"},
             {"--no-channels-last"}));
}

/// Ten convolutions of 3x3, each with an activation.
std::string activated(std::vector<onnx::Message> (*activation)(const std::string&,
                                                               const std::string&)) {
  onnx::Model model;
  model.opset = 17;
  model.inputs = {onnx::value_info("x0", {1, 64, 56, 56})};
  for (int i = 0; i < 10; ++i) {
    const std::string n = std::to_string(i), next = "x" + std::to_string(i + 1);
    model.weights.push_back(onnx::weight("w" + n, {64, 64, 3, 3}));
    model.nodes.push_back(onnx::node("Conv", {"x" + n, "w" + n}, {"y" + n},
                                     {onnx::attribute("pads", onnx::Dims{1, 1, 1, 1})}));
    for (const onnx::Message& node : activation("y" + n, next)) model.nodes.push_back(node);
  }
  model.outputs = {onnx::value_info("x10", {})};
  return model.bytes();
}

TEST_CASE("SiLU as its exporter writes it costs what one activation costs, in every framework") {
  const TemporaryFolder folder;
  const std::string silu = folder.path() / "silu.onnx", hard = folder.path() / "hard.onnx";
  write_file(silu, activated([](const std::string& x, const std::string& y) {
               return std::vector{onnx::node("Sigmoid", {x}, {x + "s"}),
                                  onnx::node("Mul", {x, x + "s"}, {y})};
             }));
  write_file(hard, activated([](const std::string& x, const std::string& y) {
               return std::vector{onnx::node("HardSwish", {x}, {y})};
             }));
  for (const char* framework : {"pytorch_2", "pytorch_compile", "tensorrt"}) {
    CAPTURE(framework);
    const Words flags{"--gpu", "a100_sxm4_40gb", "--phase", "infer",       "--precision",
                      "fp16",  "--batch",        "8",       "--framework", framework};
    Words one{silu}, other{hard};
    one.insert(one.end(), flags.begin(), flags.end());
    other.insert(other.end(), flags.begin(), flags.end());
    CHECK(step(one) == doctest::Approx(step(other)).epsilon(0.03));
  }
}

TEST_CASE("the batch that a file fixes is the default") {
  const TemporaryFolder folder;
  onnx::Model model = onnx::small_network();
  model.inputs = {onnx::value_info("image", {5, 3, 32, 32})};
  const std::string path = folder.path() / "five.onnx";
  write_file(path, model.bytes());
  const Words job{path, "--gpu", "v100", "--phase", "infer"};
  CHECK(report(job)["batch_per_gpu"] == 5);
  CHECK(step(job) == step(job, {"--batch", "5"}));
  Words one = job;
  one.insert(one.end(), {"--batch", "1"});
  CHECK(report(one)["batch_per_gpu"] == 1);
  const ProcessResult text = tracecast({"predict", path, "--gpu", "v100", "--phase", "infer"});
  CHECK(text.out.find("batch 5, as the network's file fixes it") != std::string::npos);
  const ProcessResult table =
      tracecast({"compare", path, "--gpu", "v100,t4", "--phase", "infer", "--format", "csv"});
  CHECK(table.out.find(",5,") != std::string::npos);
  CHECK(report({"resnet50", "--gpu", "v100"})["batch_per_gpu"] == 1);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
