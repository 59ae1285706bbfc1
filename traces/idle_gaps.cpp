#include "traces/idle_gaps.hpp"

#include <algorithm>

#include "traces/contains.hpp"

namespace tracecast::traces {
namespace {

/// Calls that return when the GPU has done something: synchronisation, and copies that are not
/// asynchronous or go to pageable memory (they look alike; a short call does not cover the begin of
/// a gap).
bool may_wait(std::string_view call) {
  return contains(call, "Synchronize") || contains(call, "Memcpy");
}

bool is_loader(std::string_view name) { return contains(name, "DataLoader"); }

bool is_communication(std::string_view name) {
  return name == "record_param_comms" || name.starts_with("c10d::") || name.starts_with("nccl:") ||
         name.starts_with("gloo:") || name.starts_with("mpi:") || name.starts_with("ncclx:");
}

/// Begin and launching call's correlation of each piece of GPU work, by begin.
struct Work {
  std::int64_t begin_ns;
  std::uint32_t correlation;
};

std::vector<Work> work_by_begin(const Trace& trace) {
  std::vector<Work> work;
  work.reserve(trace.kernels.size() + trace.copies.size() + trace.memsets.size());
  const auto add = [&work](const auto& table) {
    for (std::size_t i = 0; i < table.size(); ++i) {
      work.push_back({table.span[i].begin_ns, table.correlation[i]});
    }
  };
  add(trace.kernels);
  add(trace.copies);
  add(trace.memsets);
  std::stable_sort(work.begin(), work.end(),
                   [](const Work& a, const Work& b) { return a.begin_ns < b.begin_ns; });
  return work;
}

/// What the host did when.
struct HostTimes {
  Intervals loading, waiting, communicating, recorded;

  explicit HostTimes(const Trace& trace) {
    // What a name means is found once, however many records share it.
    std::vector<bool> may_load(trace.names.size()), may_talk(trace.names.size());
    std::vector<bool> waiting_call(trace.names.size());
    for (std::uint32_t i = 0; i < trace.names.size(); ++i) {
      const std::string_view name = trace[NameId{i}];
      may_load[i] = is_loader(name);
      may_talk[i] = is_communication(name);
      waiting_call[i] = may_wait(name);
    }
    std::vector<Span> loads, waits, talks, all;
    all.reserve(trace.ops.size() + trace.calls.size());
    const auto sort_in = [&](NameId name, const Span& span) {
      if (may_load[name.index]) loads.push_back(span);
      if (may_talk[name.index]) talks.push_back(span);
    };
    for (std::size_t i = 0; i < trace.ops.size(); ++i) {
      sort_in(trace.ops.name[i], trace.ops.span[i]);
      all.push_back(trace.ops.span[i]);
    }
    for (std::size_t i = 0; i < trace.marks.size(); ++i) {
      if (!trace.marks.on_gpu[i]) sort_in(trace.marks.name[i], trace.marks.span[i]);
    }
    for (std::size_t i = 0; i < trace.calls.size(); ++i) {
      if (waiting_call[trace.calls.name[i].index]) waits.push_back(trace.calls.span[i]);
      all.push_back(trace.calls.span[i]);
    }
    loading = Intervals::union_of(std::move(loads));
    waiting = Intervals::union_of(std::move(waits));
    communicating = Intervals::union_of(std::move(talks));
    recorded = Intervals::union_of(std::move(all));
  }

  [[nodiscard]] IdleCause cause_of_lateness(std::int64_t from_ns, std::int64_t to_ns) const {
    const std::int64_t half = (to_ns - from_ns + 1) / 2;
    if (loading.within(from_ns, to_ns) >= half) return IdleCause::Input;
    if (waiting.contains(from_ns)) return IdleCause::Sync;
    if (communicating.within(from_ns, to_ns) >= half) return IdleCause::Communication;
    return recorded.within(from_ns, to_ns) >= half ? IdleCause::Launch : IdleCause::Unrecorded;
  }
};

}  // namespace

std::string_view to_string(IdleCause cause) {
  switch (cause) {
    case IdleCause::Launch:
      return "launch";
    case IdleCause::Input:
      return "input";
    case IdleCause::Sync:
      return "sync";
    case IdleCause::Communication:
      return "communication";
    case IdleCause::Queue:
      return "queue";
    case IdleCause::Unrecorded:
      return "unrecorded";
    case IdleCause::Unknown:
      return "unknown";
  }
  return "?";
}

IdleTimes idle_times(const Trace& trace, const LaunchIndex& launches, const Intervals& gpu_work) {
  IdleTimes times{};
  const HostTimes host(trace);
  const std::vector<Work> work = work_by_begin(trace);
  auto next = work.begin();
  for (const Span& gap : gpu_work.gaps()) {
    next = std::find_if(next, work.end(),
                        [&gap](const Work& w) { return w.begin_ns >= gap.end_ns(); });
    const std::uint32_t call =
        next == work.end() ? LaunchIndex::kNone : launches.call_of(next->correlation);
    IdleCause cause = IdleCause::Unknown;
    if (call != LaunchIndex::kNone) {
      const std::int64_t launch = trace.calls.span[call].begin_ns;
      cause = launch <= gap.begin_ns
                  ? IdleCause::Queue
                  : host.cause_of_lateness(gap.begin_ns, std::min(launch, gap.end_ns()));
    }
    times[static_cast<std::size_t>(cause)].add(gap.duration_ns);
  }
  return times;
}

}  // namespace tracecast::traces
