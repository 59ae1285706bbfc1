#include "traces/idle_gaps.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/traces/trace_text.hpp"

using namespace tracecast;
using namespace tracecast::traces;
using test::event, test::kernel, test::launch, test::op, test::trace_of;

TEST_CASE("a gap is charged to what the host did from its begin to the next launch") {
  // Kernel 1 ends at 100 us, kernel 2 begins at 200 us: one gap of 100 us.
  const std::string kernels =
      kernel("a", 0, 100, 1) + "," + kernel("b", 200, 10, 2) + "," + launch(0, 5, 1);
  struct Row {
    const char* what;
    std::string host;
    IdleCause cause;
  };
  const Row rows[] = {
      {"the launch came before the gap", launch(90, 5, 2), IdleCause::Queue},
      {"operators up to the launch", op("aten::add", 100, 95, 1) + "," + launch(190, 5, 2),
       IdleCause::Launch},
      {"the loader, for more than half",
       op("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 100, 60, 1) + "," +
           launch(190, 5, 2),
       IdleCause::Input},
      {"the loader for less than half, operators for the rest",
       event("user_annotation", "enumerate(DataLoader)#x.__next__", 100, 40) + "," +
           op("aten::add", 140, 50, 1) + "," + launch(190, 5, 2),
       IdleCause::Launch},
      {"a synchronisation from before the gap into it",
       event("cuda_runtime", "cudaDeviceSynchronize", 50, 55) + "," + op("aten::add", 105, 90, 1) +
           "," + launch(190, 5, 2),
       IdleCause::Sync},
      {"a collective's call",
       event("user_annotation", "nccl:all_reduce", 110, 75) + "," + launch(190, 5, 2),
       IdleCause::Communication},
      {"nothing recorded", launch(190, 5, 2), IdleCause::Unrecorded},
      {"no launch recorded", op("aten::add", 100, 95, 1), IdleCause::Unknown},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Trace trace = trace_of(kernels + "," + row.host);
    const IdleTimes times =
        idle_times(trace, LaunchIndex(trace), Intervals::union_of(trace.kernels.span));
    for (std::size_t i = 0; i < kIdleCauseCount; ++i) {
      CAPTURE(to_string(static_cast<IdleCause>(i)));
      const bool is_it = static_cast<IdleCause>(i) == row.cause;
      CHECK(times[i].count == (is_it ? 1 : 0));
      CHECK(times[i].ns == (is_it ? 100'000 : 0));
    }
  }
}
