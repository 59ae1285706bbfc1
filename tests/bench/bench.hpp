#pragma once
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

/// What the programs of this folder share: how they time and what line they print.
namespace tracecast::bench {

/// Whether the program was asked for one small repeat ("--smoke"); any other argument ends it.
inline bool is_smoke(int argc, char** argv) {
  if (argc == 1) return false;
  if (argc == 2 && std::strcmp(argv[1], "--smoke") == 0) return true;
  std::fprintf(stderr, "usage: %s [--smoke]\n", argv[0]);
  std::exit(2);
}

/// Ends the program when a result is wrong: a fast wrong answer is no answer.
inline void check(bool condition, const char* meaning) {
  if (condition) return;
  std::fprintf(stderr, "wrong result: %s\n", meaning);
  std::exit(1);
}

/// CPU time of this thread, or wall time, in seconds. CPU time does not see who else uses the
/// machine.
inline double clock_s(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t begin = line.find(": ");
    if (begin != std::string::npos) return line.substr(begin + 2);
  }
  return "unknown";
}

/// CPU and wall time of each repeat.
class Stopwatch {
 public:
  void start() {
    cpu_begin_ = clock_s(CLOCK_THREAD_CPUTIME_ID);
    wall_begin_ = clock_s(CLOCK_MONOTONIC);
  }
  void stop() {
    cpu_.push_back(clock_s(CLOCK_THREAD_CPUTIME_ID) - cpu_begin_);
    wall_.push_back(clock_s(CLOCK_MONOTONIC) - wall_begin_);
  }
  /// One JSON line: `name`, the amount of work per repeat in `unit`, CPU times, the rate at the
  /// median.
  void print(std::string_view name, std::string_view unit, double amount) {
    std::sort(cpu_.begin(), cpu_.end());
    std::sort(wall_.begin(), wall_.end());
    const double median = cpu_[cpu_.size() / 2];
    std::printf(
        "{\"bench\":\"%.*s\",\"%.*s\":%.0f,\"repeats\":%zu,\"cpu_min_s\":%.6g,"
        "\"cpu_median_s\":%.6g,\"cpu_max_s\":%.6g,\"wall_median_s\":%.6g,\"%.*s_per_s\":%.4g,"
        "\"compiler\":\"%s\",\"cpu\":\"%s\"}\n",
        static_cast<int>(name.size()), name.data(), static_cast<int>(unit.size()), unit.data(),
        amount, cpu_.size(), cpu_.front(), median, cpu_.back(), wall_[wall_.size() / 2],
        static_cast<int>(unit.size()), unit.data(), amount / median, __VERSION__,
        cpu_name().c_str());
  }

 private:
  double cpu_begin_ = 0, wall_begin_ = 0;
  std::vector<double> cpu_, wall_;
};

}  // namespace tracecast::bench
