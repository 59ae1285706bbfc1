#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "sim/base/random.hpp"
#include "tests/bad_input/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::test {
namespace {

const std::string kGood = R"(
id: "two_kinds"
group { name: "old" count: 2 machine: "dgx1_p100" switch: "left" }
group {
  name: "new" count: 3 machine: "dgx1_v100" gpus: 4 gpu: "v100_sxm2_32gb" switch: "right"
  compute_time_factor: 1.3 start_jitter_us: 100
  slow_link { a: "nic0" b: "network" bandwidth_factor: 0.5 }
}
network {
  link: "infiniband_edr"
  switch { name: "spine" }
  switch { name: "left" parent: "spine" link: "infiniband_edr" count: 4 }
  switch { name: "right" parent: "spine" link: "infiniband_edr" count: 4 }
}
failures { node_mtbf_hours: 10000 checkpoint_s: 30 restart_s: 300 }
)";

/// kGood with one piece replaced; the piece must be there.
std::string with(const std::string& piece, const std::string& by) {
  std::string text = kGood;
  const std::size_t at = text.find(piece);
  REQUIRE(at != std::string::npos);
  return text.replace(at, piece.size(), by);
}

std::vector<std::string> use(const std::string& file) { return {"collectives", "--cluster", file}; }

TEST_SUITE_BEGIN("bad_input/cluster");

TEST_CASE("a cluster file that cannot be is refused in one line") {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "cluster.textproto";
  write_file(file, kGood);
  check_reports(use(file));
  struct Row {
    const char* what;
    std::string content;
  };
  const Row rows[] = {
      {"no bytes", ""},
      {"no group", "id: \"empty\""},
      {"not text", std::string(1000, '\0')},
      {"two megabytes", kGood + "#" + std::string(2 << 20, 'x')},
      {"an open brace", kGood + "group {"},
      {"an unknown field", kGood + "colour: \"green\""},
      {"a group without a name", with("name: \"old\"", "")},
      {"a group twice", with("name: \"new\"", "name: \"old\"")},
      {"no machine", with("machine: \"dgx1_p100\"", "")},
      {"an unknown machine", with("dgx1_p100", "dgx1_p1000")},
      {"an unknown GPU", with("v100_sxm2_32gb", "v1000")},
      {"a card in a module's slot", with("v100_sxm2_32gb", "v100_pcie_32gb")},
      {"an unknown network link", with("link: \"infiniband_edr\"\n", "link: \"carrier_pigeon\"\n")},
      {"an unknown uplink", with("link: \"infiniband_edr\" count", "link: \"string\" count")},
      {"no workers", with("count: 2", "count: 0")},
      {"fewer than none", with("count: 2", "count: -2")},
      {"nodes without end", with("count: 2", "count: 1000000")},
      {"a count beyond 64 bits", with("count: 2", "count: 99999999999999999999")},
      {"no GPUs", with("gpus: 4", "gpus: 0")},
      {"more GPUs than slots", with("gpus: 4", "gpus: 9")},
      {"GPUs without end", with("gpus: 4", "gpus: 1000000000")},
      {"a factor of zero", with("compute_time_factor: 1.3", "compute_time_factor: 0")},
      {"a factor below zero", with("compute_time_factor: 1.3", "compute_time_factor: -1")},
      {"no number", with("compute_time_factor: 1.3", "compute_time_factor: nan")},
      {"an absurd factor", with("compute_time_factor: 1.3", "compute_time_factor: 1e300")},
      {"jitter that never ends", with("start_jitter_us: 100", "start_jitter_us: inf")},
      {"jitter below zero", with("start_jitter_us: 100", "start_jitter_us: -1")},
      {"zero bandwidth", with("bandwidth_factor: 0.5", "bandwidth_factor: 0")},
      {"bandwidth below zero", with("bandwidth_factor: 0.5", "bandwidth_factor: -0.5")},
      {"a slow link that is faster", with("bandwidth_factor: 0.5", "bandwidth_factor: 2")},
      {"a slow link without a factor", with("bandwidth_factor: 0.5", "")},
      {"a slow link that is not there", with("a: \"nic0\" b", "a: \"nic9\" b")},
      {"a switch twice", with("name: \"right\"", "name: \"left\"")},
      {"a switch without a name", with("{ name: \"left\"", "{")},
      {"an unknown parent", with("parent: \"spine\"", "parent: \"spin\"")},
      {"a switch above itself",
       with("name: \"left\" parent: \"spine\"", "name: \"left\" parent: \"left\"")},
      {"a circle of switches",
       with("name: \"left\" parent: \"spine\"", "name: \"left\" parent: \"right\"")
           .replace(with("name: \"left\" parent: \"spine\"", "name: \"left\" parent: \"right\"")
                        .find("name: \"right\" parent: \"spine\""),
                    std::string("name: \"right\" parent: \"spine\"").size(),
                    "name: \"right\" parent: \"left\"")},
      {"nodes that nothing joins",
       with("name: \"left\" parent: \"spine\" link: \"infiniband_edr\"", "name: \"left\"")},
      {"an uplink of no cables", with("count: 4", "count: 0")},
      {"an uplink of no kind", with("link: \"infiniband_edr\" count: 4", "count: 4")},
      {"a group on no switch", with("switch: \"left\" }", "}")},
      {"a group on an unknown switch", with("switch: \"right\"", "switch: \"middle\"")},
      {"leaves and switches at once", with("link: \"infiniband_edr\"\n", "nodes_per_leaf: 4\n")},
      {"a machine without a network",
       with("machine: \"dgx1_p100\"", "machine: \"x99_workstation\" gpu: \"p100_pcie_16gb\"")},
      {"failures all the time", with("node_mtbf_hours: 10000", "node_mtbf_hours: 0")},
      {"failures of no rate", with("node_mtbf_hours: 10000", "")},
      {"checkpoints of no time", with("checkpoint_s: 30", "checkpoint_s: -30")},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    write_file(file, row.content);
    check_refuses(use(file));
  }
}

