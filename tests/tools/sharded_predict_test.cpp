#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

ProcessResult sharded(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {TRACECAST_PROGRAM, "predict", "gpt3_350m", "--gpu", "a100_sxm4_80gb", "--gpus",
                    "8", "--tp", "2", "--global-batch", "16"});
  return run_process(arguments);
}
Json report(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--format", "json"});
  const ProcessResult result = sharded(arguments);
  REQUIRE(result.exit_code == 0);
  return Json::parse(result.out);
}
double rate(const Json& document) { return document["throughput_tokens_per_s"]["value"]; }

TEST_SUITE_BEGIN("tools/sharded");

TEST_CASE("FP8 without its units runs as on one GPU: another format, and a line that says so") {
  const Json fp8 = report({"--precision", "fp8"});
  CHECK(fp8["precision"] == "bf16");
  CHECK(rate(fp8) == rate(report({"--precision", "bf16"})));
  REQUIRE(fp8["warnings"].size() == 1);
  const ProcessResult text = sharded({"--precision", "fp8"});
  CHECK(text.out.find("Warning") < text.out.find("Throughput"));
  CHECK(sharded({"--precision", "fp8", "--strict"}).exit_code == 1);
  CHECK(sharded({"--precision", "int8"}).exit_code == 2);
}

TEST_CASE("formats differ as their units do") {
  CHECK(rate(report({})) == rate(report({"--precision", "amp"})));  // the usual
  const auto large = [](const char* precision) {                    // not bound by launches
    return rate(report({"--micro-batch", "4", "--precision", precision}));
  };
  CHECK(large("fp32") < large("tf32"));
  CHECK(large("tf32") < large("bf16"));
  // A weight, its gradient and two moments at 4 bytes.
  const Json wide = report({"--precision", "fp32"})["memory"]["by_class_bytes"];
  CHECK(wide["weights"] == wide["gradients"]);
  CHECK(wide["optimizer"].get<double>() == doctest::Approx(2 * wide["weights"].get<double>()));
}

TEST_CASE(
    "parallel layouts that were searched keep to 80 columns; slower ones that do not fit are left "
    "out") {
  const auto searched = [](const char* format) {
    const ProcessResult result =
        run_process({TRACECAST_PROGRAM, "predict", "gpt3_13b", "--gpu", "h100", "--gpus", "16",
                     "--global-batch", "64", "--search", "--format", format});
    REQUIRE(result.exit_code == 0);
    return result.out;
  };
  const std::string text = searched("text");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    CHECK(end - at <= 80);
    CHECK((end == at || text[end - 1] != ' '));
    at = end + 1;
  }
  const Json parallel_layouts = Json::parse(searched("json"))["divisions"];
  const double best = parallel_layouts[0]["throughput"]["value"].get<double>();
  const auto faster =
      std::count_if(parallel_layouts.begin(), parallel_layouts.end(), [&](const Json& d) {
        return d["fits"] == false && d["throughput"]["value"].get<double>() > best;
      });
  std::ptrdiff_t shown = 0;
  for (std::size_t at = 0; (at = text.find(" GiB over", at)) != std::string::npos; ++at) ++shown;
  CHECK(shown == std::min<std::ptrdiff_t>(faster, 5));
}

TEST_CASE("the document has what every document has") {
  const Json document = report({});
  CHECK(document["schema"].get<std::string>().starts_with("tracecast.predict"));
  CHECK(document["version"].is_string());
  CHECK(document["seed"] == 0);
  for (const char* kind : {"network", "gpu", "framework", "cost_profile"}) {
    CAPTURE(kind);
    const Json& inputs = document["inputs"];
    CHECK(std::any_of(inputs.begin(), inputs.end(), [&](const Json& input) {
      return input["kind"] == kind && input["sha256"].get<std::string>().size() == 64;
    }));
  }
  CHECK(rate(document) ==
        doctest::Approx(document["tokens_per_sequence"].get<double>() *
                        document["throughput_samples_per_s"]["value"].get<double>()));
}

TEST_CASE("batch and accumulation are the sequences and the number of micro-batches") {
  const std::vector<std::string> job = {TRACECAST_PROGRAM,
                                        "predict",
                                        "gpt3_350m",
                                        "--gpu",
                                        "a100_sxm4_80gb",
                                        "--gpus",
                                        "8",
                                        "--tp",
                                        "2",
                                        "--format",
                                        "json"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), job.begin(), job.end());
    return Json::parse(run_process(more).out);
  };
  const Json ours = with({"--batch", "2", "--accumulate", "3"});
  CHECK(ours["micro_batch"] == 2);
  CHECK(ours["global_batch"] == 4 * 2 * 3);
  CHECK(ours == with({"--micro-batch", "2", "--global-batch", "24"}));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
