#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/configs.hpp"
#include "tests/tools/program.hpp"

/// What is assumed where a user says nothing, and what stands first on a page.
namespace tracecast::test {
namespace {

using Json = nlohmann::json;

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json report(const Words& words) {
  const ProcessResult result = tracecast(with(words, {"--format", "json"}));
  CAPTURE(line_of(words));
  CAPTURE(result.err);
  REQUIRE((result.exit_code == 0 || result.exit_code == 1));  // 1: it does not fit
  return Json::parse(result.out);
}

bool assumes(const Json& document, const std::string& what) {
  const Json& lines = document["assumptions"];
  return std::any_of(lines.begin(), lines.end(), [&](const Json& line) {
    return line.get<std::string>().find(what) != std::string::npos;
  });
}

std::vector<std::string> lines_of(const std::string& page) {
  std::vector<std::string> lines;
  std::istringstream stream(page);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_SUITE_BEGIN("tools/defaults");

TEST_CASE("a language model is asked in 16 bits with AdamW, and the answer says what it assumed") {
  const std::string file = config_path("llama3_8b");
  for (const std::string& network : {std::string("gpt2"), std::string("llama3_8b"), file}) {
    CAPTURE(network);
    const Words job{"predict", network, "--gpu", "a100", "--seq-len", "256"};
    const Json one = report(job);
    CHECK(one["precision"] == "bf16");
    CHECK(one["optimizer"] == "adamw");
    CHECK(assumes(one, "precision bf16, optimizer adamw: assumed"));
    const Json asked = report(with(job, {"--precision", "bf16", "--optimizer", "adamw"}));
    CHECK(one["step_time_s"] == asked["step_time_s"]);
    CHECK_FALSE(assumes(asked, "assumed, usual"));
    // As where its states are sharded.
    const Json sharded = report(with(job, {"--gpus", "8", "--zero", "1"}));
    CHECK(sharded["precision"] == one["precision"]);
    CHECK(sharded["optimizer"] == one["optimizer"]);
    CHECK(assumes(sharded, "optimizer adamw: usual"));
    // In the head of the page, above the speed.
    const std::string page = tracecast(job).out;
    REQUIRE(page.find("optimizer adamw: assumed") != std::string::npos);
    CHECK(page.find("optimizer adamw: assumed") < page.find("Throughput"));
  }
}

TEST_CASE(
    "the 16 bits assumed are those that the GPU computes in, and inference has no optimizer") {
  struct Row {
    const char* gpu;
    const char* precision;
  };
  for (const Row& row : {Row{"h100", "bf16"}, Row{"v100", "fp16"}, Row{"p40", "fp32"},
                         Row{"cpu:2xe5_2667", "fp32"}}) {
    CAPTURE(row.gpu);
    const Json found =
        report({"predict", "gpt2", "--gpu", row.gpu, "--phase", "infer", "--seq-len", "128"});
    CHECK(found["precision"] == row.precision);
    CHECK(assumes(found, std::string("precision ") + row.precision + ": assumed"));
  }
  const Json other = report({"predict", "resnet18", "--gpu", "v100"});
  CHECK(other["precision"] == "fp32");
  CHECK(other["optimizer"] == "momentum");
  CHECK_FALSE(assumes(other, "assumed, usual"));
}

TEST_CASE("what does not fit says so first, with the largest batch that does") {
  const std::vector<Words> jobs = {
      {"predict", "resnet50", "--gpu", "k80", "--batch", "1024"},
      {"predict", "resnet50", "--gpu", "v100", "--gpus", "4", "--batch", "1024"},
      {"predict", "gpt3_1.3b", "--gpu", "a100", "--gpus", "8", "--zero", "1", "--micro-batch",
       "64"},
  };
  for (const Words& job : jobs) {
    CAPTURE(line_of(job));
    const ProcessResult found = tracecast(job);
    CHECK(found.exit_code == 1);
    const std::string head = found.out.substr(0, found.out.find("\nNetwork"));
    CHECK(head.find("Memory          DOES NOT FIT: ") == 0);
    CHECK(lines_of(head).size() <= 3);
    const std::string flat = [&] {
      std::string text;
      for (const std::string& line : lines_of(head)) {
        if (!text.empty()) text += ' ';
        text += line.substr(std::min(line.find_first_not_of(' '), line.size()));
      }
      return text;
    }();
    const std::size_t at = flat.find("that fits: ");
    REQUIRE(at != std::string::npos);
    // That many likely do fit, which is the first line of that page.
    const std::string largest = flat.substr(at + 11, flat.find(' ', at + 11) - at - 11);
    CHECK(flat.find(" with 95 %)", at) != std::string::npos);
    Words fits = job;
    fits.back() = largest;
    const ProcessResult smaller = tracecast(fits);
    CHECK(smaller.exit_code == 0);
    CHECK(smaller.out.find("Memory          fits") == 0);
  }
}

TEST_CASE("a page that is asked for the largest batch begins with it") {
  const std::string page =
      tracecast({"predict", "alexnet", "--gpu", "t4", "--batch", "16", "--largest-batch"}).out;
  CHECK(page.find("Memory          fits: ") == 0);
  CHECK(page.substr(0, page.find("\nNetwork")).find("largest batch that fits: ") !=
        std::string::npos);
}

TEST_CASE("tables name networks, GPUs and layers whole, in 80 columns") {
  const auto all_of = [](const Words& list, const std::vector<std::string>& names) {
    const ProcessResult found = tracecast(list);
    CAPTURE(line_of(list));
    REQUIRE(found.exit_code == 0);
    for (const std::string& name : names) {
      CAPTURE(name);
      CHECK(found.out.find(name) != std::string::npos);
    }
    for (const std::string& line : lines_of(found.out)) {
      CAPTURE(line);
      const std::size_t dots = line.find("..");
      CHECK((dots == std::string::npos || line.compare(dots, 3, "...") == 0));  // "=...": yours
      const auto columns =
          std::count_if(line.begin(), line.end(), [](char c) { return (c & '\xC0') != '\x80'; });
      CHECK(columns <= 80);
    }
  };
  const auto names_of = [](const Words& list, const char* key, const char* name) {
    std::vector<std::string> names;
    const Json document = report(list);
    for (const Json& row : document[key]) names.push_back(row[name]);
    REQUIRE(names.size() > 50);
    return names;
  };
  all_of({"networks"}, names_of({"networks"}, "networks", "network"));
  all_of({"gpus"}, names_of({"gpus"}, "gpus", "id"));
  all_of({"hardware", "machines"}, {});
  // Layers of long names, and GPUs of long ones.
  all_of({"predict", "densenet121", "--gpu", "t4"}, {});
  all_of({"predict", "densenet121", "--gpu", "t4", "--explain"}, {"densenet121"});
  all_of({"compare", "resnet50", "--gpu", "a100_sxm4_80gb_1g_10gb,rtx_pro_6000,t4"},
         {"a100_sxm4_80gb_1g_10gb"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
