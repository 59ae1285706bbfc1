#include <doctest/doctest.h>

#include <filesystem>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/bad_input/program.hpp"
#include "tests/support/temporary_folder.hpp"

// Every number of every table and of every JSON document that people give, at values that no number
// of them has. (Files in Protobuf's text form: tests/tools/ranges_test.cpp.)

namespace tracecast::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const char* const kValues[] = {"0",    "-1", "9223372036854775807", "1e308", "1e-320", "nan", "inf",
                               "1e18", "0.5"};

/// A file, and the command that reads it; FILE stands for its path, FOLDER for that of all.
struct Given {
  const char* name;
  std::string content;
  Words command;
};

const char* const kJobs =
    "job_id,submit_s,num_gpu,min_gpus,max_gpus,model,batch,steps,duration_s,deadline_s,weight,"
    "resize_s\n"
    "a,0,1,,,net,64,100,,400,1,\nb,10,2,1,4,net,64,200,,500,2,10\nc,20,1,,,,,,30,900,1,\n";
const char* const kRates =
    "model,gpu,batch,gpus,steps_per_s\nnet,v100,64,1,1\nnet,v100,64,2,1.9\nnet,v100,64,4,3.6\n";
const char* const kCosts = "model,num_gpu,start_s\nnet,1,12\nnet,2,20\n";
const char* const kPlan = "job { id: 'a' network: 'alexnet' batch: 64 samples: 1e8 }";

std::vector<Given> givens() {
  const Words schedule = {"schedule",        "FOLDER/jobs.csv",
                          "--gpus",          "8",
                          "--gpus-per-node", "4",
                          "--gpu",           "v100_sxm2_16gb",
                          "--throughputs",   "FOLDER/rates.csv",
                          "--start-costs",   "FOLDER/costs.csv",
                          "--policy",        "marginal_gain"};
  const Words serve = {"serve", "llama3_8b", "--gpu", "h100", "--no-intervals"};
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  return {
      {"jobs.csv", kJobs, schedule},
      {"rates.csv", kRates, schedule},
      {"costs.csv", kCosts, schedule},
      {"muri.csv",
       "job_id,num_gpu,submit_s,iterations,model,batch,iteration_s\n1,1,0,100,vgg16,16,0.5\n2,2,30,"
       "50,bert,4,1.25\n",
       {"schedule", "FILE", "--gpus", "8", "--policy", "las", "--format", "csv"}},
      {"shockwave.csv",
       "job_id,arrival_s,model,batch,gpus,adaptive_s\n0,0,net,32,1,500\n1,5,net,32,2,400\n",
       {"schedule", "FILE", "--gpus", "8", "--policy", "max_min", "--round", "60"}},
      {"pods.csv",
       "pod,num_gpu,gpu_spec,creation_s,deletion_s\na,1,,0,100\nb,2,,10,90\n",
       {"schedule", "FILE", "--gpus", "8", "--policy", "srtf"}},
      {"pairs.csv",
       "job_a,batch_a,job_b,batch_b,gpu,steps_per_s_a,steps_per_s_b\nnet,64,net,64,v100,0.6,0.6\n",
       {"schedule", "FOLDER/jobs.csv", "--gpus", "8", "--gpu", "v100_sxm2_16gb", "--throughputs",
        "FOLDER/rates.csv", "--throughputs", "FILE", "--policy", "max_min", "--space-sharing",
        "--round", "60"}},
      {"runs.csv",
       "network,gpu,batch,gpus,samples_per_s\nalexnet,t4,64,1,1500\n",
       {"plan", "FOLDER/plan", "--measured", "FILE", "--deadline", "60d", "--worlds", "10"}},
      {"requests.csv",
       "arrival_s,input_tokens,output_tokens,prefix,shared_tokens\n0,100,20,1,50\n0.5,200,30,1,"
       "50\n1,50,10,2,0\n",
       with(serve, {"--trace", "FILE", "--format", "csv"})},
      {"vllm.json",
       R"({"model_id": "m", "num_prompts": 200, "completed": 200, "request_rate": 4, "max_concurrency": 16, "total_input_tokens": 20000,
       "total_output_tokens": 4000, "mean_ttft_ms": 100, "median_ttft_ms": 90, "p99_ttft_ms": 200, "mean_tpot_ms": 10,
       "output_throughput": 1000})",
       with(serve, {"--measured", "FILE"})},
      {"genai.json",
       R"({"time_to_first_token": {"unit": "ms", "avg": 50, "p50": 45}, "inter_token_latency": {"unit": "ms", "avg": 9},
       "output_token_throughput": {"avg": 1000}, "input_sequence_length": {"avg": 100}, "output_sequence_length": {"avg": 50},
       "request_count": {"avg": 100}, "input_config": {"concurrency": 4}})",
       with(serve, {"--measured", "FILE"})},
      {"config.json",
       R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 688, "num_attention_heads": 4, "num_key_value_heads": 2,
       "num_hidden_layers": 2, "vocab_size": 1000, "max_position_embeddings": 2048, "head_dim": 64, "sliding_window": 512,
       "rope_scaling": {"factor": 8, "rope_type": "llama"}})",
       {"serve", "FILE", "--gpu", "h100", "--input", "64", "--output", "8", "--batch", "2"}},
      {"mixtral.json",
       R"({"model_type": "mixtral", "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2,
       "num_hidden_layers": 2, "vocab_size": 1000, "max_position_embeddings": 2048, "num_local_experts": 8, "num_experts_per_tok": 2})",
       {"predict", "FILE", "--gpu", "h100", "--batch", "1", "--seq-len", "64", "--phase", "infer"}},
      {"core.csv",
       "id,source,date,gpu,gpus,nodes,interconnect,framework,framework_name,framework_version,"
       "precision,xla,network,data,phase,"
       "batch_per_gpu,samples_per_s,notes\nr1,paper,2018-01,v100_sxm2_16gb,1,1,,tensorflow,"
       "TensorFlow,1.8,fp32,no,alexnet,synthetic,"
       "train,64,1000,\n",
       {"validate", "FILE", "--format", "csv"}},
      {"gemm.csv",
       "source,gpu,dtype,op,pass,batch,m,n,k,trans_a,trans_b,layout,kernel,time_us,timing,"
       "framework,clock_mhz,tflops,gbps,suspect,"
       "split,note\na,t4,fp32,gemm,forward,1,512,512,640,N,N,row,sgemm,50,events,cuda,,,,,,\n",
       {"validate", "FILE", "--format", "json"}},
  };
}

