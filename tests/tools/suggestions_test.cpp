#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

TEST_SUITE_BEGIN("tools/suggestions");

TEST_CASE("a family's word names its members and the command that lists all") {
  struct Row {
    Words words;
    Words says;
  };
  const auto network = [](const char* name) { return Words{"predict", name, "--gpu", "v100"}; };
  const auto gpu = [](const char* name) { return Words{"predict", "resnet50", "--gpu", name}; };
  const Row rows[] = {
      {network("bert"), {"bert_base, ", "bert_large", "`tracecast networks`"}},
      {network("llama"), {"llama", "_7b", "`tracecast networks`"}},
      {network("ResNet"), {"resnet18, resnet34, resnet50,", "more", "`tracecast networks`"}},
      {network("gpt"), {"gpt2", "gpt3", "`tracecast networks`"}},
      {network("vgg"), {"vgg11", "vgg16", "`tracecast networks`"}},
      {network("inception"), {"inception_v3", "`tracecast networks`"}},
      {{"networks", "mobilenet"}, {"mobilenet_v2", "`tracecast networks`"}},
      {gpu("rtx"), {"rtx2060", "more", "`tracecast gpus`"}},
      {gpu("gtx"), {"gtx1080", "`tracecast gpus`"}},
      {gpu("titan"), {"titan_v", "titanxp", "`tracecast gpus`"}},
      {{"gpus", "rtx"}, {"rtx2060", "`tracecast gpus`"}},
      {{"cluster", "--machine", "dgx"}, {"dgx1_v100", "dgx2", "`tracecast hardware machines`"}},
      {{"cluster", "--machine", "aws"}, {"aws_p3_2xlarge", "`tracecast hardware machines`"}},
      {{"hardware", "disks", "samsung"}, {"samsung_960_pro", "`tracecast hardware disks`"}},
      {{"hardware", "links", "ethernet"}, {"ethernet_10g", "`tracecast hardware links`"}},
      {{"hardware", "cpus", "gold"}, {"gold_6148", "`tracecast hardware cpus`"}},
      {{"predict", "resnet50", "--gpu", "v100", "--framework", "torch"}, {"torch7", "pytorch"}},
      {{"predict", "resnet50", "--gpu", "v100", "--framework", "jax"}, {"mxnet", "tensorflow"}},
  };
  for (const Row& row : rows) {
    CAPTURE(line_of(row.words));
    const ProcessResult result = tracecast(row.words);
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out == "");
    CHECK(count_lines(result.err) == 1);
    for (const std::string& word : row.says) {
      CAPTURE(word);
      CHECK(result.err.find(word) != std::string::npos);
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
