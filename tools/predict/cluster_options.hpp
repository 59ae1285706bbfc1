#pragma once
#include "sim/job/job.hpp"

namespace CLI {
class App;
}

namespace tracecast {

/// Declares `--gpus`, `--nodes` and `--cluster`; `--machine` is the verb's own.
void add_cluster_options(CLI::App& verb, Place& place);

}  // namespace tracecast
