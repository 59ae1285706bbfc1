#include "sim/job/input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "hwspecs/disk_spec.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/placement.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kMostThreads = 4096;
constexpr double kLeastQuota = 0.1;

/// What one sample of the network is made of.
struct SampleShape {
  std::int64_t values = 0, pixels = 0;
};

SampleShape sample_shape(const NetworkGraph& graph) {
  SampleShape shape;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role != TensorRole::Input) continue;
    // Masks of sequences have four dimensions too, but no height.
    if (tensor.shape.size() == 4 && !tensor.is_integer && tensor.shape[2] > 1) {
      return {.values = element_count(tensor.shape) / graph.batch,
              .pixels = tensor.shape[2] * tensor.shape[3]};
    }
    shape.values += element_count(tensor.shape) / std::max<std::int64_t>(graph.batch, 1);
  }
  return shape;
}

/// "real": the data set that the network is usually trained on, or one of like samples.
std::string_view usual_data_set(const PlacedJob& options, const SampleShape& sample) {
  const ZooEntry* entry = find_network(options.network);
  if (entry && !entry->data_set.empty()) return entry->data_set;
  constexpr std::int64_t kSmallImage = 64 * 64;
  return sample.pixels > kSmallImage ? "imagenet" : sample.pixels > 0 ? "cifar10" : "text";
}

/// The processors that load.
struct LoadingHost {
  const CpuSpec* spec = nullptr;
  int sockets = 1;
  bool is_assumed = false;
  int hardware_threads = 0;  ///< of the machine; 0: all of its sockets
};

/// `notes` takes what was assumed.
LoadingHost find_host(const PlacedJob& options, const Hardware& hardware, const ResolvedJob& job,
                      std::vector<std::string>& notes) {
  if (options.host_cpu.empty() && job.machine) {
    const MachineSpec& machine = *job.machine;
    return {&hardware.cpus().find(machine.cpu), machine.sockets_of_host(), false,
            machine.hardware_threads / machine.hosts};
  }
  const HostCpu host = find_host_cpu(options, hardware, job.gpu);
  if (!host.assumed.empty()) {
    notes.push_back(
        fmt::format("host assumed: {}x {}; --host-cpu names yours", host.sockets, host.spec->id));
  }
  // A superchip's own processors are no guess.
  const bool is_own = job.gpu.form_factor == FormFactor::Superchip;
  return {host.spec, host.sockets, !host.assumed.empty() && !is_own};
}

/// What a machine gives of its sockets, and of that what `--cpu-threads` leaves. A virtual
/// machine's threads fill core after core; on a whole one, few threads have a core each.
void limit_threads(const LoadingHost& host, const std::optional<std::int64_t>& asked,
                   HostThreads& threads) {
  const int per_core = std::max(1, threads.threads / threads.cores);
  const bool is_virtual = host.hardware_threads > 0 && host.hardware_threads < threads.threads;
  if (is_virtual) threads.threads = host.hardware_threads;
  if (asked) threads.threads = static_cast<int>(*asked);
  if (is_virtual) threads.cores = std::max(1, (threads.threads + per_core - 1) / per_core);
}

HostThreads threads_of(const LoadingHost& host, const PlacedJob& options,
                       double second_thread_gain) {
  HostThreads threads{.cores = host.spec->cores * host.sockets,
                      .threads = host.spec->threads * host.sockets,
                      .core_speed = host.spec->all_core_clock * host.spec->single_thread_ipc,
                      .second_thread_gain = second_thread_gain};
  const int most = host.hardware_threads > 0 ? std::min(host.hardware_threads, threads.threads)
                                             : threads.threads;
  if (options.cpu_threads && (*options.cpu_threads < 1 || *options.cpu_threads > most)) {
    throw InputError(
        "--cpu-threads", std::to_string(*options.cpu_threads),
        fmt::format("1 to {}, the threads of {}x {}", most, host.sockets, host.spec->id));
  }
  limit_threads(host, options.cpu_threads, threads);
  if (options.cpu_quota) {
    if (!(*options.cpu_quota >= kLeastQuota && *options.cpu_quota <= most)) {
      throw InputError("--cpu-quota", three_digits(*options.cpu_quota),
                       fmt::format("{} to {} CPUs, the threads of {}x {}", kLeastQuota, most,
                                   host.sockets, host.spec->id));
    }
    threads.quota = *options.cpu_quota;
  }
  return threads;
}

