#pragma once
#include "sim/job/job.hpp"

namespace CLI {
class App;
}

namespace tracecast {

/// Declares `--gpus`, `--nodes` and `--cluster`; `--machine` is the subcommand's own.
void add_cluster_options(CLI::App& subcommand, Place& place);

}  // namespace tracecast
