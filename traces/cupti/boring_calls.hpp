#pragma once
#include <algorithm>
#include <array>
#include <string_view>

namespace tracecast::traces::cupti {

/// Whether a call of the runtime or driver only asks or sets the thread's own
/// state: programs make a dozen of them for each launch, and recording them
/// would cost more than they do. `name` as CUPTI spells it,
/// "cudaGetDevice_v3020".
[[nodiscard]] inline bool is_boring_call(std::string_view name) {
  constexpr std::array<std::string_view, 22> kNames = {
      "__cudaPopCallConfiguration",
      "__cudaPushCallConfiguration",
      "cuCtxGetCurrent",
      "cuCtxGetDevice",
      "cuCtxPopCurrent",
      "cuCtxPushCurrent",
      "cuCtxSetCurrent",
      "cuDeviceGet",
      "cuDeviceGetAttribute",
      "cuDevicePrimaryCtxGetState",
      "cuGetProcAddress",
      "cuPointerGetAttribute",
      "cuStreamGetCaptureInfo",
      "cuStreamIsCapturing",
      "cudaDeviceGetAttribute",
      "cudaGetDevice",
      "cudaGetLastError",
      "cudaPeekAtLastError",
      "cudaPointerGetAttributes",
      "cudaSetDevice",
      "cudaStreamGetCaptureInfo",
      "cudaStreamIsCapturing",
  };
  static_assert(std::ranges::is_sorted(kNames));
  // Two underscores may begin a name; versions and kinds of streams end it:
  // "_v2", "_ptsz".
  const std::size_t end = name.find('_', name.starts_with("__") ? 2 : 0);
  return std::ranges::binary_search(kNames, name.substr(0, end));
}

}  // namespace tracecast::traces::cupti
