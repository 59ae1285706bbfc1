#include "traces/nvprof/reader.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"
#include "tests/traces/text_source.hpp"
#include "traces/nvprof/table.hpp"
#include "traces/summary.hpp"

using namespace tracecast;
using namespace tracecast::traces;

namespace {

Trace read(const std::string& text) {
  test::TextSource source(text, 50);
  return read_nvprof(source, "log");
}

const std::string kBegin =
    "==1== NVPROF is profiling process 1, command: ./a\n==1== Profiling result:\n";

}  // namespace

TEST_CASE("a GPU trace as CSV: units come from their row, memory counts in powers of two") {
  const Trace trace =
      read(kBegin +
           "\"Start\",\"Duration\",\"Grid X\",\"Grid Y\",\"Grid Z\",\"Block X\",\"Block "
           "Y\",\"Block Z\",\"Registers Per Thread\","
           "\"Static SMem\",\"Dynamic "
           "SMem\",\"Size\",\"Throughput\",\"SrcMemType\",\"DstMemType\",\"Device\",\"Context\","
           "\"Stream\","
           "\"Name\",\"Correlation_ID\"\n"
           "s,ms,,,,,,,,B,KB,MB,GB/s,,,,,,,\n"
           "1.5,0.000992,,,,,,,,,,2,0.02,\"Pageable\",\"Device\",\"TITAN Xp "
           "(0)\",\"1\",\"7\",\"[CUDA memcpy HtoD]\",105\n"
           "1.6,0.25,506,2,1,192,1,1,24,16,1,,,,,\"TITAN Xp (1)\",\"1\",\"13\",\"f(int, "
           "\"\"g\"\")\",132\n"
           "1.7,0.001,,,,,,,,,,1,,,,\"TITAN Xp (0)\",\"1\",\"7\",\"[CUDA memset]\",133\n"
           "1.8,,,,,,,,,,,,,,,,,,\"[Unified Memory CPU page faults]\",\n");
  REQUIRE(trace.copies.size() == 1);
  CHECK(trace.copies.span[0] == Span{1'500'000'000, 992});
  CHECK(trace.copies.bytes[0] == 2 * 1024 * 1024);
  CHECK(trace.copies.kind[0] == CopyKind::HostToDevice);
  CHECK(trace.copies.memory[0] == HostMemory::Pageable);
  REQUIRE(trace.kernels.size() == 1);
  CHECK(trace.kernels.span[0] == Span{1'600'000'000, 250'000});
  CHECK(trace[trace.kernels.name[0]] == "f(int, \"g\")");
  CHECK(trace.streams[trace.kernels.stream[0].index] == Stream{1, 13});
  const Geometry& geometry = trace.geometries[trace.kernels.geometry[0].index];
  CHECK(geometry == Geometry{.grid = {506, 2, 1},
                             .block = {192, 1, 1},
                             .registers_per_thread = 24,
                             .shared_bytes = 16 + 1024});
  CHECK(trace.kernels.correlation[0] == 132);
  CHECK(trace.memsets.size() == 1);
  CHECK(trace.devices.size() == 2);
  CHECK(trace.left_out.at("unified-memory figure").count == 1);
}

TEST_CASE("a GPU trace as text: units stand behind the numbers, names may hold blanks") {
  const Trace trace = read(
      kBegin +
      "   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      "
      "Size  Throughput  "
      "SrcMemType  DstMemType           Device   Context    Stream  Name\n"
      "326.63ms  1.6782ms          (32768 1 1)      (1024 1 1)        14  8.0000KB        0B       "
      "  -           -           "
      "-           -     TITAN Xp (0)         1         7  void f<double>(double*, double) [128]\n"
      "335.79ms  1.7600us                    -               -         -         -         -  "
      "2.0000KB  1.0837GB/s      "
      "Device    Pageable     TITAN Xp (0)         1         7  [CUDA memcpy DtoH]\n"
      "\nRegs: Number of registers used per CUDA thread.\n");
  REQUIRE(trace.kernels.size() == 1);
  CHECK(trace.kernels.span[0] == Span{326'630'000, 1'678'200});
  CHECK(trace[trace.kernels.name[0]] == "void f<double>(double*, double)");
  CHECK(trace.kernels.correlation[0] == 128);
  CHECK(trace.geometries[trace.kernels.geometry[0].index].shared_bytes == 8192);
  REQUIRE(trace.copies.size() == 1);
  CHECK(trace.copies.bytes[0] == 2048);
  CHECK(trace.copies.kind[0] == CopyKind::DeviceToHost);
  CHECK(trace.copies.memory[0] == HostMemory::Pageable);
}

TEST_CASE(
    "sums are kept as sums, in CSV and in text, and the summary takes them for kernels and calls") {
  struct Row {
    const char* what;
    std::string table;
  };
  const Row rows[] = {
      {"CSV",
       "\"Type\",\"Time(%)\",\"Time\",\"Calls\",\"Avg\",\"Min\",\"Max\",\"Name\"\n,%,ms,,us,us,ms,"
       "\n"
       "\"GPU activities\",75,30,6,5000,1000,9,\"volta_sgemm_128x64_nn\"\n"
       "\"GPU activities\",25,10,2,5000,5000,5,\"[CUDA memcpy HtoD]\"\n"
       "\"API calls\",100,4,8,500,100,0.9,\"cudaLaunchKernel\"\n"},
      {"text",
       "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
       " GPU activities:   75.00%  30.000ms         6  5.0000ms  1.0000ms  9.0000ms  "
       "volta_sgemm_128x64_nn\n"
       "                   25.00%  10.000ms         2  5.0000ms  5.0000ms  5.0000ms  [CUDA memcpy "
       "HtoD]\n"
       "      API calls:  100.00%  4.0000ms         8  500.00us  100.00us  900.00us  "
       "cudaLaunchKernel\n"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Trace trace = read(kBegin + row.table);
    REQUIRE(trace.totals.size() == 3);
    CHECK(trace.totals.count[0] == 6);
    CHECK(trace.totals.ns[0] == 30'000'000);
    CHECK(trace.totals.least_ns[0] == 1'000'000);
    CHECK(trace.totals.most_ns[0] == 9'000'000);
    CHECK_FALSE(trace.totals.is_call[1]);
    CHECK(trace.totals.is_call[2]);
    const Summary summary = summarize(trace, KernelNames::builtin());
    CHECK(summary.kernels == 6);
    CHECK(summary.copies == 2);
    CHECK(summary.gpu_time_ns == 40'000'000);
    CHECK(summary.classes.front().kernel_class == KernelClass::Gemm);
    CHECK(summary.classes.front().share == doctest::Approx(0.75));
    CHECK(summary.call_kinds[static_cast<std::size_t>(CallKind::Launch)].count == 8);
  }
}

TEST_CASE("metrics separated by commas or tabs tell which convolution kernels ran, how often") {
  for (const std::string separator : {",", "\t"}) {
    const auto row = [&separator](const std::vector<std::string>& fields) {
      std::string text;
      for (const std::string& f : fields) text += (text.empty() ? "" : separator) + "\"" + f + "\"";
      return text + "\n";
    };
    const Trace trace =
        read(kBegin +
             row({"Device", "Kernel", "Invocations", "Metric Name", "Metric Description", "Min",
                  "Max", "Avg"}) +
             row({"Tesla K80 (0)", "void implicit_convolve_sgemm<float, int=3>(int, int)", "802",
                  "flop_count_dp", "x", "1", "9", "4"}) +
             row({"Tesla K80 (1)", "cudnn_convolve_sgemm_sm35_ldg_nn_64x16x64x16x16", "2",
                  "flop_count_dp", "x", "5", "5", "5"}) +
             row({"Tesla K80 (1)", "f", "many", "flop_count_dp", "x", "5", "5", "5"}));
    REQUIRE(trace.metrics.size() == 2);
    CHECK(trace.metrics.most[0] == 9);
    CHECK(trace.left_out.at("metric without a number").is_damage);
    const Summary summary = summarize(trace, KernelNames::builtin());
    CHECK(summary.kernels == 804);
    REQUIRE(summary.algorithms.size() == 2);
    REQUIRE(summary.metrics.size() == 1);
    CHECK(summary.metrics[0].sum == doctest::Approx(802 * 4 + 2 * 5));
  }
}

TEST_CASE("logs without a profile say so, and what is no log at all is refused") {
  const Trace failed = read(
      "==1== NVPROF is profiling process 1\nhello\n==1== Error: Internal profiling error "
      "4277:999.\n");
  CHECK(failed.left_out.at("error of nvprof: the profile is not complete").is_damage);
  CHECK(read(kBegin + "No kernels were profiled.\n")
            .left_out.count("message: No kernels were profiled.") == 1);
  CHECK_THROWS_AS((void)read("a,b,c\n1,2,3\n"), InputError);
  CHECK_THROWS_AS((void)read(std::string(3 << 20, 'x')), InputError);
}

TEST_CASE("a header of thousands of columns is none: rows would take forever") {
  std::string header = "\"Start\",\"Duration\",\"Name\"";
  for (int i = 0; i < 2000; ++i) header += ",\"c\"";
  const Trace trace = read(kBegin + header + "\n1,2,f\n");
  CHECK(trace.kernels.size() == 0);
  CHECK(trace.left_out.at("line that is no record (output of the program, legend)").count == 2);
}

TEST_CASE("numbers that are damaged count as damage") {
  const std::string header = "\"Start\",\"Duration\",\"Device\",\"Stream\",\"Name\"\ns,ms,,,\n";
  for (const std::string row :
       {"x,1,\"T (0)\",7,f\n", "1,,\"T (0)\",7,f\n", "1,-3,\"T (0)\",7,f\n",
        "1e300,1,\"T (0)\",7,f\n", "nan,1,\"T (0)\",7,f\n", "1,1,\"T (0)\",7,\n", "1\n"}) {
    CAPTURE(row);
    const Trace trace = read(kBegin + header + row);
    CHECK(trace.kernels.size() == 0);
    CHECK(trace.left_out.at("row without begin, duration or name").is_damage);
  }
}

TEST_CASE("times and sizes are read with the unit that they have") {
  using namespace nvprof;
  CHECK(time_ns("1.6782ms", "") == 1'678'200);
  CHECK(time_ns("3", "us") == 3000);
  CHECK_FALSE(time_ns("3", "KB"));
  CHECK_FALSE(time_ns("ms", "ms"));
  CHECK(bytes("2.0000KB", "") == 2048);
  CHECK(bytes("0.5", "GB") == 1 << 29);
  CHECK_FALSE(bytes("-", "B"));
}
