#include "traces/diff.hpp"

#include <doctest/doctest.h>

#include "tests/traces/trace_text.hpp"

namespace tracecast {
namespace {

using namespace test;

traces::Recording of(const std::string& events) {
  traces::Recording recording;
  recording.traces.push_back(trace_of(events));
  return recording;
}

TEST_SUITE_BEGIN("traces/diff");

TEST_CASE("differences by class, kernel and operator, the largest first") {
  // A: 100 us of GEMM, 30 of addition. B: the GEMM in two of 35, the addition in 90, a new one
  // of 5.
  const auto a = of(op("aten::mm", 0, 20, 1) + "," + launch(5, 2, 1) + "," + launch(30, 2, 2) +
                    "," + kernel("volta_sgemm_128x64_nn", 10, 100, 1, 1) + "," +
                    kernel("vectorized_elementwise_kernel", 110, 30, 2));
  const auto b = of(op("aten::mm", 0, 20, 1) + "," + launch(5, 2, 1) + "," + launch(8, 2, 2) + "," +
                    kernel("volta_sgemm_64x64_nn", 10, 35, 1, 1) + "," +
                    kernel("volta_sgemm_64x64_nn", 45, 35, 2, 1) + "," +
                    kernel("vectorized_elementwise_kernel", 80, 90, 3) + "," +
                    event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 0, 5, R"("bytes":10)"));
  const traces::Diff d = traces::diff(a, b, traces::KernelNames::builtin());
  REQUIRE(d.classes.size() == 3);
  CHECK(d.classes[0].name == "elementwise");
  CHECK(d.classes[0].difference_ns() == 60'000);
  CHECK(d.classes[1].name == "gemm");
  CHECK(d.classes[1].difference_ns() == -30'000);
  CHECK(d.classes[1].a.count == 1);
  CHECK(d.classes[1].b.count == 2);
  CHECK(d.classes[2].appeared());
  REQUIRE(d.kernels.size() == 4);
  CHECK(d.kernels[0].name == "volta_sgemm_128x64_nn");
  CHECK(d.kernels[0].vanished());
  CHECK(d.kernels[1].name == "volta_sgemm_64x64_nn");
  CHECK(d.kernels[1].appeared());
  CHECK(d.kernels[3].name == "copy host_to_device");
  REQUIRE(d.operators.size() == 2);
  CHECK(d.operators[0].name.empty());  // 30 in A, 90 + 5 in B
  CHECK(d.operators[0].difference_ns() == 65'000);
  CHECK(d.operators[1].name == "aten::mm");
  CHECK(d.operators[1].difference_ns() == -30'000);
  REQUIRE(d.calls.size() == 1);
  CHECK(d.calls[0].difference_ns() == 0);
  // A's GPU works without a gap; B's has one from 5 to 10 us.
  REQUIRE(d.idle.size() == 1);
  CHECK(d.idle[0].b.ns == 5'000);
}

TEST_CASE("a recording differs from itself by nothing") {
  const auto a = of(launch(5, 2, 1) + "," + kernel("k", 10, 100, 1));
  const traces::Diff d = traces::diff(a, a, traces::KernelNames::builtin());
  for (const auto* list : {&d.classes, &d.kernels, &d.operators, &d.calls, &d.idle}) {
    for (const traces::Change& change : *list) CHECK(change.difference_ns() == 0);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
