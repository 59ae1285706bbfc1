#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/zoo/zoo.hpp"
#include "tests/support/process.hpp"
#include "tests/tools/program.hpp"
#include "tools/show/network_summary.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

ProcessResult networks(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"networks"});
  return tracecast(arguments);
}

Json document(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--format", "json"});
  const ProcessResult result = networks(arguments);
  REQUIRE(result.exit_code == 0);
  return Json::parse(result.out);
}

TEST_SUITE_BEGIN("tools/networks");

TEST_CASE("a network's parts by kind add up to its totals") {
  for (const char* name : {"resnet50", "bert_large", "ssd300", "mlp", "ncf"}) {
    CAPTURE(name);
    const NetworkSummary summary = summarize_network(name, {});
    double macs = 0, bytes = 0;
    std::int64_t parameters = 0;
    for (const KindSummary& kind : summary.kinds) {
      macs += kind.macs;
      bytes += kind.activation_bytes;
      parameters += kind.parameters;
    }
    CHECK(macs == doctest::Approx(summary.macs));
    CHECK(bytes == doctest::Approx(summary.activation_bytes));
    CHECK(parameters == summary.parameters);
    CHECK_FALSE(summary.inputs.empty());
  }
}

TEST_CASE("the 512-unit perceptron keeps hidden units, their mask and the probabilities") {
  // 512 numbers and 46 probabilities of 4 bytes, 512 bytes of dropout's mask and what it lets
  // through: 512 of 4.
  CHECK(summarize_network("mlp", {}).activation_bytes == 4 * 512 + 4 * 46 + 512 + 4 * 512);
}

TEST_CASE("kept activations of a network without borders grow with the pixels") {
  // Twice the side: four times the maps; the classifier's numbers (2048 pooled, 1000 probabilities)
  // stay.
  const double small = summarize_network("resnet50", {.image_size = 224}).activation_bytes;
  const double large = summarize_network("resnet50", {.image_size = 448}).activation_bytes;
  const double fixed = 4.0 * (2048 + 1000);
  CHECK(large - fixed == doctest::Approx(4 * (small - fixed)));
}

TEST_CASE("the list names every network once, and only those that a size applies to") {
  const Json all = document({});
  CHECK(all["schema"] == "tracecast.networks/2");
  CHECK(all["networks"].size() == zoo().size());
  CHECK(all["not_at_this_size"].empty());
  std::size_t with_images = 0;
  for (const ZooEntry& entry : zoo()) with_images += entry.image_size > 0;
  const Json small = document({"--image-size", "32"});
  CHECK(small["networks"].size() + small["not_at_this_size"].size() == with_images);
  CHECK(small["not_at_this_size"].dump().find("\"alexnet\"") != std::string::npos);
}

TEST_CASE("one network in JSON has its sizes, kinds and published figures") {
  const Json doc = document({"resnet50", "--image-size", "160"});
  REQUIRE(doc["networks"].size() == 1);
  const Json& network = doc["networks"][0];
  CHECK(network["network"] == "resnet50");
  CHECK(network["parameters"] == 25'557'032);
  CHECK(network["published_parameters"]["value"] == 25'557'032);
  CHECK(network["inputs"][0]["shape"] == Json({1, 3, 160, 160}));
  CHECK(network["kinds"][0]["kind"] == "Conv");
  CHECK(network["kinds"][0]["ops"] == 53);
}

TEST_CASE("CSV has one line a network, titles quoted") {
  const ProcessResult result = networks({"--format", "csv"});
  REQUIRE(result.exit_code == 0);
  CHECK(result.out.starts_with("network,parameters,forward_macs_per_sample,"));
  const auto lines =
      static_cast<std::size_t>(std::count(result.out.begin(), result.out.end(), '\n'));
  CHECK(lines == zoo().size() + 1);
  CHECK(result.out.find("\nalexnet,61100840,") != std::string::npos);
}

TEST_CASE("counts and sizes stand in the unit that suits them") {
  const std::string list = networks({}).out;
  const auto line_of = [&](const std::string& name) {
    const std::size_t begin = list.find('\n' + name + ' ');
    REQUIRE(begin != std::string::npos);
    return list.substr(begin + 1, list.find('\n', begin + 1) - begin - 1);
  };
  CHECK(line_of("alexnet").find("61.1 M   714 M 2.29 MiB") != std::string::npos);
  CHECK(line_of("llama2_7b").find(" 6.74 G ") != std::string::npos);
  CHECK(line_of("gpt3_175b").find("   175 G ") != std::string::npos);
  CHECK(line_of("bloom_176b").find("369 T  339 GiB") != std::string::npos);
  const ProcessResult prediction =
      run_process({TRACECAST_PROGRAM, "predict", "resnet50", "--gpu", "v100"}, Seconds(30));
  CHECK(prediction.out.find("25.6 M parameters, 4.09 G multiply-adds") != std::string::npos);
  CHECK(networks({"llama2_7b"}).out.find("multiply-adds  31.5 T") != std::string::npos);
}

TEST_CASE("a size that the network does not read is refused in one line") {
  const ProcessResult result = networks({"mlp", "--image-size", "32"});
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK(result.err ==
        "--image-size: found 32; expected no such flag: mlp_reuters reads no images\n");
  CHECK(networks({"bert_base", "--seq-len", "513"}).exit_code == 2);
  CHECK(networks({"no_such.onnx"}).exit_code == 2);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
