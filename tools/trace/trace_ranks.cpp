#include "tools/trace/trace_ranks.hpp"
#include "tools/command/cell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "sim/network/collective.hpp"
#include "tools/command/output.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostNames = 10;
constexpr std::size_t kShownNames = 5;
constexpr std::size_t kMostRanks = 16;  ///< that get a line of their own

double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }
double seconds(engine::Picoseconds time) { return static_cast<double>(time.count()) / 1e12; }
std::string ms(double s) { return low_precision(s * 1e3, 9); }

std::string kind_name(std::optional<Collective> kind) {
  return kind ? std::string(to_string(*kind)) : "of a kind not known";
}

/// What nccl-tests calls bus bandwidth, in bytes/s; nothing where sizes are not recorded.
std::optional<double> bus_bandwidth(const traces::CollectiveKindTime& kind) {
  if (!kind.kind || kind.sized_moving_ns <= 0) return std::nullopt;
  return static_cast<double>(kind.bytes) *
         bus_factor(*kind.kind, static_cast<std::size_t>(kind.ranks)) /
         seconds(kind.sized_moving_ns);
}

std::string rank_name(const RankFindings& findings, std::size_t trace) {
  const auto& rank = findings.ranks[trace];
  return rank ? std::to_string(*rank) : "?";
}

std::string kinds_text(const traces::CollectiveWaiting& w) {
  std::string text =
      fmt::format("\n{:<24} {:>6} {:>6} {:>10} {:>10} {:>6} {:>8}\n", "Collectives of all ranks",
                  "count", "ranks", "waiting ms", "moving ms", "wait", "bus GB/s");
  for (const traces::CollectiveKindTime& kind : w.kinds) {
    const auto bus = bus_bandwidth(kind);
    text += fmt::format("  {} {:>6} {:>6} {:>10} {:>10} {:>6} {:>8}\n",
                        fit(kind_name(kind.kind), 22, 2), kind.collectives, kind.ranks,
                        ms(seconds(kind.wait_ns)), ms(seconds(kind.move_ns)),
                        percent(share_of(kind.wait_ns, kind.wait_ns + kind.move_ns)),
                        bus ? low_precision(*bus * 1e-9, 8) : "-");
  }
  return text;
}

std::string notes_text(const traces::CollectiveWaiting& w) {
  std::string text = "  Waiting: until the last rank began; moving: from there to the end.\n";
  if (w.collectives > 0)
    text += fmt::format("  Clocks are set by the collectives' common ends, good to {}us.\n",
                        three_digits(static_cast<double>(w.clock_sd_ns) * 1e-3) + ' ');
  if (w.incomplete > 0)
    text += "  " +
            wrap(fmt::format("{} of {} lack ranks of their group: the last to arrive may be "
                             "one of those, so they waited at least this long.",
                             w.incomplete, w.collectives),
                 76, 2) +
            '\n';
  for (const auto& [why, kernels] : w.unmatched)
    text += "  " +
            wrap(fmt::format("{} kernels ({} ms) not split: {}", kernels.count,
                             three_digits(seconds(kernels.ns) * 1e3), why),
                 76, 2) +
            '\n';
  return text;
}

std::string ranks_waiting_text(const RankFindings& findings) {
  const traces::CollectiveWaiting& w = *findings.waiting;
  std::string text =
      fmt::format("  {:<8} {:>11} {:>10} {:>6} {:>14} {:>18}\n", "rank", "waiting ms", "moving ms",
                  "wait", "came last to", "others waited ms");
  for (std::size_t i = 0; i < std::min(w.ranks.size(), kMostRanks); ++i) {
    const traces::RankWaiting& rank = w.ranks[i];
    text += fmt::format("  {:<8} {:>11} {:>10} {:>6} {:>14} {:>18}\n", rank_name(findings, i),
                        ms(seconds(rank.wait_ns)), ms(seconds(rank.kernels.ns - rank.wait_ns)),
                        percent(share_of(rank.wait_ns, rank.kernels.ns)), rank.last,
                        ms(seconds(rank.held_ns)));
  }
  if (w.ranks.size() > kMostRanks)
    text += fmt::format("  and {} more\n", w.ranks.size() - kMostRanks);
  return text;
}

