#include "traces/cupti/launch_calls.hpp"

#include <doctest/doctest.h>

namespace tracecast::traces::cupti {
namespace {

TEST_SUITE_BEGIN("traces/cupti/launch_calls");

void* const kStream = reinterpret_cast<void*>(0x700);

TEST_CASE("launches are known in every spelling, other calls are not") {
  CHECK(launch_kind("cudaLaunchKernel_v7000") == LaunchKind::RuntimeKernel);
  CHECK(launch_kind("cudaLaunchKernel_ptsz_v7000") == LaunchKind::RuntimeKernel);
  CHECK(launch_kind("cuMemcpyHtoDAsync_v2_ptsz") == LaunchKind::DriverCopy);
  CHECK(launch_kind("cuLaunchKernelEx") == LaunchKind::DriverKernelEx);
  CHECK_FALSE(launch_kind("cudaLaunchHostFunc_v10000"));
  CHECK_FALSE(launch_kind("cudaMemcpy_v3020"));
}

TEST_CASE("a driver's kernel: grid, block, shared memory, stream") {
  const struct {
    void* function = nullptr;
    unsigned grid[3] = {1, 2, 3}, block[3] = {4, 5, 6}, shared = 7;
    void* stream = kStream;
  } arguments;
  const LaunchCall call = read_launch(LaunchKind::DriverKernel, "cuLaunchKernel", &arguments);
  CHECK(call.grid == std::array<std::uint32_t, 3>{1, 2, 3});
  CHECK(call.block == std::array<std::uint32_t, 3>{4, 5, 6});
  CHECK(call.shared_bytes == 7);
  CHECK(call.stream == kStream);
}

TEST_CASE("an extended launch's are in its configuration") {
  const struct {
    unsigned grid[3] = {1, 2, 3}, block[3] = {4, 5, 6}, shared = 7;
    void* stream = kStream;
  } configuration;
  const void* arguments[] = {&configuration, nullptr};
  const LaunchCall call = read_launch(LaunchKind::DriverKernelEx, "cuLaunchKernelEx", arguments);
  CHECK(call.block == std::array<std::uint32_t, 3>{4, 5, 6});
  CHECK(call.shared_bytes == 7);
  CHECK(call.stream == kStream);
}

TEST_CASE(
    "copies and memsets: bytes, direction; stream 0 of a per-thread call is the thread's own") {
  const struct {
    std::uint64_t to = 1, from = 2;
    std::size_t bytes = 300;
    void* stream = nullptr;
  } copy;
  const LaunchCall down = read_launch(LaunchKind::DriverCopy, "cuMemcpyDtoHAsync_v2_ptsz", &copy);
  CHECK(down.work == LaunchCall::Work::Copy);
  CHECK(down.bytes == 300);
  CHECK(down.copy_kind == 2);
  CHECK(down.stream == reinterpret_cast<void*>(2));
  const struct {
    std::uint64_t at = 1;
    unsigned value = 0;
    std::size_t elements = 50;
    void* stream = kStream;
  } fill;
  CHECK(read_launch(LaunchKind::DriverMemset32, "cuMemsetD32Async", &fill).bytes == 200);
  CHECK(read_launch(LaunchKind::DriverMemset8, "cuMemsetD8Async", &fill).bytes == 50);
  CHECK(read_launch(LaunchKind::DriverMemset16, "cuMemsetD16Async", &fill).stream == kStream);
}

}  // namespace
}  // namespace tracecast::traces::cupti
