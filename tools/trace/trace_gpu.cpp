#include "tools/trace/trace_gpu.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/error.hpp"

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

}  // namespace tracecast
