#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("tools/many_gpus");

// run_process leaves a program 2 GiB.
TEST_CASE("a million GPUs that are alike need no memory and no links each") {
  const test::ProcessResult result =
      test::run_process({TRACECAST_PROGRAM, "predict", "resnet50", "--gpu", "v100", "--gpus",
                         "1000000", "--format", "json"},
                        Seconds(120));
  REQUIRE(result.exit_code == 0);
  const auto report = nlohmann::json::parse(result.out);
  CHECK(report["gpus"] == 1'000'000);
  CHECK(report["nodes"] == 125'000);
  CHECK(report["throughput_samples_per_s"]["value"].get<double>() > 0);
}

TEST_CASE("strategies whose every copy is simulated say how many GPUs they take") {
  const test::ProcessResult result =
      test::run_process({TRACECAST_PROGRAM, "predict", "resnet50", "--gpu", "v100", "--gpus",
                         "1000000", "--framework", "mxnet", "--strategy", "kvstore_dist_device"},
                        Seconds(120));
  CHECK(result.exit_code == 2);
  CHECK(result.err.find("at most 16384") != std::string::npos);
  CHECK(test::count_lines(result.err) == 1);
}

/// An answer on four DGX A100 whose NICs have such a link.
nlohmann::json on_ethernet(std::vector<std::string> words, const std::string& link) {
  const test::TemporaryFolder folder;
  const std::string file = (folder.path() / "lab.textproto").string();
  write_file(file,
             "group { name: \"a\" count: 4 machine: \"dgx_a100\" gpu: \"a100_sxm4_40gb\" "
             "}\nnetwork { link: \"" +
                 link + "\" }\n");
  words.insert(words.end(), {"--cluster", file, "--format", "json"});
  words.insert(words.begin(), TRACECAST_PROGRAM);
  const test::ProcessResult result = test::run_process(words, Seconds(120));
  CAPTURE(link);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return nlohmann::json::parse(result.out);
}

TEST_CASE("a faster Ethernet makes steps and collectives faster, and the answer names the NICs") {
  struct Mode {
    const char* what;
    std::vector<std::string> words;
    bool is_step;
  };
  const Mode modes[] = {{"data parallel, large gradients",
                         {"predict", "bert_large", "--gpu", "a100_sxm4_40gb", "--batch", "8"},
                         true},
                        {"data parallel, small gradients",
                         {"predict", "resnet50", "--gpu", "a100_sxm4_40gb", "--batch", "64"},
                         true},
                        {"sharded",
                         {"predict", "gpt3_1.3b", "--gpu", "a100_sxm4_40gb", "--zero", "1",
                          "--micro-batch", "1", "--global-batch", "32"},
                         true},
                        {"a collective", {"collectives", "--sizes", "100M"}, false}};
  for (const Mode& mode : modes) {
    double first = 0, before = 0;
    for (const char* link :
         {"ethernet_10g", "ethernet_25g", "ethernet_100g", "ethernet_200g", "ethernet_400g"}) {
      const auto report = on_ethernet(mode.words, link);
      CAPTURE(mode.what);
      CAPTURE(link);
      REQUIRE(report["nics"].size() == 1);
      CHECK(report["nics"][0]["nodes"] == 4);
      CHECK(report["nics"][0]["nics_per_node"] == 8);
      CHECK(report["nics"][0]["link"] == link);
      const double now = mode.is_step ? report["step_time_s"]["value"].get<double>()
                                      : report["sizes"][0]["time_us"].get<double>();
      // What computing hides does not show in a step.
      if (before > 0) CHECK(now <= before * 1.005);
      if (first == 0) first = now;
      before = now;
    }
    CHECK(before < (mode.is_step ? 0.97 : 0.3) * first);
  }
  const test::ProcessResult text =
      test::run_process({TRACECAST_PROGRAM, "predict", "resnet50", "--gpu", "a100", "--machine",
                         "dgx_a100", "--nodes", "2"},
                        Seconds(120));
  CHECK(text.out.find("8 of infiniband_hdr (25.0 GB/s) in each node") != std::string::npos);
  const test::ProcessResult one =
      test::run_process({TRACECAST_PROGRAM, "predict", "resnet50", "--gpu", "a100", "--machine",
                         "dgx_a100", "--gpus", "8"},
                        Seconds(120));
  CHECK(one.out.find("NICs") == std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
