#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/software/input_pipeline.hpp"
#include "models/graph.hpp"
#include "sim/base/units.hpp"
#include "sim/step/step_program.hpp"

namespace tracecast {

/// The CPU threads that loader and dispatch share.
struct HostThreads {
  int cores = 1;  ///< physical
  int threads =
      1;  ///< that may run at once; at least 1. More than `cores`: second threads of cores.
  Hertz core_speed{};             ///< of one busy core, in Haswell's cycles a second
  double second_thread_gain = 0;  ///< throughput that the second thread of a core adds
  /// CPU time a second that a container may use, of all its threads; 0: no limit. A quota pins
  /// nothing: threads spread over all cores and stand still when it is used up.
  double quota = 0;

  /// What `runnable` threads get done together, in cores.
  ///   n = min(runnable, threads),   min(n, cores) + second_thread_gain * min(max(n - cores, 0),
  ///   cores);   with a quota of fewer than n CPUs the share quota / n of that
  [[nodiscard]] double throughput(double runnable) const;
  /// Speed of one of `runnable` threads (at least 1) over that of a thread with a core to itself,
  /// in (0, 1]: equal shares, as Linux gives threads that are always ready.
  [[nodiscard]] double speed(double runnable) const;
  /// What CPU utilisation is a share of: the threads, or the quota where that is less.
  [[nodiscard]] double limit() const;
};

/// A disk, as far as loaders see it.
struct DiskSpeed {
  BytesPerSecond read{};   ///< sequential
  double reads_per_s = 0;  ///< of single small files, many at once
};

/// One batch of samples of a data set, prepared by a loader for a network.
struct InputRequest {
  DataSetSpec data;
  InputPipelineProfile pipeline;
  HostThreads host;
  bool host_is_assumed = false;     ///< nobody named it: a wider interval
  std::optional<int> workers{};     ///< nothing: the loader's usual number
  std::optional<DiskSpeed> disk{};  ///< nothing: all in the page cache
  Bytes page_cache{};               ///< host memory that can hold file pages; read with `disk` only
  bool training = true;             ///< random crops; else the middle of the resized image
  std::int64_t batch = 1;
  /// What the network reads per sample: values (3 * 224 * 224), of which `output_pixels` positions,
  /// or tokens with 0 positions.
  std::int64_t output_values = 0, output_pixels = 0;
};

/// Share of reads that a page cache serves when every epoch reads every sample once.
///   f = cache / data set;   random order: 1 if f >= 1, else f + (1 - f) ln(1 - f);   in order: 1
///   or 0
/// Random order, least recently used first out: between two reads of a sample lie N (1 - u v)
/// distinct others, u and v uniform; in order, a cache that is too small has always just dropped
/// what comes next. (ours; Linux keeps pages in about that order.)
[[nodiscard]] double page_cache_hits(Bytes cache, Bytes data_set, bool random_order);

/// CPU time of one sample on a Haswell core of 1 Hz, that is, its cycles.
///   image:  decode * (pixels decoded + overhead) + resize per source pixel * cropped pixels
///           + resize per output pixel * output pixels + convert * output values + per sample
///   tokens and other records: per token * output values + per record
[[nodiscard]] double cycles_per_sample(const InputRequest& job);

/// Share of a batch's loading that rests on guesses: all where nobody named the host; else, where
/// workers hold it up, the cycles whose source is a guess.
[[nodiscard]] double guessed_share(const InputRequest& job, std::string_view slowest);

/// The stages of one batch, as if every thread had a core to itself.
[[nodiscard]] InputStages plan_input(const InputRequest& job);
/// Bytes of one prepared batch on their way to the GPU.
[[nodiscard]] Bytes prepared_bytes(const InputRequest& job);

/// Rate at which a prepared batch reaches the GPU from pinned memory, or from pageable memory,
/// through which the driver moves it piece by piece at a thread's copying speed at most.
[[nodiscard]] BytesPerSecond copy_rate(const InputRequest& job, BytesPerSecond pinned);

/// Time per batch when nothing waits for the GPU: the slowest stage, max(read, prepare / workers,
/// pin, gpu_decode, copy).
[[nodiscard]] Seconds supply_time(const InputStages& stages, Seconds copy);
/// Which of them it is: "disk", "workers", "pin thread", "decoder" or "copy".
[[nodiscard]] std::string_view slowest_stage(const InputStages& stages, Seconds copy);

/// What the input pipeline did to a step.
struct InputUse {
  int workers = 0;       ///< 0: the dispatch thread loads
  int cpu_threads = 0;   ///< of the host
  double cpu_quota = 0;  ///< HostThreads::quota
  double cpu_limit = 0;  ///< HostThreads::limit: what utilisation is a share of
  double waiting = 0;    ///< share of the step in which the GPU has nothing to do for want of input
  double busy_threads = 0;    ///< loader and dispatch together, mean
  double cpu_speed = 1;       ///< of each thread over one with a core to itself
  std::string_view slowest;   ///< slowest_stage
  Seconds supply{};           ///< supply_time at that speed
  Seconds step_without{};     ///< step time with the input on the device already
  Seconds sample_cpu_time{};  ///< of the loader, per sample, on a core of its own
  double cached = 1;          ///< share of reads that the page cache serves
  Bytes read_per_step{};      ///< from page cache and disk
  /// Fewest workers, each with a core to itself, that keep the GPU busy; nothing when another stage
  /// or the dispatch is slower.
  std::optional<int> workers_needed;
};

/// Whether steps follow each other as fast as the loader's slowest stage allows and no faster: a
/// faster GPU would only wait longer.
[[nodiscard]] bool limits(const InputUse& use, Seconds step);

/// A program with an input pipeline, run on CPU threads that it shares.
struct InputRun {
  StepProgram program;  ///< with the times that its threads' share of the CPU leads to
  StepTimeline timeline;
  StepTimeline without;  ///< of the same step with its input on the device already
  InputUse use;
};
/// Runs `program` (without input) fed by `stages`. Threads slow each other down when more are
/// runnable than there are cores: n = busy workers + dispatch, averaged over a step, solved by
/// iteration from all busy down to 1 %.
[[nodiscard]] InputRun run_with_input(const StepProgram& program, const InputStages& stages,
                                      const HostThreads& host);
/// The same for a job: its stages, and what it does per sample. `program` has the copy of the
/// input.
[[nodiscard]] InputRun run_with_input(const StepProgram& program, const InputRequest& job);

}  // namespace tracecast
