#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "models/graph.hpp"
#include "models/kernel.hpp"
#include "models/launch_queue.hpp"
#include "sim/base/units.hpp"
#include "sim/cost/price.hpp"

namespace tracecast {

/// A lowered step with, for every op, the candidate that runs and its price.
struct PricedStep {
  std::shared_ptr<const LoweredStep> lowered;  ///< of all GPUs that it serves
  std::vector<cost::PricedCandidate> choices;  ///< one per op of `lowered`; points into it
  /// The first op that has the same choice at the same price as op `i`; `i` itself where none is
  /// known.
  [[nodiscard]] std::uint32_t first_alike(std::uint32_t i) const {
    return lowered && !lowered->first_alike.empty() ? lowered->first_alike[i] : i;
  }
};

/// The choice and price of every op. `most_workspace`: no library takes an algorithm that needs
/// more, as far as another one exists.
[[nodiscard]] PricedStep price(std::shared_ptr<const LoweredStep> lowered, const GpuSpec& gpu,
                               const CostProfile& profile,
                               std::optional<Bytes> most_workspace = {});
[[nodiscard]] PricedStep price(LoweredStep lowered, const GpuSpec& gpu, const CostProfile& profile);

/// A kernel as the host issues it.
struct ProgramKernel {
  Seconds duration{};
  Seconds more_launch{};     ///< host time on top of one launch
  std::uint32_t op = 0;      ///< index into PricedStep::choices
  std::uint32_t kernel = 0;  ///< index into the kernels of that choice
};

/// What the host does for one op: think, then launch its kernels one after the other.
struct ProgramOp {
  Seconds dispatch{};
  std::uint32_t first_kernel = 0, num_kernels = 0;
  bool waits_for_gpu = false;  ///< begins when all kernels before it have ended
};

/// How the input of a step gets ready: times of one batch at the speed its threads have. Built by
/// plan_input (sim/step/input_pipeline.hpp).
///   disk (one stream) -> workers -> pin thread (one) -> copy engine -> decoder on the GPU (one)
/// A worker prepares `prepare / tasks_per_batch` at a time, taking tasks in turn. At most
/// `host_batches` batches are prepared or in preparation before a step takes the first of them.
struct InputStages {
  Seconds read{};        ///< from disk; zero: from the page cache
  Seconds prepare{};     ///< CPU time of all samples and of the batch
  Seconds pin{};         ///< by a thread of its own
  Seconds gpu_decode{};  ///< beside the kernels
  int workers = 1;       ///< 0: the dispatch thread prepares the batch itself
  int tasks_per_batch = 1;
  int host_batches = 2;
  int device_batches = 0;  ///< copied before their step begins; 0: the step's first action copies
  bool dispatch_takes_batch = false;      ///< the host begins a step when its batch is ready
  bool copies_in_compute_stream = false;  ///< after the last kernel of the step before
  bool dispatch_spins = false;            ///< the host thread is busy while it waits
};

/// One step as the framework's dispatch thread issues it: overhead, then op by op `dispatch` and
/// one `launch` per kernel (more where a kernel stands for several). Kernels run in one stream, in
/// order, each after its launch. The input of the step is copied first, by the copy engine; the
/// first kernel waits for it.
struct StepProgram {
  std::vector<ProgramOp> ops;
  std::vector<ProgramKernel> kernels;
  Seconds step_overhead{};
  Seconds launch{};                     ///< host time per kernel launch
  Seconds input_copy{};                 ///< zero: the input is already on the device
  bool copy_waits_for_kernels = false;  ///< of the step before: they read what the copy writes
  /// The host waits for the copy, which is from pageable memory. Source: CUDA Runtime API, "API
  /// synchronization behavior".
  bool copy_blocks_host = false;
  std::optional<InputStages> input;  ///< nothing: the input is in host memory or on the device
  bool synchronizes = false;  ///< the host begins a step when the GPU has finished the one before
  /// Launches that may wait for the GPU; one more blocks the host.
  std::uint32_t launch_queue = kLaunchQueue;
};

/// Within a step the host waits for the GPU as often as the framework's profile says, each time for
/// `synchronization` after the last kernel's end; graph ops only in graphs with backward ops: an
/// engine that cuts those into pieces runs an inference graph as one. Source: MXNet,
/// src/executor/graph_executor.cc, InitOpSegs (from 0.7 on). Poolings that the framework leaves to
/// the host wait likewise and take host_pooling_time. Ops without kernels (views, updates merged
/// into one launch, what a compiler fused) cost the host nothing. Compiled code starts when its
/// arguments have been handed over, one by one: part of the step's overhead.
[[nodiscard]] StepProgram build_step_program(const NetworkGraph& graph, const PricedStep& priced,
                                             const FrameworkProfile& framework, Seconds input_copy);

/// When a kernel ran.
struct KernelSpan {
  Seconds start{}, end{};
};

/// One step of many in a row, once they have become alike.
struct StepTimeline {
  Seconds step_time{};  ///< from the end of one step's last kernel to the end of the next one's
  std::vector<KernelSpan>
      kernels;            ///< as in the program; 0 = end of the step before. Never negative.
  Seconds host_busy{};    ///< dispatch thread working, not waiting
  Seconds copy_busy{};    ///< copy engine working
  Seconds loader_busy{};  ///< CPU time of workers and pin thread, all together
  Seconds kernel_busy{};  ///< at least one kernel running
  Seconds idle_host{};    ///< no kernel running because the next one was not launched yet
  Seconds idle_input{};   ///< no kernel running because the input was not ready or not copied yet
  // The step's critical path by cause: from its last kernel back through what each action waited
  // for. Sums to step_time.
  Seconds critical_kernels{};
  Seconds critical_host{};
  Seconds critical_input{};
  int steps_simulated = 0;

  /// Of the step, in which at least one kernel runs.
  [[nodiscard]] double kernel_share() const {
    return step_time > Seconds() ? kernel_busy / step_time : 1;
  }
};

/// Runs the program several times in sequence on the engine and returns the last step: 2 steps when
/// the host waits for the GPU in between, else 3, and more (up to 24) while the last two differ by
/// over 0.1 %, since the host gets ahead of the GPU only by what it gains in every step. With an
/// input pipeline 6 at least; its workers begin as in the middle of a run, evenly spaced in their
/// first task, so that batches arrive at an even pace from the first on.
[[nodiscard]] StepTimeline simulate(const StepProgram& program);

}  // namespace tracecast
