#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/bad_input/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::test {
namespace {

const std::string kHeader =
    "id,source,date,gpu,gpus,nodes,interconnect,framework,framework_name,framework_version,"
    "precision,xla,network,"
    "data,phase,batch_per_gpu,samples_per_s,notes\n";

/// A row of the whole-network table with three of its cells.
std::string row(const std::string& gpus, const std::string& batch,
                const std::string& samples_per_s) {
  return "r1,paper,2018-01,v100_sxm2_16gb," + gpus +
         ",1,,tensorflow,TensorFlow,1.8,fp32,no,alexnet,synthetic,train," + batch + "," +
         samples_per_s + ",\n";
}

TEST_SUITE_BEGIN("bad_input/table");

TEST_CASE("the table that the broken ones start from is fine") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "table.csv";
  write_file(path, kHeader + row("1", "64", "1000"));
  check_reports({"validate", path});
}

TEST_CASE("tables that are broken are refused") {
  struct Row {
    const char* what;
    std::string content;
  };
  std::string gzip_of_nothing_more = "\x1f\x8b\x08";
  gzip_of_nothing_more += std::string("\0\0\0\0\0\0\x03", 7);
  const Row rows[] = {
      {"no bytes", ""},
      {"a blank line", "\n"},
      {"zeros", std::string(1000, '\0')},
      {"a header of no known table", "colour,weight\nred,3\n"},
      {"the throughput column missing",
       "id,gpu,gpus,framework,network,phase,batch_per_gpu\na,k80,1,tensorflow,alexnet,train,8\n"},
      {"a column twice", "id," + kHeader + "r0," + row("1", "64", "1000")},
      {"a short row", kHeader + "r1,paper\n"},
      {"a long row", kHeader + "," + row("1", "64", "1000")},
      {"a quote that never closes", kHeader + "\"r1,paper\n" + row("1", "64", "1000")},
      {"throughput that is no number", kHeader + row("1", "64", "fast")},
      {"throughput nan", kHeader + row("1", "64", "nan")},
      {"infinite throughput", kHeader + row("1", "64", "inf")},
      {"negative throughput", kHeader + row("1", "64", "-5")},
      {"throughput beyond a double", kHeader + row("1", "64", "1e999")},
      {"batch 0", kHeader + row("1", "0", "1000")},
      {"a batch beyond 64 bits", kHeader + row("1", "99999999999999999999", "1000")},
      {"minus one GPU", kHeader + row("-1", "64", "1000")},
      {"gzip that ends after its header", gzip_of_nothing_more},
      {"gzip of noise", gzip_of_nothing_more + std::string(500, '\xa5')},
  };
  const TemporaryFolder folder;
  for (const Row& bad : rows) {
    CAPTURE(bad.what);
    const bool is_gzip = bad.content.starts_with("\x1f\x8b");
    const std::string path = folder.path() / (is_gzip ? "table.csv.gz" : "table.csv");
    write_file(path, bad.content);
    check_refuses({"validate", path});
  }
}

TEST_CASE("selections that select by nothing are refused") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "table.csv";
  write_file(path, kHeader + row("1", "64", "1000"));
  check_refuses({"validate", path, "--only", "colour=red"});
  check_refuses({"validate", path, "--only", "gpus"});
  check_refuses({"validate", path, "--only", ""});
  check_refuses({"validate", path, "--format", "xml"});
  check_refuses({"validate", "/absent/table.csv"});
  check_refuses({"validate"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
