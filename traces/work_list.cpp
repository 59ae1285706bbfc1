#include "traces/work_list.hpp"

#include <optional>

namespace tracecast::traces {

std::vector<Work> all_work(const Trace& trace, const std::vector<KernelNameInfo>& infos,
                           const KernelNames& names) {
  std::vector<Work> work;
  std::vector<std::optional<KernelNameInfo>> known(trace.names.size());
  const auto info_of = [&](NameId name) -> const KernelNameInfo& {
    auto& info = known[name.index];
    if (!info) info = names.find(trace[name]);
    return *info;
  };
  work.reserve(infos.size());
  const Kernels& kernels = trace.kernels;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    work.push_back({kernels.name[i], infos[i], {1, kernels.span[i].duration_ns}});
  }
  for (std::size_t i = 0; i < trace.totals.size(); ++i) {
    const NameId name = trace.totals.name[i];
    if (trace.totals.is_call[i]) continue;
    work.push_back({name, info_of(name), {trace.totals.count[i], trace.totals.ns[i]}});
  }
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) {
    const NameId name = trace.nodes.name[i];
    if (!trace.nodes.on_gpu[i] || trace.nodes.duration_ns[i] < 0) continue;
    KernelNameInfo info = info_of(name);
    if (trace.nodes.kind[i] == NodeKind::Collective) info.kernel_class = KernelClass::Collective;
    work.push_back({name, info, {1, trace.nodes.duration_ns[i]}});
  }
  for (std::size_t i = 0; i < trace.metrics.size(); ++i) {
    if (trace.metrics.metric[i] != trace.metrics.metric[0]) continue;
    const NameId name = trace.metrics.kernel[i];
    work.push_back({name, info_of(name), {trace.metrics.invocations[i], 0}});
  }
  return work;
}

bool is_driver_copy(std::string_view name) {
  return name.starts_with("[CUDA ") || name.starts_with("Memcpy ") || name.starts_with("Memset ");
}

}  // namespace tracecast::traces
