#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/cluster.hpp"
#include "sim/network/collective.hpp"
#include "tools/command/amounts.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/version.hpp"
#include "tools/predict/cluster_options.hpp"
#include "tools/predict/together_pages.hpp"
#include "tools/report/nics.hpp"
#include "tools/report/page.hpp"

namespace tracecast {
namespace {

struct CollectivesOptions {
  std::string gpu;
  Place cluster;
  std::string collective = "all-reduce";
  std::string library = "nccl";
  std::string library_version;
  std::vector<std::string> sizes = {"1K", "64K", "1M", "16M", "256M", "1G"};
  SourceOptions sources;
  std::string format = "text";
  std::string report;  ///< file
};

constexpr std::array kCollectives = {
    Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather,  Collective::Broadcast,
    Collective::Reduce,    Collective::AllToAll,      Collective::SendReceive};

struct Row {
  Bytes size;
  CollectivePlan plan;
  Seconds time;
};

/// What is asked, and the answer.
struct Table {
  const CollectivesOptions& options;
  const Cluster& cluster;
  const CollectiveLibrary& library;
  std::size_t ranks;
  double bus;  ///< bus bandwidth over size / time
  std::vector<Row> rows;
};

Collective find_collective(const std::string& word) {
  std::vector<std::string> names;
  for (const Collective c : kCollectives) {
    names.emplace_back(to_string(c));
    if (to_lower(word) == to_string(c)) return c;
  }
  throw InputError("--collective", "\"" + word + "\"", describe_choices(word, names));
}

/// "node 0: gpu0 > nic0", or sockets: what holds the rate down; empty when the algorithm itself
/// does.
std::string bottleneck(const CollectivePlan& plan, const Fabric& fabric) {
  const FabricUse* worst = nullptr;
  const auto rate = [&](const FabricUse& use) {
    return fabric.link(use.link).bandwidth / use.weight;
  };
  for (const FabricUse& use : plan.uses) {
    if (worst == nullptr || rate(use) < rate(*worst)) worst = &use;
  }
  if (plan.is_held_by_sockets && worst != nullptr && *plan.rate_cap < rate(*worst)) {
    return "threads that serve the NICs' sockets (TCP)";
  }
  if (worst == nullptr || (plan.rate_cap && *plan.rate_cap < rate(*worst))) return "";
  return fabric.name_of(worst->link);
}

std::string text(const Table& t) {
  const Fabric& fabric = t.cluster.fabric;
  std::string out = fmt::format("{} of {} GPU{} on {} node{}, {}\n", t.options.collective, t.ranks,
                                t.ranks == 1 ? "" : "s", fabric.num_nodes(),
                                fabric.num_nodes() == 1 ? "" : "s", t.library.name);
  if (const std::string nics = nics_text(fabric.nics()); !nics.empty()) {
    out += wrap("NICs: " + nics, 80, 2) + "\n";
  }
  for (const std::string& line : t.cluster.assumptions) {
    out += wrap("assumed: " + line, 80, 2) + "\n";
  }
  out += "\n      size     time us   alg GB/s   bus GB/s  algorithm protocol channels\n";
  for (const Row& row : t.rows) {
    const double alg = row.time > Seconds(0) ? (row.size / row.time).in_gb_per_s() : 0;
    out +=
        fmt::format("{:>10} {:>11} {:>10} {:>10}  {:9} {:8} {:>8}\n", size_text(row.size),
                    three_digits(row.time.in_us()), three_digits(alg), three_digits(alg * t.bus),
                    to_string(row.plan.algorithm), to_string(row.plan.protocol), row.plan.channels);
  }
  if (!t.rows.empty()) {
    const std::string link = bottleneck(t.rows.back().plan, fabric);
    out += "\nlargest size held by: " + (link.empty() ? "the library's own limit" : link) + "\n";
  }
  return out;
}

nlohmann::ordered_json doc_of(const Table& t) {
  nlohmann::ordered_json doc{{"schema", "tracecast.collectives/2"},
                             {"version", kVersion},
                             {"collective", t.options.collective},
                             {"library", t.library.id},
                             {"gpus", t.ranks},
                             {"nodes", t.cluster.fabric.num_nodes()},
                             {"assumptions", t.cluster.assumptions},
                             {"sizes", nlohmann::ordered_json::array()}};
  if (t.cluster.file) {
    doc["cluster"] = {{"name", t.cluster.file->name}, {"sha256", t.cluster.file->sha256.text()}};
  }
  set_nics(doc, t.cluster.fabric.nics());
  for (const Row& row : t.rows) {
    const double alg = row.time > Seconds(0) ? (row.size / row.time).in_gb_per_s() : 0;
    doc["sizes"].push_back({{"size_bytes", row.size.in_bytes()},
                            {"time_us", row.time.in_us()},
                            {"latency_us", row.plan.latency.in_us()},
                            {"algorithm_gb_per_s", alg},
                            {"bus_gb_per_s", alg * t.bus},
                            {"algorithm", to_string(row.plan.algorithm)},
                            {"protocol", to_string(row.plan.protocol)},
                            {"channels", row.plan.channels},
                            {"bottleneck", bottleneck(row.plan, t.cluster.fabric)}});
  }
  return doc;
}

std::string csv(const Table& t) {
  std::string out = "size_bytes,time_us,latency_us,bus_gb_per_s,algorithm,protocol,channels\n";
  for (const Row& row : t.rows) {
    const double alg = row.time > Seconds(0) ? (row.size / row.time).in_gb_per_s() : 0;
    out += csv_line(row.size.in_bytes(), row.time.in_us(), row.plan.latency.in_us(), alg * t.bus,
                    to_string(row.plan.algorithm), to_string(row.plan.protocol), row.plan.channels);
  }
  return out;
}

int collectives_command(const CollectivesOptions& o) {
  check_report(o.report);
  refuse_software_settings(o.sources);
  const std::vector<Bytes> sizes = parse_sizes("--sizes", o.sizes);
  const Hardware hardware = load_hardware(o.sources);
  const Collective collective = find_collective(o.collective);
  const CollectiveLibrary& library =
      hardware.specs().find_collective_library(o.library, o.library_version);
  Place asked = o.cluster;
  if (asked.cluster.empty() && !asked.gpus && !asked.nodes) asked.nodes = 1;  // and all its GPUs
  const Cluster cluster = make_cluster(asked, o.gpu, hardware);
  const std::vector<Rank> ranks = all_ranks(cluster.fabric);
  const Communicator communicator(cluster.fabric, ranks, library);
  Table table{o, cluster, library, ranks.size(), bus_factor(collective, ranks.size()), {}};
  for (const Bytes size : sizes) {
    const CollectivePlan plan = communicator.plan(collective, size);
    table.rows.push_back({size, plan, time_alone(plan, cluster.fabric)});
  }
  if (!o.report.empty()) write_collectives_page(doc_of(table), o.report);
  write_report(o.format == "json"  ? json_text(doc_of(table)) + "\n"
               : o.format == "csv" ? csv(table)
                                   : text(table));
  return kExitDone;
}

}  // namespace

void add_collectives_command(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<CollectivesOptions>();
  CLI::App* subcommand = app.add_subcommand(
      "collectives", "Time and bandwidth of a collective by size, as nccl-tests shows them");
  subcommand->add_option("--gpu", o->gpu, "GPU in the machine's slots")->type_name("ID");
  subcommand->add_option("--machine", o->cluster.machine, "Machine; else a usual one for the GPU")
      ->type_name("ID");
  add_cluster_options(*subcommand, o->cluster);
  std::string names;
  for (const Collective c : kCollectives) {
    names += (names.empty() ? "" : ", ") + std::string(to_string(c));
  }
  subcommand->add_option("--collective", o->collective, names)
      ->type_name("C")
      ->capture_default_str();
  std::vector<std::string> ids;
  for (const CollectiveLibrary& library : SpecLibrary::embedded().collective_libraries()) {
    if (ids.empty() || ids.back() != library.library) ids.push_back(library.library);
  }
  subcommand->add_option("--library", o->library, fmt::format("{}", fmt::join(ids, ", ")))
      ->type_name("L")
      ->capture_default_str();
  subcommand->add_option("--library-version", o->library_version, "Such as 2.4; else the newest")
      ->type_name("V");
  subcommand
      ->add_option("--sizes", o->sizes,
                   "Buffers of one GPU, with commas; " + std::string(kSizeUnits))
      ->type_name("SIZES")
      ->delimiter(',')
      ->default_str("1K,64K,1M,16M,256M,1G");
  add_source_options(*subcommand, o->sources);
  add_format_option(*subcommand, o->format);
  add_report_option(*subcommand, o->report);
  subcommand->footer("Example: tracecast collectives --machine dgx1_v100 --gpus 16 --nodes 2");
  subcommand->callback([o, &exit_code] { exit_code = collectives_command(*o); });
}

}  // namespace tracecast
