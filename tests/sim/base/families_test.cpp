#include "sim/base/families.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace tracecast {
namespace {

using Words = std::vector<std::string>;

const Words kNames = {"albert_base", "bert_base",    "bert_large",     "quadro_rtx6000",
                      "resnet50",    "resnet_v2_50", "rtx3090",        "se_resnet50",
                      "titan_v",     "titanxp",      "v100_sxm2_16gb", "pytorch_2"};

TEST_SUITE_BEGIN("sim/base/families");

TEST_CASE("a family's word finds its members, those that begin with it first") {
  struct Row {
    const char* what;
    const char* word;
    Words members;
  };
  const Row rows[] = {
      {"behind a line", "bert", {"bert_base", "bert_large", "albert_base"}},
      {"before digits", "resnet", {"resnet50", "resnet_v2_50", "se_resnet50"}},
      {"case and separators do not count", "ResNet-V2", {"resnet_v2_50"}},
      {"in the middle", "rtx", {"rtx3090", "quadro_rtx6000"}},
      {"two letters", "rt", {}},
      {"two letters that are a part", "xp", {}},
      {"a part of two", "v2", {"resnet_v2_50"}},
      {"at the end of a part", "torch", {"pytorch_2"}},
      {"with those that go on in letters", "titan", {"titan_v", "titanxp"}},
      {"a typing error is no family", "v10", {}},
      {"nor is a letter", "v", {}},
      {"nor what nothing holds", "llama", {}},
      {"nor nothing", "", {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(find_family(row.word, kNames) == row.members);
  }
  CHECK(find_family(std::string(1'000'000, 'b'), kNames).empty());
}

TEST_CASE("an unknown entry is answered with its family, else with the nearest, and the listing") {
  std::vector<CatalogueEntry> entries;
  for (const std::string& name : kNames) entries.push_back({name, {}});
  entries[6].others = {"NVIDIA GeForce RTX 3090"};
  const auto line = [&](const char* word) {
    return describe_entries(word, entries, kNames, "tracecast gpus");
  };
  CHECK(line("bert") == "one of bert_base, bert_large, albert_base (all: `tracecast gpus`)");
  CHECK(line("geforce") == "one of rtx3090 (all: `tracecast gpus`)");
  CHECK(line("rtx309") == "one of 12 known names (all: `tracecast gpus`; nearest: rtx3090)");
  CHECK(line("zzzzzz") == "one of 12 known names (all: `tracecast gpus`)");
  entries.clear();
  for (int i = 0; i < 14; ++i) entries.push_back({"aws_" + std::to_string(i), {}});
  entries.push_back({"aws", {}});
  CHECK(
      line("aws") ==
      "one of aws, aws_0, aws_1, aws_2, aws_3, aws_4, aws_5, aws_6, aws_7, aws_8 and 5 more (all: "
      "`tracecast gpus`)");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
