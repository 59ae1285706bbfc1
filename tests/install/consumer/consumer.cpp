#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

#include "sim/job/predictor.hpp"

/// consumer FILE: every line of FILE is a command line of `tracecast predict`. Says the same
/// through the library and prints each figure of the forecast as "PATH VALUE", PATH being that of
/// the command's JSON. same_results.py compares the two.
namespace {

using namespace tracecast;

struct Question {
  Job job;
  Place place;
  DataParallel replicas;
  ParameterServers servers;
  Sharded parallel_layout;
  bool is_served = false, is_sharded = false;
};

std::int64_t whole(const std::string& text) { return std::stoll(text); }

/// Words of the command and what says the same here.
const std::map<std::string, std::function<void(Question&, const std::string&)>> kWords{
    {"--gpu", [](auto& q, auto& v) { q.place.gpu = v; }},
    {"--gpus", [](auto& q, auto& v) { q.place.gpus = whole(v); }},
    {"--nodes", [](auto& q, auto& v) { q.place.nodes = whole(v); }},
    {"--machine", [](auto& q, auto& v) { q.place.machine = v; }},
    {"--host-cpu", [](auto& q, auto& v) { q.place.host_cpu = v; }},
    {"--power-limit", [](auto& q, auto& v) { q.place.board.power_limit_w = std::stod(v); }},
    {"--batch", [](auto& q, auto& v) { q.job.batch = whole(v); }},
    {"--phase", [](auto& q, auto& v) { q.job.phase = v; }},
    {"--precision", [](auto& q, auto& v) { q.job.precision = v; }},
    {"--optimizer", [](auto& q, auto& v) { q.job.optimizer = v; }},
    {"--image-size", [](auto& q, auto& v) { q.job.image_size = whole(v); }},
    {"--data", [](auto& q, auto& v) { q.job.data = v; }},
    {"--workers", [](auto& q, auto& v) { q.job.workers = whole(v); }},
    {"--framework", [](auto& q, auto& v) { q.job.software.framework = v; }},
    {"--framework-version", [](auto& q, auto& v) { q.job.software.version = v; }},
    {"--xla", [](auto& q, auto&) { q.job.software.xla = true; }},
    {"--strategy", [](auto& q, auto& v) { q.replicas.strategy = v; }},
    {"--servers", [](auto& q, auto& v) { q.servers.servers = whole(v), q.is_served = true; }},
    {"--channel", [](auto& q, auto& v) { q.servers.channel = v, q.is_served = true; }},
    {"--tp",
     [](auto& q, auto& v) { q.parallel_layout.plan.tensor = whole(v), q.is_sharded = true; }},
    {"--pp",
     [](auto& q, auto& v) { q.parallel_layout.plan.pipeline = whole(v), q.is_sharded = true; }},
    {"--zero",
     [](auto& q, auto& v) {
       q.parallel_layout.plan.zero = static_cast<int>(whole(v)), q.is_sharded = true;
     }},
    {"--global-batch",
     [](auto& q, auto& v) { q.parallel_layout.plan.global_batch = whole(v), q.is_sharded = true; }},
    {"--cp",
     [](auto& q, auto& v) { q.parallel_layout.plan.context = whole(v), q.is_sharded = true; }},
    {"--ep",
     [](auto& q, auto& v) { q.parallel_layout.plan.expert = whole(v), q.is_sharded = true; }},
    {"--micro-batch",
     [](auto& q, auto& v) { q.parallel_layout.plan.micro_batch = whole(v), q.is_sharded = true; }},
    {"--schedule", [](auto& q, auto& v) { q.parallel_layout.plan.schedule = v; }},
    {"--software", [](auto& q, auto& v) { q.parallel_layout.software = v; }},
    {"--sequence-parallel",
     [](auto& q, auto&) { q.parallel_layout.plan.sequence_parallel = true; }},
    {"--recompute", [](auto& q, auto& v) { q.job.recompute = v; }},
    {"--seq-len", [](auto& q, auto& v) { q.job.seq_len = whole(v); }},
    {"--format", [](auto&, auto&) {}},
};

Question read(const std::string& line) {
  std::istringstream in(line);
  Question question;
  std::string word, value;
  in >> word >> question.job.network;
  while (in >> word) {
    value.clear();
    if (word != "--xla" && word != "--sequence-parallel") in >> value;
    const auto known = kWords.find(word);
    if (known == kWords.end()) throw std::runtime_error("no word of the library for " + word);
    known->second(question, value);
  }
  return question;
}

void print(const std::string& path, double value) {
  std::printf("%s %.17g\n", path.c_str(), value);
}
void print(const std::string& path, const Interval& interval) {
  print(path + ".value", interval.value);
  print(path + ".low", interval.low);
  print(path + ".high", interval.high);
}
void print(const std::string& path, const Range& range) {
  print(path + ".min", range.min);
  print(path + ".avg", range.avg);
  print(path + ".max", range.max);
}

void print(const Forecast& f) {
  print("gpus", static_cast<double>(f.gpus));
  print("nodes", static_cast<double>(f.nodes));
  print("parameters", static_cast<double>(f.parameters));
  if (f.forward_macs_per_sample) print("forward_macs_per_sample", *f.forward_macs_per_sample);
  print("step_time_s", f.step_time_s);
  print("throughput_samples_per_s", f.throughput_samples_per_s);
  if (f.throughput_tokens_per_s) print("throughput_tokens_per_s", *f.throughput_tokens_per_s);
  if (f.gpu_utilization) print("gpu_utilization", *f.gpu_utilization);
  if (f.sm_efficiency) print("sm_efficiency", *f.sm_efficiency);
  if (f.cpu_utilization) print("cpu_utilization", *f.cpu_utilization);
  const bool is_sharded = f.throughput_tokens_per_s.has_value();
  print(is_sharded ? "memory.total_bytes" : "memory.needed_bytes", f.memory.needed.in_bytes());
  print("memory.capacity_bytes", f.memory.capacity.in_bytes());
  for (const auto& [name, bytes] : f.memory.by_class) {
    print("memory.by_class_bytes." + name, bytes.in_bytes());
  }
  if (f.power) {
    print("power_w.avg", f.power->board.avg.in_w());
    print("energy_j_per_sample", f.power->energy_per_sample.in_j());
  }
  const auto print_parts = [](const std::string& path, const std::vector<StepPart>& parts) {
    for (const StepPart& part : parts) print(path + "[" + part.name + "].time_s", part.time.in_s());
  };
  if (f.gpus == 1)
    print_parts("critical_path", f.by_cause);  // elsewhere the command says it by mode
  if (is_sharded) print_parts("breakdown", f.by_cause);
  print_parts(is_sharded ? "kernel_classes" : "breakdown", f.by_class);
  for (const std::string& line : f.assumptions) std::printf("assumption %s\n", line.c_str());
  for (const std::string& line : f.warnings) std::printf("warning %s\n", line.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return EXIT_FAILURE;
  std::ifstream file(argv[1]);
  const Predictor predictor(Hardware::embedded());
  for (std::string line; std::getline(file, line);) {
    const Question q = read(line);
    Parallelism parallelism = q.replicas;
    if (q.is_served) parallelism = q.servers;
    if (q.is_sharded) parallelism = q.parallel_layout;
    std::printf("# %s\n", line.c_str());
    print(predictor.predict(q.job, q.place, parallelism));
  }
  return EXIT_SUCCESS;
}
