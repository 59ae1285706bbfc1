#pragma once
#include <string>
#include <vector>

#include "tests/traces/trace_text.hpp"
#include "traces/ranks/job.hpp"

namespace tracecast::test {

/// A collective's kernel on stream 20 of process group "0", with the record that PyTorch writes.
inline std::string nccl(const std::string& kind, int begin, int duration, int correlation,
                        std::int64_t elements, int group_size) {
  return event("kernel", "ncclDevKernel_" + kind + "_RING_LL", begin, duration,
               R"("device":0,"stream":20,"correlation":)" + std::to_string(correlation) +
                   R"(,"Collective name":")" + kind + R"(","In msg nelems":)" +
                   std::to_string(elements) + R"(,"Out msg nelems":)" + std::to_string(elements) +
                   R"(,"Group size":)" + std::to_string(group_size) +
                   R"(,"dtype":"Float","Process Group Name":"0")",
               20);
}

inline traces::CollectiveMatch match_of(const std::vector<traces::Trace>& traces) {
  std::vector<const traces::Trace*> pointers;
  std::vector<std::vector<traces::CollectiveKernel>> kernels;
  for (const traces::Trace& trace : traces) {
    pointers.push_back(&trace);
    const traces::LaunchIndex launches(trace);
    const auto infos = traces::classify_kernels(trace, traces::KernelNames::builtin(), launches);
    kernels.push_back(traces::find_collective_kernels(trace, infos, launches));
  }
  return traces::match_collectives(pointers, kernels);
}

}  // namespace tracecast::test
