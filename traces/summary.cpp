#include "traces/summary.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "traces/classify.hpp"
#include "traces/contains.hpp"
#include "traces/intervals.hpp"
#include "traces/work_list.hpp"

namespace tracecast::traces {
namespace {

constexpr std::size_t kMostNames = 10;

/// Longest first; equals by name, so that the order is the same on every run.
template <class Named>
void keep_longest(std::vector<Named>& all, std::size_t most) {
  std::sort(all.begin(), all.end(), [](const Named& a, const Named& b) {
    const auto tally = [](const Named& n) -> const Tally& {
      if constexpr (requires { n.tally; }) {
        return n.tally;
      } else {
        return n.kernels;
      }
    };
    return tally(a).ns != tally(b).ns ? tally(a).ns > tally(b).ns : a.name < b.name;
  });
  if (all.size() > most) all.resize(most);
}

void describe_devices(const Trace& trace, Summary& summary) {
  summary.gpus_in_host = trace.devices.size();
  std::map<std::int64_t, std::uint64_t> kernels_by_device;
  for (const StreamId stream : trace.kernels.stream)
    ++kernels_by_device[trace.streams[stream.index].device];
  summary.gpus_used = kernels_by_device.size();
  std::optional<std::int64_t> used;
  std::uint64_t most = 0;
  for (const auto& [device, count] : kernels_by_device) {
    if (count > most) most = count, used = device;
  }
  for (const Device& device : trace.devices) {
    if (!used || device.id == *used) {
      summary.gpu = device.name;
      return;
    }
  }
}

void count_kernels(const Trace& trace, const std::vector<Work>& work, Summary& summary) {
  summary.copies = trace.copies.size();
  summary.memsets = trace.memsets.size();
  summary.calls = trace.calls.size();
  summary.ops = trace.ops.size();
  std::vector<bool> name_seen(trace.names.size()), stream_seen(trace.streams.size());
  for (const Work& w : work) {
    if (is_driver_copy(trace[w.name])) {
      (w.info.kernel_class == KernelClass::Memset ? summary.memsets : summary.copies) +=
          w.tally.count;
      continue;
    }
    summary.kernels += w.tally.count;
    name_seen[w.name.index] = true;
  }
  for (const StreamId stream : trace.kernels.stream) stream_seen[stream.index] = true;
  summary.distinct_kernels =
      static_cast<std::uint64_t>(std::count(name_seen.begin(), name_seen.end(), true));
  summary.streams =
      static_cast<std::uint64_t>(std::count(stream_seen.begin(), stream_seen.end(), true));
}

/// ProfilerStep marks of the host, in order of time.
void find_steps(const Trace& trace, Summary& summary) {
  std::vector<std::pair<Span, NameId>> steps;
  for (std::size_t i = 0; i < trace.marks.size(); ++i) {
    if (!trace.marks.on_gpu[i] && trace[trace.marks.name[i]].starts_with("ProfilerStep")) {
      steps.emplace_back(trace.marks.span[i], trace.marks.name[i]);
    }
  }
  std::stable_sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) {
    return a.first.begin_ns < b.first.begin_ns;
  });
  for (const auto& [span, name] : steps) {
    summary.steps.push_back({std::string(trace[name]), {1, span.duration_ns}});
  }
}

void add_classes(const Trace& trace, const std::vector<Work>& work, Summary& summary) {
  std::array<Tally, kKernelClassCount> classes{};
  std::array<Tally, kAlgorithmCount> algorithms{};
  const auto tally = [&classes](KernelClass c) -> Tally& {
    return classes[static_cast<std::size_t>(c)];
  };
  for (const Work& w : work) {
    tally(w.info.kernel_class).add(w.tally);
    if (w.info.kernel_class == KernelClass::Convolution)
      algorithms[static_cast<std::size_t>(w.info.algorithm)].add(w.tally);
  }
  summary.collective_kernels = tally(KernelClass::Collective).count;
  for (const Span& span : trace.copies.span) tally(KernelClass::Copy).add(span.duration_ns);
  for (const Span& span : trace.memsets.span) tally(KernelClass::Memset).add(span.duration_ns);
  for (const Tally& t : classes) summary.gpu_time_ns = saturating_sum(summary.gpu_time_ns, t.ns);
  const auto share = [&summary](const Tally& t) {
    return summary.gpu_time_ns > 0
               ? static_cast<double>(t.ns) / static_cast<double>(summary.gpu_time_ns)
               : 0.0;
  };
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (classes[i].count > 0)
      summary.classes.push_back({static_cast<KernelClass>(i), classes[i], share(classes[i])});
  }
  for (std::size_t i = 0; i < algorithms.size(); ++i) {
    if (algorithms[i].count > 0) {
      summary.algorithms.push_back(
          {static_cast<Algorithm>(i), algorithms[i], share(algorithms[i])});
    }
  }
  const auto longer = [](const auto& a, const auto& b) { return a.kernels.ns > b.kernels.ns; };
  std::stable_sort(summary.classes.begin(), summary.classes.end(), longer);
  std::stable_sort(summary.algorithms.begin(), summary.algorithms.end(), longer);
}

