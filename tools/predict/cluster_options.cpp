#include "tools/predict/cluster_options.hpp"

#include <CLI/CLI.hpp>

#include "sim/job/cluster.hpp"
#include "tools/command/whole_number.hpp"

namespace tracecast {

void add_cluster_options(CLI::App& subcommand, Place& place) {
  subcommand.add_option("--gpus", place.gpus, "GPUs in total")
      ->type_name("N")
      ->check(whole_number(1, kMostGpus));
  subcommand.add_option("--nodes", place.nodes, "Machines they stand in")
      ->type_name("N")
      ->check(whole_number(1, kMostGpus));
  subcommand
      .add_option("--cluster", place.cluster,
                  "Cluster file: groups of machines, their network, what is slow")
      ->type_name("FILE");
}

}  // namespace tracecast