std::string single_text(const traces::SingleCollectives& single) {
  std::string text = fmt::format(
      "{} kernels, {} ms. One rank's recording cannot tell waiting for other ranks from moving "
      "data: give the files of all ranks (or their folder).",
      single.kernels.count, three_digits(seconds(single.kernels.ns) * 1e3));
  if (single.compared.count > 0) {
    text += fmt::format(
        " Known by itself: {} of them repeat a kind and size and take {} ms, of which {} ms are "
        "beyond the quickest of their like: that much at least is waiting or shared links.",
        single.compared.count, three_digits(seconds(single.compared.ns) * 1e3),
        three_digits(seconds(single.beyond_quickest_ns) * 1e3));
  }
  return "\nCollectives\n  " + wrap(text, 76, 2) + '\n';
}

std::string path_word(PathKind kind) {
  switch (kind) {
    case PathKind::Copy:
      return "copies";
    case PathKind::Memset:
      return "memsets";
    case PathKind::Call:
      return "host: calls of the API";
    case PathKind::HostWork:
      return "host: between calls";
    case PathKind::Input:
      return "host: loading data";
    case PathKind::Launch:
      return "from launch to begin";
    case PathKind::StreamGap:
      return "between work of streams";
    case PathKind::WaitReturn:
      return "from GPU work to host's return";
    case PathKind::Kernel:
      break;
  }
  return "kernels";
}

std::string path_word(const PathShare& share, bool is_split) {
  if (share.kind != PathKind::Kernel) return path_word(share.kind);
  if (share.kernel_class == KernelClass::Collective && is_split)
    return "kernels: collective, moving";
  return fmt::format("kernels: {}", to_string(share.kernel_class));
}

std::string path_row(const std::string& name, engine::Picoseconds time, double share,
                     std::uint64_t count, const std::string& last) {
  std::string row = fmt::format("  {} {:>9} {:>5} {:>8}  {}", fit(name, 30, 2), ms(seconds(time)),
                                percent(share), count, last);
  while (row.ends_with(' ')) row.pop_back();
  return row + '\n';
}

}  // namespace

RankFindings find_rank_behaviour(const std::vector<traces::Trace>& traces,
                                 const traces::KernelNames& names) {
  RankFindings findings;
  for (const traces::Trace& trace : traces) findings.ranks.push_back(trace.rank);
  try {
    traces::RanksBuild build = traces::build_ranks_program(traces, names);
    findings.waiting = std::move(build.waiting);
    findings.single = std::move(build.single);
    if (build.job.program.tasks.empty()) return findings;
    CriticalPath path = run_ranks(build.job).path;
    const std::size_t shown = std::min(path.items.size(), kMostNames);
    for (std::size_t i = 0; i < shown; ++i) {
      const PathItem& item = path.items[i];
      const std::string& name = build.job.program.names[item.name];
      findings.path_names.push_back(
          {item.kind == PathKind::Kernel ? traces::short_kernel_name(name) : name, item});
    }
    if (path.length > engine::Picoseconds{}) findings.path = std::move(path);
  } catch (const InputError& error) {
    findings.no_path = error.what();
  }
  return findings;
}

std::string waiting_text(const RankFindings& findings) {
  if (findings.single) return single_text(*findings.single);
  if (!findings.waiting) return "";
  const bool has_any = findings.waiting->collectives > 0;
  return (has_any ? kinds_text(*findings.waiting) + ranks_waiting_text(findings)
                  : std::string("\nCollectives of all ranks\n")) +
         notes_text(*findings.waiting);
}

std::string critical_path_text(const RankFindings& findings) {
  if (!findings.path)
    return findings.no_path.empty()
               ? ""
               : "\nCritical path\n  " + wrap("not found: " + findings.no_path, 76, 2) + '\n';
  const CriticalPath& path = *findings.path;
  std::string text =
      fmt::format("\n{:<32} {:>9} {:>5} {:>8}\n", "Critical path", "ms", "share", "count");
  const bool is_split = findings.waiting && findings.waiting->collectives > 0;
  for (const PathShare& share : path.shares)
    text += path_row(path_word(share, is_split), share.time, share.share, share.count,
                     bar(share.share, 20));
  const std::size_t shown = std::min(findings.path_names.size(), kShownNames);
  if (shown > 0) text += "  most of it in\n";
  for (std::size_t i = 0; i < shown; ++i) {
    const PathItem& item = findings.path_names[i].item;
    text += path_row(findings.path_names[i].name, item.time, item.share, item.count,
                     std::string(to_string(item.kind)));
  }
  if (path.by_rank.size() > 1) {
    std::string ranks = "by rank:";
    for (std::size_t i = 0; i < std::min(path.by_rank.size(), kMostRanks); ++i) {
      if (path.by_rank[i] == engine::Picoseconds{}) continue;
      ranks += fmt::format(" {} {},", rank_name(findings, i),
                           percent(seconds(path.by_rank[i]) / seconds(path.length)));
    }
    ranks.pop_back();
    text += "  " + wrap(ranks, 76, 2) + '\n';
  }
  return text + fmt::format("  {} ms in which each piece began because the one before had ended\n",
                            three_digits(seconds(path.length) * 1e3));
}