void list_kernels(const Trace& trace, const std::vector<Work>& work, Summary& summary) {
  std::map<std::pair<NameId, KernelClass>, Tally> by_name;
  for (const Work& w : work) by_name[{w.name, w.info.kernel_class}].add(w.tally);
  std::map<std::pair<std::string, KernelClass>, Tally> by_short_name;
  for (const auto& [key, tally] : by_name) {
    by_short_name[{short_kernel_name(trace[key.first]), key.second}].add(tally);
  }
  for (const auto& [key, tally] : by_short_name)
    summary.top_kernels.push_back({key.first, key.second, tally});
  keep_longest(summary.top_kernels, kMostNames);
}

/// Sweeps over begins and ends of kernels; an end comes before a begin at the same instant.
void measure_concurrency(const Trace& trace, Summary& summary) {
  std::vector<std::pair<std::int64_t, int>> changes;
  changes.reserve(trace.kernels.size() * 2);
  for (const Span& span : trace.kernels.span) {
    if (span.duration_ns <= 0) continue;
    changes.emplace_back(span.begin_ns, 1);
    changes.emplace_back(span.end_ns(), -1);
  }
  std::sort(changes.begin(), changes.end());
  int running = 0;
  std::int64_t since = 0;
  for (const auto& [at, change] : changes) {
    if (running >= 2) summary.concurrent_ns += at - since;
    running += change;
    since = at;
    summary.most_concurrent =
        std::max(summary.most_concurrent, static_cast<std::uint32_t>(running));
  }
}

/// Kernels that end after one of their own stream that began later: wrong durations, or streams
/// that were merged.
void find_overruns(const Trace& trace, Summary& summary) {
  const Kernels& kernels = trace.kernels;
  std::vector<std::vector<std::uint32_t>> streams(trace.streams.size());
  for (std::uint32_t i = 0; i < kernels.size(); ++i) {
    if (kernels.span[i].duration_ns > 0) streams[kernels.stream[i].index].push_back(i);
  }
  std::vector<bool> is_overrunning(kernels.size());
  for (auto& stream : streams) {
    std::sort(stream.begin(), stream.end(), [&](std::uint32_t a, std::uint32_t b) {
      const Span &x = kernels.span[a], &y = kernels.span[b];
      if (x.begin_ns != y.begin_ns) return x.begin_ns < y.begin_ns;
      return x.duration_ns != y.duration_ns ? x.duration_ns > y.duration_ns : a < b;
    });
    std::optional<std::uint32_t> last;  // of those so far, the one that ends last
    for (const std::uint32_t i : stream) {
      if (last && kernels.span[i].end_ns() < kernels.span[*last].end_ns()) {
        is_overrunning[*last] = true;
        ++summary.overrun;
      } else {
        last = i;
      }
    }
  }
  summary.overrunning =
      static_cast<std::uint64_t>(std::count(is_overrunning.begin(), is_overrunning.end(), true));
}

std::string collective_name(std::string_view kernel) {
  std::string name = short_kernel_name(kernel);
  return name.substr(0, std::min(name.find("_RING"), name.find("_TREE")));
}

