#pragma once
#include "sim/job/job.hpp"

namespace CLI {
class App;
}

namespace tracecast {

/// Declares what says how input is loaded and where: `--data`, `--machine`, `--host-cpu`,
/// `--cpu-threads`, `--cpu-quota`, `--workers`, `--disk` and `--pipeline`.
void add_host_options(CLI::App& subcommand, Job& job, Place& place);

}  // namespace tracecast
