#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "hwspecs/gpu_sharing.hpp"
#include "sim/base/units.hpp"
#include "sim/step/input_pipeline.hpp"
#include "sim/step/step_program.hpp"

namespace tracecast {

struct Prediction;

/// What a kernel takes of the GPU while it runs alone.
struct KernelDemand {
  double sm_share = 1;    ///< of the SMs, in (0, 1]
  double dram_share = 1;  ///< of what memory can deliver to it, in [0, 1]
};
/// Demands of every kernel of the program, in order.
[[nodiscard]] std::vector<KernelDemand> kernel_demands(const PricedStep& priced,
                                                       const StepProgram& program);
/// The predicted program with host times as if each of its threads had a core to itself.
[[nodiscard]] StepProgram at_full_speed(const Prediction& prediction);

/// One of the jobs that share a GPU, or the box.
struct ColocatedJob {
  StepProgram program;  ///< host times as if each thread had a core to itself; has kernels
  Seconds start{};      ///< later than the box; alike jobs that start at once run in step for ever
  std::vector<KernelDemand> demands;  ///< one per kernel; read with MPS only
  Bytes device_memory{};              ///< of one process
  int processes = 1;    ///< alike, side by side; the job counts the steps of one of them
  std::size_t gpu = 0;  ///< on which it runs
};

/// What the jobs share.
struct SharedBox {
  Bytes gpu_memory{};                 ///< of each GPU
  std::optional<HostThreads> host{};  ///< nothing: a core for every thread
  GpuSharing sharing;
  /// CUDA's Multi-Process Service: kernels of different processes run at the same time.
  bool mps = false;
};

/// What became of one job.
struct JobShare {
  Seconds alone{};       ///< step time with the box to itself
  Seconds together{};    ///< step time beside the others
  double gpu_share = 0;  ///< of the time, in which its kernels run
  [[nodiscard]] double normalized_rate() const { return alone / together; }
};

struct Colocation {
  std::vector<JobShare> jobs;  ///< in the order given
  bool fits = true;            ///< into device memory, on every GPU; else no rates
  Bytes device_memory{};       ///< needed on the fullest GPU
  double cpu_speed = 1;        ///< of each host thread over one with a core to itself
  double busy_threads = 0;     ///< of the host, mean
  /// Sum of the normalized rates: above 1 sharing does more than taking turns by the step.
  [[nodiscard]] double normalized_sum() const;
};

/// Runs all jobs at once, event by event, until every process is in the middle of a run.
///
/// GPU, time-sliced (the default): the context of one process is on the GPU at a time. It stays
/// while it has a kernel to run, for a time slice at most while another waits (slices renew
/// themselves); when it has none, the next context that has comes at once. Each change costs a
/// context switch. So gaps between launches of one are filled by others, and a process with few
/// small kernels waits up to a slice for each of its turns.
///   Source: NVIDIA, Multi-Process Service, section "Background"; parameters: hwspecs/sharing.
/// GPU, MPS: the first kernel of every process runs, at max-min fair rates r_i <= 1 with
///   sum r_i sm_share_i <= 1 and sum r_i dram_share_i <= 1.
/// Copies to a GPU take turns on its copy engine, loaders have their own workers, and all host
/// threads share the cores: each runs at HostThreads::speed of the mean number that is runnable,
/// solved by iteration. Leaves out: caches, PCIe switches, the page cache, threads that spin while
/// they wait. Needs at least one job.
[[nodiscard]] Colocation colocate(std::span<const ColocatedJob> jobs, const SharedBox& box);
/// The same for whoever knows what step_alone() says of each job in this box.
[[nodiscard]] Colocation colocate(std::span<const ColocatedJob> jobs, const SharedBox& box,
                                  std::span<const Seconds> alone);
/// Step time with the box to itself, whatever its memory.
[[nodiscard]] Seconds step_alone(const ColocatedJob& job, const SharedBox& box);

/// Max-min fair rates under the two constraints above: all rise together until a resource is full
/// or they are 1; those that use it stop, the others go on.
[[nodiscard]] std::vector<double> fair_rates(std::span<const KernelDemand> demands);

}  // namespace tracecast
