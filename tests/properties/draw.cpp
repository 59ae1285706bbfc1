#include "tests/properties/draw.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "hwspecs/library.hpp"
#include "hwspecs/slots.hpp"

namespace tracecast::test {
namespace {

const SpecLibrary& specs() { return SpecLibrary::embedded(); }

Kind kind_of(Random& random) {
  auto percent = static_cast<int>(random.below(100));
  for (const KindShare& share : kKinds) {
    if (percent < share.percent) return share.kind;
    percent -= share.percent;
  }
  return Kind::OneGpu;
}

/// Mixes the index, so that jobs beside each other have nothing in common.
Random generator_of(std::uint64_t index) {
  return Random(Random(index ^ 0x7261636563617374).next());
}

double parameters_of(const ZooEntry& entry) {
  return entry.parameters ? entry.parameters->value * entry.parameters->unit : 1e8;
}

bool trains(const std::string& phase) { return phase != "infer" && phase != "forward"; }

std::string text(std::int64_t value) { return std::to_string(value); }

/// Machines that come with the GPU.
std::vector<std::string> machines_with(const GpuSpec& gpu) {
  std::vector<std::string> ids;
  for (const MachineSpec& machine : specs().machines().all())
    if (comes_with(machine, gpu)) ids.push_back(machine.id);
  return ids;
}

}  // namespace

Draw::Draw(std::uint64_t index) : random_(generator_of(index)), kind_(kind_of(random_)) {}

Command Draw::job() {
  switch (kind_) {
    case Kind::OneGpu:
      return one_gpu();
    case Kind::DataParallel:
      return data_parallel();
    case Kind::Sharded:
      return sharded();
    case Kind::Serve:
      return serve();
    case Kind::Compare:
      return compare();
    case Kind::Plan:
      return plan();
    case Kind::Schedule:
      return schedule();
  }
  return one_gpu();
}

std::int64_t Draw::next_size(std::int64_t size) {
  switch (random_.below(4)) {
    case 0:
      return size + 1;
    case 1:
      return (size / 8 + 1) * 8;
    case 2:
      return size + std::max<std::int64_t>(1, size / 2);
    default:
      return size * 2;
  }
}

std::int64_t Draw::size_between(std::int64_t least, std::int64_t most) {
  const double low = std::log2(static_cast<double>(least));
  const double high = std::log2(static_cast<double>(most));
  const double at = low + random_.uniform() * (high - low);
  const auto size = static_cast<std::int64_t>(std::lround(std::exp2(at)));
  // Half of them as most people take them.
  const auto usual = static_cast<std::int64_t>(std::lround(std::exp2(std::round(at))));
  return std::clamp(chance(0.5) ? usual : size, least, most);
}

const GpuSpec& Draw::gpu_since(Architecture oldest) {
  for (;;) {
    const GpuSpec& gpu = pick(specs().gpus().all());
    if (gpu.architecture >= oldest) return gpu;
  }
}

const ZooEntry& Draw::network_for(const GpuSpec& gpu, double bytes_per_parameter) {
  for (int tries = 0; tries < 20; ++tries) {
    const ZooEntry& entry = pick(zoo());
    if (parameters_of(entry) * bytes_per_parameter < gpu.memory.in_bytes() * 0.7) return entry;
  }
  return *find_network("resnet50");
}

void Draw::add_precision(const GpuSpec& gpu, bool trains, Command& command) {
  std::vector<const char*> words{"fp32", "fp32", "", "amp", "fp16"};
  if (gpu.architecture >= Architecture::Volta) words.insert(words.end(), {"amp", "amp", "fp16"});
  if (gpu.architecture >= Architecture::Ampere) words.insert(words.end(), {"tf32", "bf16", "bf16"});
  if (!trains && gpu.find_peak(Precision::Int8, MathUnit::TensorCore)) words.push_back("int8");
  if (gpu.find_peak(Precision::Fp8, MathUnit::TensorCore)) words.push_back("fp8");
  const std::string word = pick(words);
  if (!word.empty()) command.add("--precision", word);
}

void Draw::add_software(const GpuSpec& gpu, bool trains, Command& command) {
  static const std::vector<std::string> frameworks = specs().framework_ids();
  if (chance(0.6)) {
    const bool is_modern = gpu.architecture >= Architecture::Ampere;
    static constexpr std::array kToday{"pytorch", "tensorflow", "pytorch_nvidia", "ideal",
                                       "pytorch_compile"};
    command.add("--framework", is_modern && chance(0.7) ? kToday[random_.below(kToday.size())]
                                                        : pick(frameworks).c_str());
  }
  const std::string framework = command.value("--framework");
  if (framework == "tensorflow" && chance(0.3)) command.add("--xla");
  if (chance(0.08)) command.add("--cuda-graphs");
  if (chance(0.1)) command.add(chance(0.5) ? "--cudnn-benchmark" : "--no-cudnn-benchmark");
  if (chance(0.1)) command.add(chance(0.5) ? "--channels-last" : "--no-channels-last");
  if (!trains) return;
  static constexpr std::array kOptimizers{"sgd", "adam", "adamw", "lamb", "adagrad", "rmsprop"};
  const std::string phase = command.value("--phase");
  if ((phase.empty() || phase == "train") && chance(0.3))
    command.add("--optimizer", pick(kOptimizers));
  if (chance(0.08)) command.add("--recompute", chance(0.5) ? "full" : "selective");
}

void Draw::add_sizes(const ZooEntry& network, Command& command) {
  if (network.seq_len > 0 && chance(0.6)) {
    const std::int64_t most = network.most_tokens > 0 ? network.most_tokens : 4096;
    command.add("--seq-len", text(size_between(16, std::max<std::int64_t>(16, most))));
  }
  if (network.image_size > 0 && chance(0.2)) {
    const std::int64_t least = smallest_image_size(network, {.training = true});
    command.add(
        "--image-size",
        text(std::max(least,
                      (network.image_size / 2 + between(0, network.image_size) + 31) / 32 * 32)));
  }
}

void Draw::add_board(const GpuSpec& gpu, Command& command) {
  if (chance(0.2)) {
    const double least = gpu.min_power_limit.value_or(gpu.tdp * 0.5).in_w();
    const double most = gpu.max_power_limit.value_or(gpu.tdp).in_w();
    command.add("--power-limit",
                fmt::format("{:.0f}", std::ceil(least + random_.uniform() * (most - least) * 0.8)));
  } else if (chance(0.15)) {
    command.add("--clock",
                fmt::format("{:.0f}", gpu.boost_clock.in_mhz() * (0.4 + 0.4 * random_.uniform())));
  }
}

void Draw::add_host(Command& command, std::int64_t gpus) {
  if (!chance(0.35)) return;
  const bool is_loaded = chance(0.75);
  command.add("--data", is_loaded ? "real" : "memory");
  if (is_loaded && chance(0.7)) command.add("--cpu-threads", text(gpus * size_between(1, 16)));
}

Command Draw::one_gpu() {
  Command command{.subcommand = "predict", .subject = {}};
  static constexpr std::array kPhases{"train", "train", "train",
                                      "infer", "infer", "forward_backward"};
  const std::string phase = pick(kPhases);
  const GpuSpec& gpu = pick(specs().gpus().all());
  const ZooEntry& network = network_for(gpu, trains(phase) ? 16 : 5);
  command.subject = network.name;
  command.add("--gpu", gpu.id);
  command.add("--batch", text(size_between(1, parameters_of(network) > 5e8 ? 16 : 256)));
  command.add("--phase", phase);
  add_precision(gpu, trains(phase), command);
  add_software(gpu, trains(phase), command);
  add_sizes(network, command);
  add_board(gpu, command);
  add_host(command, 1);
  const std::vector<std::string> machines = machines_with(gpu);
  if (!machines.empty() && chance(0.25)) command.add("--machine", pick(machines));
  if (phase == "train" && chance(0.08)) command.add("--accumulate", text(between(2, 8)));
  if (network.language != nullptr && phase == "train" && chance(0.15)) command.add("--lora", "16");
  return command;
}

Command Draw::data_parallel() {
  Command command{.subcommand = "predict", .subject = {}};
  const GpuSpec& gpu = pick(specs().gpus().all());
  const ZooEntry& network = network_for(gpu, 16);
  command.subject = network.name;
  command.add("--gpu", gpu.id);
  const std::vector<std::string> machines = machines_with(gpu);
  std::size_t slots = 8;
  if (!machines.empty() && chance(0.5)) {
    const MachineSpec& machine = specs().machines().find(pick(machines));
    command.add("--machine", machine.id);
    slots = std::bit_floor(machine.slots_of_host());
  }
  const std::int64_t in_node = std::int64_t{1} << random_.below(std::bit_width(slots));
  const std::int64_t nodes = in_node == 1 || chance(0.4) ? size_between(2, 16) : 1;
  command.add("--gpus", text(in_node * nodes));
  command.add("--nodes", text(nodes));
  command.add("--batch", text(size_between(1, parameters_of(network) > 5e8 ? 8 : 128)));
  if (chance(0.1)) command.add("--phase", "forward_backward");
  add_precision(gpu, true, command);
  add_software(gpu, true, command);
  add_sizes(network, command);
  add_board(gpu, command);
  add_host(command, in_node);
  static const std::vector<std::string> strategies = specs().strategy_ids();
  if (command.value("--phase").empty() && chance(0.4)) command.add("--strategy", pick(strategies));
  if (chance(0.1)) command.add("--accumulate", text(between(2, 8)));
  if (chance(0.1)) command.add("--sample-sd", "0.25");
  return command;
}

Command Draw::sharded() {
  Command command{.subcommand = "predict", .subject = {}};
  static const std::vector<const ZooEntry*> networks = [] {
    std::vector<const ZooEntry*> found;
    for (const ZooEntry& entry : zoo())
      if (entry.transformer) found.push_back(&entry);
    return found;
  }();
  const ZooEntry& network = *pick(networks);
  const GpuSpec* gpu = &gpu_since(Architecture::Volta);
  while (gpu->memory < Bytes(15e9)) gpu = &gpu_since(Architecture::Volta);
  command.subject = network.name;
  command.add("--gpu", gpu->id);
  const std::int64_t tensor = std::int64_t{1} << random_.below(4);
  const std::int64_t stages = std::int64_t{1}
                              << random_.below(network.transformer->layers >= 8 ? 4 : 2);
  const std::int64_t data = std::int64_t{1} << random_.below(4);
  const std::int64_t gpus = std::max<std::int64_t>(2, tensor * stages * data);
  command.add("--gpus", text(gpus));
  command.add("--tp", text(tensor));
  command.add("--pp", text(stages));
  const std::int64_t micro_batch = size_between(1, 8);
  const std::int64_t replicas = gpus / (tensor * stages);
  command.add("--micro-batch", text(micro_batch));
  command.add("--global-batch", text(micro_batch * replicas * size_between(1, 32)));
  const std::int64_t most = network.most_tokens > 0 ? network.most_tokens : 8192;
  command.add("--seq-len", text(size_between(128, std::max<std::int64_t>(128, most)) / 8 * 8));
  if (chance(0.5)) command.add("--zero", text(between(0, stages > 1 ? 1 : 3)));
  if (tensor > 1 && chance(0.5)) command.add("--sequence-parallel");
  if (chance(0.3)) command.add("--recompute", chance(0.5) ? "full" : "selective");
  if (chance(0.15)) command.add("--attention", "unfused");
  static const std::vector<std::string> programs = specs().training_software_ids();
  if (chance(0.4)) command.add("--software", pick(programs));
  if (chance(0.3) && gpu->architecture >= Architecture::Hopper) command.add("--precision", "fp8");
  if (chance(0.15)) add_board(*gpu, command);
  return command;
}

Command Draw::serve() {
  Command command{.subcommand = "serve", .subject = {}};
  static const std::vector<const ZooEntry*> networks = [] {
    std::vector<const ZooEntry*> found;
    for (const ZooEntry& entry : zoo())
      if (entry.language != nullptr) found.push_back(&entry);
    return found;
  }();
  static constexpr std::array kPrecisions{"bf16",    "bf16",      "bf16",  "fp8", "int4_wo",
                                          "int8_wo", "fp8_block", "nvfp4", "int8"};
  static constexpr std::array kEngines{"vllm", "vllm", "sglang", "tensorrt_llm", "ideal"};
  const GpuSpec* gpu = nullptr;
  const ZooEntry* network = nullptr;
  std::int64_t gpus = 1;
  do {
    gpu = &gpu_since(Architecture::Volta);
    network = pick(networks);
    gpus = std::int64_t{1} << random_.below(4);
  } while (parameters_of(*network) * 2.2 >
           gpu->memory.in_bytes() * 0.8 * static_cast<double>(gpus));
  command.subject = network->name;
  command.add("--gpu", gpu->id);
  command.add("--gpus", text(gpus));
  if (chance(0.4))
    command.add("--tp", text(std::int64_t{1}
                             << between(0, std::bit_width(static_cast<std::uint64_t>(gpus)) - 1)));
  command.add("--engine", pick(kEngines));
  std::string precision = pick(kPrecisions);
  const bool has_fp8 = gpu->find_peak(Precision::Fp8, MathUnit::TensorCore).has_value();
  const bool has_fp4 = gpu->find_peak(Precision::Fp4, MathUnit::TensorCore).has_value();
  if ((precision.starts_with("fp8") && !has_fp8) || (precision == "nvfp4" && !has_fp4) ||
      (precision == "bf16" && gpu->architecture < Architecture::Ampere))
    precision = "fp16";
  command.add("--precision", precision);
  const LanguageNetwork language = network->language();
  const std::int64_t context =
      language.context > 0 ? std::min<std::int64_t>(language.context, 8192) : 8192;
  const std::int64_t input = size_between(16, context / 2);
  command.add("--input", text(input));
  command.add("--output", text(size_between(4, std::min<std::int64_t>(256, context / 4))));
  const auto load = random_.below(10);
  if (load < 4) {
    command.add("--batch", text(size_between(1, 64)));
  } else if (load < 8) {
    const std::int64_t in_flight = size_between(1, 64);
    command.add("--concurrency", text(in_flight));
    command.add("--requests", text(in_flight * ((63 + in_flight) / in_flight + 4)));
  } else {
    command.add("--rate", fmt::format("{:.3f}", std::exp2(random_.uniform() * 7 - 4)));
    command.add("--requests", "100");
  }
  if (chance(0.7)) command.add("--no-intervals");
  return command;
}

Command Draw::compare() {
  Command command{.subcommand = "compare", .subject = {}};
  const GpuSpec& gpu = pick(specs().gpus().all());
  const bool is_trained = chance(0.6);
  const ZooEntry& network = network_for(gpu, is_trained ? 16 : 5);
  command.subject = network.name;
  command.add("--gpu", gpu.id + "," + pick(specs().gpus().all()).id);
  command.add("--batch", text(size_between(1, parameters_of(network) > 5e8 ? 8 : 128)));
  command.add("--phase", is_trained ? "train" : "infer");
  add_precision(gpu, is_trained, command);
  if (chance(0.3)) command.add("--gpus", text(std::int64_t{1} << between(1, 3)));
  add_sizes(network, command);
  return command;
}

Command Draw::plan() {
  static constexpr std::array kNetworks{"resnet50", "vgg16", "bert_base", "alexnet", "gpt2"};
  static constexpr std::array kGpus{
      "l40s", "a100_sxm4_80gb", "h100_sxm5_80gb", "v100_sxm2_16gb", "t4", "b200"};
  Command command{.subcommand = "plan", .subject = "jobs.textproto"};
  std::string jobs;
  const std::int64_t kinds = between(1, 3);
  for (std::int64_t j = 0; j < kinds; ++j) {
    jobs += fmt::format(
        "job {{ id: \"j{}\" network: \"{}\" batch: {} precision: \"{}\" samples: {:.3g} count: {} "
        "gpus: {} }}\n",
        j, pick(kNetworks), size_between(1, 16), chance(0.5) ? "amp" : "fp32",
        std::exp2(22 + 6 * random_.uniform()), between(1, 4), std::int64_t{1} << random_.below(3));
  }
  std::string offers = "id: \"drawn\" name: \"Drawn\" date: \"2026-04\"\n";
  const std::int64_t num_offers = between(1, 3);
  for (std::int64_t o = 0; o < num_offers; ++o) {
    offers += fmt::format(
        "offer {{ id: \"box{}\" gpu: \"{}\" gpus: {} {} load_w: 3000 idle_w: 800 "
        "rack_units: 4 }}\n",
        o, kGpus[(static_cast<std::size_t>(o) + random_.below(2) * 3) % kGpus.size()],
        std::int64_t{4} << random_.below(2),
        chance(0.6) ? fmt::format("price_usd: {}", between(40, 300) * 1000)
                    : fmt::format("usd_per_hour: {}", between(8, 60)));
  }
  offers += "energy_usd_per_kwh: 0.2 pue: 1.3 rack_unit_usd_per_month: 40 amortisation_years: 4\n";
  command.files = {{"jobs.textproto", jobs}, {"offers.textproto", offers}};
  command.add("--catalogue", "offers.textproto");
  if (chance(0.6)) {
    // Until a deadline machines cost the more, the later it is: only what they cost until the last
    // job ends may not rise.
    command.add("--deadline", text(between(10, 60)) + "d");
    command.add("--goal", "cost_per_job");
  } else {
    command.add("--budget", text(between(300, 3000) * 1000));
  }
  command.add("--time-limit", "5");
  command.add("--worlds", "20");
  command.add("--threads", "1");
  return command;
}

Command Draw::schedule() {
  static constexpr std::array kPolicies{"fifo",    "srtf",          "srsf",
                                        "las",     "even",          "deadline",
                                        "max_min", "max_min_blind", "finish_time_fairness"};
  static constexpr std::array kRules{"ideal", "ideal", "nearest", "muri", "gavel"};
  static constexpr std::array kNetworks{"resnet50",     "vgg16",     "resnet18", "alexnet",
                                        "inception_v3", "bert_base", "gpt2",     "mobilenet_v2"};
  Command command{.subcommand = "schedule", .subject = "jobs.csv"};
  const GpuSpec* gpu = &gpu_since(Architecture::Pascal);
  while (gpu->memory < Bytes(15e9)) gpu = &gpu_since(Architecture::Pascal);
  const std::int64_t gpus = std::int64_t{4} << random_.below(4);
  const std::int64_t jobs = between(10, 60);
  std::string table = "job_id,submit_s,num_gpu,model,batch,steps,deadline_s\n";
  double at = 0;
  for (std::int64_t j = 0; j < jobs; ++j) {
    table += fmt::format("{},{:.0f},{},{},{},{},{:.0f}\n", j, at,
                         std::min(gpus, std::int64_t{1} << random_.below(4)), pick(kNetworks),
                         std::int64_t{1} << random_.below(5), between(100, 100000), at + 1e5);
    at += random_.uniform() * 2000;
  }
  command.files = {{"jobs.csv", table}};
  command.add("--gpus", text(gpus));
  command.add("--gpus-per-node", text(std::min<std::int64_t>(gpus, 8)));
  command.add("--gpu", gpu->id);
  command.add("--policy", pick(kPolicies));
  command.add("--rules", pick(kRules));
  return command;
}

}  // namespace tracecast::test
