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

/// What a rank computes in one step, cut where gradients become ready and where weights are needed.
struct RankProgram {
  std::vector<Seconds> segments;  ///< forward and backward, with waiting for the rank's own host
  std::vector<double> busy;       ///< by segment: share in which a kernel runs
  std::vector<WorkMix> mixes;     ///< by segment, and of all updates together
  std::vector<std::vector<std::uint32_t>> needs;  ///< by segment: buckets whose weights it reads
  std::vector<std::vector<std::uint32_t>> completes;  ///< by segment: buckets ready at its end
  std::vector<Seconds> updates;                       ///< by bucket
  Seconds other_updates{};                            ///< kernels of no single bucket
  std::vector<std::uint32_t> first_segment;           ///< by bucket: that needs it
  std::vector<Seconds> delay;                         ///< by bucket: from ready to looked at
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
