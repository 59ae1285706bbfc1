#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "tests/traces/trace_text.hpp"

namespace tracecast::test {

/// A program that launches kernels in steps, one stream, times in microseconds.
struct Loop {
  enum class Wait { Never, Synchronize, Copy };
  int steps = 3, kernels = 10;      ///< kernels a step
  int kernel_us = 20, host_us = 5;  ///< host: before each launch
  int queue = 1024;                 ///< launches on their way; one more waits
  Wait wait = Wait::Never;          ///< at the end of each step
};

/// What a profiler records of it: launches of 4 us by themselves, kernels 6 us after their call or
/// 1 us after the one before; a wait returns 5 us after the GPU's end.
struct RecordedLoop {
  struct Call {
    std::string name;
    int begin = 0, end = 0, correlation = 0;
  };
  struct Work {
    bool is_copy = false;
    int begin = 0, end = 0, correlation = 0;
  };
  struct Step {
    int begin = 0, end = 0;
  };
  std::vector<Call> calls;
  std::vector<Work> work;
  std::vector<Step> steps;

  explicit RecordedLoop(const Loop& loop) {
    int host = 0;
    const auto launch = [&](const char* name, int duration, bool is_copy) {
      const int begin = host;
      const std::size_t queue = static_cast<std::size_t>(loop.queue);
      if (work.size() >= queue) host = std::max(host, work[work.size() - queue].end);
      const int free = work.empty() ? 0 : work.back().end + 1;
      const int start = std::max(host + 6, free);
      const int number = static_cast<int>(calls.size()) + 1;
      host += 4;
      calls.push_back({name, begin, host, number});
      work.push_back({is_copy, start, start + duration, number});
    };
    for (int s = 0; s < loop.steps; ++s) {
      const int begin = host;
      for (int k = 0; k < loop.kernels; ++k) {
        host += loop.host_us;
        launch("cudaLaunchKernel", loop.kernel_us, false);
      }
      if (loop.wait == Loop::Wait::Copy) {
        launch("cudaMemcpy", 2, true);
        host = std::max(host, work.back().end + 5);
        calls.back().end = host;
      } else if (loop.wait == Loop::Wait::Synchronize) {
        const int called = host;
        host = std::max(host, work.back().end) + 5;
        calls.push_back(
            {"cudaDeviceSynchronize", called, host, static_cast<int>(calls.size()) + 1});
      }
      steps.push_back({begin, host});
    }
  }

  /// As events of PyTorch's profiler.
  [[nodiscard]] std::string events() const {
    std::string text;
    for (std::size_t i = 0; i < steps.size(); ++i)
      text += event("user_annotation", "ProfilerStep#" + std::to_string(i), steps[i].begin,
                    steps[i].end - steps[i].begin) +
              ",\n";
    for (const Call& call : calls)
      text += event("cuda_runtime", call.name, call.begin, call.end - call.begin,
                    R"("correlation":)" + std::to_string(call.correlation)) +
              ",\n";
    for (const Work& one : work) {
      const std::string place =
          R"("device":0,"stream":7,"correlation":)" + std::to_string(one.correlation);
      text += one.is_copy ? event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", one.begin,
                                  one.end - one.begin, place + R"(,"bytes":4)", 7)
                          : event("kernel", "k", one.begin, one.end - one.begin, place, 7);
      text += ",\n";
    }
    text.resize(text.size() - 2);
    return text;
  }
};

}  // namespace tracecast::test
