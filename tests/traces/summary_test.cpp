#include "traces/summary.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/traces/trace_text.hpp"

using namespace tracecast;
using namespace tracecast::traces;
using test::event, test::kernel, test::launch, test::trace_of;

namespace {

const std::string kAdd = "void at::native::vectorized_elementwise_kernel<4, AddFunctor>(int)";
const std::string kReduce = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)";

/// Two streams: an elementwise kernel 0 to 100 us, a collective 50 to 250 beside and after it, a
/// GEMM 300 to 340; a copy 80 to 120 and one 400 to 420.
Trace two_streams() {
  return trace_of(kernel(kAdd, 0, 100, 1) + "," + kernel(kReduce, 50, 200, 2, 0, 20) + "," +
                  kernel("volta_sgemm_128x64_nn", 300, 40, 3) + "," +
                  event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 80, 40,
                        R"("device":0,"stream":9,"bytes":40000)") +
                  "," +
                  event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 400, 20,
                        R"("device":0,"stream":9,"bytes":60000)") +
                  "," + launch(0, 6, 1) + "," + launch(40, 4, 2) + "," +
                  event("cuda_runtime", "cudaMalloc", 60, 30) + "," +
                  event("user_annotation", "ProfilerStep#2", 200, 150) + "," +
                  event("user_annotation", "ProfilerStep#1", 0, 200) + "," +
                  event("gpu_user_annotation", "ProfilerStep#1", 0, 200));
}

const ClassTime* find(const Summary& summary, KernelClass wanted) {
  for (const ClassTime& c : summary.classes) {
    if (c.kernel_class == wanted) return &c;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("counts, span, busy time and steps of a small trace") {
  const Summary s = summarize(two_streams(), KernelNames::builtin());
  CHECK(s.kernels == 3);
  CHECK(s.distinct_kernels == 3);
  CHECK(s.collective_kernels == 1);
  CHECK(s.streams == 2);  // the copies' stream ran no kernel
  CHECK(s.span_ns == 340'000);
  CHECK(s.busy_ns == 290'000);       // 0 to 250 and 300 to 340
  CHECK(s.concurrent_ns == 50'000);  // 50 to 100
  CHECK(s.most_concurrent == 2);
  CHECK(s.collective_alone_ns == 150'000);  // 100 to 250
  CHECK(s.work_span_ns == 420'000);
  CHECK(s.idle_ns == 110'000);   // 250 to 300 and 340 to 400
  REQUIRE(s.steps.size() == 2);  // in order of time, the GPU's marks left out
  CHECK(s.steps[0].name == "ProfilerStep#1");
  CHECK(s.steps[1].tally.ns == 150'000);
}

TEST_CASE("shares are of all GPU time, and calls are told apart by what they are for") {
  const Summary s = summarize(two_streams(), KernelNames::builtin());
  CHECK(s.gpu_time_ns == 400'000);  // 100 + 200 + 40 + 40 + 20
  REQUIRE(find(s, KernelClass::Collective) != nullptr);
  CHECK(find(s, KernelClass::Collective)->share == doctest::Approx(0.5));
  CHECK(find(s, KernelClass::Gemm)->kernels.ns == 40'000);
  CHECK(find(s, KernelClass::Copy)->kernels.count == 2);
  CHECK(s.classes.front().kernel_class == KernelClass::Collective);
  const auto calls = [&s](CallKind kind) { return s.call_kinds[static_cast<std::size_t>(kind)]; };
  CHECK(calls(CallKind::Launch).count == 2);
  CHECK(calls(CallKind::Launch).ns == 10'000);
  CHECK(calls(CallKind::Memory).ns == 30'000);
}

TEST_CASE("copies tell bytes, rate and how much of them kernels covered") {
  const Summary s = summarize(two_streams(), KernelNames::builtin());
  REQUIRE(s.copy_kinds.size() == 1);
  const CopyTime& copies = s.copy_kinds[0];
  CHECK(copies.kind == CopyKind::HostToDevice);
  CHECK(copies.memory == HostMemory::Pinned);
  CHECK(copies.bytes == 100'000);
  CHECK(copies.sized_ns == 60'000);
  CHECK(copies.beside_kernels_ns == 40'000);  // the first whole, the second not at all
}

TEST_CASE("ranks together: counts and times add up, the clock is the first rank's") {
  const KernelNames names = KernelNames::builtin();
  const Summary one = summarize(two_streams(), names);
  const Summary other = summarize(trace_of(kernel("volta_sgemm_128x64_nn", 0, 400, 1)), names);
  const Summary both = summarize_ranks({one, other});
  CHECK(both.kernels == 4);
  CHECK(both.gpu_time_ns == 800'000);
  CHECK(both.span_ns == one.span_ns);
  CHECK(both.steps.size() == 2);
  CHECK(both.classes.front().kernel_class == KernelClass::Gemm);
  CHECK(both.classes.front().kernels.ns == 440'000);
  CHECK(both.classes.front().share == doctest::Approx(0.55));
}

TEST_CASE("a kernel recorded as longer than later ones of its stream is counted with them") {
  struct Row {
    const char* what;
    std::string events;
    std::uint64_t overrunning, overrun;
  };
  const auto train = [](int begin, int count, int stream = 7) {
    std::string events;
    for (int i = 0; i < count; ++i) {
      events += "," + kernel(kAdd, begin + 10 * i, 8, i + 2, 0, stream);
    }
    return events;
  };
  const Row rows[] = {
      {"one after the other", kernel(kAdd, 0, 5, 1) + train(10, 33), 0, 0},
      {"over 33 successors", kernel(kAdd, 0, 1000, 1) + train(10, 33), 1, 33},
      {"over 33 of another stream", kernel(kAdd, 0, 1000, 1) + train(10, 33, 8), 0, 0},
      {"over some of them", kernel(kAdd, 0, 48, 1) + train(10, 33), 1,
       3},  // those that end at 18, 28, 38; the next ends with it
      {"into its successor alone, as dependent launches do", kernel(kAdd, 0, 12, 1) + train(10, 33),
       0, 0},
      {"two of them",
       kernel(kAdd, 0, 25, 1) + train(10, 1) + "," + kernel(kAdd, 100, 40, 40) + "," +
           kernel(kAdd, 110, 5, 41) + "," + kernel(kAdd, 120, 5, 42),
       2, 3},
      {"listed out of order", kernel(kAdd, 10, 5, 2) + "," + kernel(kAdd, 0, 100, 1), 1, 1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Summary s = summarize(trace_of(row.events), KernelNames::builtin());
    CHECK(s.overrunning == row.overrunning);
    CHECK(s.overrun == row.overrun);
    const Summary both = summarize_ranks({s, s});
    CHECK(both.overrun == 2 * row.overrun);
  }
}

TEST_CASE("a trace without GPU work has a summary as well") {
  const Summary s = summarize(trace_of(launch(0, 5, 1)), KernelNames::builtin());
  CHECK(s.kernels == 0);
  CHECK(s.span_ns == 0);
  CHECK(s.classes.empty());
}
