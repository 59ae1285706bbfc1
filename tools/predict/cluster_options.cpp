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
  add_link_options(subcommand, place);
}

void add_link_options(CLI::App& subcommand, Place& place) {
  subcommand
      .add_option("--nic", place.nic,
                  "Network of several machines instead of theirs: ethernet_100g, and how many NICs "
                  "a machine has of it: ethernet_100g:1")
      ->type_name("LINK[:COUNT]");
  subcommand.add_flag("--no-p2p", place.no_p2p,
                      "No GPU reaches another's memory, by PCIe or NVLink (NCCL_P2P_DISABLE)");
}

}  // namespace tracecast
