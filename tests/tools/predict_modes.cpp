#include "tests/tools/predict_modes.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace tracecast::test {
namespace {

/// Keys, columns and labels that say what was asked.
const std::set<std::string, std::less<>> kEchoes = {
    // of every document
    "schema", "version", "inputs", "assumptions", "network", "gpu", "gpus", "nodes", "machine",
    "host_cpu", "batch_per_gpu", "phase", "precision", "framework", "framework_version",
    "optimizer", "recompute", "accumulate", "data", "strategy",
    // of the input pipeline
    "data_set", "pipeline", "workers", "cpu_threads",
    // of parameter servers
    "servers", "channel", "link", "device", "synchronous",
    // of divided transformers
    "software", "tensor_parallel", "pipeline_parallel", "data_parallel", "context_parallel",
    "expert_parallel", "sequence_parallel", "schedule", "chunks", "zero", "micro_batch",
    "micro_batches", "global_batch", "tokens_per_sequence",
    // labels of text
    "Network", "GPU", "GPUs", "CPU", "Nodes", "Machine", "Channel", "Job", "Layout", "Batch",
    "Assumed", "cost_profile", "cluster", "tracecast", ""};

using Json = nlohmann::json;

void drop_echoes(Json& value) {
  if (value.is_object()) {
    for (auto it = value.begin(); it != value.end();) {
      // Of divided transformers a part of the step has the name of a degree.
      it = kEchoes.contains(it.key()) ? value.erase(it) : std::next(it);
    }
  }
  for (Json& part : value) {
    if (part.is_structured()) drop_echoes(part);
  }
}

std::string figures_of_csv(const std::string& report) {
  std::istringstream lines(report);
  std::string line, kept;
  std::vector<bool> keeps;
  while (std::getline(lines, line)) {
    std::istringstream cells(line);
    std::string cell;
    const bool is_header = keeps.empty();
    for (std::size_t i = 0; std::getline(cells, cell, ','); ++i) {
      if (is_header) keeps.push_back(!kEchoes.contains(cell));
      if (i < keeps.size() && keeps[i]) kept += cell + ',';
    }
    kept += '\n';
  }
  return kept;
}

/// The first word of a line that begins at its first column: a label. Tables are indented by two
/// blanks.
std::string figures_of_text(const std::string& report) {
  std::istringstream lines(report);
  std::string line, kept;
  bool echoes = false;
  while (std::getline(lines, line)) {
    const bool continues = line.starts_with("     ");
    if (!continues) {
      const std::string label = line.substr(0, line.find_first_of(" "));
      echoes = kEchoes.contains(label) && !line.starts_with("GPU utilisation") &&
               !line.starts_with("CPU utilisation") && !line.starts_with("  ");
    }
    if (!echoes) kept += line + '\n';
  }
  return kept;
}

}  // namespace

std::string figures_of(const std::string& report) {
  if (report.starts_with("{")) {
    Json document = Json::parse(report);
    drop_echoes(document);
    return document.dump();
  }
  return report.starts_with("network,") ? figures_of_csv(report) : figures_of_text(report);
}

