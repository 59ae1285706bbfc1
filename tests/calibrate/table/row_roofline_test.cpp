#include "calibrate/table/row_roofline.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "calibrate/table/error_statistics.hpp"

TEST_SUITE_BEGIN("calibrate/table/row_roofline");

namespace tracecast {
namespace {

/// 100 TFLOP/s on tensor cores, 10 on CUDA cores, 1 TB/s.
GpuSpec round_gpu() {
  GpuSpec gpu;
  gpu.id = "round";
  gpu.peaks = {{Precision::Fp32, MathUnit::CudaCore, 10.0_TFLOPps},
               {Precision::Fp16, MathUnit::TensorCore, 100.0_TFLOPps}};
  gpu.dram_bandwidth = BytesPerSecond(1e12);
  return gpu;
}

Measurement measured(const GpuSpec& gpu, decltype(Measurement::work) work) {
  Measurement row;
  row.spec = &gpu;
  row.work = std::move(work);
  return row;
}

}  // namespace

TEST_CASE("a GEMM's rooflines are its arithmetic at the peak and each operand once") {
  const GpuSpec gpu = round_gpu();
  cost::TensorGemm gemm;
  // 2 * 1000 * 1000 * 5000 = 1e10 operations, 100 us; 2 * (5 + 5 + 1) MB = 22 us.
  gemm.m = 1000, gemm.n = 1000, gemm.k = 5000;
  GemmCall call;
  call.gemms = {gemm};
  auto roofline = roofline_of(measured(gpu, call));
  REQUIRE(roofline);
  CHECK(roofline->plain.in_us() == doctest::Approx(100));
  CHECK(roofline->three_constants.in_us() == doctest::Approx(100 / 0.75 + 3));
  // One row: 2 (5000 + 5e6 + 1000) bytes, 10.012 us, against 0.1 us.
  call.gemms[0].m = 1;
  roofline = roofline_of(measured(gpu, call));
  REQUIRE(roofline);
  CHECK(roofline->plain.in_us() == doctest::Approx(10.012));
  CHECK(roofline->three_constants.in_us() == doctest::Approx(10.012 / 0.8 + 3));
  call.is_power = true;
  CHECK_FALSE(roofline_of(measured(gpu, call)));
}

TEST_CASE("attention, experts and quantisation have theirs; whole steps none") {
  const GpuSpec gpu = round_gpu();
  DecodeWork decode;  // 1000 keys of 4 heads of 256 values: 2.048 MB, and 2 * 32 * 256 bytes of
                      // queries and results
  decode.keys = 1000, decode.heads = 32, decode.kv_heads = 4;
  auto roofline = roofline_of(measured(gpu, EngineCall{{decode}}));
  REQUIRE(roofline);
  CHECK(roofline->plain.in_us() == doctest::Approx(2.048 + 0.016384));
  PrefillWork
      prefill;  // 1000 * 1001 / 2 scores of 10 heads, 2 * 256 operations each, at 100 TFLOP/s
  prefill.tokens = 1000, prefill.heads = 10;
  roofline = roofline_of(measured(gpu, EngineCall{{prefill}}));
  REQUIRE(roofline);
  CHECK(roofline->plain.in_us() == doctest::Approx(500500.0 * 10 * 512 / 100e6));
  QuantizationWork downcast;  // read 2 bytes, write 1
  downcast.rows = 1000, downcast.cols = 1000;
  roofline = roofline_of(measured(gpu, EngineCall{{downcast}}));
  REQUIRE(roofline);
  CHECK(roofline->plain.in_us() == doctest::Approx(3));
  CHECK_FALSE(roofline_of(measured(gpu, EngineCall{})));
  CHECK_FALSE(roofline_of(measured(gpu, FrameworkStep{})));
}

TEST_CASE("of several ways to do an op the cheapest counts, of several kernels all") {
  const GpuSpec gpu = round_gpu();
  const auto kernel = [](double flops, double bytes) {
    Kernel k;
    k.math = Precision::Fp32;
    k.flops = Flops(flops);
    k.read = Bytes(bytes);
    return k;
  };
  IsolatedOp op;
  op.step.ops.resize(1);
  op.step.ops[0].candidates.resize(2);
  op.step.ops[0].candidates[0].kernels = {kernel(5e8, 0)};                    // 50 us
  op.step.ops[0].candidates[1].kernels = {kernel(1e8, 1e6), kernel(0, 1e7)};  // 10, 11 us
  const auto roofline = roofline_of(measured(gpu, op));
  REQUIRE(roofline);
  CHECK(roofline->plain.in_us() == doctest::Approx(11));
}

TEST_CASE("a mean of rooflines is of rows that all have them") {
  const std::vector<JudgedRow> rows = {{.error = 0.1, .plain_error = -0.5, .three_error = 0.2},
                                       {.error = -0.1, .plain_error = -0.3, .three_error = 0.4}};
  const ErrorStatistics all = summarize(rows);
  REQUIRE(all.plain_mape);
  CHECK(*all.plain_mape == doctest::Approx(0.4));
  CHECK(*all.three_mape == doctest::Approx(0.3));
  CHECK_FALSE(summarize({rows[0], {.error = 0.2}}).plain_mape);
}

}  // namespace tracecast