TEST_CASE(
    "networks that are drawn and nodes that are slow take data-parallel steps, not sharded ones") {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "cluster.textproto";
  write_file(file, kGood);
  check_reports({"predict", "alexnet", "--gpu", "v100", "--cluster", file});
  const std::vector<std::string> sharded = {"predict", "gpt2", "--gpu",     "a100",
                                            "--tp",    "2",    "--cluster", file};
  check_refuses(sharded);  // two kinds of nodes
  const std::string alike = "group { name: \"a\" machine: \"dgx_a100\" count: 2 }\n";
  write_file(file, alike);
  check_reports(sharded);
  write_file(file, alike + "group { name: \"b\" machine: \"dgx_a100\" compute_time_factor: 1.3 }");
  check_refuses(sharded);
}

TEST_CASE("leaves that cannot be are refused") {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "cluster.textproto";
  const std::string group = "group { name: \"a\" machine: \"dgx_a100\" count: 8 }\n";
  write_file(file,
             group + "network { nodes_per_leaf: 4 oversubscription: 2 rail_optimized: true }");
  check_reports(use(file));
  for (const char* network :
       {"nodes_per_leaf: 0", "nodes_per_leaf: -4", "oversubscription: 2", "rail_optimized: true",
        "nodes_per_leaf: 4 oversubscription: 0", "nodes_per_leaf: 4 oversubscription: 0.5",
        "nodes_per_leaf: 4 oversubscription: nan", "nodes_per_leaf: 4 oversubscription: 1e9"}) {
    CAPTURE(network);
    write_file(file, group + "network { " + network + " }");
    check_refuses(use(file));
  }
}

TEST_CASE("a damaged cluster file is answered or refused") {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "cluster.textproto";
  Random random(2026);
  for (int round = 0; round < 60; ++round) {
    std::string text = kGood;
    for (int hit = 0; hit < 3; ++hit) {
      const std::size_t at = random.below(text.size());
      switch (random.below(3)) {
        case 0:
          text[at] = static_cast<char>(text[at] ^ (1 << random.below(7)));
          break;
        case 1:
          text.erase(at, 1 + random.below(8));
          break;
        default:
          text.insert(at, text.substr(random.below(text.size()), 1 + random.below(20)));
      }
    }
    CAPTURE(round);
    write_file(file, text);
    check_survives(use(file));
  }
}

