#pragma once
#include "sim/job/resolved_job.hpp"

namespace tracecast {

/// The processors beside a job's GPU where `--machine` names none.
struct HostCpu {
  const CpuSpec* spec = nullptr;
  int sockets = 1;
  std::string assumed{};  ///< why these; empty: the user named them
};

/// Those of `--host-cpu`, "2xe5_2698_v4" or "e5_2698_v4"; else of the machine that a superchip
/// comes in, or what servers of the GPU's years have. Throws InputError naming the flag.
[[nodiscard]] HostCpu find_host_cpu(const PlacedJob& options, const Hardware& hardware,
                                    const GpuSpec& gpu);

/// Finds what `job` runs on, from its options: the GPU, or the CPUs of "cpu:[Nx]ID"; the host,
/// named or assumed, whose speed of one thread its host costs take; the machine whose path from GPU
/// to socket bounds copies of the input. Adds to the job's assumptions what was chosen. Needs
/// job.framework. Throws InputError naming the flag.
void place_job(ResolvedJob& job, const Hardware& hardware);

}  // namespace tracecast
