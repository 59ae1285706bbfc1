#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/command/cell.hpp"
#include "tools/command/output.hpp"
#include "tools/trace/trace_report.hpp"

namespace tracecast {
namespace {

using namespace traces;

constexpr std::size_t kNameWidth = 30;
constexpr std::size_t kBarWidth = 20;
constexpr std::size_t kMostRanks = 16;  ///< that get a line of their own

std::string ms(std::int64_t ns) { return low_precision(static_cast<double>(ns) * 1e-6, 9); }

/// "1.73 s", "43.3 ms", "176 us".
std::string duration(std::int64_t ns) {
  const double s = static_cast<double>(ns) * 1e-9;
  if (std::abs(s) >= 1) return three_digits(s) + " s";
  if (std::abs(s) >= 1e-3) return three_digits(s * 1e3) + " ms";
  return three_digits(s * 1e6) + " us";
}

std::string size(double bytes) {
  if (bytes >= 1e9) return three_digits(bytes * 1e-9) + " GB";
  if (bytes >= 1e6) return three_digits(bytes * 1e-6) + " MB";
  if (bytes >= 1e3) return three_digits(bytes * 1e-3) + " kB";
  return three_digits(bytes) + " B";
}

/// Indices of what occurred, by time.
template <std::size_t n>
std::vector<std::size_t> longest_first(const std::array<Tally, n>& tallies) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < n; ++i) {
    if (tallies[i].count > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&tallies](std::size_t a, std::size_t b) {
    return tallies[a].ns > tallies[b].ns;
  });
  return order;
}

std::string fact(std::string_view name, const std::string& value) {
  return fmt::format("{:<16}{}\n", name, wrap(value, 64, 16));
}

std::string table_row(const std::string& name, std::int64_t ns, double share, std::uint64_t count) {
  std::string row = fmt::format("  {} {:>9} {:>5} {:>8}  {}", fit(name, kNameWidth, 2), ms(ns),
                                percent(share), count, bar(share, kBarWidth));
  while (row.ends_with(' ')) row.pop_back();
  return row + '\n';
}

std::string head(std::string_view title, std::string_view unit) {
  return fmt::format("\n{:<{}} {:>9} {:>5} {:>8}\n", title, kNameWidth + 2, "ms", "share", unit);
}

std::string steps_text(const Summary& s) {
  if (s.steps.empty()) return "no step marks";
  std::vector<std::int64_t> times;
  for (const NamedTime& step : s.steps) times.push_back(step.tally.ns);
  std::sort(times.begin(), times.end());
  if (times.size() == 1) return "1 step of " + duration(times[0]);
  return fmt::format("{} steps of {} ({} to {})", times.size(), duration(times[times.size() / 2]),
                     duration(times.front()), duration(times.back()));
}

std::string header(const TraceReport& report) {
  const Summary& s = report.total;
  std::string what = s.format;
  if (report.ranks.size() > 1) {
    what += fmt::format(", {} ranks", report.ranks.size());
  } else if (s.rank) {
    what += fmt::format(", rank {}", *s.rank);
    if (s.world_size) what += fmt::format(" of {}", *s.world_size);
  }
  std::string text = fact("Trace", what);
  std::string gpu = s.gpu.empty() ? "not recorded" : s.gpu;
  if (s.gpus_in_host > 1)
    gpu += fmt::format(" ({} used of {} in the host)", s.gpus_used, s.gpus_in_host);
  text += fact("GPU", gpu);
  text += fact("Steps", steps_text(s));
  std::string kernels = fmt::format("{} of {} names in {} {}", s.kernels, s.distinct_kernels,
                                    s.streams, s.streams == 1 ? "stream" : "streams");
  if (s.collective_kernels > 0)
    kernels += fmt::format(", {} of them collectives", s.collective_kernels);
  text += fact("Kernels", s.kernels > 0 ? kernels : "none recorded");
  if (s.kernels > 0) {
    text +=
        fact("GPU busy", fmt::format("{} of {} from first to last kernel ({})", duration(s.busy_ns),
                                     duration(s.span_ns), percent(share_of(s.busy_ns, s.span_ns))));
    text +=
        fact("Concurrency",
             s.most_concurrent < 2
                 ? "never two kernels at once"
                 : fmt::format("two or more kernels for {} of the busy time, {} at most",
                               percent(share_of(s.concurrent_ns, s.busy_ns)), s.most_concurrent));
  }
  if (s.collective_kernels > 0) {
    text += fact("Communication", fmt::format("{} with no other kernel beside it ({} of the span)",
                                              duration(s.collective_alone_ns),
                                              percent(share_of(s.collective_alone_ns, s.span_ns))));
  }
  if (s.peak_allocated_bytes > 0) {
    text += fact("Memory", fmt::format("{} allocated at most, by the framework's allocator",
                                       size(static_cast<double>(s.peak_allocated_bytes))));
  }
  return text;
}

