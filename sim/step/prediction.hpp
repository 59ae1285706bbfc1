#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/cpu_spec.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "models/graph.hpp"
#include "models/recompute.hpp"
#include "sim/base/units.hpp"
#include "sim/step/input_pipeline.hpp"
#include "sim/step/interval.hpp"
#include "sim/step/memory/memory.hpp"
#include "sim/step/metrics.hpp"
#include "sim/step/prepared_step.hpp"
#include "sim/step/step_program.hpp"

namespace tracecast {

/// What a step consists of.
enum class Phase {
  Train,            ///< forward, loss, backward, optimizer
  Infer,            ///< forward of a network built for inference
  Forward,          ///< forward of a network built for training
  ForwardBackward,  ///< forward and backward without loss and optimizer
};
[[nodiscard]] std::string_view to_string(
    Phase phase);  ///< as in flags and tables: "forward_backward"
[[nodiscard]] std::optional<Phase> find_phase(std::string_view name);

struct StepOptions {
  std::string_view optimizer = "momentum";
  Recompute recompute = Recompute::None;
  /// One of several micro-batches that share an update: gradients are added to those kept from the
  /// ones before.
  bool adds_gradients = false;
  bool differentiates_input = false;   ///< as TrainingOptions
  bool copies_first_gradient = false;  ///< as TrainingOptions
  bool with_update = true;             ///< false: the update comes after a later micro-batch
};
/// Adds to a forward graph what the phase asks for.
[[nodiscard]] NetworkGraph make_step_graph(NetworkGraph forward, Phase phase,
                                           const StepOptions& options);

/// One job on one GPU. The graph is that of the whole step (make_step_graph).
struct PredictRequest {
  const NetworkGraph& graph;
  const GpuSpec& gpu;  ///< or device_of(*cpu)
  const CostProfile& cost;
  const FrameworkProfile& framework;
  PrecisionMode precision = PrecisionMode::Fp32;
  bool keeps_gradients = false;  ///< beyond the step, whatever the framework does
  /// Each step copies a batch that lies in host memory, as this framework's loader copies; nothing
  /// = none is copied.
  const InputPipelineProfile* input_from_host = nullptr;
  const InputRequest* input = nullptr;  ///< loads every batch; else the input is there already
  std::size_t num_causes = 3;           ///< how many of the greatest costs to name
  std::optional<Watts> power_limit{};   ///< nothing = the board's own
  /// The step runs on these cores and on no GPU; `framework` is used as on_cpu() has it.
  const CpuNode* cpu = nullptr;
  /// The host reads a result back between the forward and the backward pass.
  bool waits_after_forward = false;
  /// What prepare_step makes of the graph, framework, GPU and precision above, or of alike ones
  /// (prepared_step.hpp); nothing: made on the way.
  std::shared_ptr<const PreparedStep> prepared{};
};

/// Everything known about one step and the run made of it.
struct Prediction {
  // The stages, for who wants to look inside.
  PricedStep priced;
  StepProgram program;
  StepTimeline timeline;

  double log_sd = 0;  ///< of ln(measured / predicted) of the step time
  Interval step_time_s;
  Interval throughput_samples_per_s;
  Range gpu_utilization;     ///< as nvidia-smi shows it
  double sm_efficiency = 0;  ///< arithmetic done / possible
  /// Share of the step in which the dispatch thread works; with an input pipeline: mean share of
  /// the host's threads that work, loading or dispatching; without a GPU: share of the cores' time.
  double cpu_utilization = 0;
  std::optional<InputUse> input;  ///< of an input pipeline
  MemoryPlan memory;
  PowerRange power;          ///< of the board; nothing without a GPU
  PowerCauses power_causes;  ///< of the power that the step asks for without a limit
  /// Over the active-idle power, W: of each kernel of the program while it runs; sums to the mean
  /// of `power` over the step.
  std::vector<double> kernel_w;
  Joules energy_per_sample{};
  std::vector<TimeShare> by_class;      ///< sums to the step time
  std::vector<TimeShare> convolutions;  ///< convolution time by algorithm
  std::vector<TimeShare> by_basis;
  Bottleneck bottleneck{};
  std::vector<Cost> greatest;
  std::size_t num_kernels = 0;          ///< launched in a step
  std::size_t num_guessed_kernels = 0;  ///< of operators without a cost model
  Seconds guessed_time{};
};

/// Memory of the step with the algorithms that the library would choose. Pure.
/// Libraries take an algorithm only when its workspace can be allocated: where the step fits
/// without workspaces but not with those of the fastest algorithms, each op takes the fastest of
/// those whose workspace finds room when it runs.
[[nodiscard]] MemoryPlan plan_step_memory(const PredictRequest& request);
/// plan_step_memory(request).fits, at once where the tensors alone are too much.
[[nodiscard]] bool step_fits(const PredictRequest& request);

/// Lowers, prices and simulates the step. Pure.
[[nodiscard]] Prediction predict_step(const PredictRequest& request);

}  // namespace tracecast
