#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/collective.hpp"
#include "traces/classify.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// A kernel by which a rank takes part in a collective.
struct CollectiveKernel {
  std::uint32_t kernel = 0;        ///< index into Trace::kernels
  std::optional<Collective> kind;  ///< nothing where neither record, operator nor name tells
  /// The buffer of one rank, the larger of input and output: what nccl-tests calls size. 0 = not
  /// recorded.
  std::uint64_t bytes = 0;
  std::string group;            ///< the process group's name; empty = not recorded
  std::int64_t group_size = 0;  ///< ranks; 0 = not recorded
};

/// All collective kernels of a trace, by stream and in order of begin. What they move comes from
/// the collective's own record, else from the dims of the operator that launched the kernel; the
/// kind from there or from the kernel's name.
[[nodiscard]] std::vector<CollectiveKernel> find_collective_kernels(
    const Trace& trace, const std::vector<KernelNameInfo>& infos, const LaunchIndex& launches);

/// What a collective's name in a recording means: "allreduce", "_allgather_base",
/// "nccl:all_to_all", "ncclKernel_SendRecv_RING_SIMPLE".
[[nodiscard]] std::optional<Collective> collective_of(std::string_view name);

/// Bytes of an element of a framework's type: "Float", "long int", "c10::BFloat16"; 0 = not known.
[[nodiscard]] std::uint64_t bytes_of_type(std::string_view type);

/// Bytes of all tensors that `dims` ("[[394241],[3,4],[]]") and `types` ("["float","float",""]")
/// list; 0 when a tensor's type is not known or the texts are none of that kind.
[[nodiscard]] std::uint64_t bytes_of_tensors(std::string_view dims, std::string_view types);

}  // namespace tracecast::traces
