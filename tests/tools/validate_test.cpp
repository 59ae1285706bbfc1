#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/data.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

const std::string kHeader =
    "id,gpu,gpus,framework,precision,network,data,phase,batch_per_gpu,samples_per_s\n";
std::string row(const std::string& id, const std::string& gpu = "k80",
                const std::string& network = "alexnet", const std::string& batch = "16",
                const std::string& samples_per_s = "300") {
  return id + "," + gpu + ",1,pytorch,fp32," + network + ",synthetic,train," + batch + "," +
         samples_per_s + "\n";
}

/// A table in a file of its own.
class Table {
 public:
  explicit Table(const std::string& content) : path_(folder_.path() / "mine.csv") {
    write_file(path_, content);
  }
  [[nodiscard]] ProcessResult validate(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {TRACECAST_PROGRAM, "validate", path_.string()};
    command.insert(command.end(), more.begin(), more.end());
    return run_process(command, Seconds(60));
  }
  [[nodiscard]] Json json(std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--format", "json"});
    return Json::parse(validate(more).out);
  }

 private:
  TemporaryFolder folder_;
  std::filesystem::path path_;
};

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_SUITE_BEGIN("tools/validate");

TEST_CASE("what selects no row is refused in one line with what there is") {
  struct Row {
    const char* what;
    std::vector<std::string> flags;
    std::vector<std::string> tells;
  };
  const Table table(kHeader + row("a") + row("b", "v100_sxm2_16gb", "vgg16"));
  const Row rows[] = {
      {"a GPU that no row has", {"--only", "gpu=nosuch"}, {"gpu=nosuch", "k80", "v100_sxm2_16gb"}},
      {"a misspelt one", {"--only", "gpu=k8"}, {"gpu=k8", "nearest: k80"}},
      {"no value", {"--only", "gpu="}, {"gpu=", "k80"}},
      {"an unknown column", {"--only", "gpuu=k80"}, {"gpuu", "nearest: gpu"}},
      {"two values that no row has", {"--only", "gpu=p4", "--only", "gpu=nosuch"}, {"gpu=p4"}},
      {"values of different rows",
       {"--only", "gpu=k80", "--only", "network=vgg16"},
       {"gpu=k80, network=vgg16"}},
  };
  for (const Row& bad : rows) {
    CAPTURE(bad.what);
    for (const char* format : {"text", "json", "csv"}) {
      std::vector<std::string> flags = bad.flags;
      flags.insert(flags.end(), {"--format", format});
      const ProcessResult result = table.validate(flags);
      CHECK(result.exit_code == 2);
      CHECK(result.out == "");
      CHECK(count_lines(result.err) == 1);
      for (const std::string& word : bad.tells) {
        CAPTURE(result.err);
        CHECK(holds(result.err, word));
      }
    }
  }
  const Table kernels(
      "source,gpu,dtype,op,pass,batch,m,n,k,layout,time_us,timing\n"
      "x,t4,fp32,bmm,forward,1,64,64,64,row,100,loop\n");
  const ProcessResult longer = kernels.validate({"--min-us", "1000"});
  CHECK(longer.exit_code == 2);
  CHECK(holds(longer.err, "at most 100"));
  // One of two values selects rows; the other is reported of.
  const ProcessResult half = table.validate({"--only", "gpu=k80", "--only", "gpu=nosuch"});
  CHECK(half.exit_code == 0);
  CHECK(holds(half.err, "gpu=nosuch"));
  const ProcessResult empty = Table(kHeader).validate();
  CHECK(empty.exit_code == 2);
  CHECK(holds(empty.err, "a header and no rows"));
}

TEST_CASE("without a row that is predicted there is no mean, and the exit code says no") {
  const Table table(kHeader + row("a", "nosuch") + row("b", "k80", "newnet"));
  for (const char* format : {"text", "json", "csv"}) {
    CAPTURE(format);
    CHECK(table.validate({"--format", format}).exit_code == 1);
  }
  const std::string text = table.validate().out;
  CHECK(holds(text, "No row could be predicted: 2 skipped"));
  CHECK(holds(text, "newnet"));
  CHECK_FALSE(holds(text, "errors, %"));
  CHECK_FALSE(holds(text, "0.0"));
  const Json doc = table.json();
  CHECK(doc["total"]["n"] == 0);
  CHECK(doc["total"]["skipped"] == 2);
  for (const char* key : {"mape", "median_ape", "p90_ape", "bias", "coverage90"}) {
    CAPTURE(key);
    REQUIRE(doc["total"].contains(key));
    CHECK(doc["total"][key].is_null());
  }
  CHECK(doc["groups"].empty());
  CHECK(doc["rows"].size() == 2);
}

