#pragma once
#include <filesystem>
#include <string>

#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"

/// One invented file of each kind that a person may add in a folder of the form of hwspecs/.
namespace tracecast::test {

/// A folder of such files, for one test.
struct InventedFiles {
  TemporaryFolder root;
  /// Writes a file below the folder; its path.
  [[nodiscard]] std::string write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root.path() / path).parent_path());
    write_file(root.path() / path, text);
    return (root.path() / path).string();
  }
};

inline const std::string kInventedSource =
    R"(source { key: "us" title: "invented" where: "for a test" })";
inline const std::string kInventedSources =
    R"(sources { key: "us" title: "invented" where: "for a test" })";

/// A disk of 1 MB/s.
inline std::string invented_disk(const std::string& id = "tape") {
  return "id: \"" + id + "\" name: \"Tape\"\n" + kInventedSources + R"(
kind { value: HDD source: "us" }
sequential_read_mb_per_s { value: 1 source: "us" }
sequential_write_mb_per_s { value: 1 source: "us" }
random_read_iops { value: 100 source: "us" }
latency_us { value: 10000 source: "us" }
)";
}

/// PyTorch from 3.0 and January 2031 on, whose host takes 500 us an op.
inline std::string invented_framework_version() {
  return "id: \"pytorch_3\" name: \"PyTorch 3\" based_on: \"pytorch_2\"\n" + kInventedSource + R"(
era { framework: "pytorch" from_version: "3.0" from_date: "2031-01" source: "us" }
dispatch_per_op_us { value: 500 source: "us" }
)";
}

/// An all-reduce after the backward pass, in buckets of 1 MiB that cost the host so much each.
inline std::string invented_strategy(const std::string& id, const std::string& host_us) {
  return "id: \"" + id + "\" name: \"Ours\"\n" + kInventedSource + R"(
communication { value: "all_reduce" source: "us" }
replicas { value: "processes" source: "us" }
library { value: "nccl" source: "us" }
bucket_mib { value: 1 source: "us" }
first_bucket_mib { value: 1 source: "us" }
cycle_ms { value: 0 source: "us" }
overlaps_backward { value: false source: "us" }
updates_as_they_come { value: false source: "us" }
overlaps_next_forward { value: false source: "us" }
gradient_bytes { value: 0 source: "us" }
packing_copies { value: 0 source: "us" }
host_us_per_bucket { value: )" +
         host_us + R"( source: "us" }
host_add_gb_per_s { value: 0 source: "us" }
message_gb_per_s { value: 0 source: "us" }
feed_gb_per_s { value: 0 source: "us" }
forward_lock_share { value: 0 source: "us" }
backward_lock_share { value: 0 source: "us" }
replicate_us_per_op { value: 0 source: "us" }
)";
}

/// Two slots under one CPU.
inline std::string invented_machine() {
  return "id: \"pair\" name: \"Two cards\"\n" + kInventedSources + R"(
cpu { value: "gold_6148" source: "us" }
sockets { value: 1 source: "us" }
hardware_threads { value: 40 source: "us" }
memory_gib { value: 64 source: "us" }
disk { id: "sata_ssd" source: "us" }
node { name: "cpu0" kind: SOCKET source: "us" }
node { name: "gpu0" kind: GPU source: "us" }
node { name: "gpu1" kind: GPU source: "us" }
link { a: "gpu0" b: "cpu0" id: "pcie3_x16" source: "us" }
link { a: "gpu1" b: "cpu0" id: "pcie3_x16" source: "us" }
)";
}

/// A round v9.0 after v5.0: BERT in plain PyTorch and fp32, and a benchmark that nobody drew.
inline std::string invented_mlperf_round() {
  return "id: \"v9.0\" name: \"Round 9\" based_on: \"v5.0\"\n" + kInventedSources + R"(
month { value: "2029-06" source: "us" }
benchmark { name: "bert" source: "us" network: "bert_large" fused_network: "bert_large" framework: "pytorch" precision: "fp32" cuda_graphs: false }
benchmark { name: "newnet" source: "us" unpredicted: "nobody drew it" }
)";
}

/// "our blog", which trains without an optimizer. Its rows were in view when a form was chosen,
/// those of P100 were fitted.
inline std::string invented_published_source() {
  return "id: \"our_blog\" name: \"Our blog\"\n" + kInventedSources + R"(
rows { where { column: "source" is: "our blog" } }
program { source: "us" optimizer: "none" }
used_for { use: CHOICE what: "a form" record: "our note" }
used_for { use: FIT rows { where { column: "gpu" begins: "p100" } } what: "a number" record: "our note" }
used_for { use: FIT of_interval: true what: "a spread" record: "our note" }
)";
}

}  // namespace tracecast::test