TEST_SUITE_BEGIN("bad_input/numbers");

TEST_CASE(
    "every number of every table and document, at values that it cannot have, is answered or "
    "refused") {
  const TemporaryFolder folder;
  for (const auto& [name, content] : {std::pair{"jobs.csv", kJobs}, std::pair{"rates.csv", kRates},
                                      std::pair{"costs.csv", kCosts}, std::pair{"plan", kPlan}})
    write_file(folder.path() / name, content);
  const std::regex number(R"([-+]?\b\d+(\.\d+)?\b)");
  for (const Given& given : givens()) {
    const std::string what = given.name;
    CAPTURE(what);
    const fs::path file = folder.path() / given.name;
    Words command = given.command;
    for (std::string& word : command) {
      if (word == "FILE") word = file.string();
      if (word.starts_with("FOLDER/")) word = (folder.path() / word.substr(7)).string();
    }
    write_file(file, given.content);
    check_reports(command);
    int numbers = 0;
    const std::size_t header = what.ends_with(".csv") ? given.content.find('\n') : 0;
    for (std::sregex_iterator at(given.content.begin() + static_cast<std::ptrdiff_t>(header),
                                 given.content.end(), number),
         end;
         at != end; ++at) {
      ++numbers;
      // A third of the values for each number, another third for the next.
      for (std::size_t i = static_cast<std::size_t>(numbers) % 3; i < std::size(kValues); i += 3) {
        const char* const value = kValues[i];
        std::string changed = given.content;
        changed.replace(header + static_cast<std::size_t>(at->position()),
                        static_cast<std::size_t>(at->length()), value);
        write_file(file, changed);
        CAPTURE(changed);
        check_survives(command);
      }
    }
    CHECK(numbers >= 3);
    write_file(file, given.content);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
