#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "traces/kernel_names/kernel_names.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// Who launched what on the GPU: the joins over correlation, External id and time that readers of a
/// Trace need.
class LaunchIndex {
 public:
  explicit LaunchIndex(const Trace& trace);

  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  /// Index into `calls` of the call with this correlation, or kNone.
  [[nodiscard]] std::uint32_t call_of(std::uint32_t correlation) const;
  /// Index into `ops` of the operator that launched GPU work: by its External id, else the
  /// innermost operator around the launching call on its thread. kNone when neither is recorded.
  [[nodiscard]] std::uint32_t op_of(std::uint32_t external_id, std::uint32_t correlation) const;

 private:
  [[nodiscard]] std::uint32_t op_around(ThreadId thread, std::int64_t at_ns) const;

  const Trace& trace_;
  /// (key, index), sorted by key.
  using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  static std::uint32_t find(const Pairs& pairs, std::uint32_t key);
  Pairs calls_, ops_;
  std::vector<std::vector<std::uint32_t>>
      ops_by_begin_;  ///< of each thread; outer before inner at the same time
  std::vector<std::vector<std::uint32_t>>
      parents_;  ///< of each entry above: its position's enclosing position
};

/// What each kernel does, from its name and from who launched it: GEMMs and layout changes launched
/// by a convolution operator are part of that convolution and of the algorithm that its other
/// kernels name (a convolution that is nothing but a GEMM is an explicit GEMM), GEMMs of a batched
/// operator are batched, elementwise work and sums within "Optimizer.step" belong to the optimizer,
/// and so on. One entry per kernel of the trace.
[[nodiscard]] std::vector<KernelNameInfo> classify_kernels(const Trace& trace,
                                                           const KernelNames& names,
                                                           const LaunchIndex& launches);

}  // namespace tracecast::traces
