#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/job/cluster.hpp"
#include "sim/network/collective.hpp"
#include "sim/network/fold.hpp"
#include "sim/parallel/checkpoints.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/version.hpp"
#include "tools/predict/cluster_options.hpp"

namespace tracecast {
namespace {

struct Options {
  std::string gpu;
  Place cluster;
  SourceOptions sources;
  std::string format = "text";
};

constexpr std::uint32_t kLabel = 6;  ///< columns of "gpu10"

/// As `nvidia-smi topo -m` abbreviates ways.
std::string_view short_name(const Fabric& fabric, Rank a, Rank b) {
  const Route route = fabric.route(a, b);
  switch (route.kind) {
    case RouteKind::Self:
      return "X";
    case RouteKind::Nvlink:
      return "NV";
    case RouteKind::PcieSwitch:
      return "PIX";
    case RouteKind::HostBridge:
      return "PHB";
    case RouteKind::Socket:
      return "SYS";
    case RouteKind::Network:
      return "NET";
  }
  return "?";
}

BytesPerSecond rate_of(const Fabric& fabric, const Route& route) {
  BytesPerSecond rate{};
  for (const FabricLinkId id : route.links) {
    const BytesPerSecond link = fabric.link(id).bandwidth;
    rate = rate > BytesPerSecond(0) ? min(rate, link) : link;
  }
  return rate;
}

/// "6.0", "225": GB/s in three columns.
std::string show_rate(BytesPerSecond rate) {
  const double value = rate.in_gb_per_s();
  return value < 9.95 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

/// "NV 150", "SYS 9.6*": kind, and GB/s of the narrowest link; "*" through host memory.
std::string way_text(const Fabric& fabric, Rank a, Rank b) {
  const Route route = fabric.route(a, b);
  return fmt::format("{} {}{}", short_name(fabric, a, b), show_rate(rate_of(fabric, route)),
                     route.is_staged ? "*" : "");
}

/// A table of ways with room for every one in words: of at most 8 GPUs.
std::string spelled_ways(const Fabric& fabric, std::uint32_t first, std::uint32_t count) {
  std::string out = "      ";
  for (std::uint32_t i = 0; i < count; ++i) out += fmt::format("{:>9}", fmt::format("gpu{}", i));
  out += "\n";
  for (std::uint32_t i = 0; i < count; ++i) {
    out += fmt::format("{:<6}", fmt::format("gpu{}", i));
    for (std::uint32_t j = 0; j < count; ++j)
      out += fmt::format("{:>9}", i == j ? "X" : way_text(fabric, {first + i}, {first + j}));
    out += "\n";
  }
  return out;
}

/// A table of ways by letters, and what the letters mean.
std::string lettered_ways(const Fabric& fabric, std::uint32_t first, std::uint32_t count,
                          std::size_t width) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWYZ0123456789";
  std::vector<std::string> ways;
  std::vector<std::size_t> pairs;
  std::string out(kLabel, ' ');
  for (std::uint32_t j = 0; j < count; ++j)
    out += width > 2 ? fmt::format("{:>{}}", j, width) : j % 10 == 0 ? "|" : width > 1 ? " ." : ".";
  out += "\n";
  for (std::uint32_t i = 0; i < count; ++i) {
    out += fmt::format("{:<{}}", fmt::format("gpu{}", i), kLabel);
    for (std::uint32_t j = 0; j < count; ++j) {
      char letter = '-';
      if (i != j) {
        const std::string way = way_text(fabric, {first + i}, {first + j});
        const auto at =
            static_cast<std::size_t>(std::find(ways.begin(), ways.end(), way) - ways.begin());
        if (at == ways.size()) {
          ways.push_back(way);
          pairs.push_back(0);
        }
        ++pairs[at];
        letter = at < kLetters.size() ? kLetters[at] : '?';
      }
      out += fmt::format("{:>{}}", letter, width);
    }
    out += "\n";
  }
  for (std::size_t w = 0; w < std::min(ways.size(), kLetters.size()); ++w)
    out += fmt::format("  {}  {:<9} {} ways\n", kLetters[w], ways[w], pairs[w]);
  return out;
}

/// Ways among the GPUs of a node.
std::string ways_text(const Fabric& fabric, FabricNodeId node) {
  const std::uint32_t count = fabric.ranks_of(node), first = fabric.first_rank(node).index;
  if (count <= 8) return spelled_ways(fabric, first, count);
  constexpr std::uint32_t kMost = 80 - kLabel;  // one column each
  const std::uint32_t shown = std::min(count, kMost);
  std::string out = lettered_ways(fabric, first, shown, std::clamp(kMost / shown, 1U, 4U));
  if (shown < count) out += fmt::format("and {} more GPUs\n", count - shown);
  return out;
}

/// The first node of every group that has any.
std::vector<FabricNodeId> first_nodes(const Fabric& fabric) {
  std::vector<FabricNodeId> firsts;
  const ClusterGroup* before = nullptr;
  for (std::uint32_t n = 0; n < fabric.num_nodes(); ++n) {
    const ClusterGroup* group = &fabric.group_of({n});
    if (group != before) firsts.push_back({n});
    before = group;
  }
  return firsts;
}

/// From one GPU of a node to another.
struct Way {
  std::uint32_t from = 0, to = 0;  ///< places within the node
  Route route;
};
std::vector<Way> ways_within(const Fabric& fabric, FabricNodeId node) {
  const std::uint32_t first = fabric.first_rank(node).index, count = fabric.ranks_of(node);
  std::vector<Way> ways;
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::uint32_t j = 0; j < count; ++j) {
      if (i != j) ways.push_back({i, j, fabric.route(Rank{first + i}, Rank{first + j})});
    }
  }
  return ways;
}

