#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/parallel/data_parallel.hpp"
#include "sim/step/step_account.hpp"

namespace tracecast {

/// A crossing by segments: after which its data are there, and which waits for them.
struct SegmentCrossing {
  std::optional<std::uint32_t> completed_by;  ///< nothing: there at the step's begin
  std::uint32_t needed_by = 0;                ///< as many as there are segments: by the step's end
};

/// How the host that issues some kernels goes together with them. The stream and what they read are
/// there at `ready`, the host begins to issue them at `host`:
///   the kernels take their time from max(ready, host + lead) on
///   the host goes on at max(host + issue, ready + wait)
/// So a host that got ahead while the rank communicated holds back nothing, and one that is behind
/// paces the rank.
struct HostTimes {
  Seconds lead{};               ///< launches that no kernel hides
  Seconds issue{};              ///< all of the host's work
  std::optional<Seconds> wait;  ///< where the host waits for the GPU in between
};

/// What a rank computes in one step, cut where gradients become ready and where weights are needed.
struct RankProgram {
  std::vector<Seconds> segments;  ///< forward and backward: kernels, and where the host waits for
                                  ///< them and they for the host
  std::vector<HostTimes> hosts;   ///< by segment; the first one's has the step's begin
  bool synchronizes = false;      ///< the host begins a step when the one before has ended
  /// By segment, and of the updates: the last one before it that has to have ended when the host
  /// issues its first kernel, since no more launches may wait. Counted from the step's first, the
  /// updates as one; negative: of steps before.
  std::vector<std::int64_t> queued_behind;
  std::vector<double> busy;                       ///< by segment: share in which a kernel runs
  std::vector<WorkMix> mixes;                     ///< by segment, and of all updates together
  std::vector<std::vector<std::uint32_t>> needs;  ///< by segment: buckets whose weights it reads
  std::vector<std::vector<std::uint32_t>> completes;  ///< by segment: buckets ready at its end
  std::vector<Seconds> updates;                       ///< by bucket
  std::vector<HostTimes> update_hosts;
  Seconds other_updates{};  ///< kernels of no single bucket
  HostTimes other_updates_host;
  Seconds all_updates{};  ///< of all buckets and of none, one after the other
  HostTimes all_updates_host;
  std::vector<std::uint32_t> first_segment;  ///< by bucket: that needs it
  std::vector<Seconds> delay;                ///< by bucket: from ready to looked at
  std::vector<SegmentCrossing> crossings;
};

struct RankPrograms {
  std::vector<GradientBucket> buckets;  ///< of the first kind of rank
  std::vector<RankProgram> programs;    ///< by kind
  double wire_share = 1;                ///< bytes of a gradient on its way over those computed
};

/// The programs of all kinds of a request, every kernel `straggling` times its time. Host costs
/// grow where ranks share the cores of a node; the step is then simulated anew.
[[nodiscard]] RankPrograms make_rank_programs(const DataParallelRequest& request,
                                              double straggling);

/// A gradient's copy into or out of its bucket: a kernel that reads and writes it. Guess: 2.5 us
/// for a kernel without work, 0.8 of the memory bandwidth.
[[nodiscard]] Seconds bucket_copy_time(Bytes bytes, const GpuSpec& gpu);

}  // namespace tracecast
