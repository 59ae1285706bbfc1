#include "hwspecs/cluster_spec.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("hwspecs/cluster_spec");

TEST_CASE("a cluster file is read as written, and what it leaves out is as usual") {
  const ClusterSpec spec = load_cluster_spec(R"(
      id: "lab"
      group { name: "a" machine: "dgx1_v100" }
      group {
        name: "b" count: 3 machine: "dgx1_p100" gpus: 4 gpu: "p100_sxm2_16gb"
        compute_time_factor: 1.5 start_jitter_us: 250
        slow_link { a: "nic0" b: "network" bandwidth_factor: 0.25 }
      }
      network { link: "infiniband_hdr" nodes_per_leaf: 2 oversubscription: 4 }
      failures { node_mtbf_hours: 2 checkpoint_s: 30 restart_s: 60 })",
                                             "lab");
  CHECK(spec.id == "lab");
  REQUIRE(spec.groups.size() == 2);
  const ClusterGroup &a = spec.groups[0], &b = spec.groups[1];
  CHECK(a.count == 1);
  CHECK_FALSE(a.gpus.has_value());
  CHECK(a.gpu.empty());
  CHECK(a.compute_time_factor == 1);
  CHECK(a.start_jitter == Seconds(0));
  CHECK(b.count == 3);
  CHECK(b.gpus == 4);
  CHECK(b.compute_time_factor == 1.5);
  CHECK(b.start_jitter.in_us() == doctest::Approx(250));
  REQUIRE(b.slow_links.size() == 1);
  CHECK(b.slow_links[0].a == "nic0");
  CHECK(b.slow_links[0].bandwidth_factor == 0.25);
  CHECK(spec.network.link == "infiniband_hdr");
  CHECK(spec.network.nodes_per_leaf == 2);
  CHECK(spec.network.oversubscription == 4);
  CHECK_FALSE(spec.network.rail_optimized);
  REQUIRE(spec.failures.has_value());
  CHECK(spec.failures->node_mtbf == Seconds(7200));
  CHECK(spec.failures->checkpoint_write == Seconds(30));
  CHECK(spec.failures->restart == Seconds(60));
}

TEST_CASE("errors name the line and what was expected") {
  const auto message = [](const std::string& text) {
    try {
      (void)load_cluster_spec(text, "file");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string group = "group { name: \"a\" machine: \"dgx1_v100\" }\n";
  CHECK(message(group + group).find("file:2: found group \"a\" a second time") == 0);
  CHECK(message("\n\ngroup { name: \"a\" machine: \"m\" count: 0 }").find("file:3: ") == 0);
  // Which bad files are refused at all: tests/bad_input/cluster_test.cpp.
  CHECK(message(group +
                "network { switch { name: \"a\" parent: \"b\" link: \"l\" } switch { name: \"b\" "
                "parent: \"a\" link: \"l\" } }")
            .find("cycle") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
