#include "hwspecs/loaders/gpu_loader.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/random.hpp"
#include "tests/hwspecs/spec_checks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/temporary_folder.hpp"

TEST_SUITE_BEGIN("hwspecs/loaders/gpu_loader");

namespace tracecast {
namespace {

/// A GPU that nobody sells: 10 SMs x 100 lanes would not divide, so 128 lanes; 10 x 128 x 2 x 2 GHz
/// = 5.12 TFLOP/s.
std::string invented_spec() {
  return R"spec(id: "invented_9000"
name: "Invented 9000"
alias: "inv9k"
sources { key: "us" title: "This test" where: "invented_spec()" }
architecture { value: HOPPER source: "us" }
compute_capability { value: "9.0" source: "us" }
release_year { value: 2030 source: "us" }
process_nm { value: 3 source: "us" }
sm_count { value: 10 source: "us" }
fp32_lanes_per_sm { value: 128 source: "us" }
warp_schedulers_per_sm { value: 4 source: "us" }
max_threads_per_sm { value: 2048 source: "us" }
max_blocks_per_sm { value: 32 source: "us" }
warp_size { value: 32 source: "us" }
registers_per_sm { value: 65536 source: "us" }
shared_memory_per_sm_kib { value: 128 source: "us" }
shared_memory_per_block_kib { value: 96 source: "us" }
base_clock_mhz { value: 1000 source: "us" }
boost_clock_mhz { value: 2000 source: "us" }
application_clock_mhz { value: 1500 source: "us" }
peak { precision: FP32 unit: CUDA_CORE tflop_per_s: 5.12 source: "us" }
peak { precision: FP16 unit: TENSOR_CORE tflop_per_s: 40 source: "us" }
l2_kib { value: 4096 source: "us" }
memory_mib { value: 8192 source: "us" }
memory_type { value: GDDR6 source: "us" }
dram_gb_per_s { value: 500 source: "us" }
ecc_default_on { value: true source: "us" }
ecc_bandwidth_fraction { value: 0.8 source: "us" }
pcie_gb_per_s { value: 31.5 source: "us" }
nvlink_gb_per_s { value: 0 source: "us" }
tdp_w { value: 200 source: "us" }
idle_w { value: 10 source: "us" }
dies_per_board { value: 1 source: "us" }
utilization_window_s { value: 0.1667 source: "us" }
chip: "GX900"
)spec";
}

std::string spec_error(const std::string& text) {
  try {
    (void)load_gpu_spec(text, "x.textproto");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

template <typename Action>
std::string input_error(Action&& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST_CASE("a spec keeps every value in SI, with its source") {
  const GpuSpec gpu = load_gpu_spec(invented_spec(), "x");
  CHECK(gpu.id == "invented_9000");
  CHECK(gpu.chip == "GX900");
  CHECK(gpu.compute_capability == 90);
  CHECK(gpu.boost_clock.in_mhz() == doctest::Approx(2000));
  CHECK(gpu.peak_fp32().in_tflop_per_s() == doctest::Approx(5.12));
  CHECK(gpu.find_peak(Precision::Fp16, MathUnit::TensorCore)->in_tflop_per_s() ==
        doctest::Approx(40));
  CHECK_FALSE(gpu.find_peak(Precision::Fp16, MathUnit::CudaCore).has_value());
  CHECK(gpu.memory.in_bytes() == 8192.0 * 1024 * 1024);
  CHECK(gpu.l2.in_bytes() == 4096.0 * 1024);
  CHECK(gpu.effective_bandwidth().in_gb_per_s() == doctest::Approx(400));  // 500 x 0.8, ECC on
  CHECK(gpu.fp32_lanes_per_scheduler() == 32);                             // 128 / 4
  CHECK_FALSE(gpu.has_utilization_window_1s);
  CHECK(gpu.values.size() == 30);  // 28 facts and two peaks
  for (const SpecValue& value : gpu.values) CHECK(value.source == "us");
}

TEST_CASE("a spec that lacks any one of its lines is refused, and the line named") {
  const std::string good = invented_spec();
  int facts = 0;
  for (std::size_t begin = 0; begin < good.size();) {
    const std::size_t end = good.find('\n', begin) + 1;
    const std::string line = good.substr(begin, end - begin);
    const std::string name = line.substr(0, line.find_first_of(": "));
    const std::string without = good.substr(0, begin) + good.substr(end);
    begin = end;
    if (name == "alias" || line.find("TENSOR_CORE") != line.npos) continue;  // optional
    CAPTURE(line);
    const std::string error = spec_error(without);
    CAPTURE(error);
    CHECK(error.starts_with("x.textproto"));
    if (name != "sources") CHECK(error.find(name) != error.npos);
    ++facts;
  }
  CHECK(facts == 33);  // id, name, chip, sources, 28 facts, the FP32 peak
}

TEST_CASE("what memory gives CUDA programs shrinks with the clock that the driver holds it at") {
  const std::string clocks =
      "memory_clock_mhz { value: 5000 source: \"us\" }\n"
      "compute_memory_clock_mhz { value: 4500 source: \"us\" }\n";
  const GpuSpec held = load_gpu_spec(invented_spec() + clocks, "x");
  CHECK(held.dram_bandwidth.in_gb_per_s() == doctest::Approx(450));  // 500 x 4500 / 5000
  CHECK(held.memory_clock->in_mhz() == doctest::Approx(4500));
  CHECK_THROWS_AS(
      (void)load_gpu_spec(
          invented_spec() + "compute_memory_clock_mhz { value: 4500 source: \"us\" }", "x"),
      InputError);
}

TEST_CASE("a wrong value is refused with its line and what was expected") {
  struct Row {
    const char* what;
    const char* from;
    const char* to;
    const char* place;
    const char* message;
  };
  const Row rows[] = {
      {"no SM", "sm_count { value: 10 ", "sm_count { value: 0 ", "x.textproto:9:", "1 to 4096"},
      {"negative", "l2_kib { value: 4096", "l2_kib { value: -4096", "x.textproto:23:", "l2_kib"},
      {"a slip of unit", "dram_gb_per_s { value: 500", "dram_gb_per_s { value: 500e9",
       "x.textproto:26:", "dram_gb_per_s"},
      {"not a number", "tdp_w { value: 200", "tdp_w { value: nan", "x.textproto:31:", "tdp_w nan"},
      {"infinite", "tdp_w { value: 200", "tdp_w { value: inf", "x.textproto:31:", "tdp_w inf"},
      {"overflows a double", "tdp_w { value: 200", "tdp_w { value: 1e999",
       "x.textproto:31:", "tdp_w"},
      {"no source", "warp_size { value: 32 source: \"us\" }", "warp_size { value: 32 }",
       "x.textproto:14:", "without a source"},
      {"an unknown source", "warp_size { value: 32 source: \"us\" }",
       "warp_size { value: 32 source: \"ux\" }", "x.textproto:14:", "us"},
      {"no value", "warp_size { value: 32 source: \"us\" }", "warp_size { source: \"us\" }",
       "x.textproto:14:", "without a value"},
      {"an unknown enumerator", "value: HOPPER", "value: HOPER",
       "x.textproto:5:", "nearest: HOPPER)"},
      {"a capability that is none", "\"9.0\"", "\"9\"", "x.textproto:6:", "major.minor"},
      {"threads that are no whole warps", "{ value: 2048", "{ value: 2047",
       "x.textproto:12:", "multiple of warp_size 32"},
      {"base above boost", "{ value: 1000 ", "{ value: 2001 ",
       "x.textproto:18:", "boost_clock_mhz 2000"},
      {"application above boost", "{ value: 1500 ", "{ value: 2500 ",
       "x.textproto:20:", "boost_clock_mhz 2000"},
      {"a block with more shared memory than an SM", "{ value: 96 ", "{ value: 129 ",
       "x.textproto:17:", "shared_memory_per_sm_kib 128"},
      {"idle above full power", "idle_w { value: 10 ", "idle_w { value: 201 ",
       "x.textproto:32:", "tdp_w 200"},
      {"a peak that lanes and clock do not give", "5.12", "5.4",
       "x.textproto:21:", "5.12 within 3 %"},
      {"a negative peak", "tflop_per_s: 40", "tflop_per_s: -40",
       "x.textproto:22:", "tflop_per_s -40"},
      {"a peak twice", "FP16 unit: TENSOR_CORE", "FP32 unit: CUDA_CORE",
       "x.textproto:22:", "second time"},
      {"tensor cores slower than CUDA cores", "FP16 unit: TENSOR_CORE tflop_per_s: 40",
       "FP32 unit: TENSOR_CORE tflop_per_s: 4", "x.textproto:22:", "at least the 5.12"},
      {"a peak of nothing", "precision: FP16 unit", "unit", "x.textproto:22:", "precision"},
      {"an id with a blank", "invented_9000", "invented 9000", "x.textproto:1:", "lower-case"},
      {"an alias in capitals", "inv9k", "Inv9k", "x.textproto:3:", "capital"},
      {"a source key twice", "architecture {",
       "sources { key: \"us\" title: \"a\" where: \"b\" } architecture {",
       "x.textproto:5:", "second time"},
      {"a source without a place", "where: \"invented_spec()\"", "", "x.textproto:4:", "where"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const std::string error = spec_error(test::replace(invented_spec(), row.from, row.to));
    CAPTURE(error);
    CHECK(error.starts_with(row.place));
    CHECK(error.find(row.message) != error.npos);
    CHECK(error.find('\n') == error.npos);
  }
}

TEST_CASE("a peak within 3 % of lanes times clock is accepted: vendors round") {
  CHECK_NOTHROW((void)load_gpu_spec(test::replace(invented_spec(), "5.12", "5.2"), "x"));  // +1.6 %
  CHECK_NOTHROW(
      (void)load_gpu_spec(test::replace(invented_spec(), "5.12", "4.98"), "x"));  // -2.7 %
}

TEST_CASE("a truncated or damaged spec is read or refused, never more") {
  const std::string good = invented_spec();
  Random random(7);
  for (std::size_t length = 0; length + 2 < good.size(); length += 13) {
    CAPTURE(length);
    CHECK(spec_error(good.substr(0, length)) != "accepted");
  }
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    for (int flips = 0; flips < 3; ++flips) {
      text[random.next() % text.size()] ^= static_cast<char>(1u << (random.next() % 8));
    }
    const std::string error = spec_error(text);  // anything but InputError ends the test
    CHECK(error.find('\n') == error.npos);
  }
}

TEST_CASE("every spec in the binary is valid and says for each value where it is from") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  CHECK(catalog.all().size() >= 30);
  for (const GpuSpec& gpu : catalog.all()) {
    CAPTURE(gpu.id);
    std::set<std::string> used;
    for (const SpecValue& value : gpu.values) used.insert(value.source);
    for (const SpecSource& source : gpu.sources) {
      CAPTURE(source.key);
      CHECK(used.contains(source.key));
    }
    // What the cost model divides by or scales with.
    CHECK(gpu.base_clock.in_mhz() >= 500);
    CHECK(gpu.memory.in_gib() > 3);
    CHECK(catalog.find(gpu.id).id == gpu.id);
    CHECK(catalog.find(gpu.name).id == gpu.id);  // as nvidia-smi writes it
    for (const std::string& alias : gpu.aliases) CHECK(catalog.find(alias).id == gpu.id);
  }
}

TEST_CASE("published figures follow from the specs") {
  struct Row {
    const char* id;
    double fp32_tflops;  // sm_count x lanes x 2 x boost
    double ridge;        // FP32 peak over effective bandwidth, FLOP per byte
    int resident_warps;  // sm_count x max_threads / 32
  };
  const Row rows[] = {
      {"k40m", 15 * 192 * 2 * 0.875e-3, 5040 / (288 * 0.8), 15 * 64},
      {"k80", 13 * 192 * 2 * 0.875e-3, 4368 / (240 * 0.8), 13 * 64},
      {"p100_pcie_12gb", 56 * 64 * 2 * 1.303e-3, 9339.904 / 549, 56 * 64},
      {"p100_pcie_16gb", 56 * 64 * 2 * 1.303e-3, 9339.904 / 732, 56 * 64},
      {"v100_sxm2_16gb", 80 * 64 * 2 * 1.530e-3, 15667.2 / 900, 80 * 64},
      {"t4", 40 * 64 * 2 * 1.590e-3, 8140.8 / (320 * 0.85), 40 * 32},
      {"a100_pcie_40gb", 108 * 64 * 2 * 1.410e-3, 19491.84 / 1555, 108 * 64},
      {"gtx1080ti", 28 * 128 * 2 * 1.582e-3, 11339.776 / (484 * 5005 / 5505.0), 28 * 64},
  };
  const GpuCatalog catalog = GpuCatalog::embedded();
  for (const Row& row : rows) {
    CAPTURE(row.id);
    const GpuSpec& gpu = catalog.find(row.id);
    CHECK(gpu.peak_fp32().in_tflop_per_s() == doctest::Approx(row.fp32_tflops).epsilon(1e-4));
    CHECK((gpu.peak_fp32() / gpu.effective_bandwidth()).in_flop_per_byte() ==
          doctest::Approx(row.ridge).epsilon(1e-4));
    CHECK(gpu.sm_count * gpu.max_threads_per_sm / gpu.warp_size == row.resident_warps);
  }
  // 640 tensor cores x 64 multiply-adds x 2 x 1530 MHz = 125.3 TFLOP/s.
  CHECK(catalog.find("v100").find_peak(Precision::Fp16, MathUnit::TensorCore)->in_tflop_per_s() ==
        doctest::Approx(125.3).epsilon(0.01));
  CHECK(catalog.find("t4").fp32_lanes_per_scheduler() == 16);
  CHECK(catalog.find("l4").fp32_lanes_per_scheduler() == 32);
  CHECK(catalog.find("k80").registers_per_sm == 131072);
  CHECK(catalog.find("k80").dies_per_board == 2);
}

TEST_CASE("limits of an SM follow from its compute capability") {
  struct Row {
    int capability, lanes, threads, blocks, shared_kib, block_kib;
    double fp64_share;  // of the FP32 rate; boards for export have less
  };
  // CUDA C++ Programming Guide 12.9: Technical Specifications per Compute Capability, Throughput of
  // Native Arithmetic Instructions.
  const Row rows[] = {
      {30, 192, 2048, 16, 48, 48, 1. / 24},   {35, 192, 2048, 16, 48, 48, 1. / 3},
      {37, 192, 2048, 16, 112, 48, 1. / 3},   {52, 128, 2048, 32, 96, 48, 1. / 32},
      {60, 64, 2048, 32, 64, 48, 1. / 2},     {61, 128, 2048, 32, 96, 48, 1. / 32},
      {70, 64, 2048, 32, 96, 96, 1. / 2},     {75, 64, 1024, 16, 64, 64, 1. / 32},
      {80, 64, 2048, 32, 164, 163, 1. / 2},   {86, 128, 1536, 16, 100, 99, 1. / 64},
      {89, 128, 1536, 24, 100, 99, 1. / 64},  {90, 128, 2048, 32, 228, 227, 1. / 2},
      {100, 128, 2048, 32, 228, 227, 1. / 2}, {103, 128, 2048, 32, 228, 227, 1. / 60},
      {120, 128, 1536, 24, 100, 99, 1. / 64},
  };
  const GpuCatalog catalog = GpuCatalog::embedded();
  for (const GpuSpec& gpu : catalog.all()) {
    CAPTURE(gpu.id);
    const Row* row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) {
      return r.capability == gpu.compute_capability;
    });
    REQUIRE(row != std::end(rows));
    CHECK(gpu.fp32_lanes_per_sm == row->lanes);
    CHECK(gpu.max_threads_per_sm == row->threads);
    CHECK(gpu.max_blocks_per_sm == row->blocks);
    CHECK(gpu.shared_memory_per_sm == Bytes(1024.0 * row->shared_kib));
    CHECK(gpu.shared_memory_per_block == Bytes(1024.0 * row->block_kib));
    const double fp64 = *gpu.find_peak(Precision::Fp64, MathUnit::CudaCore) / gpu.peak_fp32();
    CHECK(fp64 < 1.05 * row->fp64_share);
  }
}

TEST_CASE("tensor cores do a power of two of multiply-adds a clock, formats in whole ratios") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  for (const GpuSpec& gpu : catalog.all()) {
    const auto fp16 = gpu.find_peak(Precision::Fp16, MathUnit::TensorCore);
    if (!fp16) continue;
    CAPTURE(gpu.id);
    // Documents print some rates at a clock below the boost clock: H100 and H200 by up to 8 %,
    // their NVL boards by 13 %.
    const double a_clock = *fp16 / gpu.peak_fp32() * gpu.fp32_lanes_per_sm;
    CHECK(a_clock > (gpu.id.find("_nvl_") == std::string::npos ? 0.92 : 0.86) *
                        std::exp2(std::round(std::log2(a_clock))));
    CHECK(a_clock < 1.01 * std::exp2(std::round(std::log2(a_clock))));
    const auto ratio = [&](Precision precision) {
      const auto rate = gpu.find_peak(precision, MathUnit::TensorCore);
      return rate ? *rate / *fp16 : 0.0;
    };
    for (const double found : {2 * ratio(Precision::Tf32), ratio(Precision::Fp8) / 2}) {
      if (found > 0) CHECK(found == doctest::Approx(1).epsilon(0.03));
    }
    // Turing's and Ampere's GeForce boards halve FP16 with FP32 sums, not INT8; Blackwell Ultra
    // gave INT8 up.
    CHECK(ratio(Precision::Int8) < 4.1);
  }
}

