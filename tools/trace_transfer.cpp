#include "tools/trace_transfer.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "hwspecs/framework_profile.hpp"
#include "sim/base/error.hpp"
#include "traces/transfer/recorded_work.hpp"

namespace tracecast {
namespace {

/// "NVIDIA GeForce RTX 2080 Ti" as specs name it: "RTX 2080 Ti".
std::string_view plain_name(std::string_view name) {
  for (const std::string_view word : {"NVIDIA ", "GeForce ", "Tesla "}) {
    if (name.starts_with(word)) name.remove_prefix(word.size());
  }
  return name;
}

const GpuSpec* find_by_name(const GpuCatalog& gpus, std::string_view name) {
  for (const std::string_view word : {name, plain_name(name)}) {
    if (word.empty()) continue;
    try {
      return &gpus.find(word);
    } catch (const InputError&) {
      // Another spelling, or a board that there is no spec of.
    }
  }
  return nullptr;
}

const GpuSpec* find_by_figures(const GpuCatalog& gpus, const traces::Device& device) {
  const GpuSpec* best = nullptr;
  const auto memory = static_cast<double>(device.memory_bytes);
  const auto distance = [&](const GpuSpec& gpu) {
    return std::pair(std::round(std::abs(gpu.memory.in_bytes() - memory) / 2e9), -gpu.tdp.in_w());
  };
  for (const GpuSpec& gpu : gpus.all()) {
    if (gpu.sm_count != device.sm_count) continue;
    if (gpu.compute_capability != device.compute_major * 10 + device.compute_minor) continue;
    if (!best || distance(gpu) < distance(*best)) best = &gpu;
  }
  return best;
}

/// Saturates far above what a replay takes (106 days).
std::int64_t nanoseconds(double ns) { return std::llround(std::min(ns, 9e18)); }

}  // namespace

const GpuSpec& recorded_gpu(const traces::Trace& trace, const GpuCatalog& gpus, std::string& note) {
  std::int64_t used = -1;
  if (trace.kernels.size() > 0) used = trace.streams[trace.kernels.stream[0].index].device;
  const traces::Device* device = nullptr;
  for (const traces::Device& one : trace.devices) {
    if (!device || one.id == used) device = &one;
  }
  if (!device)
    throw InputError("--from", "no GPU in " + trace.source,
                     "the id of the GPU it was recorded on (tracecast gpus)");
  if (const GpuSpec* named = find_by_name(gpus, device->name)) return *named;
  const GpuSpec* alike = find_by_figures(gpus, *device);
  if (!alike)
    throw InputError("--from", "a recording of \"" + device->name + "\", which has no spec",
                     "the id of the GPU that it is (tracecast gpus)");
  note = "\"" + device->name + "\" has no spec of that name; by its SMs and memory taken as " +
         alike->id;
  return *alike;
}

MovedWork move_to(traces::ReplayBuild& build, const traces::Trace& trace,
                  const traces::KernelNames& names, const GpuSpec& from, const GpuSpec& to,
                  const CostProfile& profile, const cost::TransferOptions& options,
                  double host_speed) {
  const RecordedWork recorded = traces::recorded_work(trace, names);
  const auto moved = cost::transfer(recorded, from, to, profile, options);
  MovedWork result;
  result.from = from.id, result.to = to.id;
  for (std::size_t i = 0; i < build.program.tasks.size(); ++i) {
    ReplayTask& task = build.program.tasks[i];
    if (task.work == ReplayWork::HostWork && host_speed > 0)
      task.duration_ns = nanoseconds(static_cast<double>(task.duration_ns) / host_speed);
    if (!is_on_gpu(task.work)) continue;
    const double before = static_cast<double>(task.duration_ns) * 1e-9;
    const std::uint32_t record = build.records[i];
    if (task.work == ReplayWork::Kernel) {
      const cost::TransferredKernel& kernel = moved[record];
      task.duration_ns = nanoseconds(kernel.duration.in_s() * 1e9);
      const MovedTime time{before, kernel.duration.in_s()};
      for (MovedTime* sum :
           {&result.ways[static_cast<std::size_t>(kernel.way)],
            &result.classes[static_cast<std::size_t>(task.kernel_class)], &result.kernels}) {
        sum->recorded_s += time.recorded_s;
        sum->predicted_s += time.predicted_s;
      }
      result.errors.push_back(
          {task.kernel_class, kernel.duration, kernel.log_sd, kernel.shared_log_sd});
    } else {
      const CopyRoute route =
          task.work == ReplayWork::Copy ? traces::copy_route(trace, record) : CopyRoute::Device;
      const Seconds after = cost::transfer_copy(Seconds(before), route, from, to, profile);
      task.duration_ns = nanoseconds(after.in_s() * 1e9);
      result.copies.recorded_s += before;
      result.copies.predicted_s += after.in_s();
    }
  }
  return result;
}

double moved_log_sd(const MovedWork& moved, double span_s, double busy_s) {
  const FrameworkProfile generic;
  std::vector<ErrorShare> errors = moved.errors;
  // Kernels side by side: what of them counts.
  const double all = moved.kernels.predicted_s;
  const double exposed = all > 0 ? std::min(1.0, busy_s / all) : 1;
  for (ErrorShare& share : errors) share.time = share.time * exposed;
  return step_log_sd(errors, Seconds(span_s), Seconds(std::max(span_s - busy_s, 0.0)),
                     generic.host_log_sd, generic.system_log_sd);
}

}  // namespace tracecast
