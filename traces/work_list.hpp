#pragma once
#include <string_view>
#include <vector>

#include "traces/kernel_names/kernel_names.hpp"
#include "traces/tally.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// Equal work as one: a kernel's record, or a sum that the profile holds in place of records.
struct Work {
  NameId name;
  KernelNameInfo info;
  Tally tally;
};

/// Everything that kernels, sums, graph nodes and metrics tell about GPU work that is no record of
/// a copy or memset: first the kernels, in order. `infos`: of each kernel, from classify_kernels.
[[nodiscard]] std::vector<Work> all_work(const Trace& trace,
                                         const std::vector<KernelNameInfo>& infos,
                                         const KernelNames& names);

/// A copy or fill of the driver's, as profilers name them among kernels.
[[nodiscard]] bool is_driver_copy(std::string_view name);

}  // namespace tracecast::traces