TEST_CASE("nothing in a spec is beyond what such boards are like") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  for (const GpuSpec& gpu : catalog.all()) {
    CAPTURE(gpu.id);
    CHECK(gpu.base_clock <= gpu.boost_clock);
    CHECK(gpu.application_clock <= gpu.boost_clock);
    CHECK(gpu.idle_power.in_w() < 0.25 * gpu.tdp.in_w());
    const double watts_per_sm = gpu.tdp.in_w() / gpu.sm_count;
    CHECK(watts_per_sm > 1);
    CHECK(watts_per_sm < 20);
    const double ridge = (gpu.peak_fp32() / gpu.dram_bandwidth).in_flop_per_byte();
    CHECK(ridge > 5);
    CHECK(ridge < 110);
    CHECK(gpu.l2.in_mib() * 1024 >= 16 * gpu.sm_count);
    CHECK(gpu.nvlink_bandwidth.in_gb_per_s() <= 900);
  }
}

TEST_CASE("words find a GPU without regard to case and separators") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const std::pair<const char*, const char*> rows[] = {
      {"v100", "v100_sxm2_16gb"},
      {"V100-SXM2-16GB", "v100_sxm2_16gb"},
      {"p100", "p100_pcie_16gb"},
      {"P100-PCIe-12GB", "p100_pcie_12gb"},
      {"K40", "k40m"},
      {"a100", "a100_sxm4_80gb"},  // the module, as of v100 and h100
      {"GTX 1080 Ti", "gtx1080ti"},
      {"1080Ti", "gtx1080ti"},
      {"h100_sxm5", "h100_sxm5_80gb"},  // whole-word beginning of one id
      {"Tesla.T4", "t4"},
      {"Titan X (Pascal)", "titanx_pascal"},
  };
  for (const auto& row : rows) {
    const auto& [word, id] = row;
    CAPTURE(row.first);
    CHECK(catalog.find(word).id == id);
  }
}

