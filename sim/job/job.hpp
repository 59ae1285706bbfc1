#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tracecast {

/// What runs a network: a framework as a table or a user names it.
struct Software {
  std::string
      framework;  ///< empty: pytorch, what most run today; with parameter servers tensorflow
  std::string version{};  ///< "1.15", "1.6, cuDNN 7.0", "NGC 20.06"; empty: of `date`
  /// Months of a measurement, "2016-11" or "2014..2016-04"; empty = today. Where no version is
  /// known, the first picks the framework's era, and no cuDNN is newer than the last.
  std::string date{};
  bool xla = false;          ///< the framework compiles the graph with XLA
  bool cuda_graphs = false;  ///< a step was captured and is launched whole
  /// Whether convolution algorithms are tried out (torch.backends.cudnn.benchmark); nothing: as the
  /// framework does.
  std::optional<bool> cudnn_benchmark{};
  /// Whether images lie channels last (torch.channels_last); nothing: as the framework does.
  std::optional<bool> channels_last{};
  /// How attention runs: "fused" (one kernel), "composed" (steps); empty or "auto": as the
  /// framework does and the network's own code did in that version.
  std::string attention{};
  /// Training program whose loop is not described: what it adds on the host in each step is learned
  /// from runs of it (hwspecs/host/programs.textproto) or, where there are none, a guess. Empty: a
  /// bare loop.
  std::string program{};
  /// Host time of a kernel's launch and all that comes with it, us, read off a recorded step; 0:
  /// none was. `host_waits`: the recorded host waits for the GPU in each step.
  double host_us_per_launch = 0;
  bool host_waits = false;
};

/// A batch that nobody stated: as many samples as a network's file fixes, else 1 (usual_batch of
/// sim/job/network_file.hpp).
inline constexpr std::int64_t kUsualBatch = -1;

/// What a job says of its attention: Software::attention.
enum class AttentionChoice { Auto, Fused, Composed };
/// Of "auto" (or nothing), "fused" or "flash", "composed" or "unfused".
/// Throws InputError: another word.
[[nodiscard]] AttentionChoice attention_choice(std::string_view word);

/// What is to be computed: owns all, names no hardware. Words are those of the command line.
struct Job {
  std::string network;  ///< zoo name, path of an ONNX file or a config.json, or "job:ID": a
                        ///< training program, which settles several of these
  std::int64_t batch = kUsualBatch;  ///< samples per step, of each GPU
  std::string phase = "train";
  std::string precision{};  ///< empty: fp32; of sharded transformers amp
  Software software{};
  std::string optimizer{};  ///< empty: momentum; of sharded transformers adam
  std::string recompute = "none";
  std::int64_t lora_rank = 0;      ///< of low-rank adapters, which alone are trained; 0: none
  std::string lora_targets{};      ///< "attention" or "linear"; empty: attention
  std::string base_precision{};    ///< of weights under adapters: "int8", "nf4", "nf4_double";
                                   ///< empty or "same": the network's
  std::int64_t accumulate = 1;     ///< micro-batches of `batch` samples per update
  std::string data = "synthetic";  ///< "memory", "real", or a data set's id
  std::string pipeline{};          ///< that loads it; empty: the framework's
  std::optional<std::int64_t> workers{};  ///< of the loader
  std::optional<std::int64_t> epoch_samples{};
  std::optional<std::int64_t> image_size{}, seq_len{}, classes{};
  std::vector<std::int64_t> fan_out{};  ///< of sampled graphs, hop by hop; empty: the usual one
  bool as_written = false;              ///< a file's network op by op, as its exporter wrote it
};

/// What a board is set to; nothing: its own.
struct BoardSettings {
  std::optional<double> power_limit_w{};     ///< as `nvidia-smi --power-limit`
  std::optional<double> clock_mhz{};         ///< of the SMs, held
  std::optional<double> memory_clock_mhz{};  ///< as nvidia-smi shows it
};

/// Where a job runs.
struct Place {
  std::string gpu{};      ///< id or word, or "cpu:[Nx]ID"; empty: that of the machine or cluster
  std::string machine{};  ///< whose CPUs dispatch and whose links carry the input; empty: a usual
                          ///< one for the GPU
  std::optional<std::int64_t> gpus{};  ///< in total; nothing: one, or all of `nodes`
  std::optional<std::int64_t> nodes{};
  std::string cluster{};   ///< file instead of machine, gpus and nodes; empty: none
  std::string host_cpu{};  ///< "ID" or "NxID" instead of a machine; empty: that of the GPU's years
  std::string disk{};      ///< that every sample is read from; empty: the page cache
  std::optional<std::int64_t> cpu_threads{};  ///< of the host that the job may use
  std::optional<double> cpu_quota{};  ///< CPUs' worth of time that its container may use; nothing:
                                      ///< no limit
  std::string nic{};    ///< "LINK" that the machine's NICs have, "LINK:COUNT" of each node; empty:
                        ///< as the machine has
  bool no_p2p = false;  ///< no GPU reaches another's memory, by PCIe or NVLink
  BoardSettings board{};
};

/// A job and its place, as one row of a table or one command line states both.
struct PlacedJob : Job, Place {};

inline constexpr std::int64_t kMostBatch = 1'000'000;
inline constexpr std::int64_t kMostAccumulated = 100'000;
inline constexpr std::string_view kJobPrefix = "job:";
/// Whether `network` is the path of a file and no name of the zoo.
[[nodiscard]] bool is_network_path(std::string_view network);
/// The largest file of a network: Protobuf's own limit.
inline constexpr std::uint64_t kMostNetworkBytes = 1ULL << 31;

}  // namespace tracecast
