#include "traces/cupti/launch_calls.hpp"

#include <cstddef>
#include <utility>

namespace tracecast::traces::cupti {
namespace {

using enum LaunchKind;

/// Source of the "per-thread" handle: CU_STREAM_PER_THREAD, cuda.h.
constexpr std::uintptr_t kPerThreadStream = 2;

constexpr std::pair<std::string_view, LaunchKind> kCalls[] = {
    {"cuGraphLaunch", DriverGraph},
    {"cuLaunchCooperativeKernel", DriverKernel},
    {"cuLaunchKernel", DriverKernel},
    {"cuLaunchKernelEx", DriverKernelEx},
    {"cuMemcpyAsync", DriverCopy},
    {"cuMemcpyDtoDAsync", DriverCopy},
    {"cuMemcpyDtoHAsync", DriverCopy},
    {"cuMemcpyHtoDAsync", DriverCopy},
    {"cuMemsetD16Async", DriverMemset16},
    {"cuMemsetD32Async", DriverMemset32},
    {"cuMemsetD8Async", DriverMemset8},
    {"cudaGraphLaunch", RuntimeGraph},
    {"cudaLaunchCooperativeKernel", RuntimeKernel},
    {"cudaLaunchKernel", RuntimeKernel},
    {"cudaLaunchKernelExC", RuntimeKernelEx},
    {"cudaMemcpyAsync", RuntimeCopy},
    {"cudaMemsetAsync", RuntimeMemset},
};

template <class T>
T at(const void* arguments, std::size_t offset) {
  return *reinterpret_cast<const T*>(static_cast<const std::byte*>(arguments) + offset);
}

using Extent = std::array<std::uint32_t, 3>;

/// CUPTI's numbers of what the name of a driver's copy, or the runtime's
/// cudaMemcpyKind, says.
std::uint8_t copy_kind(std::string_view name) {
  if (name.find("HtoD") != std::string_view::npos) return 1;
  if (name.find("DtoH") != std::string_view::npos) return 2;
  return name.find("DtoD") != std::string_view::npos ? 8 : 0;
}
std::uint8_t copy_kind(int runtime_kind) {
  constexpr std::uint8_t kKinds[] = {9, 1, 2, 8};
  return runtime_kind >= 0 && runtime_kind < 4 ? kKinds[runtime_kind] : 0;
}

}  // namespace

std::optional<LaunchKind> launch_kind(std::string_view name) {
  name = name.substr(0, name.find('_'));
  for (const auto& [call, kind] : kCalls) {
    if (call == name) return kind;
  }
  return std::nullopt;
}

LaunchCall read_launch(LaunchKind kind, std::string_view name, const void* arguments) {
  using Work = LaunchCall::Work;
  LaunchCall call;
  const auto extended = [&] { return at<const void*>(arguments, 0); };
  switch (kind) {
    case DriverKernel:
      call = {.stream = at<void*>(arguments, 40),
              .grid = at<Extent>(arguments, 8),
              .block = at<Extent>(arguments, 20),
              .shared_bytes = at<std::uint32_t>(arguments, 32)};
      break;
    case DriverKernelEx:
      call = {.stream = at<void*>(extended(), 32),
              .grid = at<Extent>(extended(), 0),
              .block = at<Extent>(extended(), 12),
              .shared_bytes = at<std::uint32_t>(extended(), 24)};
      break;
    case RuntimeKernel:
      call = {.stream = at<void*>(arguments, 48),
              .grid = at<Extent>(arguments, 8),
              .block = at<Extent>(arguments, 20),
              .shared_bytes = static_cast<std::uint32_t>(at<std::size_t>(arguments, 40))};
      break;
    case RuntimeKernelEx:
      call = {.stream = at<void*>(extended(), 32),
              .grid = at<Extent>(extended(), 0),
              .block = at<Extent>(extended(), 12),
              .shared_bytes = static_cast<std::uint32_t>(at<std::size_t>(extended(), 24))};
      break;
    case DriverGraph:
    case RuntimeGraph:
      call = {.work = Work::Graph, .stream = at<void*>(arguments, 8)};
      break;
    case DriverCopy:
      call = {.work = Work::Copy,
              .stream = at<void*>(arguments, 24),
              .bytes = at<std::size_t>(arguments, 16),
              .copy_kind = copy_kind(name)};
      break;
    case RuntimeCopy:
      call = {.work = Work::Copy,
              .stream = at<void*>(arguments, 32),
              .bytes = at<std::size_t>(arguments, 16),
              .copy_kind = copy_kind(at<int>(arguments, 24))};
      break;
    case DriverMemset8:
    case DriverMemset16:
    case DriverMemset32: {
      const std::size_t element = kind == DriverMemset8 ? 1 : kind == DriverMemset16 ? 2 : 4;
      call = {.work = Work::Memset,
              .stream = at<void*>(arguments, 24),
              .bytes = element * at<std::size_t>(arguments, 16)};
      break;
    }
    case RuntimeMemset:
      call = {.work = Work::Memset,
              .stream = at<void*>(arguments, 24),
              .bytes = at<std::size_t>(arguments, 16)};
      break;
  }
  if (call.stream == nullptr && name.find("_ptsz") != std::string_view::npos)
    call.stream = reinterpret_cast<void*>(kPerThreadStream);
  return call;
}

}  // namespace tracecast::traces::cupti