TEST_CASE("a word that names no GPU, or several, is refused with the nearest") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const auto error = [&](const char* word) {
    return input_error([&] { (void)catalog.find(word); });
  };
  CHECK(error("v1000").find("nearest: v100)") != std::string::npos);
  CHECK(error("v10").find("nearest: v100)") != std::string::npos);  // an alias; a10 is as near
  CHECK(error("rtx 4098").find("nearest: rtx_4090)") != std::string::npos);
  CHECK(error("h100_pci").find("nearest: h100_pcie)") != std::string::npos);  // begins one id
  CHECK(error("titanx").find("titanx_maxwell, titanx_pascal") != std::string::npos);
  CHECK(error("") != "accepted");
  CHECK(error("_") != "accepted");
  CHECK(error("radeon\nvii").find('\n') == std::string::npos);
}

TEST_CASE("one new file is all a new GPU needs") {
  const test::TemporaryFolder folder;
  write(folder.path() / "invented.textproto", invented_spec());
  write(folder.path() / "notes.txt", "not a spec");
  GpuCatalog catalog = GpuCatalog::embedded();
  const std::size_t before = catalog.all().size();
  catalog.add_folder(folder.path());
  CHECK(catalog.all().size() == before + 1);
  CHECK(catalog.find("INV9K").sm_count == 10);
  CHECK(catalog.find("v100").sm_count == 80);  // the others are still there
}