void add_collectives(const Trace& trace, const std::vector<KernelNameInfo>& infos,
                     Summary& summary) {
  std::vector<Span> collective, other;
  std::map<std::string, CollectiveTime> by_name;
  std::map<NameId, CollectiveTime*> by_id;  // names are shortened once
  std::vector<std::int64_t> elements(trace.kernels.size(), 0);
  for (std::size_t i = 0; i < trace.collectives.size(); ++i) {
    const std::uint32_t kernel = trace.collectives.kernel[i];
    if (kernel >= elements.size()) continue;
    elements[kernel] = std::max(
        {std::int64_t{0}, trace.collectives.in_elements[i], trace.collectives.out_elements[i]});
  }
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const bool is_collective = infos[i].kernel_class == KernelClass::Collective;
    (is_collective ? collective : other).push_back(trace.kernels.span[i]);
    if (!is_collective) continue;
    CollectiveTime*& time = by_id[trace.kernels.name[i]];
    if (time == nullptr) time = &by_name[collective_name(trace[trace.kernels.name[i]])];
    time->kernels.add(trace.kernels.span[i].duration_ns);
    time->elements = saturating_sum(time->elements, elements[i]);
  }
  for (auto& [name, time] : by_name) {
    time.name = name;
    summary.collectives.push_back(time);
  }
  keep_longest(summary.collectives, kMostNames);
  const Intervals alone = Intervals::union_of(std::move(collective));
  summary.collective_alone_ns =
      alone.length_ns() - Intervals::union_of(std::move(other)).overlap_ns(alone);
}

void add_copies(const Trace& trace, const Intervals& kernels, Summary& summary) {
  std::map<std::pair<CopyKind, HostMemory>, std::pair<CopyTime, std::vector<std::uint64_t>>> kinds;
  const Copies& copies = trace.copies;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    auto& [time, sizes] = kinds[{copies.kind[i], copies.memory[i]}];
    const Span& span = copies.span[i];
    time.copies.add(span.duration_ns);
    time.beside_kernels_ns =
        saturating_sum(time.beside_kernels_ns, kernels.within(span.begin_ns, span.end_ns()));
    if (copies.bytes[i] == 0) continue;
    sizes.push_back(copies.bytes[i]);
    time.bytes += copies.bytes[i];
    time.sized_ns = saturating_sum(time.sized_ns, span.duration_ns);
  }
  for (auto& [key, entry] : kinds) {
    auto& [time, sizes] = entry;
    time.kind = key.first;
    time.memory = key.second;
    time.sized = sizes.size();
    if (!sizes.empty()) {
      const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
      std::nth_element(sizes.begin(), middle, sizes.end());
      time.median_bytes = *middle;
    }
    summary.copy_kinds.push_back(time);
  }
  for (const Span& span : trace.memsets.span) summary.memset_time.add(span.duration_ns);
}

void add_calls(const Trace& trace, Summary& summary) {
  std::vector<Tally> by_name(trace.names.size());
  for (std::size_t i = 0; i < trace.calls.size(); ++i) {
    by_name[trace.calls.name[i].index].add(trace.calls.span[i].duration_ns);
  }
  for (std::size_t i = 0; i < trace.totals.size(); ++i) {
    if (!trace.totals.is_call[i]) continue;
    by_name[trace.totals.name[i].index].add({trace.totals.count[i], trace.totals.ns[i]});
    summary.calls += trace.totals.count[i];
  }
  for (std::uint32_t i = 0; i < by_name.size(); ++i) {
    if (by_name[i].count == 0) continue;
    const std::string_view name = trace[NameId{i}];
    summary.call_kinds[static_cast<std::size_t>(call_kind(name))].add(by_name[i]);
    summary.top_calls.push_back({std::string(name), by_name[i]});
  }
  keep_longest(summary.top_calls, kMostNames);
}

void add_nodes(const Trace& trace, Summary& summary) {
  const Nodes& nodes = trace.nodes;
  std::array<NodeTime, kNodeKindCount> kinds{};
  summary.nodes = nodes.size();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::int64_t ns = std::max<std::int64_t>(nodes.duration_ns[i], 0);
    NodeTime& kind = kinds[static_cast<std::size_t>(nodes.kind[i])];
    kind.kind = nodes.kind[i];
    kind.nodes.add(ns);
    kind.message_bytes += nodes.message_bytes[i];
    if (!nodes.on_gpu[i]) continue;
    ++summary.gpu_nodes;
    summary.gpu_nodes_ns = saturating_sum(summary.gpu_nodes_ns, ns);
  }
  for (const NodeTime& kind : kinds) {
    if (kind.nodes.count > 0) summary.node_kinds.push_back(kind);
  }
}

