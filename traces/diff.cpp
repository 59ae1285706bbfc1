#include "traces/diff.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "traces/classify.hpp"
#include "traces/work_list.hpp"

namespace tracecast::traces {
namespace {

using Key = std::pair<std::string, KernelClass>;
using Tallies = std::map<Key, Tally>;

/// Everything that one recording tallies.
struct Side {
  Summary summary;
  Tallies classes, algorithms, kernels, operators, calls, idle;
};

void add_kernels(const Trace& trace, const std::vector<Work>& work, Side& side) {
  std::map<std::pair<NameId, KernelClass>, Tally> by_name;
  for (const Work& w : work) by_name[{w.name, w.info.kernel_class}].add(w.tally);
  for (const auto& [key, tally] : by_name)
    side.kernels[{short_kernel_name(trace[key.first]), key.second}].add(tally);
  for (std::size_t i = 0; i < trace.copies.size(); ++i) {
    const Key key{"copy " + std::string(to_string(trace.copies.kind[i])), KernelClass::Copy};
    side.kernels[key].add(trace.copies.span[i].duration_ns);
  }
  for (const Span& span : trace.memsets.span)
    side.kernels[{"memset", KernelClass::Memset}].add(span.duration_ns);
}

/// Kernels, copies and memsets by the operator that launched them.
void add_operators(const Trace& trace, const LaunchIndex& launches, Side& side) {
  std::map<NameId, Tally> by_name;
  const auto add = [&](std::uint32_t external_id, std::uint32_t correlation, const Span& span) {
    const std::uint32_t op = launches.op_of(external_id, correlation);
    by_name[op == LaunchIndex::kNone ? NameId{} : trace.ops.name[op]].add(span.duration_ns);
  };
  for (std::size_t i = 0; i < trace.kernels.size(); ++i)
    add(trace.kernels.op[i], trace.kernels.correlation[i], trace.kernels.span[i]);
  for (std::size_t i = 0; i < trace.copies.size(); ++i)
    add(trace.copies.op[i], trace.copies.correlation[i], trace.copies.span[i]);
  for (std::size_t i = 0; i < trace.memsets.size(); ++i)
    add(trace.memsets.op[i], trace.memsets.correlation[i], trace.memsets.span[i]);
  for (const auto& [name, tally] : by_name)
    side.operators[{std::string(trace[name]), KernelClass::Other}].add(tally);
}

void add_calls(const Trace& trace, Side& side) {
  std::map<NameId, Tally> by_name;
  for (std::size_t i = 0; i < trace.calls.size(); ++i)
    by_name[trace.calls.name[i]].add(trace.calls.span[i].duration_ns);
  for (std::size_t i = 0; i < trace.totals.size(); ++i) {
    if (trace.totals.is_call[i])
      by_name[trace.totals.name[i]].add({trace.totals.count[i], trace.totals.ns[i]});
  }
  for (const auto& [name, tally] : by_name)
    side.calls[{std::string(trace[name]), KernelClass::Other}].add(tally);
}

Side tabulate(const Recording& recording, const KernelNames& names) {
  Side side;
  std::vector<Summary> ranks;
  for (const Trace& trace : recording.traces) {
    const LaunchIndex launches(trace);
    add_kernels(trace, all_work(trace, classify_kernels(trace, names, launches), names), side);
    add_operators(trace, launches, side);
    add_calls(trace, side);
    ranks.push_back(summarize(trace, names));
  }
  side.summary = summarize_ranks(ranks);
  for (const ClassTime& c : side.summary.classes)
    side.classes[{std::string(to_string(c.kernel_class)), c.kernel_class}] = c.kernels;
  for (const AlgorithmTime& a : side.summary.algorithms)
    side.algorithms[{std::string(to_string(a.algorithm)), KernelClass::Convolution}] = a.kernels;
  for (std::size_t i = 0; i < kIdleCauseCount; ++i) {
    if (side.summary.idle[i].count > 0) {
      const std::string cause(to_string(static_cast<IdleCause>(i)));
      side.idle[{cause, KernelClass::Other}] = side.summary.idle[i];
    }
  }
  return side;
}

std::vector<Change> changes(const Tallies& a, const Tallies& b) {
  std::map<Key, Change> by_key;
  const auto change = [&by_key](const Key& key) -> Change& {
    Change& found = by_key[key];
    std::tie(found.name, found.kernel_class) = key;
    return found;
  };
  for (const auto& [key, tally] : a) change(key).a = tally;
  for (const auto& [key, tally] : b) change(key).b = tally;
  std::vector<Change> list;
  for (auto& [key, found] : by_key) list.push_back(std::move(found));
  const auto size = [](const Change& c) {
    return std::max(c.a.ns, c.b.ns) - std::min(c.a.ns, c.b.ns);
  };
  std::stable_sort(list.begin(), list.end(),
                   [&](const Change& x, const Change& y) { return size(x) > size(y); });
  return list;
}

}  // namespace

Diff diff(const Recording& a, const Recording& b, const KernelNames& names) {
  Side left = tabulate(a, names), right = tabulate(b, names);
  Diff result;
  result.classes = changes(left.classes, right.classes);
  result.algorithms = changes(left.algorithms, right.algorithms);
  result.kernels = changes(left.kernels, right.kernels);
  result.operators = changes(left.operators, right.operators);
  result.calls = changes(left.calls, right.calls);
  result.idle = changes(left.idle, right.idle);
  result.a = std::move(left.summary);
  result.b = std::move(right.summary);
  return result;
}

}  // namespace tracecast::traces
