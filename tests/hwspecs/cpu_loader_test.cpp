#include "hwspecs/loaders/cpu_loader.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/hwspecs/spec_checks.hpp"

TEST_SUITE_BEGIN("hwspecs/loaders/cpu_loader");

namespace tracecast {
namespace {

std::string invented_cpu() {
  return R"spec(id: "invented_4"
name: "Invented 4"
sources { key: "us" title: "This test" where: "invented_cpu()" }
microarchitecture { value: "haswell" source: "us" }
release_year { value: 2014 source: "us" }
cores { value: 4 source: "us" }
threads { value: 8 source: "us" }
base_clock_mhz { value: 2000 source: "us" }
turbo_clock_mhz { value: 3000 source: "us" }
all_core_clock_mhz { value: 2500 source: "us" }
vector_clock_mhz { value: 2200 source: "us" }
single_thread_ipc { value: 1.1 source: "us" }
vector_isa { value: AVX2 source: "us" }
fp32_flop_per_cycle { value: 32 source: "us" }
bf16_flop_per_cycle { value: 0 source: "us" }
int8_op_per_cycle { value: 0 source: "us" }
l1d_kib { value: 32 source: "us" }
l2_kib { value: 256 source: "us" }
l3_kib { value: 10240 source: "us" }
memory_channels { value: 2 source: "us" }
memory_gb_per_s { value: 34.1 source: "us" }
max_memory_gib { value: 64 source: "us" }
pcie_generation { value: 3 source: "us" }
pcie_lanes { value: 16 source: "us" }
tdp_w { value: 65 source: "us" }
)spec";
}

std::string error_of(const std::string& from, const std::string& to) {
  return test::input_error(
      [&] { (void)load_cpu_spec(test::replace(invented_cpu(), from, to), "x.textproto"); });
}

TEST_CASE("a CPU's peak and single-thread speed follow from its clocks") {
  const CpuSpec cpu = load_cpu_spec(invented_cpu(), "x");
  CHECK(cpu.peak_fp32().in_tflop_per_s() == doctest::Approx(0.2816));  // 4 x 32 x 2.2 GHz
  CHECK(cpu.single_thread_speed().in_mhz() == doctest::Approx(3300));  // 3000 x 1.1
  CHECK(cpu.max_memory.in_gib() == doctest::Approx(64));
  CHECK(cpu.values.size() == 22);
}

TEST_CASE("a CPU spec that is wrong is refused in one line that says where and why") {
  struct Row {
    const char* what;
    const char* from;
    const char* to;
    const char* message;
  };
  const Row rows[] = {
      {"half a hardware thread", "threads { value: 8", "threads { value: 6", ":7: found threads 6"},
      {"base above all-core", "base_clock_mhz { value: 2000", "base_clock_mhz { value: 2600",
       "at most all_core_clock_mhz 2500"},
      {"all-core above turbo", "all_core_clock_mhz { value: 2500",
       "all_core_clock_mhz { value: 3100", "at most turbo_clock_mhz 3000"},
      {"vectors faster than scalars", "vector_clock_mhz { value: 2200",
       "vector_clock_mhz { value: 2600", "at most all_core_clock_mhz 2500"},
      {"AVX with multiply-adds it has not", "value: AVX2", "value: AVX", "fp32_flop_per_cycle 32"},
      {"NEON wider than it is", "value: AVX2 source: \"us\" }\nfp32_flop_per_cycle { value: 32",
       "value: NEON source: \"us\" }\nfp32_flop_per_cycle { value: 64", "8 or 16 or 32 with neon"},
      {"vectors of nobody", "value: AVX2", "value: AVX3", "nearest: AVX)"},
      {"a slip of unit", "memory_gb_per_s { value: 34.1", "memory_gb_per_s { value: 341",
       "at most 60 for each of 2"},
      {"no cores", "cores { value: 4", "cores { value: 0", "1 to 1024"},
      {"a missing fact", "tdp_w { value: 65 source: \"us\" }", "", "no tdp_w"},
      {"no source", "tdp_w { value: 65 source: \"us\" }", "tdp_w { value: 65 }",
       "without a source"},
      {"not a number", "tdp_w { value: 65", "tdp_w { value: nan", "tdp_w nan"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const std::string error = error_of(row.from, row.to);
    CAPTURE(error);
    CHECK(error.starts_with("x.textproto"));
    CHECK(error.find(row.message) != error.npos);
    CHECK(error.find('\n') == error.npos);
  }
}

TEST_CASE("every CPU in the binary is valid, found by its names, and sourced") {
  const CpuCatalog catalog = CpuCatalog::embedded();
  CHECK(catalog.all().size() >= 30);
  test::check_catalog(catalog);
}

TEST_CASE("published peaks follow from the CPU specs") {
  const CpuCatalog catalog = CpuCatalog::embedded();
  // 20 cores x 64 x 2.2 GHz; 6 x 8 bytes x 2666 MT/s.
  CHECK(catalog.find("gold_6148").peak_fp32().in_tflop_per_s() == doctest::Approx(2.816));
  CHECK(catalog.find("Gold 6148").memory_bandwidth.in_gb_per_s() ==
        doctest::Approx(128).epsilon(0.001));
  // 14 cores x 32 x 2.9 GHz.
  CHECK(catalog.find("e5_2697_v3").peak_fp32().in_tflop_per_s() == doctest::Approx(1.2992));
  // AVX without fused multiply-adds halves it: 8 x 16 x 3.6 GHz.
  CHECK(catalog.find("e5_2667_v2").peak_fp32().in_tflop_per_s() == doctest::Approx(0.4608));
  // 72 cores x 32 x 3.0 GHz.
  CHECK(catalog.find("grace").peak_fp32().in_tflop_per_s() == doctest::Approx(6.912));
  CHECK(to_string(catalog.find("grace").vector_isa) == "sve");
  // Newer cores at the same clock run ordinary code faster.
  CHECK(catalog.find("gold_6148").single_thread_speed() >
        catalog.find("e5_2697_v3").single_thread_speed());
}

TEST_CASE("words find a CPU; an unknown one is answered with the nearest") {
  const CpuCatalog catalog = CpuCatalog::embedded();
  CHECK(catalog.find("E5-2667").id == "e5_2667_v4");  // 16 cores on two sockets at 3.2 GHz
  CHECK(catalog.find("Xeon Gold 6148").id == "gold_6148");
  CHECK(catalog.find("threadripper").id == "threadripper_3970x");
  const auto error = [&](const char* word) {
    return test::input_error([&] { (void)catalog.find(word); });
  };
  CHECK(error("e5_2680").find("e5_2680_v2, e5_2680_v3, e5_2680_v4") != std::string::npos);
  CHECK(error("gold 6149").find("nearest: gold_6148") != std::string::npos);
  CHECK(error("gold 6149").starts_with("cpu: "));
}

}  // namespace
}  // namespace tracecast

TEST_SUITE_END();
