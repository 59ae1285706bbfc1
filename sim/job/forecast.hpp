#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/job/many_gpus.hpp"
#include "sim/job/mode/server_job.hpp"
#include "sim/job/mode/sharded_job.hpp"
#include "sim/job/resolved_job.hpp"
#include "sim/step/interval.hpp"

namespace tracecast {

/// Part of a step, by name.
struct StepPart {
  std::string name;
  Seconds time{};
};

/// Memory of the fullest rank.
struct ForecastMemory {
  Bytes needed{};     ///< of the device, by the framework
  Bytes used{};       ///< what nvidia-smi would show
  Bytes peak_live{};  ///< of tensors and workspace at any moment
  Bytes capacity{};
  bool fits = true;
  double fit_probability = 1;  ///< that it fits
  Interval needed_bytes{};     ///< `needed` with the central 90 %
  std::vector<std::pair<std::string, Bytes>> by_class;
};

/// Power of the boards; CPUs have none.
struct ForecastPower {
  PowerRange board;            ///< of one board, the mean over all
  Watts boards_total{};        ///< all boards, average
  Joules energy_per_sample{};  ///< of all boards
};

/// Everything that was simulated, for who wants to look inside.
struct OneGpuDetails {
  ResolvedJob job;
  Prediction prediction;
};
struct ManyGpusDetails {
  ResolvedJob job;
  ManyGpus prediction;
};
struct ServerDetails {
  ResolvedJob job;
  ServerPrediction prediction;
};
using ForecastDetails = std::variant<OneGpuDetails, ManyGpusDetails, ServerDetails, ShardedStep>;

/// One answer for a job at a place, however many GPUs take part. Of the whole job unless said
/// otherwise.
struct Forecast {
  // What was asked for, settled: ids.
  std::string network, gpu, machine, host_cpu, framework, precision, optimizer, phase;
  std::string parallel_layout;  ///< strategy, "parameter_server", or the training program of
                                ///< sharded transformers; empty: one GPU
  std::int64_t gpus = 1, nodes = 1;
  std::int64_t batch_per_gpu = 1;  ///< samples per pass
  double samples_per_step = 0;     ///< of all GPUs
  std::int64_t parameters = 0;
  std::optional<double> forward_macs_per_sample;  ///< nothing: not counted

  Interval step_time_s;
  Interval throughput_samples_per_s;
  std::optional<Interval> throughput_tokens_per_s;
  double efficiency =
      1;  ///< throughput over that of the GPUs each alone; of sharded transformers 1

  std::vector<StepPart> by_cause;  ///< where the step goes along its critical path; sums to it
  std::vector<StepPart> by_class;  ///< kernels by class, then what is none; sums to the step
  std::vector<StepPart> by_basis;  ///< on which the time rests; sums to the step
  std::optional<Range>
      gpu_utilization;  ///< as nvidia-smi shows it, over all GPUs; nothing without a GPU
  std::optional<double> sm_efficiency;  ///< arithmetic done / possible
  std::optional<double> cpu_utilization;
  std::string bottleneck;  ///< empty: not told

  ForecastMemory memory;
  std::optional<ForecastPower> power;

  std::vector<std::string> assumptions;  ///< what was chosen for the user, one line each
  std::vector<std::string> warnings;     ///< what makes the answer less sure, one line each
  std::vector<InputRecord> inputs;
  std::shared_ptr<const ForecastDetails> details;  ///< never null; timeline and program are in it

  [[nodiscard]] bool fits() const { return memory.fits; }
};

/// The answer that these details are.
[[nodiscard]] Forecast make_forecast(ForecastDetails details);

}  // namespace tracecast
