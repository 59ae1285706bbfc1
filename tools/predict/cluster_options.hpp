#pragma once
#include "sim/job/job.hpp"

namespace CLI {
class App;
}

namespace tracecast {

/// Declares `--gpus`, `--nodes`, `--cluster` and those of links; `--machine` is the subcommand's
/// own.
void add_cluster_options(CLI::App& subcommand, Place& place);
/// Declares `--nic` and `--no-p2p`.
void add_link_options(CLI::App& subcommand, Place& place);

}  // namespace tracecast