std::string classes_text(const Summary& s) {
  if (s.classes.empty()) return "";
  std::string text = head("Where GPU time goes", "count");
  for (const ClassTime& c : s.classes) {
    text +=
        table_row(std::string(to_string(c.kernel_class)), c.kernels.ns, c.share, c.kernels.count);
    if (c.kernel_class != KernelClass::Convolution) continue;
    for (const AlgorithmTime& a : s.algorithms) {
      const bool is_named = a.algorithm != Algorithm::None;
      text +=
          table_row("  " + std::string(is_named ? to_string(a.algorithm) : "algorithm not known"),
                    a.kernels.ns, a.share, a.kernels.count);
    }
  }
  return text;
}

std::string kernels_text(const Summary& s) {
  if (s.top_kernels.empty()) return "";
  std::string text = head("What costs most", "count");
  const std::size_t shown = std::min<std::size_t>(s.top_kernels.size(), 5);
  for (std::size_t i = 0; i < shown; ++i) {
    const KernelTime& k = s.top_kernels[i];
    text += fmt::format("  {} {:>9} {:>5} {:>8}  {}\n", fit(k.name, kNameWidth, 2),
                        ms(k.kernels.ns), percent(share_of(k.kernels.ns, s.gpu_time_ns)),
                        k.kernels.count, to_string(k.kernel_class));
  }
  return text;
}

std::string_view explanation(IdleCause cause) {
  switch (cause) {
    case IdleCause::Launch:
      return "launch: host dispatching";
    case IdleCause::Input:
      return "input: host loading data";
    case IdleCause::Sync:
      return "sync: host waited for the GPU";
    case IdleCause::Communication:
      return "communication: host in a call";
    case IdleCause::Queue:
      return "queue: launched, not started";
    case IdleCause::Unrecorded:
      return "unrecorded work of the host";
    case IdleCause::Unknown:
      return "launch not recorded";
  }
  return "?";
}

std::string idle_text(const Summary& s) {
  if (s.idle_ns <= 0) return "";
  std::string text = head("Why the GPU was idle", "gaps");
  for (const std::size_t i : longest_first(s.idle)) {
    text += table_row(std::string(explanation(static_cast<IdleCause>(i))), s.idle[i].ns,
                      share_of(s.idle[i].ns, s.work_span_ns), s.idle[i].count);
  }
  return text + fmt::format("  shares are of the {} from the first GPU work to the last\n",
                            duration(s.work_span_ns));
}

std::string copies_text(const Summary& s) {
  if (s.copy_kinds.empty()) return "";
  std::string text = fmt::format("\n{:<32} {:>9} {:>8} {:>8} {:>8} {:>9}\n", "Copies", "ms",
                                 "count", "size", "GB/s", "overlap");
  for (const CopyTime& c : s.copy_kinds) {
    std::string name(to_string(c.kind));
    if (c.memory != HostMemory::Unknown) name += fmt::format(", {}", to_string(c.memory));
    const double rate =
        c.sized_ns > 0 ? static_cast<double>(c.bytes) / static_cast<double>(c.sized_ns) : 0.0;
    text += fmt::format("  {} {:>9} {:>8} {:>8} {:>8} {:>9}\n", fit(name, kNameWidth, 2),
                        ms(c.copies.ns), c.copies.count,
                        c.sized > 0 ? size(static_cast<double>(c.bytes)) : "-",
                        c.sized > 0 ? low_precision(rate, 8) : "-",
                        percent(share_of(c.beside_kernels_ns, c.copies.ns)));
  }
  return text + "  overlap: share of the time in which some kernel ran as well\n";
}

