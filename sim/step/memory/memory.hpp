#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "models/graph.hpp"
#include "models/lowering/gpu_traits.hpp"
#include "sim/base/units.hpp"
#include "sim/step/memory/fit.hpp"
#include "sim/step/memory/tensor_lives.hpp"

namespace tracecast {

/// Device memory by what it holds.
struct MemoryByClass {
  Bytes weights{};  ///< weights, buffers, and the half-precision copies that mixed precision keeps
  Bytes gradients{};    ///< gradients of weights
  Bytes optimizer{};    ///< optimizer state
  Bytes activations{};  ///< inputs, activations and their gradients
  Bytes workspace{};    ///< scratch of the running op
  Bytes pool{};  ///< what the framework's allocator holds beyond that: rounding, fragmentation,
                 ///< reserve
  /// CUDA context: `device_context`, and what the framework loads into it.
  Bytes context{};
  /// All but pool and context: what a perfect allocator would need.
  [[nodiscard]] Bytes live() const {
    return weights + gradients + optimizer + activations + workspace;
  }
  [[nodiscard]] Bytes total() const { return live() + pool + context; }
};

/// Where buffers of that class count.
[[nodiscard]] Bytes& part_of(MemoryByClass& by_class, MemoryClass memory_class);

/// Memory of one step on one GPU.
struct MemoryPlan {
  MemoryByClass by_class;       ///< at the moment of the peak
  Bytes peak_live{};            ///< most bytes of live tensors and workspace at any moment
  Bytes device_used{};          ///< what nvidia-smi would show: by_class.total()
  Bytes capacity{};             ///< of the device
  bool fits = true;             ///< the framework needs no more than the device has
  std::optional<OpId> peak_op;  ///< runs at the peak; nothing in a graph without ops
  /// Capacity less what is needed (less than `device_used` where a framework reserves more).
  [[nodiscard]] Bytes headroom() const { return capacity - needed; }
  Bytes needed{};
  /// Most bytes that tensors and scratch take at any moment since the program began, the first step
  /// with its trials counted: torch.cuda.max_memory_allocated.
  Bytes peak_allocated{};
  /// The least device that holds the step: no scratch, all cached segments given back when memory
  /// runs out. And what there is for it: the device, or what a framework takes of it.
  Bytes least{}, room{};
  double log_sd = 0.15;  ///< of ln(needed / predicted)
  [[nodiscard]] MemoryFit fit() const { return memory_fit(needed, least, room, log_sd); }
};

/// What a CUDA context takes before any library is loaded: local memory and state that the driver
/// sets aside for every thread that fits on the device.
///   context = bytes_per_thread * sm_count * max_threads_per_sm
/// Source of the form: free memory that TensorFlow logs after opening the device, in proportion to
/// threads from K80 (80 MiB) to V100 (about 410 MiB); sim/step/notes/0002.
[[nodiscard]] Bytes device_context(const GpuSpec& gpu, const CostProfile& profile);

struct MemoryOptions {
  PrecisionMode precision = PrecisionMode::Fp32;
  /// Gradients of weights stay between steps whatever the framework does: several micro-batches
  /// share an update.
  bool keeps_gradients = false;
  /// Of op i: the scratch of every algorithm that the library tries before the first step. Empty:
  /// it tries none.
  std::span<const std::vector<Bytes>> tried_workspaces{};
};

/// Peak memory by liveness over the order of execution.
/// Weights, buffers, optimizer state and inputs live all the time. Any other tensor lives from the
/// op that writes it to the last op that reads it, or all the time where the framework frees
/// nothing (`tensor_memory`); the graph's outputs to the end; gradients of weights to the end when
/// the framework keeps them between steps
/// (`zeroes_gradients`). Views, and what the framework does in place, share the memory of their
/// first input. `workspaces[i]`: scratch of op i while it runs (empty: none). Every tensor is
/// rounded up to the allocator's block.
///
/// The allocator's overhead comes from replaying the step on `CachingAllocator` with what the
/// context leaves, or is the reserve of a framework that takes a share of the device at start:
///   pool = min(pool_fraction * free, free - pool_least_reserve, free - libraries),   free = memory
///   - device_context
/// Where an allocator that caches serves a library that tries algorithms, the first step comes
/// before the one above: each op's largest scratch that is still to be had (`tried_workspaces`) is
/// taken and given back, cached segments with it. This raises `device_used`, not `needed`: only
/// what is free is tried. Source: PyTorch, aten/src/ATen/native/cudnn/Conv_v7.cpp,
/// getMaxWorkspaceSize and findAlgorithms.
/// Its libraries (`context_memory`) are loaded later, into what it left: that is what it leaves it
/// for.
[[nodiscard]] MemoryPlan plan_memory(const NetworkGraph& graph, std::span<const Bytes> workspaces,
                                     const FrameworkProfile& framework, const GpuSpec& gpu,
                                     const CostProfile& profile, const MemoryOptions& options);

/// The lives of a step's tensors, for plans on any GPU of these traits.
[[nodiscard]] StepLives find_lives(const NetworkGraph& graph, const FrameworkProfile& framework,
                                   const GpuTraits& gpu, const MemoryOptions& options);
/// The same plan from lives that are known; `tried_workspaces` as MemoryOptions.
[[nodiscard]] MemoryPlan plan_memory(const StepLives& lives, std::span<const Bytes> workspaces,
                                     const FrameworkProfile& framework, const GpuSpec& gpu,
                                     const CostProfile& profile,
                                     std::span<const std::vector<Bytes>> tried_workspaces);

/// Fills in `least`: the least memory with which the allocator gets through the step, by bisection
/// to 0.5 %; of a step that fits or does not by five times `log_sd` and more, what it takes without
/// a limit, or what lives.
void state_least(const StepLives& lives, const FrameworkProfile& framework, const GpuSpec& gpu,
                 const CostProfile& profile, MemoryPlan& plan);

/// The scratch that an op takes; `has_room` tells of a size whether it can be had at that moment.
using ScratchChoice = std::function<Bytes(OpId op, const std::function<bool(Bytes)>& has_room)>;

/// Scratch of each op of one step, the first, in which every op asks for it once its tensors lie in
/// memory, and gives it back when it has run. Room is what the allocator of plan_memory could still
/// hand out, cached segments given back; of a framework that takes a share of the device, what is
/// not live of its pool.
[[nodiscard]] std::vector<Bytes> choose_scratch(const StepLives& lives,
                                                const FrameworkProfile& framework,
                                                const GpuSpec& gpu, const CostProfile& profile,
                                                const ScratchChoice& choose);

/// plan_memory(...).fits, as soon as it is known and without the rest of a plan.
[[nodiscard]] bool plan_fits(const StepLives& lives, std::span<const Bytes> workspaces,
                             const FrameworkProfile& framework, const GpuSpec& gpu,
                             const CostProfile& profile);

/// Whether the live tensors, rounded up to the allocator's block, fit at every moment: else
/// plan_memory(...).fits is false with any workspaces, since what it needs is at least that.
[[nodiscard]] bool tensors_fit(const NetworkGraph& graph, const FrameworkProfile& framework,
                               const GpuSpec& gpu, const CostProfile& profile,
                               const MemoryOptions& options);
[[nodiscard]] bool tensors_fit(const StepLives& lives, const FrameworkProfile& framework,
                               const GpuSpec& gpu, const CostProfile& profile);

}  // namespace tracecast