const std::vector<Mode>& predict_modes() {
  static const Arguments kServers = {"alexnet", "--gpu",     "k80", "--batch",
                                     "16",      "--nodes",   "3",   "--machine",
                                     "osu_ri2", "--servers", "1"};
  static const Arguments kPipeline = {
      "gpt3_125m",     "--gpu", "a100_sxm4_80gb", "--gpus", "8", "--tp", "2", "--pp", "2",
      "--micro-batch", "2",     "--global-batch", "16"};
  static const Arguments kSharded = {"gpt3_125m", "--gpu", "a100_sxm4_80gb", "--gpus", "8",
                                     "--zero",    "3"};
  static const Arguments kOne = {"alexnet", "--gpu", "v100_sxm2_16gb", "--batch", "32"};
  static const Arguments kSeveral = {"alexnet", "--gpu", "v100_sxm2_16gb", "--batch", "32",
                                     "--gpus",  "4",     "--strategy",     "ddp"};
  const auto as = [](Arguments command, const char* format) {
    command.insert(command.end(), {"--format", format});
    return command;
  };
  const auto with = [](Arguments command, const Arguments& more) {
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  static const std::vector<Mode> modes = {
      {"one GPU, train, json", as(kOne, "json")},
      {"one GPU, train, text", as(kOne, "text")},
      {"one GPU, train, csv", as(kOne, "csv")},
      {"one GPU, infer", with(as(kOne, "json"), {"--phase", "infer"})},
      {"one GPU, loaded input", with(as(kOne, "json"), {"--data", "imagenet"})},
      {"CPU", {"alexnet", "--gpu", "cpu:2xe5_2698_v4", "--batch", "4", "--format", "json"}},
      {"ONNX file",
       {"FOLDER/small.onnx", "--gpu", "v100_sxm2_16gb", "--batch", "64", "--format", "json"}},
      {"several GPUs, json", as(kSeveral, "json")},
      {"several GPUs, text", as(kSeveral, "text")},
      {"several GPUs, csv", as(kSeveral, "csv")},
      {"dataparallel",
       {"alexnet", "--gpu", "v100_sxm2_16gb", "--batch", "32", "--gpus", "4", "--strategy",
        "dataparallel", "--format", "json"}},
      {"servers, json", as(kServers, "json")},
      {"servers, text", as(kServers, "text")},
      {"servers, csv", as(kServers, "csv")},
      {"sharded, pipeline, json", as(kPipeline, "json")},
      {"sharded, pipeline, text", as(kPipeline, "text")},
      {"sharded, pipeline, csv", as(kPipeline, "csv")},
      {"sharded, sharded", as(kSharded, "json")},
      {"training program",
       {"job:resnet18_cifar10", "--gpu", "v100_sxm2_16gb", "--batch", "64", "--format", "json"}},
  };
  return modes;
}

const std::vector<FlagValue>& predict_flag_values() {
  static const std::vector<FlagValue> values = {
      {"--gpu", {"cpu:1xe5_2698_v4"}, {}, "CPU"},
      {"--gpu", {"p100_pcie_16gb"}},
      {"--batch", {"8"}},
      {"--phase", {"infer"}, {}, "one GPU, train"},
      {"--phase", {"train"}, {}, "one GPU, infer"},
      {"--phase", {"forward"}},
      {"--precision", {"fp32"}, {}, "sharded"},
      {"--precision", {"fp16"}},
      {"--framework", {"pytorch"}, {}, "servers"},
      {"--framework", {"tensorflow"}},
      {"--xla", {}, {"--framework", "tensorflow"}, "one GPU"},
      {"--xla", {}},
      {"--cuda-graphs", {}},
      {"--cudnn-benchmark", {}, {}, "servers", "--no-cudnn-benchmark"},
      {"--cudnn-benchmark", {}},
      {"--channels-last", {}},
      {"--as-written", {}},
      {"--framework-version", {"0.11, cuDNN 4"}, {}, "servers"},
      {"--framework-version", {"1.8"}, {}, "training program"},  // of 2020: cuDNN 7 anyway
      {"--framework-version", {"1.6, cuDNN 6.0"}},
      {"--optimizer", {"sgd"}, {}, "sharded"},
      {"--optimizer", {"adam"}},
      {"--image-size", {"64"}, {}, "ONNX file"},
      {"--image-size", {"160"}},
      {"--seq-len", {"256"}},
      {"--fan-out", {"10,5,5"}},
      {"--recompute", {"full"}},
      {"--lora", {"8"}},
      {"--lora-targets", {"linear"}, {"--lora", "8"}, "sharded"},
      {"--lora-targets", {"linear"}},  // without a rank
      {"--base-precision", {"nf4"}, {"--lora", "8"}, "sharded"},
      {"--base-precision", {"nf4"}},  // without a rank
      {"--accumulate", {"4"}},
      {"--data", {"cifar10"}, {}, "training program"},
      {"--data", {"imagenet32"}, {}, "one GPU, loaded input"},
      {"--data", {"imagenet"}},
      {"--machine", {"gavel_cloud"}, {}, "servers"},
      {"--machine", {"hgx_a100_4nic"}, {"--nodes", "2"}, "sharded"},
      {"--machine", {"aws_p3_8xlarge"}},
      {"--host-cpu", {"1xe5_2680_v2"}},
      {"--cpu-threads", {"2"}},
      {"--cpu-quota", {"0.5"}},
      {"--workers", {"1"}},
      {"--disk", {"hdd"}},
      {"--pipeline", {"tensorpack"}},
      {"--epoch-samples", {"123456"}},
      {"--tokens", {"1e9"}},
      {"--samples", {"1e6"}},
      {"--epochs", {"90"}},
      {"--within", {"30d"}, {"--samples", "1e7"}},
      {"--price", {"v100_sxm2_16gb=1.5", "k80=0.1", "a100_sxm4_80gb=2"}, {"--samples", "1e8"}},
      {"--kwh-price", {"0.9"}, {"--samples", "1e8"}},
      {"--power-limit", {"75"}, {}, "servers"},
      {"--power-limit", {"160"}},
      {"--clock", {"600"}},
      {"--memory-clock", {"600"}, {}, "sharded"},
      {"--memory-clock", {"2000"}, {}, "servers"},
      {"--memory-clock", {"600"}},
      {"--gpus", {"16"}, {}, "sharded"},
      {"--gpus", {"8"}},
      {"--nodes", {"2"}},
      {"--cluster", {"FOLDER/cluster.textproto"}},
      {"--strategy", {"horovod_mpi"}},
      {"--sample-sd", {"0.3"}},
      {"--no-fold", {}},
      {"--nic", {"ethernet_10g:1"}, {"--nodes", "2"}, "several GPUs"},
      {"--nic", {"ethernet_10g:1"}, {"--nodes", "2"}, "sharded"},
      {"--nic", {"ethernet_10g:1"}},
      {"--no-p2p", {}},
      {"--tp", {"4"}},
      {"--pp", {"4"}},
      {"--dp", {"4"}},
      {"--cp", {"2"}},
      {"--ep", {"2"}},
      {"--micro-batch", {"4"}},
      {"--global-batch", {"32"}},
      {"--schedule", {"gpipe"}, {}, "sharded, pipeline"},
      {"--schedule", {"gpipe"}},
      {"--zero", {"1"}},
      {"--zero-ranks", {"2"}},
      {"--sequence-parallel", {}},
      {"--attention", {"unfused"}},
      {"--software", {"megatron_2021"}},
      {"--servers", {"2"}},
      {"--channel", {"verbs"}},
      {"--placement", {"round_robin"}, {"--servers", "2"}, "servers"},
      {"--placement", {"round_robin"}},
      {"--server-device", {"gpu"}},
      {"--link", {"ethernet_10g"}},
      {"--async", {}},
      {"--profile", {"FOLDER/profile.textproto"}},
      {"--set", {"cost.cpu.memory_efficiency=0.3"}, {}, "CPU"},
      {"--set", {"cost.memory.efficiency=0.4"}, {}, "sharded"},  // all arithmetic on tensor cores
      {"--set", {"cost.clock.ceiling=0.4"}},
      {"--hwspecs", {"FOLDER/specs"}},
      {"--format", {"json"}, {}, "one GPU, train, text"},
      {"--format", {"json"}, {}, "several GPUs, text"},
      {"--format", {"json"}, {}, "servers, text"},
      {"--format", {"json"}, {}, "sharded, pipeline, text"},
      {"--format", {"text"}},
      {"--dump", {"program"}},
      {"--trace", {"FOLDER/trace.json"}},
      {"--report", {"FOLDER/report.html"}},
      {"--measured", {"FOLDER/runs.csv"}},
      {"--program", {"somebody's own"}},
      {"--host-from", {"traces/recordings/h200_resnet50_bf16_kineto.json.gz"}},
      {"--explain", {}},
      {"--largest-batch", {}},
      {"--search", {}},
      // A warning is needed that --strict can act on.
      {"--strict", {}, {"--precision", "fp8"}},
  };
  return values;
}

const std::vector<Excuse>& predict_excuses() {
  static const std::vector<Excuse> excuses = {
      {"ONNX file", "--recompute", "of five ops, none keeps what another does not read"},
      {"ONNX file", "--as-written", "of five ops, none stands for several"},
      {"CPU", "--recompute",
       "computing again would take more memory, so nothing is: the answer says so"},
      {"CPU", "--price", "no catalogue sells CPUs"},
      {"CPU", "--kwh-price", "no power of a CPU is predicted"},
      {"servers", "--kwh-price", "K80s are only rented, with their energy"},
      {"several GPUs, text", "--machine", "the same NVLink wiring: alike to three digits"},
      {"several GPUs, text", "--host-cpu", "the GPUs set the pace: alike to three digits"},
      {"several GPUs, csv", "--host-cpu", "the GPUs set the pace, and no column tells of the CPU"},
      {"several GPUs, text", "--cuda-graphs",
       "the host runs ahead of the GPU: json tells of its rest"},
      {"several GPUs, csv", "--cuda-graphs",
       "the host runs ahead of the GPU: json tells of its rest"},
      {"several GPUs, csv", "--machine", "the same NVLink wiring; json tells of the host"},
      {"several GPUs, csv", "--no-fold",
       "promises the same result; json tells how many were simulated"},
      {"sharded, pipeline, csv", "--no-fold", "promises the same result; json tells how many"},
      {"servers", "--cudnn-benchmark",
       "cuDNN names the fastest algorithms of these layers already"},
      {"several GPUs, csv", "--cudnn-benchmark", "cuDNN names the fastest algorithms already"},
  };
  return excuses;
}

}  // namespace tracecast::test