void refuse_loader_flags(const PlacedJob& options) {
  const auto refuse = [&](const char* flag, const std::string& value) {
    throw InputError(flag, value + " with --data " + options.data,
                     "a data set that is loaded, such as --data imagenet");
  };
  if (!options.disk.empty()) refuse("--disk", options.disk);
  const bool from_memory = options.data == "memory";
  if (!options.pipeline.empty() && !from_memory) refuse("--pipeline", options.pipeline);
  if (options.cpu_threads) refuse("--cpu-threads", std::to_string(*options.cpu_threads));
  if (options.cpu_quota) refuse("--cpu-quota", three_digits(*options.cpu_quota));
  if (options.workers) refuse("--workers", std::to_string(*options.workers));
}

}  // namespace

std::optional<InputRequest> make_input(const PlacedJob& options, const Hardware& hardware,
                                       ResolvedJob& job) {
  if (options.data == "synthetic" || options.data == "memory") {
    refuse_loader_flags(options);
    return std::nullopt;
  }
  const SampleShape sample = sample_shape(*job.forward);
  const bool is_usual = options.data == "real";
  const DataSetSpec& data = hardware.specs().find_data_set(
      is_usual ? usual_data_set(options, sample) : std::string_view(options.data));
  if (is_usual) job.assumptions.push_back("data set assumed: " + data.name);
  const bool has_images = data.kind != SampleKind::Tokens;
  if (has_images != (sample.pixels > 0)) {
    throw InputError("--data",
                     data.id + " for a network that reads " + (has_images ? "no images" : "images"),
                     has_images ? "a data set of tokens, such as text"
                                : "a data set of images, such as imagenet");
  }
  const InputPipelineProfile& pipeline =
      options.pipeline.empty() ? hardware.specs().input_pipeline_of(
                                     to_lower(options.software.framework), options.software.version)
                               : hardware.specs().find_input_pipeline(options.pipeline);
  if (options.workers && (*options.workers < 0 || *options.workers > kMostThreads)) {
    throw InputError("--workers", std::to_string(*options.workers),
                     fmt::format("0 (the dispatch thread loads) to {}", kMostThreads));
  }
  const LoadingHost host = find_host(options, hardware, job, job.assumptions);
  InputRequest input{.data = data,
                     .pipeline = pipeline,
                     .host = threads_of(host, options, pipeline.second_thread_gain)};
  input.host_is_assumed = host.is_assumed;
  if (options.workers) input.workers = static_cast<int>(*options.workers);
  if (!options.disk.empty()) {
    const DiskSpec& disk = hardware.disks().find(options.disk);
    input.disk =
        DiskSpeed{.read = disk.sequential_read, .reads_per_s = disk.random_read_rate.in_si()};
  }
  input.training = job.phase != Phase::Infer;
  input.batch = options.batch;
  input.output_values = sample.values;
  input.output_pixels = sample.pixels;
  return input;
}

std::optional<HostThreads> named_host_threads(const PlacedJob& options, const Hardware& hardware,
                                              const ResolvedJob& job) {
  if (options.host_cpu.empty() && !job.machine) return std::nullopt;
  std::vector<std::string> notes;  // of an assumed host, and there is none
  const InputPipelineProfile& pipeline = hardware.specs().input_pipeline_of(
      to_lower(options.software.framework), options.software.version);
  return threads_of(find_host(options, hardware, job, notes), options, pipeline.second_thread_gain);
}

std::string find_cpu_in(std::string_view text, const CpuCatalog& cpus) {
  const std::string lower = to_lower(text);
  const CpuSpec* found = nullptr;
  std::size_t longest = 0;
  const auto consider = [&](const std::string& name, const CpuSpec& cpu) {
    if (name.size() > longest && lower.find(to_lower(name)) != std::string::npos) {
      longest = name.size();
      found = &cpu;
    }
  };
  for (const CpuSpec& cpu : cpus.all()) {
    consider(cpu.name, cpu);
    for (const std::string& alias : cpu.aliases) consider(alias, cpu);
  }
  return found ? found->id : "";
}

}  // namespace tracecast