std::string text(const Cluster& cluster) {
  const Fabric& fabric = cluster.fabric;
  std::string out = fmt::format("{} GPU{} on {} node{}, {} links\n", fabric.num_ranks(),
                                fabric.num_ranks() == 1 ? "" : "s", fabric.num_nodes(),
                                fabric.num_nodes() == 1 ? "" : "s", fabric.num_links());
  for (const std::string& line : cluster.assumptions) {
    out += wrap("assumed: " + line, 80, 2) + "\n";
  }
  for (const FabricNodeId node : first_nodes(fabric)) {
    const ClusterGroup& group = fabric.group_of(node);
    out += fmt::format("\n{} x {}", group.count, fabric.machine_of(node).id);
    if (fabric.ranks_of(node) > 0) {
      out += fmt::format(" of {} {}", fabric.ranks_of(node),
                         fabric.gpu_of(fabric.first_rank(node)).id);
    }
    if (group.compute_time_factor != 1) {
      out += fmt::format(", kernels take {} times", three_digits(group.compute_time_factor));
    }
    out += "\n" + ways_text(fabric, node);
  }
  out +=
      "\nGB/s of the narrowest link: NV over NVLink, PIX below one switch, PHB below\n"
      "one socket, SYS between sockets; * through host memory.\n";
  const auto in_collectives = fold(fabric, Meeting::InCollectives).sizes.size();
  const auto in_messages = fold(fabric, Meeting::InMessages).sizes.size();
  out += fmt::format("\nranks alike: {} kind{} in collectives, {} in messages\n", in_collectives,
                     in_collectives == 1 ? "" : "s", in_messages);
  if (const auto& failures = fabric.spec().failures) {
    const CheckpointPlan plan = plan_checkpoints(*failures, fabric.num_nodes());
    out +=
        fmt::format("a failure in {} h; a checkpoint after {} min of computing leaves {} %\n",
                    three_digits(plan.cluster_mtbf.in_s() / 3600),
                    three_digits(plan.interval.in_s() / 60), three_digits(100 * plan.useful_share));
  }
  return out;
}