TEST_CASE("groups are of rows that were predicted, and no mean is of none") {
  // One row of real data that cannot be predicted: the group `data=real` has none.
  const Table table(kHeader + row("a") + row("b", "nosuch"));
  const Json doc = table.json();
  REQUIRE(doc["groups"].size() > 0);
  for (const Json& group : doc["groups"]) {
    CAPTURE(group.dump());
    CHECK(group["n"] == 1);
    CHECK(group["key"] != "nosuch");
    CHECK(group["mape"].is_number());
  }
  CHECK_FALSE(doc["total"].contains("by_data"));
}

TEST_CASE("a bad cell costs its row: where it is, what stands there, what is expected") {
  struct Row {
    const char* what;
    std::string text;
    std::vector<std::string> tells;
  };
  const Row rows[] = {
      {"a throughput in words",
       row("bad", "k80", "alexnet", "16", "fast"),
       {"mine.csv:3", "samples_per_s", "\"fast\"", "a number above 0"}},
      {"no throughput", row("bad", "k80", "alexnet", "16", ""), {"mine.csv:3", "samples_per_s"}},
      {"a batch of zero",
       row("bad", "k80", "alexnet", "0"),
       {"mine.csv:3", "batch_per_gpu", "\"0\"", "from 1"}},
      {"a batch with a unit",
       row("bad", "k80", "alexnet", "16 images"),
       {"mine.csv:3", "batch_per_gpu", "\"16 images\""}},
      {"a cell too few", "bad,k80,1\n", {"mine.csv:3", "3 fields", "10 as in the header"}},
      {"a cell too many",
       "bad,k80,1,pytorch,fp32,alexnet,synthetic,train,16,300,fast\n",
       {"mine.csv:3", "11 fields"}},
  };
  for (const Row& bad : rows) {
    CAPTURE(bad.what);
    const Table table(kHeader + row("good") + bad.text + row("also good"));
    const ProcessResult result = table.validate();
    CHECK(result.exit_code == 0);
    CHECK(holds(result.out, "2 rows judged, 1 skipped"));
    const Json doc = table.json();
    REQUIRE(doc["rows"].size() == 3);
    CHECK(doc["total"]["n"] == 2);
    CHECK(doc["total"]["skipped"] == 1);
    const std::string reason = doc["rows"][1]["skipped"];
    CAPTURE(reason);
    for (const std::string& word : bad.tells) CHECK(holds(reason, word));
    CHECK(doc["rows"][0]["skipped"].is_null());
    CHECK(doc["rows"][2]["predicted"] == doc["rows"][0]["predicted"]);
  }
}

TEST_CASE("a table of bad rows alone is wrong, and many bad rows are reported of in a few lines") {
  std::string bad;
  for (int i = 0; i < 500; ++i) bad += row("bad", "k80", "alexnet", "16", "fast");
  const ProcessResult refused = Table(kHeader + bad).validate();
  CHECK(refused.exit_code == 2);
  CHECK(count_lines(refused.err) == 1);
  CHECK(holds(refused.err, "mine.csv:2, samples_per_s"));
  CHECK(holds(refused.err, "499 rows more"));
  const ProcessResult text = Table(kHeader + bad + row("good")).validate();
  CHECK(text.exit_code == 0);
  CHECK(count_lines(text.out) < 50);
  CHECK(holds(text.out, "500  malformed"));
}

