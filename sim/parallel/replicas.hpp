#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "hwspecs/software/strategy_profile.hpp"
#include "sim/network/fabric.hpp"
#include "sim/parallel/data_parallel.hpp"
#include "sim/step/prediction.hpp"

namespace tracecast {

/// One process that runs a network on all GPUs of a box, PyTorch's nn.DataParallel: in every step
/// it hands each GPU its part of the batch, broadcasts the weights of the replicated layers from
/// the first GPU, runs these layers on all, gathers their results on the first, goes on there alone
/// with the whole batch, and on the way back reduces the gradients to it. Of a step without a
/// backward pass the first half remains; without an update nothing follows the reduction.
struct ReplicatedStep {
  const Prediction& replica;  ///< a whole step on one GPU with its part of the batch, input at hand
  const Prediction&
      whole;  ///< the same with the whole batch: layers that are not replicated, loss, update
  const NetworkGraph& graph;  ///< of `replica`; that of `whole` has the same ops
  /// Forward ops before this one, and what goes back through them, are replicated.
  std::uint32_t replicated_ops = 0;
  const Fabric& fabric;  ///< one node
  const StrategyProfile& strategy;
  std::vector<Bytes> element_bytes;  ///< of the graph's tensors (element_sizes)
  Seconds input_supply{};            ///< of the loader, per whole batch; zero: input at hand
  Seconds host_input{};      ///< what the one thread does for the whole batch before the step: it
                             ///< prepares, or copies and waits
  Bytes input_per_gpu{};     ///< copied from pinned host memory; zero: none
  std::string_view date{};   ///< of the collective library, "2017-08"; empty: today
  int steps_per_report = 0;  ///< once in so many steps the host waits for the update; 0: never
  bool waits_after_forward = false;  ///< the host reads the loss before it goes back
  /// Kernels take so many times their time: of the replicas, of which each waits for the slowest,
  /// and of the first GPU alone.
  double replica_time_factor = 1, first_time_factor = 1;
  bool fold = true;  ///< one stream of kernels for all GPUs but the first, which do the same at the
                     ///< same times
  double straggling = 1;  ///< what of replica_time_factor is waiting for the slowest
  Watts power_limit{};    ///< of a board; `replica` may have been given what waiting leaves of it
  const CostProfile* cost =
      nullptr;  ///< what collectives draw; nothing: as if GPUs waited active-idle
};

/// Whether a process's one thread drives all GPUs under the interpreter's lock: the strategies that
/// run so.
[[nodiscard]] bool is_replicated(const StrategyProfile& strategy);

/// Layers before the one behind the last convolution or max pool of `forward`: what programs call
/// its features.
[[nodiscard]] std::uint32_t count_feature_ops(const NetworkGraph& forward);

/// What a GPU did for some time.
enum class DeviceWork : std::uint8_t {
  Kernel,     ///< of an op
  Flatten,    ///< a kernel that copies tensors into the buffer they travel in
  Broadcast,  ///< the kernel of a collective, from its start on this GPU: it spins until all GPUs
              ///< are there
  Reduce,
  Copy,  ///< by a copy engine
};
struct DeviceSpan {
  DeviceWork work{};
  bool on_first = false;     ///< on the first GPU; else on each of the others, which are alike
  bool of_whole = false;     ///< of a kernel: `kernel` counts in the program of the whole batch
  std::uint32_t kernel = 0;  ///< index into StepProgram::kernels
  Seconds start{}, end{};    ///< from the step's begin
  Bytes bytes{};             ///< of a copy
};

/// Steps from one report to the next, or one step where nothing is reported, after several others.
struct ReplicatedTimeline {
  Seconds step_time{};  ///< mean
  int steps = 1;
  std::uint32_t gpus = 0, simulated = 0;  ///< the other GPUs do as the second
  std::vector<DeviceSpan> spans;          ///< of all these steps
  std::size_t launches = 0;               ///< of kernels by the host in a step, all GPUs
  Seconds launching{};                    ///< host time in them, all threads
  Seconds waiting{};                      ///< of the host for a result of the GPU, mean of a step
  // Means of a step as well:
  StepParts parts;               ///< along the critical path
  Seconds communication_busy{};  ///< something on its way between GPUs, or packed for it
  Bytes collected{};             ///< by the kernels of collectives, over an edge of their rings
  Bytes communicated{};          ///< of gradients, or of weights where there are none; per GPU
  std::size_t num_buckets = 0;   ///< in which they travel
  std::vector<LinkLoad> links;   ///< all that carry anything, greatest share first
  std::vector<TimeSpan> communication;  ///< when anything is, of all these steps
  int channels = 0;                     ///< blocks of a collective's kernel
};
/// How many GPUs do what one span says.
[[nodiscard]] inline double devices_of(const DeviceSpan& span, const ReplicatedTimeline& timeline) {
  return span.on_first ? 1.0 : timeline.gpus - 1.0;
}

/// Time of one kind of work over all GPUs in a step, as a profiler sums it up.
struct DeviceTime {
  DeviceWork work{};
  KernelClass kernel_class = KernelClass::Other;  ///< of kernels of ops, as the next five
  Algorithm algorithm = Algorithm::None;
  OpKind op = OpKind::Unknown;
  Pass pass = Pass::Forward;
  bool is_gemms =
      false;  ///< of an algorithm that transforms, multiplies and transforms back: the middle
  Seconds time{};
  Flops flops{};
  std::size_t calls = 0;  ///< kernels, or copies
};
/// The same kind of work, whatever its time.
[[nodiscard]] bool are_alike(const DeviceTime& a, const DeviceTime& b);
/// Greatest first.
[[nodiscard]] std::vector<DeviceTime> sum_device_times(const ReplicatedStep& step,
                                                       const ReplicatedTimeline& timeline);

/// Runs the steps on the engine. Pure.
///   host     one thread issues everything in program order. What holds the interpreter's lock
///   takes its time once per
///            replica: forward_lock_share and backward_lock_share of the strategy
///   weights  flattened and broadcast in buckets, in the order of the layers; gradients reduced
///   after the last one waits    the host reads the loss after the forward pass where the program
///   does, and waits for the step before where its
///            framework does; once in steps_per_report steps it waits for the update, and the other
///            GPUs' next broadcast starts no earlier; it is never further ahead of a GPU than that
///            one's queue of launches
/// A collective's kernel starts on each GPU when that GPU's stream reaches it and ends on all at
/// once. Source: PyTorch 1.0,
/// torch/nn/parallel/{data_parallel,replicate,scatter_gather,_functions}.py, torch/cuda/comm.py.
[[nodiscard]] ReplicatedTimeline run_replicated(const ReplicatedStep& step);

/// The same in the words of data-parallel steps. A span of the timeline is a stretch of a GPU's
/// kernels between collectives.
[[nodiscard]] DataParallelStep step_of(const ReplicatedStep& step,
                                       const ReplicatedTimeline& timeline);
/// `times` steps like `early`, micro-batches without an update, and then `last`.
[[nodiscard]] DataParallelStep accumulate_steps(const DataParallelStep& early, double times,
                                                DataParallelStep last);

}  // namespace tracecast