void add_metrics(const Trace& trace, Summary& summary) {
  const Metrics& metrics = trace.metrics;
  std::map<NameId, MetricSum> sums;
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    MetricSum& sum = sums[metrics.metric[i]];
    ++sum.rows;
    sum.invocations += metrics.invocations[i];
    sum.sum += metrics.average[i] * static_cast<double>(metrics.invocations[i]);
  }
  for (auto& [name, sum] : sums) {
    sum.metric = trace[name];
    summary.metrics.push_back(sum);
  }
}

void find_idle_time(const Trace& trace, const LaunchIndex& launches, Summary& summary) {
  std::vector<Span> spans = trace.kernels.span;
  spans.insert(spans.end(), trace.copies.span.begin(), trace.copies.span.end());
  spans.insert(spans.end(), trace.memsets.span.begin(), trace.memsets.span.end());
  const Intervals work = Intervals::union_of(std::move(spans));
  if (work.empty()) return;
  summary.work_span_ns = work.spans().back().end_ns() - work.spans().front().begin_ns;
  summary.idle_ns = summary.work_span_ns - work.length_ns();
  summary.idle = idle_times(trace, launches, work);
}

}  // namespace

std::string_view to_string(CallKind kind) {
  switch (kind) {
    case CallKind::Launch:
      return "launch";
    case CallKind::Memory:
      return "memory";
    case CallKind::Copy:
      return "copy";
    case CallKind::Sync:
      return "sync";
    case CallKind::Event:
      return "event";
    case CallKind::Other:
      return "other";
  }
  return "?";
}

CallKind call_kind(std::string_view name) {
  const auto has = [name](std::string_view part) { return contains(name, part); };
  if (has("Synchronize")) return CallKind::Sync;
  if (has("Launch")) return CallKind::Launch;
  if (has("Memcpy") || has("Memset")) return CallKind::Copy;
  if (has("Malloc") || has("Free") || has("MemAlloc") || has("HostAlloc") || has("MemGetInfo") ||
      has("HostRegister") || has("GetDeviceProperties") || has("DeviceGetAttribute") ||
      has("DeviceTotalMem") || has("PointerGetAttribute") || has("HostGetDevicePointer") ||
      has("MemPrefetch") || has("MemAdvise")) {
    return CallKind::Memory;
  }
  if (has("Event")) return CallKind::Event;
  return CallKind::Other;
}

Summary summarize(const Trace& trace, const KernelNames& names) {
  Summary summary;
  summary.source = trace.source;
  summary.format = trace.format;
  summary.rank = trace.rank;
  summary.world_size = trace.world_size;
  summary.left_out = trace.left_out;
  describe_devices(trace, summary);
  find_steps(trace, summary);

  const LaunchIndex launches(trace);
  const std::vector<KernelNameInfo> infos = classify_kernels(trace, names, launches);
  const std::vector<Work> work = all_work(trace, infos, names);
  count_kernels(trace, work, summary);
  add_classes(trace, work, summary);
  list_kernels(trace, work, summary);
  add_nodes(trace, summary);
  add_metrics(trace, summary);
  add_collectives(trace, infos, summary);

  const Intervals kernels = Intervals::union_of(trace.kernels.span);
  summary.busy_ns = kernels.length_ns();
  if (!kernels.empty())
    summary.span_ns = kernels.spans().back().end_ns() - kernels.spans().front().begin_ns;
  measure_concurrency(trace, summary);
  find_overruns(trace, summary);
  add_copies(trace, kernels, summary);
  add_calls(trace, summary);
  find_idle_time(trace, launches, summary);
  for (std::size_t i = 0; i < trace.allocations.size(); ++i) {
    if (trace.allocations.device[i] < 0) continue;
    summary.peak_allocated_bytes =
        std::max(summary.peak_allocated_bytes, trace.allocations.total_allocated[i]);
  }
  return summary;
}

}  // namespace tracecast::traces
