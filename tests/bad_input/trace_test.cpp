#include <doctest/doctest.h>
#include <zlib.h>

#include <filesystem>
#include <string>

#include "sim/base/file.hpp"
#include "sim/base/random.hpp"
#include "tests/bad_input/program.hpp"
#include "tests/support/data.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::test {
namespace {

namespace fs = std::filesystem;

/// Writes `count` times `piece`, then `end`, through gzip.
void write_packed(const fs::path& path, const std::string& begin, const std::string& piece,
                  int count, const std::string& end) {
  gzFile file = gzopen(path.c_str(), "wb1");
  REQUIRE(file != nullptr);
  gzwrite(file, begin.data(), static_cast<unsigned>(begin.size()));
  for (int i = 0; i < count; ++i) gzwrite(file, piece.data(), static_cast<unsigned>(piece.size()));
  gzwrite(file, end.data(), static_cast<unsigned>(end.size()));
  gzclose(file);
}

const std::string kEvents = R"({"traceEvents": [{"ph":"X","cat":"kernel","ts":1,"dur":1,"name":")";

}  // namespace

TEST_CASE("gigabytes in one string, or a million brackets, end in one line and little memory") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "hostile.json.gz";
  const std::string megabyte(1 << 20, 'x');
  write_packed(path, kEvents, megabyte, 1024, "\"}]}");
  check_refuses({"trace", "summary", path});
  // The same string where nobody wants it costs no memory; as long as no recording packs, it costs
  // no time either.
  write_packed(path, R"({"comment": ")", megabyte, 60, R"(", "traceEvents": []})");
  check_reports({"trace", "summary", path});
  write_packed(path, R"({"comment": ")", megabyte, 1024, R"(", "traceEvents": []})");
  check_refuses({"trace", "summary", path});
  write_packed(path, R"({"a": )", std::string(1000, '['), 1000, "");
  check_refuses({"trace", "summary", path});
  write_packed(path, R"({"traceEvents": )", std::string(1000, '['), 1000, "");
  check_refuses({"trace", "summary", path});
}

TEST_CASE("times and numbers out of bounds are counted, and there is an answer") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "odd.json";
  for (const char* time :
       {"\"ts\":9e99,\"dur\":1", "\"ts\":1,\"dur\":-1", "\"ts\":NaN,\"dur\":Infinity",
        "\"ts\":-2300000000000000,\"dur\":2300000000000000",
        "\"ts\":2300000000000000,\"dur\":2300000000000000", "\"ts\":{},\"dur\":[]",
        "\"ts\":1e-400,\"dur\":1e-400"}) {
    CAPTURE(time);
    write_file(path, std::string(R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k",)") + time +
                         R"(},{"ph":"X","cat":"kernel","name":"k","ts":5,"dur":3}]})");
    check_reports({"trace", "summary", path});
    check_reports({"trace", "summary", path, "--format", "json"});
  }
}

TEST_CASE("damaged profiles of every format end in good order") {
  const auto folder = find_data("traces");
  if (!folder) return;
  const char* files[] = {
      "kineto/hta_a100_event_sync_multi_stream.json.gz",
      "kineto/hta_cpu_only_rank34.json.gz",
      "nvprof/titanxp_cfd_default.csv",
      "nvprof/titanxp_babelstream_gpu_trace.txt.gz",
      "nsys/cutlass_gemm_a100pcie_nsys2023.2.sqlite",
      "chakra/param_mlp_et.json.gz",
      "chakra/astrasim_examples.tar.gz",
  };
  const TemporaryFolder work;
  Random random(11);
  for (const char* file : files) {
    const std::string original = read_file(*folder / file, 1 << 24);
    for (int copy = 0; copy < 6; ++copy) {
      std::string damaged =
          original.substr(0, copy % 2 == 0 ? original.size() : random.below(original.size() + 1));
      for (int flips = 0; flips < 4 * (copy % 3) && !damaged.empty(); ++flips) {
        char& byte = damaged[random.below(damaged.size())];
        byte = static_cast<char>(byte ^ (1 << random.below(8)));
      }
      CAPTURE(file);
      CAPTURE(copy);
      write_file(work.path() / "damaged", damaged);
      check_survives({"trace", "summary", work.path() / "damaged"});
      check_survives({"trace", "replay", work.path() / "damaged", "--gpu", "t4", "--from", "v100"});
    }
  }
}

}  // namespace tracecast::test
