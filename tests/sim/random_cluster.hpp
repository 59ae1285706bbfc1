#pragma once
#include <string>
#include <utility>

#include "hwspecs/cluster_spec.hpp"
#include "sim/base/random.hpp"
#include "sim/network/fabric.hpp"

namespace tracecast::test {

/// 1,000 GPUs, those of one node slower than the others.
inline ClusterSpec thousand_with_a_slow_node() {
  ClusterSpec spec = uniform_cluster("dgx_a100", 8, 124);
  spec.groups[0].name = "healthy";
  spec.groups.push_back(spec.groups[0]);
  spec.groups[1].name = "slow";
  spec.groups[1].count = 1;
  spec.groups[1].compute_time_factor = 1.3;
  return spec;
}

/// Groups of random machines, sizes and faults on one switch, leaves or a tree of switches.
inline ClusterSpec random_cluster(Random& random, bool jitter) {
  ClusterSpec spec;
  const char* machines[] = {"dgx1_v100", "dgx_a100", "aws_p3_8xlarge", "osu_ri2"};
  const int groups = 1 + static_cast<int>(random.below(4));
  const auto network = random.below(3);
  if (network == 1) {
    spec.network.nodes_per_leaf = 1 + static_cast<int>(random.below(3));
    spec.network.oversubscription = 1 + static_cast<double>(random.below(3));
    spec.network.rail_optimized = random.below(2) == 0;
  }
  if (network == 2) {
    spec.network.switches = {{"root", "", "", 1}};
    for (int i = 0; i < 4; ++i) {
      const std::string parent = i < 2 ? "root" : "s" + std::to_string(random.below(2));
      spec.network.switches.push_back({"s" + std::to_string(i), parent, "infiniband_edr",
                                       1 + static_cast<int>(random.below(2))});
    }
  }
  for (int g = 0; g < groups; ++g) {
    ClusterGroup group;
    group.name = "g" + std::to_string(g);
    group.machine = machines[random.below(4)];
    group.count = 1 + static_cast<int>(random.below(3));
    if (random.below(3) == 0) group.compute_time_factor = 1.25;
    if (random.below(4) == 0) group.slow_links = {{"nic0", "network", 0.5}};
    if (jitter && random.below(2) == 0) group.start_jitter = Seconds(1e-4);
    if (network == 2) group.switch_name = "s" + std::to_string(random.below(4));
    spec.groups.push_back(std::move(group));
  }
  return spec;
}

}  // namespace tracecast::test