TEST_CASE("a table of one's own is reported which columns it lacks") {
  struct Row {
    const char* what;
    const char* header;
    std::vector<std::string> tells;
  };
  const Row rows[] = {
      {"short names",
       "gpu,network,batch,throughput",
       {"a header without gpus, framework, precision, phase, batch_per_gpu, samples_per_s",
        "is \"batch\" the batch_per_gpu?", "columns gpu, gpus, framework"}},
      {"one column short",
       "gpu,gpus,framework,precision,network,phase,batch_per_gpu",
       {"a header without samples_per_s", "whole networks"}},
      {"a table of kernels", "gpu,op,time_us,m,k,batch,dtype", {"without n", "GEMMs"}},
      {"nothing of ours", "colour,weight", {"without gpu", "validate --help"}},
  };
  for (const Row& bad : rows) {
    CAPTURE(bad.what);
    const ProcessResult result = Table(std::string(bad.header) + "\n1,2\n").validate();
    CHECK(result.exit_code == 2);
    CHECK(count_lines(result.err) == 1);
    CAPTURE(result.err);
    for (const std::string& word : bad.tells) CHECK(holds(result.err, word));
  }
}

TEST_CASE("the smallest table is shown by the help, and works") {
  const std::string help = run_process({TRACECAST_PROGRAM, "validate", "--help"}, Seconds(10)).out;
  const std::size_t begin = help.find("gpu,gpus,framework");
  REQUIRE(begin != std::string::npos);
  const Table table(help.substr(begin, help.find("\n\n", begin) - begin) + "\n");
  const ProcessResult result = table.validate();
  CHECK(result.exit_code == 0);
  CHECK(holds(result.out, "2 rows judged, 0 skipped"));
}

TEST_CASE("tables name GPUs as people and drivers do") {
  const std::map<std::string, std::string> names = {{"Tesla V100-SXM2-16GB", "v100_sxm2_16gb"},
                                                    {"V100", "v100_sxm2_16gb"},
                                                    {"NVIDIA V100-SXM2-16GB", "v100_sxm2_16gb"},
                                                    {"NVIDIA A100-SXM4-80GB", "a100_sxm4_80gb"},
                                                    {"A100", "a100_sxm4_80gb"},
                                                    {"RTX 4090", "rtx4090"},
                                                    {"NVIDIA GeForce RTX 4090", "rtx4090"},
                                                    {"GeForce RTX 4070", "rtx4070"},
                                                    {"RTX-4070", "rtx4070"},
                                                    {"Quadro RTX 8000", "quadro_rtx8000"}};
  std::string content = kHeader;
  for (const auto& [name, id] : names) content += row(name, name) + row(id, id);
  const Json doc = Table(content).json();
  REQUIRE(doc["rows"].size() == 2 * names.size());
  for (std::size_t i = 0; i < doc["rows"].size(); i += 2) {
    CAPTURE(doc["rows"][i].dump());
    CHECK(doc["rows"][i]["predicted"].is_number());
    CHECK(doc["rows"][i]["predicted"] == doc["rows"][i + 1]["predicted"]);
  }
}

TEST_CASE("words of a table are understood in capitals") {
  const Table table(
      "gpu,gpus,framework,precision,network,phase,batch_per_gpu,samples_per_s\n"
      "k80,1,pytorch,fp32,resnet50,train,16,50\n"
      "K80,1,PyTorch,FP32,ResNet-50,Train,16,50\n");
  const Json rows = table.json()["rows"];
  REQUIRE(rows.size() == 2);
  CHECK(rows[1]["predicted"].is_number());
  CHECK(rows[1]["predicted"] == rows[0]["predicted"]);
}

/// Latency in ms of what `serve` answers.
double served(std::vector<std::string> words, const char* metric, const char* which) {
  words.insert(words.begin(), {TRACECAST_PROGRAM, "serve"});
  words.insert(words.end(), {"--format", "json"});
  return Json::parse(run_process(words, Seconds(60)).out)[metric][which]["value"];
}

