#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "sim/job/resolved_job.hpp"
#include "sim/step/input_pipeline.hpp"

namespace tracecast {

/// What loads the data of a job, from its flags: `--data ID` or "real" for the network's usual data
/// set,
/// `--pipeline`, `--host-cpu`, `--cpu-threads`, `--workers`, `--disk`. Nothing for synthetic data
/// and data in memory. What is chosen for the user is added to `job.assumptions`. Needs `job.gpu`,
/// `job.framework` and `job.forward`. Throws InputError naming the flag.
[[nodiscard]] std::optional<InputRequest> make_input(const PlacedJob& options,
                                                     const Hardware& hardware, ResolvedJob& job);

/// Threads of the host that `--machine`, or `--host-cpu`, names, at most `--cpu-threads` of them;
/// nothing when no host is named. Throws InputError naming the flag.
[[nodiscard]] std::optional<HostThreads> named_host_threads(const PlacedJob& options,
                                                            const Hardware& hardware,
                                                            const ResolvedJob& job);

/// The CPU of the catalog that a text names ("Xeon Gold 5118"), the longest name first; empty:
/// none.
[[nodiscard]] std::string find_cpu_in(std::string_view text, const CpuCatalog& cpus);

}  // namespace tracecast