std::string json(const Cluster& cluster) {
  using Json = nlohmann::ordered_json;
  const Fabric& fabric = cluster.fabric;
  Json doc{{"schema", "tracecast.cluster/2"}, {"version", kVersion},
           {"gpus", fabric.num_ranks()},      {"nodes", fabric.num_nodes()},
           {"links", fabric.num_links()},     {"assumptions", cluster.assumptions},
           {"groups", Json::array()}};
  if (cluster.file) {
    doc["cluster"] = {{"name", cluster.file->name}, {"sha256", cluster.file->sha256.text()}};
  }
  for (const FabricNodeId node : first_nodes(fabric)) {
    const ClusterGroup& group = fabric.group_of(node);
    Json ways = Json::array();
    for (const auto& [from, to, route] : ways_within(fabric, node)) {
      ways.push_back({{"from", from},
                      {"to", to},
                      {"kind", to_string(route.kind)},
                      {"gb_per_s", rate_of(fabric, route).in_gb_per_s()},
                      {"latency_us", route.latency.in_us()},
                      {"through_host_memory", route.is_staged}});
    }
    doc["groups"].push_back({{"name", group.name},
                             {"count", group.count},
                             {"machine", fabric.machine_of(node).id},
                             {"gpus", fabric.ranks_of(node)},
                             {"compute_time_factor", group.compute_time_factor},
                             {"ways", std::move(ways)}});
    if (fabric.ranks_of(node) > 0)
      doc["groups"].back()["gpu"] = fabric.gpu_of(fabric.first_rank(node)).id;
  }
  doc["rank_classes"] = {{"in_collectives", fold(fabric, Meeting::InCollectives).sizes},
                         {"in_messages", fold(fabric, Meeting::InMessages).sizes}};
  if (const auto& failures = fabric.spec().failures) {
    const CheckpointPlan plan = plan_checkpoints(*failures, fabric.num_nodes());
    doc["checkpoints"] = {{"mtbf_s", plan.cluster_mtbf.in_s()},
                          {"interval_s", plan.interval.in_s()},
                          {"useful_share", plan.useful_share}};
  }
  return json_text(doc) + "\n";
}

std::string csv(const Cluster& cluster) {
  const Fabric& fabric = cluster.fabric;
  std::string out = "group,machine,from,to,kind,gb_per_s,latency_us,through_host_memory\n";
  for (const FabricNodeId node : first_nodes(fabric)) {
    for (const auto& [from, to, route] : ways_within(fabric, node)) {
      out += csv_line(fabric.group_of(node).name, fabric.machine_of(node).id, from, to,
                      to_string(route.kind), rate_of(fabric, route).in_gb_per_s(),
                      route.latency.in_us(), route.is_staged ? 1 : 0);
    }
  }
  return out;
}

int cluster_command(const Options& o) {
  refuse_software_settings(o.sources);
  const Hardware hardware = load_hardware(o.sources);
  Place asked = o.cluster;
  if (asked.cluster.empty() && !asked.gpus && !asked.nodes) asked.nodes = 1;  // and all its GPUs
  const Cluster cluster = make_cluster(asked, o.gpu, hardware);
  write_report(o.format == "json"  ? json(cluster)
               : o.format == "csv" ? csv(cluster)
                                   : text(cluster));
  return kExitDone;
}

}  // namespace

void add_cluster_command(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<Options>();
  CLI::App* subcommand = app.add_subcommand(
      "cluster", "Ways between the GPUs of machines, ranks that are alike, checkpoints");
  subcommand->add_option("--gpu", o->gpu, "GPU in the machine's slots")->type_name("ID");
  subcommand->add_option("--machine", o->cluster.machine, "Machine; else a usual one for the GPU")
      ->type_name("ID");
  add_cluster_options(*subcommand, o->cluster);
  add_source_options(*subcommand, o->sources);
  add_format_option(*subcommand, o->format);
  subcommand->footer("Example: tracecast cluster --machine dgx1_v100 --gpus 8");
  subcommand->callback([o, &exit_code] { exit_code = cluster_command(*o); });
}

}  // namespace tracecast