Json waiting_json(const RankFindings& findings) {
  if (findings.single) {
    const traces::SingleCollectives& single = *findings.single;
    return {{"is_split", false},
            {"kernels", single.kernels.count},
            {"time_s", seconds(single.kernels.ns)},
            {"repeated_kernels", single.compared.count},
            {"repeated_s", seconds(single.compared.ns)},
            {"beyond_quickest_s", seconds(single.beyond_quickest_ns)}};
  }
  if (!findings.waiting) return nullptr;
  const traces::CollectiveWaiting& w = *findings.waiting;
  Json doc{{"is_split", w.collectives > 0},
           {"collectives", w.collectives},
           {"incomplete", w.incomplete},
           {"time_s", seconds(w.kernels.ns)},
           {"waiting_s", seconds(w.wait_ns)},
           {"moving_s", seconds(w.move_ns)},
           {"clock_sd_s", seconds(w.clock_sd_ns)},
           {"kinds", Json::array()},
           {"ranks", Json::array()},
           {"not_split", Json::array()}};
  for (const traces::CollectiveKindTime& kind : w.kinds) {
    const auto bus = bus_bandwidth(kind);
    doc["kinds"].push_back({{"kind", kind.kind ? Json(to_string(*kind.kind)) : Json()},
                            {"group_ranks", kind.ranks},
                            {"count", kind.collectives},
                            {"waiting_s", seconds(kind.wait_ns)},
                            {"moving_s", seconds(kind.move_ns)},
                            {"bytes", kind.sized > 0 ? Json(kind.bytes) : Json()},
                            {"bus_bytes_per_s", bus ? Json(*bus) : Json()}});
  }
  for (std::size_t i = 0; i < w.ranks.size(); ++i) {
    const traces::RankWaiting& rank = w.ranks[i];
    doc["ranks"].push_back({{"rank", findings.ranks[i] ? Json(*findings.ranks[i]) : Json()},
                            {"waiting_s", seconds(rank.wait_ns)},
                            {"moving_s", seconds(rank.kernels.ns - rank.wait_ns)},
                            {"came_last", rank.last},
                            {"others_waited_s", seconds(rank.held_ns)}});
  }
  for (const auto& [why, kernels] : w.unmatched)
    doc["not_split"].push_back(
        {{"reason", why}, {"kernels", kernels.count}, {"time_s", seconds(kernels.ns)}});
  return doc;
}

Json critical_path_json(const RankFindings& findings) {
  if (!findings.path) return nullptr;
  const CriticalPath& path = *findings.path;
  Json doc{{"length_s", seconds(path.length)},
           {"shares", Json::array()},
           {"top", Json::array()},
           {"by_rank", Json::array()}};
  for (const PathShare& share : path.shares) {
    const bool is_kernel = share.kind == PathKind::Kernel;
    doc["shares"].push_back({{"kind", to_string(share.kind)},
                             {"class", is_kernel ? Json(to_string(share.kernel_class)) : Json()},
                             {"time_s", seconds(share.time)},
                             {"share", share.share},
                             {"count", share.count}});
  }
  for (const PathName& name : findings.path_names) {
    doc["top"].push_back({{"name", name.name},
                          {"kind", to_string(name.item.kind)},
                          {"time_s", seconds(name.item.time)},
                          {"share", name.item.share},
                          {"count", name.item.count}});
  }
  for (std::size_t i = 0; i < path.by_rank.size(); ++i) {
    doc["by_rank"].push_back({{"rank", findings.ranks[i] ? Json(*findings.ranks[i]) : Json()},
                              {"time_s", seconds(path.by_rank[i])}});
  }
  return doc;
}

}  // namespace tracecast
