#pragma once
#include <cstdint>

/// What the fake driver offers beside NVIDIA's names: one call stands for a call of the runtime and
/// all that it causes. Every thread has a host clock of its own that begins at kFakeBegin; calls
/// take 4 us and begin 10 us apart; work begins 2 us after its call at the earliest, in the order
/// of its stream. So all times are known beforehand.
namespace tracecast::test {

inline constexpr std::uint64_t kFakeBegin = 1'700'000'000'000'000'000;

/// Functions of libcuda.so.1 as the program finds them.
struct FakeCuda {
  int (*init)(unsigned);
  void (*launch)(const char* mangled_name, unsigned stream, std::uint64_t duration_ns);
  void (*copy_to_device)(unsigned stream, std::uint64_t bytes);  ///< 10 bytes a nanosecond, pinned
  void (*clear)(unsigned stream, std::uint64_t bytes);           ///< 100 bytes a nanosecond
  void (*record_event)(unsigned event, unsigned stream);
  void (*wait_for_event)(unsigned stream, unsigned event);
  void (*wait_for_stream)(unsigned stream);  ///< the host
  void (*push_range)(const char* name);
  void (*pop_range)();
  void (*work_on_host)(std::uint64_t ns);  ///< the host clock goes on
};

}  // namespace tracecast::test