std::string calls_text(const Summary& s) {
  Tally all;
  for (const Tally& t : s.call_kinds) all.add(t);
  if (all.ns <= 0) return "";
  std::string text = head("Calls of the CUDA or HIP API", "count");
  for (const std::size_t i : longest_first(s.call_kinds)) {
    const Tally& t = s.call_kinds[i];
    text += table_row(std::string(to_string(static_cast<CallKind>(i))), t.ns,
                      share_of(t.ns, all.ns), t.count);
  }
  const std::size_t shown = std::min<std::size_t>(s.top_calls.size(), 3);
  std::string most = "most: ";
  for (std::size_t i = 0; i < shown; ++i) {
    most += fmt::format("{}{} {}", i > 0 ? ", " : "", s.top_calls[i].name,
                        duration(s.top_calls[i].tally.ns));
  }
  return text + "  " + wrap(most, 76, 8) + '\n';
}

std::string nodes_text(const Summary& s) {
  if (s.node_kinds.empty()) return "";
  std::string text =
      fmt::format("\n{:<{}} {:>9} {:>14}\n", "Nodes", kNameWidth + 2, "count", "messages");
  for (const NodeTime& n : s.node_kinds) {
    text += fmt::format("  {} {:>9} {:>14}\n", fit(to_string(n.kind), kNameWidth, 2), n.nodes.count,
                        n.message_bytes > 0 ? size(static_cast<double>(n.message_bytes)) : "-");
  }
  return text + fmt::format("  {} of them on the GPU, {}\n", s.gpu_nodes, duration(s.gpu_nodes_ns));
}

std::string metrics_text(const Summary& s) {
  std::string text;
  for (const MetricSum& m : s.metrics) {
    if (text.empty())
      text = fmt::format("\n{:<{}} {:>9} {:>14} {:>14}\n", "Metrics", kNameWidth + 2, "rows",
                         "invocations", "sum");
    text += fmt::format("  {} {:>9} {:>14} {:>14.6g}\n", fit(m.metric, kNameWidth, 2), m.rows,
                        m.invocations, m.sum);
  }
  return text;
}

std::string ranks_text(const TraceReport& report) {
  if (report.ranks.size() < 2) return "";
  std::string text = fmt::format("\n{:<8} {:>9} {:>11} {:>11} {:>7} {:>13} {:>11}\n", "Rank",
                                 "kernels", "span", "busy", "share", "communication", "step");
  for (std::size_t i = 0; i < std::min(report.ranks.size(), kMostRanks); ++i) {
    const Summary& s = report.ranks[i];
    text += fmt::format("  {:<6} {:>9} {:>11} {:>11} {:>7} {:>13} {:>11}\n",
                        s.rank ? std::to_string(*s.rank) : "?", s.kernels, duration(s.span_ns),
                        duration(s.busy_ns), percent(share_of(s.busy_ns, s.span_ns)),
                        duration(s.collective_alone_ns),
                        s.steps.empty() ? "-" : duration(s.steps.front().tally.ns));
  }
  if (report.ranks.size() > kMostRanks)
    text += fmt::format("  and {} more\n", report.ranks.size() - kMostRanks);
  return text +
         "  communication: with no other kernel beside it, waiting for others included.\n"
         "  Times and counts by kind below are of all ranks; steps and busy time above and\n"
         "  idle time below are those of the first one.\n";
}

std::string left_out_text(const Summary& s) {
  std::string text;
  for (const auto& [kind, left_out] : s.left_out) {
    if (text.empty()) text = "\nLeft out\n";
    text += fmt::format("  {:>8}  {}\n", left_out.count,
                        wrap((left_out.is_damage ? "DAMAGED: " : "") + kind, 68, 12));
  }
  return text;
}

std::string overruns_text(const Summary& s) {
  const std::string warning = overrun_warning(s);
  return warning.empty() ? warning : "\nWarning\n  " + wrap(warning, 78, 2) + '\n';
}

}  // namespace

std::string overrun_warning(const Summary& s) {
  if (s.overrunning == 0) return "";
  return fmt::format(
      "{} {} past the end of {} later {} of the same stream, which runs one kernel after the "
      "other: "
      "durations are wrong, or streams were merged. Times by kind count such time twice.",
      s.overrunning, s.overrunning == 1 ? "kernel lasts" : "kernels last", s.overrun,
      s.overrun == 1 ? "kernel" : "kernels");
}

std::string trace_text(const TraceReport& report) {
  const Summary& s = report.total;
  return header(report) + ranks_text(report) + classes_text(s) + kernels_text(s) +
         waiting_text(report.findings) + critical_path_text(report.findings) + idle_text(s) +
         copies_text(s) + calls_text(s) + nodes_text(s) + metrics_text(s) + left_out_text(s) +
         overruns_text(s);
}

}  // namespace tracecast