TEST_CASE("flags of clusters that make no sense are refused") {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "cluster.textproto";
  write_file(file, kGood);
  check_reports({"collectives", "--machine", "dgx1_v100", "--gpus", "16", "--nodes", "2"});
  const std::vector<std::vector<std::string>> rows = {
      {},
      {"--gpus", "8"},
      {"--machine", "dgx1_v100", "--gpus", "0"},
      {"--machine", "dgx1_v100", "--gpus", "-8"},
      {"--machine", "dgx1_v100", "--nodes", "0"},
      {"--machine", "dgx1_v100", "--gpus", "9", "--nodes", "1"},
      {"--machine", "dgx1_v100", "--gpus", "7", "--nodes", "2"},
      {"--machine", "dgx1_v100", "--gpus", "99999999999999999999"},
      {"--machine", "dgx1_v100", "--gpus", "8000000", "--nodes", "1000000"},
      {"--machine", "dgx9", "--gpus", "8"},
      {"--machine", "dgx1_v100", "--gpus", "8", "--gpu", "v1000"},
      {"--machine", "x99_workstation", "--gpus", "2"},
      {"--machine", "x99_workstation", "--gpus", "4", "--gpu", "titanxp"},
      {"--cluster", folder.path() / "absent"},
      {"--cluster", folder.path()},
      {"--cluster", file, "--gpus", "8"},
      {"--cluster", file, "--machine", "dgx1_v100"},
      {"--cluster", file, "--collective", "all-rejoice"},
      {"--cluster", file, "--library", "nickel"},
      {"--cluster", file, "--library-version", "two"},
      {"--cluster", file, "--library-version", "2.x"},
      {"--cluster", file, "--sizes", "0"},
      {"--cluster", file, "--sizes", "-5"},
      {"--cluster", file, "--sizes", "nan"},
      {"--cluster", file, "--sizes", "1e300"},
  };
  for (const std::vector<std::string>& row : rows) {
    std::vector<std::string> arguments = {"collectives"};
    arguments.insert(arguments.end(), row.begin(), row.end());
    std::string what;
    for (const std::string& word : row) what += word + " ";
    CAPTURE(what);
    check_refuses(arguments);
  }
}

TEST_CASE("more GPUs, nodes or servers than there are are refused by every subcommand") {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "cluster.textproto";
  write_file(file, "group { name: \"a\" machine: \"dgx1_v100\" count: 2 }\n");
  const std::vector<std::vector<std::string>> subcommands = {
      {"cluster"},
      {"collectives"},
      {"predict", "alexnet", "--gpu", "v100"},
      {"predict", "gpt2", "--gpu", "v100", "--tp", "2"},
      {"predict", "alexnet", "--gpu", "v100", "--servers", "1", "--channel", "grpc"},
  };
  const std::vector<std::vector<std::string>> rows = {
      {"--cluster", file, "--gpus", "17"},
      {"--cluster", file, "--nodes", "3"},
      {"--cluster", file, "--machine", "dgx2"},
      {"--machine", "dgx1_v100", "--gpus", "9", "--nodes", "1"},
      {"--machine", "dgx1_v100", "--gpus", "33", "--nodes", "4"},
      {"--machine", "dgx1_v100", "--gpus", "-1"},
      {"--machine", "dgx1_v100", "--gpus", "0"},
      {"--machine", "dgx1_v100", "--gpus", "many"},
      {"--machine", "dgx1_v100", "--gpus", "2.5"},
      {"--machine", "dgx1_v100", "--gpus", "99999999999999999999"},
      {"--machine", "dgx1_v100", "--nodes", "-1"},
      {"--machine", "dgx1_v100", "--nodes", "0"},
      {"--machine", "dgx1_v100", "--nodes", "1000001"},
  };
  for (const std::vector<std::string>& subcommand : subcommands) {
    for (const std::vector<std::string>& row : rows) {
      std::vector<std::string> arguments = subcommand;
      arguments.insert(arguments.end(), row.begin(), row.end());
      std::string what;
      for (const std::string& word : arguments) what += word + " ";
      CAPTURE(what);
      check_refuses(arguments);
    }
  }
  for (const char* servers : {"2", "-1", "0", "some", "99999999999999999999"}) {
    CAPTURE(servers);
    check_refuses({"predict", "alexnet", "--gpu", "v100", "--cluster", file, "--channel", "grpc",
                   "--servers", servers});
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
