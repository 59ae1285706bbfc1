#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tracecast::traces::cupti {

/// Calls that give a stream work, by where their arguments lie.
enum class LaunchKind : std::uint8_t {
  DriverKernel,
  DriverKernelEx,
  DriverGraph,
  DriverCopy,
  DriverMemset8,
  DriverMemset16,
  DriverMemset32,
  RuntimeKernel,
  RuntimeKernelEx,
  RuntimeGraph,
  RuntimeCopy,
  RuntimeMemset,
};

/// What a call gives a stream to do.
struct LaunchCall {
  enum class Work : std::uint8_t { Kernel, Graph, Copy, Memset };
  Work work = Work::Kernel;
  void* stream = nullptr;
  std::array<std::uint32_t, 3> grid{}, block{};
  std::uint32_t shared_bytes = 0;  ///< dynamic
  std::uint64_t bytes = 0;
  std::uint8_t copy_kind = 0;  ///< CUPTI's number
};

/// The kind of a call by CUPTI's spelling of its name
/// ("cudaLaunchKernel_ptsz_v7000"); nothing for other calls.
[[nodiscard]] std::optional<LaunchKind> launch_kind(std::string_view name);

/// Reads a call's arguments from the struct that CUPTI shows a callback.
/// Sources: generated_cuda_meta.h and generated_cuda_runtime_api_meta.h of
/// CUDA; the structs are the calls' signatures, which do not change.
/// `is_per_thread`: of the "_ptsz" spelling, whose stream 0 is the thread's
/// own.
[[nodiscard]] LaunchCall read_launch(LaunchKind kind, std::string_view name, const void* arguments);

}  // namespace tracecast::traces::cupti