TEST_CASE("a file with a known id replaces the spec in the binary") {
  const test::TemporaryFolder folder;
  write(folder.path() / "t4.textproto",
        test::replace(test::replace(test::replace(invented_spec(), "invented_9000", "t4"),
                                    "Invented 9000", "Tesla T4"),
                      "inv9k", "my t4"));
  GpuCatalog catalog = GpuCatalog::embedded();
  const std::size_t before = catalog.all().size();
  catalog.add_folder(folder.path());
  CHECK(catalog.all().size() == before);
  CHECK(catalog.find("t4").sm_count == 10);
}

TEST_CASE("a folder that is refused leaves the catalog as it was") {
  const test::TemporaryFolder folder;
  write(folder.path() / "a.textproto", invented_spec());
  GpuCatalog catalog = GpuCatalog::embedded();
  const std::size_t before = catalog.all().size();
  const auto error = [&] { return input_error([&] { catalog.add_folder(folder.path()); }); };

  write(folder.path() / "b.textproto", invented_spec());
  CHECK(error().find("a.textproto") != std::string::npos);  // the same id twice

  write(folder.path() / "b.textproto", test::replace(invented_spec(), "invented_9000", "other"));
  CHECK(error().find("inv9k") != std::string::npos);  // the same alias on two GPUs

  write(folder.path() / "b.textproto", "sm_count {");
  CHECK(error().find("b.textproto:1:") != std::string::npos);

  std::filesystem::remove(folder.path() / "b.textproto");
  std::filesystem::create_directory(folder.path() / "b.textproto");
  CHECK(error().find("b.textproto") != std::string::npos);  // a folder named like a spec

  CHECK(catalog.all().size() == before);
  CHECK(input_error([&] { (void)catalog.find("inv9k"); }) != "accepted");
  CHECK(input_error([&] { catalog.add_folder(folder.path() / "absent"); }).find("absent") !=
        std::string::npos);
}

TEST_CASE("every spelling in the measured tables finds the GPU it belongs to") {
  const auto path = test::find_data("ids.csv");
  if (!path) return;
  const GpuCatalog catalog = GpuCatalog::embedded();
  std::set<std::string> ids;
  for (const GpuSpec& gpu : catalog.all()) ids.insert(gpu.id);
  std::ifstream file(*path);
  std::string kind, canonical, written, rest;
  int found = 0;
  while (std::getline(file, kind, ',') && std::getline(file, canonical, ',') &&
         std::getline(file, written, ',') && std::getline(file, rest)) {
    if (kind != "gpu") continue;
    CAPTURE(written);
    // A canonical id that names a family (v100) is an alias of the member meant.
    const std::string report = input_error([&] {
      const std::string& id = catalog.find(written).id;
      CHECK(id == catalog.find(canonical).id);
      if (ids.contains(canonical)) CHECK(id == canonical);
    });
    CHECK(report == "accepted");
    ++found;
  }
  CHECK(found >= 90);
}

}  // namespace
}  // namespace tracecast

TEST_SUITE_END();