TEST_CASE("each figure of a served run is a row, predicted as `serve` answers") {
  const Table table(
      "model,gpu,tp,prompt,batch,output,prompt_ms,token_ms,e2e_ms,flag\n"
      "llama2-70b,a100_sxm4_80gb,8,4000,1,200,500,40,8500,\n"
      "llama2-70b,a100_sxm4_80gb,8,512,2,256,100,40,1300,stopped_early\n"
      "llama9-70b,a100_sxm4_80gb,8,512,2,256,100,40,1300,\n");
  const Json json = table.json();
  const Json& rows = json["rows"];
  REQUIRE(rows.size() == 9);
  const std::vector<std::string> words = {"llama2_70b",
                                          "--gpu",
                                          "a100_sxm4_80gb",
                                          "--gpus",
                                          "8",
                                          "--engine",
                                          "vllm_v0_2023",
                                          "--precision",
                                          "fp16",
                                          "--input",
                                          "4000",
                                          "--batch",
                                          "1",
                                          "--output",
                                          "200",
                                          "--context",
                                          "4200"};
  CHECK(rows[0]["id"] == "2.prompt_ms");
  CHECK(rows[0]["predicted"] == served(words, "ttft_ms", "mean"));
  CHECK(rows[1]["predicted"] == served(words, "tpot_ms", "mean"));
  CHECK(rows[2]["predicted"] == served(words, "e2e_ms", "mean"));
  CHECK(holds(rows[8]["skipped"], "llama9-70b is not described"));
  // The end of what stopped early is no such end; its prompt and its tokens are.
  CHECK(json["total"]["n"] == 5);
  std::map<std::string, int> counts;
  for (const Json& group : json["groups"])
    if (group["by"] == "metric") counts[group["key"]] = group["n"];
  CHECK(counts == std::map<std::string, int>{{"prompt_ms", 2}, {"token_ms", 2}, {"e2e_ms", 1}});
}

TEST_CASE("a row that is not predicted may lack what the others have") {
  const Table table(
      "gpu,backend,model,tp,batch,prompt_tokens_total,output,prefill_ms,decode_ms,total_ms\n"
      "a100_sxm4_80gb,sglang,Qwen2.5-14B,1,3,1000,10,50,20,230\n"
      "a100_sxm4_80gb,vllm,Qwen2.5-14B,1,3,,,,,230\n");
  const Json rows = table.json()["rows"];
  REQUIRE(rows.size() == 6);
  // 1000 / 3 tokens, rounded.
  CHECK(rows[1]["predicted"] ==
        served({"qwen2.5_14b", "--gpu", "a100_sxm4_80gb", "--engine", "sglang", "--input", "333",
                "--batch", "3", "--output", "10"},
               "tpot_ms", "p50"));
  for (std::size_t i = 3; i < 6; ++i) CHECK(holds(rows[i]["skipped"], "are not recorded"));
}

TEST_CASE("what a closed loop's columns do not say stands in a text, with formulas of columns") {
  const std::string header =
      "gpu,backend,version,model,precision,mode,isl,osl,concurrency,gpus,tp,pp,dp,moe_ep,date,"
      "campaign,ttft_ms,tpot_ms,flag\n";
  const Table table(
      header +
      "h100_sxm5_80gb,trtllm,,Qwen/Qwen3-32B,fp8,agg,1000,100,6,1,1,1,1,1,,team,90,12,\n"
      "h100_sxm5_80gb,vllm,,openai/"
      "gpt-oss-120b,fp4,agg,1000,100,4,1,1,1,,1,2025-11-02,dump_1,90,9,\n"
      "h100_sxm5_80gb,vllm,,openai/gpt-oss-120b,fp4,disagg,1000,100,4,1,1,1,,1,,dump_1,90,9,\n"
      "h100_sxm5_80gb,vllm,,openai/gpt-oss-120b,fp4,agg,1000,100,4,1,1,1,,1,,dump_1,90,9,queue\n");
  const Json rows = table.json()["rows"];
  REQUIRE(rows.size() == 8);
  const auto loop = [](std::vector<std::string> words, const char* in_flight,
                       const char* requests) {
    words.insert(words.end(),
                 {"--gpu", "h100", "--input", "1000", "--output", "100", "--concurrency", in_flight,
                  "--requests", requests, "--warm-up", "0"});
    return words;
  };
  CHECK(rows[1]["predicted"] ==
        served(loop({"qwen3_32b", "--engine", "tensorrt_llm", "--precision", "fp8",
                     "--kv-precision", "fp8", "--max-batched-tokens", "2506"},
                    "6", "60"),
               "tpot_ms", "mean"));
  CHECK(rows[2]["predicted"] ==
        served(loop({"gpt_oss_120b", "--engine", "vllm", "--engine-version", "0.11", "--precision",
                     "mxfp4", "--least-share", "0.8", "--max-batched-tokens", "8192",
                     "--max-sequences", "512", "--graph-tokens", "2048"},
                    "4", "40"),
               "ttft_ms", "mean"));
  CHECK(rows[4]["skipped"] == "phases on GPUs of their own");
  CHECK(holds(rows[6]["skipped"], "in doubt"));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
