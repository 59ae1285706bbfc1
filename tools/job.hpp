#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/cpu_loader.hpp"
#include "hwspecs/framework_profile.hpp"
#include "hwspecs/gpu_loader.hpp"
#include "hwspecs/gpu_sharing.hpp"
#include "hwspecs/job_spec.hpp"
#include "hwspecs/link_spec.hpp"
#include "hwspecs/machine_spec.hpp"
#include "models/graph.hpp"
#include "sim/cluster/prediction.hpp"
#include "sim/cluster/training_loop.hpp"

namespace tracecast {

/// What a prediction read, with the hash that says which version of it.
struct InputRecord {
  std::string kind;    ///< "network", "gpu", "cost_profile", "framework"
  std::string name;    ///< file name or id
  std::string sha256;  ///< of the file's bytes; of a zoo network: of its text form
};

/// Where specs and profiles come from, as flags say it.
struct SourceOptions {
  std::string hwspecs;  ///< folder that adds or overrides specs; empty: none
  std::string profile;  ///< cost profile file; empty: the one in the binary
  std::vector<std::string>
      sets;  ///< "cost.PARAMETER=VALUE", "framework.FIELD=VALUE", "sharing.FIELD=VALUE", "gpu.compute=2x"
};

/// The hardware and the cost profile that a command works with.
struct Sources {
  GpuCatalog gpus;
  CpuCatalog cpus;
  LinkCatalog links;
  MachineCatalog machines;
  CostProfile cost;
  InputRecord cost_record;
  std::vector<std::string>
      framework_sets;                  ///< "FIELD=VALUE", applied to each framework profile taken
  GpuSharing sharing;                  ///< how processes take turns on a GPU
  std::vector<std::string> factors{};  ///< of hardware other than it is, one line each
};
/// Of a spec or profile by its values, whatever the layout of the file they came from.
[[nodiscard]] std::string hash_of(const std::vector<SpecValue>& values);
/// Throws InputError.
[[nodiscard]] Sources load_sources(const SourceOptions& options);

constexpr std::int64_t kMostBatch = 1'000'000;
constexpr std::int64_t kMostAccumulated = 100'000;

/// What the user asked for, checked where it can be without reading files.
struct JobOptions {
  std::string
      network;  ///< zoo name, path, or "job:ID": a training program, which settles several of these
  std::string gpu;  ///< or "cpu:[Nx]ID"
  std::string
      machine;  ///< whose CPUs dispatch and whose links carry the input; empty: a typical one
  std::int64_t batch = 1;
  std::string phase = "train";
  std::string precision = "fp32";
  std::string framework = "pytorch";  ///< what most run today
  std::string framework_version;
  bool xla = false;          ///< the framework compiles the graph with XLA
  bool cuda_graphs = false;  ///< a step was captured and is launched whole
  /// Whether convolution algorithms are tried out (torch.backends.cudnn.benchmark); nothing: as the framework does.
  std::optional<bool> cudnn_benchmark;
  /// Months of a measurement, "2016-11" or "2014..2016-04"; empty = today. Where no version is known, the first
  /// picks the framework's era, and no cuDNN is newer than the last.
  std::string date;
  std::string optimizer = "momentum";
  std::string data = "synthetic";
  std::string recompute = "none";
  std::int64_t accumulate = 1;  ///< micro-batches of `batch` samples per update
  std::string host_cpu;         ///< "ID" or "NxID"; empty: that of the GPU's years
  std::string pipeline;         ///< empty: the framework's
  std::string disk;             ///< that every sample is read from; empty: the page cache
  std::optional<std::int64_t> cpu_threads, workers;
  std::optional<std::int64_t> image_size, seq_len, classes;
  std::optional<std::int64_t> epoch_samples;
  std::optional<double> power_limit_w;  ///< as `nvidia-smi --power-limit`; nothing: the board's own
  std::optional<double> clock_mhz;      ///< of the SMs, held; nothing: the driver's choice
  std::optional<double> memory_clock_mhz;  ///< as nvidia-smi shows it; nothing: the board's own
};

/// A job with everything looked up.
struct Job {
  JobOptions options;
  bool from_file = false;       ///< the network is an ONNX file
  GpuSpec gpu;                  ///< without one: device_of(*cpu)
  std::optional<CpuNode> cpu;   ///< the step runs on these cores and on no GPU
  std::optional<CpuSpec> host;  ///< CPU of the machine asked for
  std::optional<MachineSpec> machine;
  FrameworkProfile framework;
  std::optional<JobSpec> program;  ///< the loop round the step, of a network given as "job:ID"
  Hertz loop_core_speed{};         ///< of the thread that runs it, in Haswell's cycles a second
  PrecisionMode precision{};
  Phase phase{};
  std::optional<InputJob> input;  ///< what loads the data; nothing for synthetic data and memory
  NetworkGraph forward;           ///< as built
  NetworkGraph
      step;  ///< what is predicted; with several micro-batches, the last one and the update
  std::optional<NetworkGraph> micro_batch;  ///< one of those before it
  std::vector<InputRecord> inputs;
  std::vector<std::string> assumptions;  ///< what was chosen for the user, one line each
  std::vector<std::string> warnings;     ///< what makes the answer less sure, one line each
};
/// What the loop of `job.program` needs to know of its step.
[[nodiscard]] LoopContext loop_context(const Job& job);
inline constexpr std::string_view kJobPrefix = "job:";
/// True when `network` is the path of a file and no name of the zoo.
[[nodiscard]] bool is_network_path(std::string_view network);
/// Of a network's file: Protobuf's own limit.
inline constexpr std::uint64_t kMostNetworkBytes = 1ULL << 31;
/// Throws InputError naming the flag.
[[nodiscard]] Job make_job(const JobOptions& options, const Sources& sources);

/// Lowers, prices and simulates the job's step. Pure.
[[nodiscard]] Prediction predict(const Job& job, const Sources& sources);
/// Adds a warning, once, where the power limit of `gpu` is not held.
void warn_of_power_limit(const PowerRange& power, std::string_view gpu, Job& job);
/// Its memory alone.
[[nodiscard]] MemoryPlan plan_memory(const Job& job, const Sources& sources);
[[nodiscard]] bool fits_in_memory(const Job& job, const Sources& sources);

/// Holds `gpu` at the clocks asked for. Throws InputError: a clock or power limit that the board would refuse.
void set_board(const JobOptions& options, GpuSpec& gpu);

/// Samples of one epoch: as asked for, else those of the data set that is loaded; nothing when none is.
[[nodiscard]] std::optional<std::int64_t> epoch_samples(const Job& job);
[[nodiscard]] std::optional<PrecisionMode> find_precision(std::string_view name);
/// The framework profile of that id with the `--set framework...` values in it. Throws InputError.
[[nodiscard]] FrameworkProfile take_framework(std::string_view id, const Sources& sources);
/// The same for the version or date that the job names (find_framework).
[[nodiscard]] FrameworkProfile take_framework(const JobOptions& options, const Sources& sources);

}  // namespace tracecast
